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

/// Returns the tensor without the axes of length 1 that the other lacks: a bias `[1, out]` becomes a bias `[out]`, and the
/// only direction of a recurrent layer goes.
pub(super) fn without_unit_axes(tensor: &Tensor, other: &Tensor) -> Result<Tensor> {
    let ranks_agree = tensor.shape.rank() == other.shape.rank();
    let Some(axes) = &tensor.axes else {
        let lens: Vec<u64> = tensor.shape.iter().copied().filter(|len| ranks_agree || *len != 1).collect();
        return Ok(tensor.clone().with_shape(Shape::new(lens)?));
    };
    let is_shared = |axis: &Axis| other.axes.as_ref().map_or(ranks_agree, |theirs| theirs.contains(axis));
    let each = tensor.shape.iter().copied().zip(axes.iter().cloned());
    let (lens, axes): (Vec<u64>, Vec<Axis>) =
        each.filter(|(len, axis)| !(*len == 1 && (*axis == Axis::Unit || !is_shared(axis)))).unzip();
    Ok(tensor.clone().with_shape(Shape::new(lens)?).with_axes(axes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ckpt_api::DType;

    fn tensor(lens: &[u64], axes: &[Axis]) -> Tensor {
        let tensor = Tensor::new("w", DType::F32, Shape::new(lens.to_vec()).unwrap());
        if axes.is_empty() { tensor } else { tensor.with_axes(axes.to_vec()) }
    }

    fn left(own: &Tensor, other: &Tensor) -> Vec<u64> {
        without_unit_axes(own, other).unwrap().shape.to_vec()
    }

    #[test]
    fn the_only_direction_of_a_recurrent_layer_is_left_out_where_the_other_tensor_has_none() {
        let stored = tensor(&[1, 16, 5], &[Axis::Direction, Axis::Out, Axis::In]);
        let plain = tensor(&[5, 16], &[Axis::In, Axis::Out]);
        assert_eq!((left(&stored, &plain), left(&plain, &stored)), (vec![16, 5], vec![5, 16]));
        assert_eq!(left(&stored, &stored), [1, 16, 5]);
    }

    #[test]
    fn without_names_axes_of_length_1_count_only_in_tensors_of_one_rank() {
        let (row, list) = (tensor(&[1, 16], &[]), tensor(&[16], &[]));
        assert_eq!((left(&row, &list), left(&list, &row)), (vec![16], vec![16]));
        assert_eq!(left(&row, &tensor(&[16, 1], &[])), [1, 16]);
    }
}
