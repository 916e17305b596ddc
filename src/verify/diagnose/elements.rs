//! The elements of a tensor, in the order of axes that a comparison needs.

use crate::verify::parameters::SourceParameters;
use ckpt_api::{Axis, Result, Shape, Tensor};
use ckpt_forward::Parameters;

/// Returns a tensor's numbers, row-major; quantized integers divided by their scale.
pub(super) fn values(parameters: &SourceParameters, name: &str) -> Result<Vec<f64>> {
    let values = parameters.load(name)?.to_f64();
    let quantization = parameters.tensor(name).and_then(|tensor| tensor.quantization.as_ref());
    Ok(match quantization {
        Some(quantization) => {
            let scale = f64::from(quantization.scale.get());
            values.into_iter().map(|value| value / scale).collect()
        }
        None => values,
    })
}

/// Returns the lengths of a tensor's axes.
pub(super) fn lens(tensor: &Tensor) -> Vec<usize> {
    // Lengths of what is in memory fit.
    tensor.shape.iter().map(|len| usize::try_from(*len).unwrap_or(usize::MAX)).collect()
}

/// Returns row-major elements with the axes in another order.
pub(super) fn permuted(values: &[f64], shape: &[usize], order: &[usize]) -> Vec<f64> {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    let mut permuted = Vec::new();
    crate::transform::permute(&bytes, shape, order, size_of::<f64>(), &mut permuted);
    permuted.as_chunks().0.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect()
}

/// Returns the tensor without its unit axes: a bias `[1, out]` becomes a bias `[out]`.
pub(super) fn without_unit_axes(tensor: &Tensor) -> Result<Tensor> {
    let Some(axes) = &tensor.axes else { return Ok(tensor.clone()) };
    let each = tensor.shape.iter().copied().zip(axes.iter().cloned());
    let (lens, axes): (Vec<u64>, Vec<Axis>) =
        each.filter(|(len, axis)| !(*len == 1 && *axis == Axis::Unit)).unzip();
    Ok(tensor.clone().with_shape(Shape::new(lens)?).with_axes(axes))
}
