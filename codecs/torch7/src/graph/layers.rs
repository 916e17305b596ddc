//! What each kind of layer computes.

use super::builder::{Builder, Layer, Made, Of, Val};
use ckpt_api::{Attribute, Op};

/// Adds the nodes of a layer that has no others.
pub(super) fn add(builder: &mut Builder<'_>, layer: &Layer<'_>, value: &Val) -> Result<Val, String> {
    match (layer.kind, value) {
        ("JoinTable", table) => {
            // Without a number of axes of its own, the layer counts the batch.
            let has_batch = layer.size("nInputDims")?.unwrap_or(0) == 0;
            builder.join(table, layer.int("dimension")?, has_batch).map(Val::One)
        }
        ("CAddTable", table) => combine(builder, table, &Op::Add),
        ("CSubTable", table) => combine(builder, table, &Op::Sub),
        ("CMulTable", table) => combine(builder, table, &Op::Mul),
        ("CDivTable", table) => combine(builder, table, &Op::Div),
        ("CMaxTable", table) => combine(builder, table, &Op::Max),
        ("CMinTable", table) => combine(builder, table, &Op::Min),
        ("SelectTable", Val::Table(values)) => {
            let number = layer.int("index")?;
            let place = usize::try_from(number).ok().and_then(|number| number.checked_sub(1));
            let found = place.and_then(|place| values.get(place)).cloned();
            found.map(Val::One).ok_or_else(|| format!("selects the value {number} of {}", values.len()))
        }
        ("Identity" | "Contiguous" | "FlattenTable", value) => Ok(value.clone()),
        (_, Val::Table(_)) => Err("takes a table, which is not supported".to_owned()),
        (_, Val::One(x)) => made(builder, layer, x).map(Val::One),
    }
}

fn combine(builder: &mut Builder<'_>, table: &Val, op: &Op) -> Result<Val, String> {
    let Val::Table(values) = table else { return Err("combines a single value".to_owned()) };
    let first = values.first().ok_or("combines no values")?;
    let mut name = first.name.clone();
    for (number, value) in values.iter().enumerate().skip(1) {
        let suffix = if number + 1 == values.len() { String::new() } else { format!("part{number}") };
        name = builder.nodes.push(&suffix, op.clone(), &[&name, &value.name], []);
    }
    Ok(Val::One(Of { name, dims: first.dims.clone() }))
}

fn made(builder: &mut Builder<'_>, layer: &Layer<'_>, x: &Of) -> Made {
    match layer.kind {
        "SpatialConvolution" | "SpatialConvolutionMM" | "SpatialDilatedConvolution" => {
            builder.convolution(layer, x)
        }
        "SpatialFullConvolution" => builder.full_convolution(layer, x),
        "SpatialMaxPooling" | "SpatialAveragePooling" => builder.pooling(layer, x),
        "Linear" => builder.linear(layer, x),
        "SpatialBatchNormalization" | "BatchNormalization" => builder.normalization(layer, x),
        "SpatialCrossMapLRN" => builder.local_response(layer, x),
        "SpatialZeroPadding" | "SpatialReflectionPadding" | "SpatialReplicationPadding" => {
            builder.padding(layer, x)
        }
        "SpatialUpSamplingNearest" => builder.upsampling(layer, x),
        "View" => builder.view(layer, x),
        "Reshape" => builder.reshape(layer, x),
        "PReLU" => builder.parametric(layer, x),
        _ => {
            let name = elementwise(builder, layer, x)?;
            Ok(Of { name, dims: x.dims.clone() })
        }
    }
}

/// Layers whose result is as large as what they take.
fn elementwise(builder: &mut Builder<'_>, layer: &Layer<'_>, x: &Of) -> Result<String, String> {
    let nodes = &mut builder.nodes;
    let float = |name, number| (name, Attribute::Float(number));
    let inputs = &[&*x.name][..];
    Ok(match layer.kind {
        "ReLU" | "Threshold" => {
            let [threshold, value] = [layer.number_or("threshold", 0.0)?, layer.number_or("val", 0.0)?];
            if (threshold, value) != (0.0, 0.0) {
                return Err(format!("has threshold {threshold} and val {value}, which is not supported"));
            }
            nodes.push("", Op::Relu, inputs, [])
        }
        "ReLU6" => nodes.push("", Op::Clip, inputs, [float("min", 0.0), float("max", 6.0)]),
        "HardTanh" | "Clamp" => {
            let [least, most] = [layer.number_or("min_val", -1.0)?, layer.number_or("max_val", 1.0)?];
            nodes.push("", Op::Clip, inputs, [float("min", least), float("max", most)])
        }
        "LeakyReLU" => {
            let slope = layer.number_or("negval", 0.01)?;
            nodes.push("", Op::LeakyRelu, inputs, [float("alpha", slope)])
        }
        "ELU" => nodes.push("", Op::Elu, inputs, [float("alpha", layer.number_or("alpha", 1.0)?)]),
        "Tanh" => nodes.push("", Op::Tanh, inputs, []),
        "Sigmoid" => nodes.push("", Op::Sigmoid, inputs, []),
        "SoftSign" => nodes.push("", Op::Softsign, inputs, []),
        "SoftPlus" if layer.number_or("beta", 1.0)? == 1.0 => nodes.push("", Op::Softplus, inputs, []),
        "Abs" => nodes.push("", Op::Abs, inputs, []),
        "Exp" => nodes.push("", Op::Exp, inputs, []),
        "Log" => nodes.push("", Op::Log, inputs, []),
        "Sqrt" => nodes.push("", Op::Sqrt, inputs, []),
        "Square" => nodes.push("", Op::Mul, &[&x.name, &x.name], []),
        "Power" => {
            let by = nodes.scalar("pow", layer.number("pow")?.ok_or("has no pow")?);
            nodes.push("", Op::Pow, &[&x.name, &by], [])
        }
        "MulConstant" | "AddConstant" => {
            let by =
                nodes.scalar("constant", layer.number("constant_scalar")?.ok_or("has no constant_scalar")?);
            let op = if layer.kind == "MulConstant" { Op::Mul } else { Op::Add };
            nodes.push("", op, &[&x.name, &by], [])
        }
        "SoftMax" | "SpatialSoftMax" => nodes.push("", Op::Softmax, inputs, [("axis", Attribute::Int(1))]),
        "LogSoftMax" | "SpatialLogSoftMax" => {
            nodes.push("", Op::LogSoftmax, inputs, [("axis", Attribute::Int(1))])
        }
        "Dropout" | "SpatialDropout" => {
            // The first version scales after training, and the second one while training.
            let is_second = layer.kind == "Dropout" && layer.flag("v2", false)?;
            match (is_second, 1.0 - layer.number_or("p", 0.5)?) {
                (true, _) | (_, 1.0) => nodes.push("", Op::Identity, inputs, []),
                (false, kept) => {
                    let kept = nodes.scalar("kept", kept);
                    nodes.push("", Op::Mul, &[&x.name, &kept], [])
                }
            }
        }
        "Copy" => nodes.push("", Op::Identity, inputs, []),
        _ => return Err("is not supported".to_owned()),
    })
}
