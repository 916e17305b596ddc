//! What each layer computes.

use super::builder::{Builder, Val};
use super::returned::Returned;
use crate::format::{Image, Kind, Layer, Part, Window, tensor_name};
use ckpt_api::{Attribute, Node, Op};
use ckpt_graph::{int, ints};

/// What Darknet adds to the standard deviation, and OpenCV to the variance.
const EPSILON: f64 = 1e-6;

/// Adds the nodes of a layer, and its result.
pub(super) fn add(
    builder: &mut Builder,
    index: usize,
    layer: &Layer,
    returned: Returned,
) -> Result<(), String> {
    let mut val = Val { name: String::new(), image: layer.output, is_flat: false, other: None };
    val.name = match &layer.kind {
        Kind::Route { from, groups, group } => route(builder, from, *groups, *group)?,
        Kind::Connected { has_norm, activation } => {
            let x = builder.previous()?;
            let x = builder.flat(&x);
            val.is_flat = true;
            let node = builder.nodes.node("", Op::Gemm, &[&x]);
            let name = weighted(builder, node, index, layer, *has_norm);
            activation.add(builder, name)?
        }
        Kind::Identity | Kind::Softmax { .. } => {
            let x = builder.previous()?;
            val.is_flat = x.is_flat;
            match layer.kind {
                Kind::Softmax { is_spatial } => softmax(builder, &x, is_spatial)?,
                _ => builder.nodes.push("", Op::Identity, &[&x.name], []),
            }
        }
        Kind::Detection(detection) if returned == Returned::Boxes => {
            let x = builder.previous()?;
            let x = builder.image(&x, "")?;
            val.other = Some(vec![None, Some(detection.numbers())]);
            detection.add(builder, &x, layer.input)?
        }
        _ => {
            let x = builder.previous()?;
            let x = builder.image(&x, "")?;
            of_image(builder, index, layer, &x)?
        }
    };
    builder.result(val);
    Ok(())
}

/// Adds the nodes of a layer that takes the image before it.
fn of_image(builder: &mut Builder, index: usize, layer: &Layer, x: &str) -> Result<String, String> {
    Ok(match &layer.kind {
        Kind::Convolution { window, groups, has_norm, activation, .. } => {
            let padding = ints(&[window.padding; 4])?;
            let node =
                builder.nodes.node("", Op::Conv, &[x]).attribute("strides", ints(&[window.stride; 2])?);
            let mut node = node.attribute("pads", padding);
            if *groups > 1 {
                node = node.attribute("group", Attribute::Int(int(*groups)?));
            }
            let name = weighted(builder, node, index, layer, *has_norm);
            activation.add(builder, name)?
        }
        Kind::Pool(window) => pool(builder, window, x)?,
        Kind::GlobalMean => builder.nodes.push("", Op::GlobalAveragePool, &[x], []),
        Kind::Shortcut { from, activation } => {
            let sum = shortcut(builder, x, from, layer.input)?;
            activation.add(builder, sum)?
        }
        Kind::Upsample { stride, scale } => upsample(builder, x, *stride, *scale)?,
        Kind::Reorg { stride, is_reverse } => reorg(builder, x, *stride, *is_reverse, layer)?,
        _ => builder.nodes.push("", Op::Identity, &[x], []),
    })
}

/// Adds a node with its weight, and with its bias or the normalization that adds it.
fn weighted(builder: &mut Builder, node: Node, index: usize, layer: &Layer, has_norm: bool) -> String {
    let tensor = |part: Part| tensor_name(index, layer.section, part.name());
    let node = node.parameter("weight", tensor(Part::Weight));
    if !has_norm {
        return builder.nodes.add(node.parameter("bias", tensor(Part::Bias)));
    }
    let value = builder.nodes.add(node);
    let node = builder.nodes.node("norm", Op::BatchNormalization, &[&value]);
    let parts = [Part::Scale, Part::Bias, Part::Mean, Part::Variance];
    let node = parts.into_iter().fold(node, |node, part| node.parameter(part.name(), tensor(part)));
    builder.nodes.add(node.attribute("epsilon", Attribute::Float(EPSILON)))
}

/// Windows begin half the padding before the image, and those at its end reach over it.
fn pool(builder: &mut Builder, window: &Window, x: &str) -> Result<String, String> {
    let before = window.padding / 2;
    let after = window.padding.saturating_sub(before);
    if before >= window.size || after >= window.size {
        return Err("has windows that cover only padding".to_owned());
    }
    let pads = ints(&[before, before, after, after])?;
    let (size, strides) = (ints(&[window.size; 2])?, ints(&[window.stride; 2])?);
    Ok(builder.nodes.push(
        "",
        Op::MaxPool,
        &[x],
        [("kernel_shape", size), ("strides", strides), ("pads", pads)],
    ))
}

