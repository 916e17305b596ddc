//! The steps of recipes on a tensor.

use super::image::reorder_image;
use super::numbers::{compute, with_operations};
use super::parts;
use super::placed::{PlacedTensor, misfit, permute, squeeze, unsqueeze};
use super::reshape::reshape;
use crate::recipe::AxisStep;
use ckpt_api::{Affine, DType, Error, Operation, Quantization, Result, Tensor};

/// Takes steps on the axes of a tensor. The stored bytes stay where they are; only the numbers of the axes change.
pub(super) fn reorder(mut placed: PlacedTensor, steps: &[AxisStep]) -> Result<PlacedTensor> {
    let mut earlier = None;
    for step in steps {
        // The shape that the file states has the axes in their former order.
        placed.placement.set_shape(None);
        check_scales_can_follow(&placed, step)?;
        placed = match step {
            AxisStep::Transpose if placed.tensor.shape.rank() == 2 => permute(placed, &[1, 0])?,
            AxisStep::Transpose => return Err(misfit(step, &placed, "a matrix")),
            AxisStep::Permute(order) if order.len() == placed.tensor.shape.rank() => permute(placed, order)?,
            AxisStep::Permute(order) => {
                return Err(misfit(step, &placed, &format!("a tensor of {} axes", order.len())));
            }
            AxisStep::Squeeze(axis) => squeeze(placed, *axis, step)?,
            AxisStep::Unsqueeze(axis) if *axis <= placed.tensor.shape.rank() => unsqueeze(placed, *axis)?,
            AxisStep::Unsqueeze(axis) => {
                return Err(misfit(step, &placed, &format!("a tensor of at least {axis} axes")));
            }
            AxisStep::Reshape(lengths) => reshape(placed, lengths, step)?,
            AxisStep::Cast { from, to } => cast(placed, *from, *to, step)?,
            AxisStep::CastAny { to } if placed.tensor.dtype.is_float() => {
                let from = placed.tensor.dtype;
                if from == *to { placed } else { cast(placed, from, *to, step)? }
            }
            AxisStep::Stay { from } if placed.tensor.dtype == *from => placed,
            AxisStep::CastAny { .. } => {
                return Err(wrong_dtype(step, &placed.tensor, "floating-point numbers"));
            }
            AxisStep::Stay { from } => return Err(wrong_dtype(step, &placed.tensor, from.name())),
            AxisStep::Scale(_) | AxisStep::Add(_) | AxisStep::Exp | AxisStep::Log => compute(placed, step)?,
            AxisStep::Parts { order, axis } => parts::reorder(&placed, order, *axis, step)?,
            AxisStep::FlattenOrder(image) | AxisStep::UnflattenOrder(image) => {
                reorder_image(placed, image, step, earlier.replace(step))?
            }
        };
    }
    Ok(placed)
}

/// Refuses steps that divide or mix an axis along which a tensor has scales.
fn check_scales_can_follow(placed: &PlacedTensor, step: &AxisStep) -> Result<()> {
    let affine = placed.tensor.quantization.as_ref().and_then(Quantization::affine);
    let mixes = matches!(
        step,
        AxisStep::Reshape(_)
            | AxisStep::Parts { .. }
            | AxisStep::FlattenOrder(_)
            | AxisStep::UnflattenOrder(_)
    );
    match affine.and_then(Affine::axis).filter(|_| mixes) {
        None => Ok(()),
        Some(axis) => Err(Error::unsupported(
            "integers with a scale for each index of an axis cannot be reshaped or reordered",
        )
        .tensor(&placed.tensor.name)
        .found(format!("'{step}', with scales along axis {axis} of {}", placed.tensor.shape))
        .help("store the numbers that the integers stand for instead")),
    }
}

/// Gives a tensor another dtype. Its bytes keep theirs: the planner converts from one to the other.
fn cast(mut placed: PlacedTensor, from: DType, to: DType, step: &AxisStep) -> Result<PlacedTensor> {
    let tensor = &mut placed.tensor;
    if tensor.dtype != from || tensor.quantization.is_some() {
        return Err(wrong_dtype(step, tensor, from.name()));
    }
    // What is stored as f32 may have more digits than the dtype that an earlier step gave it.
    let is_rounded =
        matches!(from, DType::F16 | DType::Bf16) && placed.placement.encoding.dtype == DType::F32;
    tensor.dtype = to;
    if is_rounded {
        with_operations(&mut placed.placement, &[Operation::Round(from)])?;
    }
    Ok(placed)
}

fn wrong_dtype(step: &AxisStep, tensor: &Tensor, expected: &str) -> Error {
    let units = if tensor.quantization.is_some() { ", of quantized units" } else { "" };
    Error::mapping("a step does not fit the tensor")
        .found(format!("'{step}' for a tensor of {}{units}", tensor.dtype))
        .expected(format!("a tensor of {expected}"))
}
