//! What each kind of layer computes.

use super::builder::{Builder, Val};
use super::net::Layer;
use ckpt_api::{Attribute, Op};

/// What a step of building makes.
pub(super) type Made = Result<Val, String>;

/// Adds the nodes of a layer, and names what it makes.
pub(super) fn add(builder: &mut Builder<'_>, layer: &Layer<'_>) -> Result<(), String> {
    let mut inputs = Vec::with_capacity(layer.bottoms.len());
    for bottom in &layer.bottoms {
        inputs.push(builder.bottom(bottom)?);
    }
    if layer.kind == "Slice" {
        return builder.slice(layer, first(&inputs)?);
    }
    if layer.kind == "Split" {
        let Val { name, dims } = first(&inputs)?.clone();
        for top in &layer.tops {
            let name = builder.nodes.push("", Op::Identity, &[&name], []);
            builder.top(top, Val { name, dims: dims.clone() });
        }
        return Ok(());
    }
    let made = made(builder, layer, &inputs)?;
    let [top] = layer.tops[..] else {
        return Err(format!("makes {}, and can make one", ckpt_api::count(layer.tops.len(), "value")));
    };
    builder.top(top, made);
    Ok(())
}

fn first(inputs: &[Val]) -> Result<&Val, String> {
    inputs.first().ok_or_else(|| "takes no value".to_owned())
}

fn made(builder: &mut Builder<'_>, layer: &Layer<'_>, inputs: &[Val]) -> Made {
    let x = first(inputs)?;
    match layer.kind {
        "Convolution" | "Deconvolution" => builder.convolution(layer, x),
        "Pooling" => builder.pooling(layer, x),
        "InnerProduct" => builder.inner_product(layer, x),
        "BatchNorm" => builder.batch_norm(layer, x),
        "Scale" => builder.scale(layer, inputs),
        "LRN" => builder.local_response(layer, x),
        "Normalize" => builder.normalize(layer, x),
        "Concat" => builder.concat(layer, inputs),
        "Crop" => builder.crop(layer, inputs),
        "Flatten" => builder.flatten(layer, x),
        "Permute" => builder.permute(layer, x),
        "Reshape" => builder.reshape(layer, x),
        "Eltwise" => builder.eltwise(layer, inputs),
        "Power" => builder.power(layer, x),
        "PReLU" => builder.parametric(layer, x),
        _ => activation(builder, layer, x),
    }
}

/// Layers whose result is as large as what they take.
fn activation(builder: &mut Builder<'_>, layer: &Layer<'_>, x: &Val) -> Made {
    let alpha = |alpha: f64| [("alpha", Attribute::Float(alpha))];
    let inputs = &[&*x.name][..];
    let name = match layer.kind {
        "ReLU" => match layer.options("relu_param").float("negative_slope", 0.0)? {
            0.0 => builder.nodes.push("", Op::Relu, inputs, []),
            slope => builder.nodes.push("", Op::LeakyRelu, inputs, alpha(slope)),
        },
        "ELU" => {
            let own = layer.options("elu_param").float("alpha", 1.0)?;
            builder.nodes.push("", Op::Elu, inputs, alpha(own))
        }
        "Sigmoid" => builder.nodes.push("", Op::Sigmoid, inputs, []),
        "TanH" => builder.nodes.push("", Op::Tanh, inputs, []),
        "AbsVal" => builder.nodes.push("", Op::Abs, inputs, []),
        "BNLL" => builder.nodes.push("", Op::Softplus, inputs, []),
        "Dropout" => builder.nodes.push("", Op::Identity, inputs, []),
        "Softmax" => {
            let axis = x.axis(layer.options("softmax_param").int("axis", 1)?)?;
            builder.nodes.push("", Op::Softmax, inputs, [("axis", Attribute::Int(ckpt_graph::int(axis)?))])
        }
        _ => return Err("is not supported".to_owned()),
    };
    Ok(Val { name, dims: x.dims.clone() })
}
