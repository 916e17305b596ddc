//! Weights as integers of 8 bits with a scale for each channel: what TensorFlow's converter calls dynamic range quantization.

use crate::format::NAMESPACE;
use ckpt_api::{
    Affine, AffineIntegers, Checkpoint, Contents, DType, Error, MetadataValue, Options, Result, RunNumbers,
    Shape, Tensor, TensorId, Values,
};
use ckpt_tf_operators::{Content, Model, ModelTensor, Operator, Program, model_of};
use std::borrow::Cow;
use std::collections::HashMap;

/// The option that asks for it.
pub(crate) const QUANTIZE: &str = "quantize";
/// Key of a tensor that [`prepare`] replaced.
const IS_QUANTIZED: &str = "is_quantized";
/// Elements from which on the converter quantizes a tensor.
const LEAST: u64 = 1024;
/// The greatest integer: the least is its negative.
const MOST: i8 = 127;

/// Replaces the matrices and kernels of layers by integers, if the options ask for it: their values are read twice, first for their
/// ranges.
///
/// # Errors
/// [`ckpt_api::Kind::Unsupported`] for a checkpoint without a graph, or with one that is not written, and for numbers that are not
/// finite; those of reading values.
pub(crate) fn prepare(
    values: &dyn Values,
    contents: &Contents,
    options: &Options,
) -> Result<Option<Contents>> {
    if options.text(QUANTIZE) != Some("int8") {
        return Ok(None);
    }
    let graph = contents.checkpoint.graph.as_ref().ok_or_else(|| {
        Error::unsupported("only the weights of layers are quantized, and the source has no graph")
            .field(QUANTIZE)
    })?;
    // Integers take the place of halves as of numbers of 32 bits.
    let mut floats = contents.checkpoint.clone();
    for tensor in floats.tensors.iter_mut().filter(|tensor| tensor.dtype == DType::F16) {
        tensor.dtype = DType::F32;
    }
    let model = model_of(&floats, graph, Program::Lite)?;
    let mut chosen: Vec<(usize, usize)> = channels(&floats, &model).into_iter().collect();
    if chosen.is_empty() {
        return Err(Error::unsupported("no layer has weights that are quantized")
            .field(QUANTIZE)
            .expected(format!("a matrix or a kernel of at least {LEAST} numbers")));
    }
    chosen.sort_unstable();
    let mut prepared = contents.clone();
    for (id, axis) in chosen {
        let (tensor, placement) = contents.tensor_at(TensorId(id))?;
        let scales = scales(values, TensorId(id), tensor, axis)?;
        let integers = AffineIntegers {
            scales: RunNumbers { numbers: scales.clone().into(), run: 1 },
            offset: 0.0,
            least: (-MOST).into(),
            most: MOST.into(),
            ties_to_even: false,
        };
        let placed = integers.place(tensor, placement, DType::I8, Some(axis))?;
        // The format has 32 bits for each.
        let stored: Vec<f64> = scales.iter().map(|scale| f64::from(narrow(*scale))).collect();
        let affine = Affine::new(stored, vec![0.0; scales.len()], Some(axis))?;
        if let (Some(own), Some(placement)) =
            (prepared.checkpoint.tensors.get_mut(id), prepared.placements.get_mut(id))
        {
            (own.dtype, own.quantization) = (DType::I8, Some(affine.into()));
            own.metadata.insert(NAMESPACE, IS_QUANTIZED, MetadataValue::Bool(true));
            *placement = placed;
        }
    }
    Ok(Some(prepared))
}

/// Whether a tensor is one that [`prepare`] replaced.
pub(super) fn is_quantized(tensor: &Tensor) -> bool {
    tensor.metadata.value(NAMESPACE, IS_QUANTIZED) == Some(&MetadataValue::Bool(true))
}

/// The checkpoint before [`prepare`]: its graph takes numbers.
pub(super) fn before(checkpoint: &Checkpoint) -> Cow<'_, Checkpoint> {
    if !checkpoint.tensors.iter().any(is_quantized) {
        return Cow::Borrowed(checkpoint);
    }
    let mut before = checkpoint.clone();
    for tensor in before.tensors.iter_mut().filter(|tensor| is_quantized(tensor)) {
        (tensor.dtype, tensor.quantization) = (DType::F32, None);
    }
    Cow::Owned(before)
}

