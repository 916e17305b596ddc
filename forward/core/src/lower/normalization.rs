//! Operators over the elements of an axis, and the features of an image.

use super::{Load, Operand, Site, elements, misfit};
use crate::Kernel;
use crate::kernel::{Affine, LayerNorm, Softmax, StaticFeatures};
use crate::value::Numbers;
use ckpt_api::{Attribute, Axis, Error, Op, Result};

pub(super) fn batch(site: &mut Site) -> Result<()> {
    // `momentum` is of training alone.
    site.knows(&["epsilon", "momentum", "training_mode"])?;
    site.roles(&["scale", "bias", "mean", "variance"])?;
    if site.flag("training_mode")? {
        return Err(Error::unsupported("the forward pass is that of inference").found("training_mode 1"));
    }
    let epsilon = epsilon(site)?;
    let [x] = site.takes()?;
    site.real(0)?;
    let &[outer, channels, ref behind @ ..] = &x.shape[..] else {
        return Err(misfit(&x.shape, "a batch and channels"));
    };
    let mut operands = vec![Operand::Input(0)];
    for (role, absent) in [("scale", Some(1.0)), ("bias", Some(0.0)), ("mean", None), ("variance", None)] {
        operands.push(each(site, role, channels, absent)?);
    }
    let inner = elements(behind)?;
    let output = site.output(x.shape.clone(), Numbers::Real)?;
    site.call(Kernel::Affine(Affine { outer, channels, inner, epsilon }), operands, output);
    Ok(())
}

/// A number for each channel; `absent` for all where there is no tensor.
fn each(site: &mut Site, role: &str, channels: usize, absent: Option<f64>) -> Result<Operand> {
    let weight = match absent {
        None => Some(site.needs(role, &[Axis::Out], Numbers::Real)?),
        Some(_) => site.weight(role, &[Axis::Out], Numbers::Real)?,
    };
    match (weight, absent) {
        (Some(weight), _) => {
            weight.axis_of(Axis::Out, channels)?;
            Ok(weight.operand)
        }
        (None, value) => Ok(site.load(Load::Constant { value: value.unwrap_or(0.0), len: channels })),
    }
}

fn epsilon(site: &Site) -> Result<f64> {
    let epsilon = site.float("epsilon", 1e-5)?;
    if epsilon >= 0.0 && epsilon.is_finite() {
        return Ok(epsilon);
    }
    Err(super::attributes::wrong("epsilon", &Attribute::Float(epsilon), "a number of at least 0"))
}

pub(super) fn layer(site: &mut Site) -> Result<()> {
    // `stash_type` 1: what is computed in between is binary32 or better.
    site.knows(&["axis", "epsilon", "stash_type"])?;
    site.roles(&["scale", "bias"])?;
    let epsilon = epsilon(site)?;
    let [x] = site.takes()?;
    site.real(0)?;
    let axis = site.axis(x, -1)?;
    let (outer, inner) = x.shape.split_at(axis);
    let (rows, len) = (elements(outer)?, elements(inner)?);
    let scale = each(site, "scale", len, Some(1.0))?;
    let mut operands = vec![Operand::Input(0), scale];
    let bias = site.node.parameters.contains_key("bias");
    if bias {
        operands.push(each(site, "bias", len, None)?);
    }
    let output = site.output(x.shape.clone(), Numbers::Real)?;
    site.call(Kernel::LayerNorm(LayerNorm { rows, len, bias, epsilon }), operands, output);
    Ok(())
}

pub(super) fn softmax(site: &mut Site) -> Result<()> {
    site.knows(&["axis"])?;
    site.roles(&[])?;
    let [x] = site.takes()?;
    site.real(0)?;
    let axis = site.axis(x, -1)?;
    let kernel = Softmax {
        outer: elements(&x.shape[..axis])?,
        len: x.shape[axis],
        inner: elements(&x.shape[axis + 1..])?,
        log: site.node.op == Op::LogSoftmax,
    };
    let output = site.output(x.shape.clone(), Numbers::Real)?;
    site.call(Kernel::Softmax(kernel), [Operand::Input(0)], output);
    Ok(())
}

pub(super) fn static_features(site: &mut Site) -> Result<()> {
    site.knows(&[])?;
    site.roles(&[])?;
    let [x] = site.takes()?;
    site.real(0)?;
    let &[batch, 4, height, width] = &x.shape[..] else {
        return Err(misfit(&x.shape, "[N, 4, H, W]: red, green, blue, depth"));
    };
    let output = site.output(vec![batch, 8, height, width], Numbers::Real)?;
    let kernel = StaticFeatures { batch, height, width };
    site.call(Kernel::StaticFeatures(kernel), [Operand::Input(0)], output);
    Ok(())
}
