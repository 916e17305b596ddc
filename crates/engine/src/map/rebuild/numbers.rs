//! Steps that change numbers. The stored bytes stay where they are: an extent states how its numbers are computed.

use super::placed::{PlacedTensor, STORE_WHOLE};
use crate::recipe::{AxisStep, Factor, Target};
use crate::transform::exact;
use ckpt_api::{
    Computed, DType, Encoding, Error, Extent, Loss, LossKind, Operation, Placement, Result, Scalar, Tensor,
};

/// Applies a step that computes in 32-bit floats; the result has the dtype of the tensor.
///
/// # Errors
/// [`ckpt_api::Kind::Mapping`] for a tensor that does not hold floats of at most 32 bits;
/// [`ckpt_api::Kind::Unsupported`] for one that is stored in parts that do not hold whole elements.
pub(super) fn compute(mut placed: PlacedTensor, step: &AxisStep) -> Result<PlacedTensor> {
    let PlacedTensor { tensor, placement } = &mut placed;
    let is_float = matches!(tensor.dtype, DType::F32 | DType::F16 | DType::Bf16);
    if !is_float || tensor.quantization.is_some() {
        let units = if tensor.quantization.is_some() { ", of quantized units" } else { "" };
        return Err(Error::mapping("a step does not fit the tensor")
            .found(format!("'{step}' for a tensor of {}{units}", tensor.dtype))
            .expected("f32, bf16 or f16: numbers are computed in 32-bit floats")
            .help("cast the tensor before, such as with 'cast f64 -> f32'"));
    }
    let is_stored =
        placement.encoding.dtype == tensor.dtype && !placement.extents.iter().any(Extent::is_computed);
    let rounded = (tensor.dtype != DType::F32 && !is_stored).then_some(Operation::Round(tensor.dtype));
    let operations = rounded.into_iter().chain(step.operation()).collect::<Vec<_>>();
    with_operations(placement, &operations).map_err(|error| error.tensor(&tensor.name))?;
    Ok(placed)
}

/// Computes every number of a placement from what it holds now.
pub(super) fn with_operations(placement: &mut Placement, operations: &[Operation]) -> Result<()> {
    if let Some(blocks) = placement.encoding.blocks().filter(|blocks| blocks.is_opaque()) {
        return Err(blocks.refusal().found("a step that computes with their numbers"));
    }
    for extent in &mut placement.extents {
        let region = extent.region().cloned();
        let mut computed = match extent.computed() {
            Some(computed) => computed.clone(),
            None => Computed::new(extent.clone().with_region(None), placement.encoding.clone()),
        };
        computed.operations.extend(operations.iter().cloned());
        *extent = computed.into_extent().map_err(|_| in_parts())?.with_region(region);
    }
    let (order, tiles) = (&placement.encoding.order, placement.encoding.tiles());
    placement.encoding = Encoding::new(DType::F32, order.clone()).with_tiles(tiles);
    Ok(())
}

fn in_parts() -> Error {
    Error::unsupported("the tensor is stored in parts that do not hold whole elements").help(STORE_WHOLE)
}

/// Returns what the casts of a target and the steps that compute lose. `made` is the tensor after all steps, `sources` are
/// those that it is made of.
pub(super) fn losses(target: &Target, made: &Tensor, sources: &[&Tensor]) -> Vec<Loss> {
    let steps = &target.recipe.steps;
    let first = steps.iter().find_map(|step| match step {
        AxisStep::Cast { from, .. } => Some(*from),
        AxisStep::CastAny { .. } => sources.first().map(|tensor| tensor.dtype),
        _ => None,
    });
    let mut dtype = first.unwrap_or(made.dtype);
    let mut losses = Vec::new();
    for step in steps {
        match step {
            AxisStep::Cast { to, .. } | AxisStep::CastAny { to } if *to != dtype => {
                let kind = if exact(dtype, *to) { LossKind::Retyped } else { LossKind::Narrowed };
                losses.push(Loss::new(kind, &target.name, format!("{dtype} becomes {to}, as a step states")));
                dtype = *to;
            }
            AxisStep::Scale(factor) => losses.extend(scaled(&target.name, *factor, step, dtype)),
            AxisStep::Add(_) | AxisStep::Exp | AxisStep::Log => {
                losses.push(rounded(&target.name, step, dtype))
            }
            _ => {}
        }
    }
    losses
}

/// The loss of a multiplication: none by a power of two, unless numbers become very small.
fn scaled(name: &str, factor: Factor, step: &AxisStep, dtype: DType) -> Option<Loss> {
    let grows = |number: Scalar| number.get().abs() >= 1.0;
    let (number, grows) = match factor {
        Factor::Times(number) => (number, grows(number)),
        Factor::Over(number) => (number, number.get().abs() <= 1.0),
    };
    if !number.is_power_of_two() {
        return Some(rounded(name, step, dtype));
    }
    let smallest = if dtype == DType::F16 { "6.1e-5" } else { "1.2e-38" };
    let detail = || format!("the step '{step}' is exact, except for results closer to 0 than {smallest}");
    (!grows).then(|| Loss::new(LossKind::Rounded, name, detail()))
}

fn rounded(name: &str, step: &AxisStep, dtype: DType) -> Loss {
    let kind = if dtype == DType::F32 { LossKind::Rounded } else { LossKind::Narrowed };
    Loss::new(kind, name, format!("the results of the step '{step}' are rounded to {dtype}"))
}