fn route(builder: &mut Builder, from: &[usize], groups: u64, group: u64) -> Result<String, String> {
    let mut values = Vec::with_capacity(from.len());
    for (number, layer) in from.iter().enumerate() {
        let x = builder.take(*layer)?;
        let mut name = builder.image(&x, &format!("{number}_"))?;
        if groups > 1 {
            let len = x.image.channels / groups;
            let range = [len.saturating_mul(group), len.saturating_mul(group.saturating_add(1))];
            name = channels(builder, number, &name, range)?;
        }
        values.push(name);
    }
    let names: Vec<&str> = values.iter().map(String::as_str).collect();
    Ok(match names[..] {
        [one] => builder.nodes.push("", Op::Identity, &[one], []),
        _ => builder.nodes.push("", Op::Concat, &names, [("axis", Attribute::Int(1))]),
    })
}

/// Channels of an image, from the first one to before the second.
fn channels(builder: &mut Builder, number: usize, value: &str, range: [u64; 2]) -> Result<String, String> {
    let [start, end] = range;
    let axes = Attribute::Ints(vec![1]);
    let attributes = [("axes", axes), ("starts", ints(&[start])?), ("ends", ints(&[end])?)];
    Ok(builder.nodes.push(&format!("{number}_part"), Op::Slice, &[value], attributes))
}

/// The sum of the layer before and others: those with fewer channels add to the first ones, and of those with more the first
/// ones are added.
fn shortcut(builder: &mut Builder, x: &str, from: &[usize], image: Image) -> Result<String, String> {
    let mut sum = x.to_owned();
    for (number, layer) in from.iter().enumerate() {
        let other = builder.take(*layer)?;
        if [other.image.height, other.image.width] != [image.height, image.width] {
            return Err("adds images of several sizes, which is not supported".to_owned());
        }
        let mut name = builder.image(&other, &format!("{number}_"))?;
        let (own, wanted) = (other.image.channels, image.channels);
        if own > wanted {
            name = channels(builder, number, &name, [0, wanted])?;
        } else if own < wanted {
            let pads = ints(&[0, 0, 0, 0, 0, wanted.saturating_sub(own), 0, 0])?;
            name = builder.nodes.push(&format!("{number}_pad"), Op::Pad, &[&name], [("pads", pads)]);
        }
        let suffix = if number == 0 { String::new() } else { format!("{number}_sum") };
        sum = builder.nodes.push(&suffix, Op::Add, &[&sum, &name], []);
    }
    Ok(sum)
}

fn upsample(builder: &mut Builder, x: &str, stride: u64, scale: f64) -> Result<String, String> {
    let factor = u32::try_from(stride).map_err(|_| "has a stride beyond 32 bits")?;
    let text = |text: &str| Attribute::Text(text.to_owned());
    let attributes = [
        ("scales", Attribute::Floats(vec![1.0, 1.0, factor.into(), factor.into()])),
        ("mode", text("nearest")),
        ("nearest_mode", text("floor")),
        ("coordinate_transformation_mode", text("asymmetric")),
    ];
    let value = builder.nodes.push("", Op::Resize, &[x], attributes);
    if scale == 1.0 {
        return Ok(value);
    }
    let by = builder.nodes.floats("factor", &[1], vec![scale])?;
    Ok(builder.nodes.push("scaled", Op::Mul, &[&value, &by], []))
}

/// Darknet takes the numbers of an image for those of a larger one with fewer channels, and makes channels of its places.
fn reorg(
    builder: &mut Builder,
    x: &str,
    stride: u64,
    is_reverse: bool,
    layer: &Layer,
) -> Result<String, String> {
    let block = ("blocksize", Attribute::Int(int(stride)?));
    if is_reverse {
        let mode = ("mode", Attribute::Text("DCR".to_owned()));
        return Ok(builder.nodes.push("", Op::DepthToSpace, &[x], [block, mode]));
    }
    let Image { channels, height, width } = layer.input;
    let larger = ints(&[0, channels / (stride * stride), height * stride, width * stride])?;
    let wide = builder.nodes.push("wide", Op::Reshape, &[x], [("shape", larger)]);
    let deep = builder.nodes.push("deep", Op::SpaceToDepth, &[&wide], [block]);
    let Image { channels, height, width } = layer.output;
    let shape = ints(&[0, channels, height, width])?;
    Ok(builder.nodes.push("", Op::Reshape, &[&deep], [("shape", shape)]))
}

/// Softmax over all numbers of an image, or over the channels of each place.
fn softmax(builder: &mut Builder, x: &Val, is_spatial: bool) -> Result<String, String> {
    let axis = ("axis", Attribute::Int(1));
    let Image { channels, height, width } = x.image;
    if is_spatial || x.is_flat || (height, width) == (1, 1) {
        return Ok(builder.nodes.push("", Op::Softmax, &[&x.name], [axis]));
    }
    let flat = builder.flat(x);
    let probabilities = builder.nodes.push("", Op::Softmax, &[&flat], [axis]);
    let shape = ints(&[0, channels, height, width])?;
    Ok(builder.nodes.push("image", Op::Reshape, &[&probabilities], [("shape", shape)]))
}