/// The tensors of the checkpoint that only kernels of layers take whose operators have integers, and the axes of their channels.
fn channels(checkpoint: &Checkpoint, model: &Model) -> HashMap<usize, usize> {
    let mut takes_integers = vec![true; model.tensors.len()];
    for step in &model.steps {
        for (at, input) in step.inputs.iter().enumerate() {
            let both =
                input.and_then(|input| Some((model.tensors.get(input)?, takes_integers.get_mut(input)?)));
            let Some((own, takes)) = both else { continue };
            // The kernel of one channel would be taken for one whose channels have kernels of their own.
            let has_channels = own.shape.first() != Some(&1);
            let is_kernel = match &step.operator {
                Operator::Dense => has_channels,
                Operator::Conv(window) => has_channels && window.strides.len() == 2,
                Operator::DepthwiseConv { .. } => true,
                _ => false,
            };
            *takes &= is_kernel && at == 1;
        }
    }
    for output in &model.outputs {
        takes_integers.get_mut(*output).into_iter().for_each(|takes| *takes = false);
    }
    let mut stored: HashMap<usize, Option<usize>> = HashMap::new();
    for (own, takes) in model.tensors.iter().zip(takes_integers) {
        let Content::Tensor { id, order } = &own.content else { continue };
        let tensor = checkpoint.tensors.get(*id);
        let axis = tensor.filter(|tensor| takes && tensor.dtype.is_float() && own.dtype == DType::F32);
        let axis = axis.filter(|tensor| tensor.shape.elements() >= LEAST);
        let axis = axis.and_then(|tensor| channel_axis(own, order, &tensor.shape));
        // A tensor that is stored twice stays as it is.
        stored.entry(*id).and_modify(|known| *known = None).or_insert(axis);
    }
    stored.into_iter().filter_map(|(id, axis)| Some((id, axis?))).collect()
}

/// The axis of the checkpoint's tensor that has the channels of the result; `None` if two have them.
fn channel_axis(own: &ModelTensor, order: &[usize], shape: &Shape) -> Option<usize> {
    let (dimension, count) = channel_dimension(own)?;
    let axis = match dimension {
        0 => order.first(),
        _ => order.iter().rev().find(|axis| shape.get(**axis) != Some(&1)),
    };
    axis.copied().filter(|axis| shape.get(*axis) == Some(&count))
}

/// The dimension of a stored kernel that has the channels of the result, and how many there are: the first, or the last of a kernel
/// whose channels have kernels of their own.
pub(super) fn channel_dimension(own: &ModelTensor) -> Option<(usize, u64)> {
    let dimension = match own.shape[..] {
        [1, _, _, _] => 3,
        _ => 0,
    };
    Some((dimension, u64::try_from(*own.shape.get(dimension)?).ok()?))
}

/// The scale of each index of an axis: that of its greatest magnitude.
fn scales(values: &dyn Values, id: TensorId, tensor: &Tensor, axis: usize) -> Result<Vec<f64>> {
    let size = |len: u64| usize::try_from(len).map_err(|_| Error::unsupported("a tensor is too large"));
    let count = size(tensor.shape.get(axis).copied().unwrap_or(1))?;
    let after = size(tensor.shape.iter().skip(axis.saturating_add(1)).product())?;
    let mut largest = vec![0f32; count];
    let (mut channel, mut left, mut is_finite) = (0, after, true);
    values.numbers(id, &mut |mut numbers| {
        while !numbers.is_empty() {
            let (own, rest) = numbers.split_at(left.min(numbers.len()));
            if let Some(largest) = largest.get_mut(channel) {
                *largest = own.iter().fold(*largest, |most, number| most.max(number.abs()));
            }
            is_finite &= own.iter().all(|number| number.is_finite());
            (numbers, left) = (rest, left.saturating_sub(own.len()));
            if left == 0 {
                (channel, left) = ((channel + 1) % count.max(1), after);
            }
        }
    })?;
    if !is_finite {
        return Err(Error::unsupported("numbers that are not finite cannot be quantized")
            .tensor(&tensor.name)
            .help("write the model without the option quantize"));
    }
    // A channel of zeros has the scale 1.
    let scale = |largest: f32| if largest == 0.0 { 1.0 } else { f64::from(largest) / f64::from(MOST) };
    Ok(largest.into_iter().map(scale).collect())
}

#[expect(clippy::cast_possible_truncation, reason = "the format has 32 bits for a scale")]
pub(super) fn narrow(scale: f64) -> f32 {
    scale as f32
}
