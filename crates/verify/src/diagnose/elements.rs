//! The elements of a tensor, in the order of axes that a comparison needs.

use crate::parameters::SourceParameters;
use ckpt_api::{Axis, Result, Shape, Tensor};
use ckpt_forward::Parameters;

/// Returns a tensor's numbers, row-major; quantized integers divided by their scale.
pub(super) fn values(parameters: &SourceParameters, name: &str) -> Result<Vec<f64>> {
    let values = parameters.load(name)?.to_f64();
    Ok(match parameters.tensor(name).and_then(Tensor::scale) {
        Some(scale) => {
            let scale = f64::from(scale.get());
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
    ckpt_engine::transform::permute(&bytes, shape, order, size_of::<f64>(), &mut permuted);
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

/// Returns the tensor with its outputs as the outputs of each input channel, if that is how the other depthwise kernel
/// counts them: `[out, in, y, x]` with one input each becomes `[in, multiplier, y, x]`.
pub(super) fn with_multiplier(tensor: &Tensor, other: &Tensor) -> Result<Tensor> {
    let has_one_input = tensor.axis(Axis::In).is_none_or(|axis| tensor.shape.get(axis) == Some(&1));
    let length = |axis| other.axis(axis).and_then(|at| other.shape.get(at)).copied();
    let (Some(axes), Some(channels), Some(multiplier)) =
        (&tensor.axes, length(Axis::In), length(Axis::Multiplier))
    else {
        return Ok(tensor.clone());
    };
    let outputs = tensor.axis(Axis::Out).and_then(|at| tensor.shape.get(at)).copied();
    if !has_one_input || outputs != channels.checked_mul(multiplier) {
        return Ok(tensor.clone());
    }
    let (lens, axes): (Vec<u64>, Vec<Axis>) = (tensor.shape.iter().copied().zip(axes.iter().cloned()))
        .filter(|(_, axis)| *axis != Axis::In)
        .flat_map(|(len, axis)| match axis {
            Axis::Out => vec![(channels, Axis::In), (multiplier, Axis::Multiplier)],
            axis => vec![(len, axis)],
        })
        .unzip();
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
    fn the_outputs_of_a_depthwise_kernel_are_counted_as_the_other_kernel_does() {
        let keras = tensor(&[5, 3, 4, 2], &[Axis::KernelY, Axis::KernelX, Axis::In, Axis::Multiplier]);
        let onnx = tensor(&[8, 1, 5, 3], &[Axis::Out, Axis::In, Axis::KernelY, Axis::KernelX]);
        let found = with_multiplier(&onnx, &keras).unwrap();
        assert_eq!(found.shape.to_vec(), [4, 2, 5, 3]);
        assert_eq!(found.axes.unwrap()[..2], [Axis::In, Axis::Multiplier]);
        assert_eq!(with_multiplier(&keras, &onnx).unwrap(), keras);
        for other in [[6, 1, 5, 3], [8, 2, 5, 3]] {
            let other = tensor(&other, &[Axis::Out, Axis::In, Axis::KernelY, Axis::KernelX]);
            assert_eq!(with_multiplier(&other, &keras).unwrap(), other);
        }
    }

    #[test]
    fn without_names_axes_of_length_1_count_only_in_tensors_of_one_rank() {
        let (row, list) = (tensor(&[1, 16], &[]), tensor(&[16], &[]));
        assert_eq!((left(&row, &list), left(&list, &row)), (vec![16], vec![16]));
        assert_eq!(left(&row, &tensor(&[16, 1], &[])), [1, 16]);
    }
}
