//! Lowers normalizations, softmax, and the static features of an image.

use super::lowering::{Load, Lowering, Operand, elements, misfit};
use crate::Kernel;
use crate::kernel::{Affine, LayerNorm, Softmax, StaticFeatures};
use crate::value::Numbers;
use ckpt_api::{Attribute, Axis, Error, Op, Result};

pub(super) fn batch(lowering: &mut Lowering) -> Result<()> {
    // `momentum` matters in training only.
    lowering.allow_attributes(&["epsilon", "momentum", "training_mode"])?;
    lowering.allow_roles(&["scale", "bias", "mean", "variance"])?;
    if lowering.node.flag("training_mode")? {
        return Err(Error::unsupported("training mode is not supported").found("training_mode 1"));
    }
    let epsilon = epsilon(lowering)?;
    let [x] = lowering.exactly()?;
    lowering.real(0)?;
    let &[outer, channels, ref behind @ ..] = &x.shape[..] else {
        return Err(misfit(&x.shape, "a batch and channels"));
    };
    let mut operands = vec![Operand::Input(0)];
    for (role, default) in [("scale", Some(1.0)), ("bias", Some(0.0)), ("mean", None), ("variance", None)] {
        operands.push(per_channel(lowering, role, channels, default)?);
    }
    let inner = elements(behind)?;
    let output = lowering.output(x.shape.clone(), Numbers::Real)?;
    lowering.call(Kernel::Affine(Affine { outer, channels, inner, epsilon }), operands, output);
    Ok(())
}

/// One number for each channel; `default` for all channels if there is no tensor.
pub(super) fn per_channel(
    lowering: &mut Lowering,
    role: &str,
    channels: usize,
    default: Option<f64>,
) -> Result<Operand> {
    let weight = match default {
        None => Some(lowering.required_weight(role, &[Axis::Out], Numbers::Real)?),
        Some(_) => lowering.weight(role, &[Axis::Out], Numbers::Real)?,
    };
    match (weight, default) {
        (Some(weight), _) => {
            weight.axis_of(Axis::Out, channels)?;
            Ok(weight.operand)
        }
        (None, value) => Ok(lowering.load(Load::Constant { value: value.unwrap_or(0.0), len: channels })),
    }
}

pub(super) fn epsilon(lowering: &Lowering) -> Result<f64> {
    let epsilon = lowering.node.float("epsilon", 1e-5)?;
    if epsilon >= 0.0 && epsilon.is_finite() {
        return Ok(epsilon);
    }
    Err(Attribute::Float(epsilon).invalid("epsilon", "a number of at least 0"))
}

pub(super) fn layer(lowering: &mut Lowering) -> Result<()> {
    // `stash_type` 1: intermediate results are binary32 or better.
    lowering.allow_attributes(&["axis", "epsilon", "stash_type"])?;
    lowering.allow_roles(&["scale", "bias"])?;
    let epsilon = epsilon(lowering)?;
    let [x] = lowering.exactly()?;
    lowering.real(0)?;
    let axis = lowering.axis(x, -1)?;
    let (outer, inner) = x.shape.split_at(axis);
    let (rows, len) = (elements(outer)?, elements(inner)?);
    let scale = per_channel(lowering, "scale", len, Some(1.0))?;
    let mut operands = vec![Operand::Input(0), scale];
    let bias = lowering.node.parameters.contains_key("bias");
    if bias {
        operands.push(per_channel(lowering, "bias", len, None)?);
    }
    let output = lowering.output(x.shape.clone(), Numbers::Real)?;
    lowering.call(Kernel::LayerNorm(LayerNorm { rows, len, bias, epsilon }), operands, output);
    Ok(())
}

pub(super) fn softmax(lowering: &mut Lowering) -> Result<()> {
    lowering.allow_attributes(&["axis"])?;
    lowering.allow_roles(&[])?;
    let [x] = lowering.exactly()?;
    lowering.real(0)?;
    let axis = lowering.axis(x, -1)?;
    let kernel = Softmax {
        outer: elements(&x.shape[..axis])?,
        len: x.shape[axis],
        inner: elements(&x.shape[axis + 1..])?,
        log: lowering.node.op == Op::LogSoftmax,
    };
    let output = lowering.output(x.shape.clone(), Numbers::Real)?;
    lowering.call(Kernel::Softmax(kernel), [Operand::Input(0)], output);
    Ok(())
}

pub(super) fn static_features(lowering: &mut Lowering) -> Result<()> {
    lowering.allow_attributes(&[])?;
    lowering.allow_roles(&[])?;
    let [x] = lowering.exactly()?;
    lowering.real(0)?;
    let &[batch, 4, height, width] = &x.shape[..] else {
        return Err(misfit(&x.shape, "[N, 4, H, W]: red, green, blue, depth"));
    };
    let output = lowering.output(vec![batch, 8, height, width], Numbers::Real)?;
    let kernel = StaticFeatures { batch, height, width };
    lowering.call(Kernel::StaticFeatures(kernel), [Operand::Input(0)], output);
    Ok(())
}
