//! Makes numbers of quantized elements and their scales. No byte is read: an extent states how its numbers are computed.

use super::placed::{PlacedTensor, STORE_WHOLE};
use crate::recipe::{Dequantize, Join, ScaledFormat, Target};
use ckpt_api::{
    AxisOrder, BlockNumbers, Computed, DType, Encoding, Error, Extent, Extents, Loss, LossKind, Operation,
    Packing, Result, Shape, Tensor,
};

/// Elements of a block of MXFP4, which has half as many bytes.
const MXFP4_BLOCK: u64 = 32;

/// Returns the tensor of the elements, each times the scale of its block, as the dtype that `how` names.
///
/// # Errors
/// [`ckpt_api::Kind::Mapping`] for dtypes and shapes that do not fit each other or the format;
/// [`ckpt_api::Kind::Unsupported`] for tensors that are not stored whole and in order.
pub(super) fn dequantize(
    elements: PlacedTensor,
    scales: PlacedTensor,
    how: &Dequantize,
) -> Result<PlacedTensor> {
    let (own, other) = (&elements.tensor, &scales.tensor);
    check_dtypes(own, other, how.format)?;
    let (shape, block) = match how.format {
        ScaledFormat::Scaled => (own.shape.clone(), block_of(own, other, how.block.as_deref())?),
        ScaledFormat::Mxfp4 => mxfp4_shape(own, other)?,
    };
    let (stored_elements, mut encoding) = stored(&elements)?;
    let (stored_scales, mut encoding_of_scales) = stored(&scales)?;
    if how.format == ScaledFormat::Mxfp4 {
        encoding = encoding.with_dtype(DType::F4E2m1).with_packing(Packing::Bits);
        encoding_of_scales = encoding_of_scales.with_dtype(DType::F8E8m0);
    }
    let extent = match (stored_elements, stored_scales) {
        (Some(stored), Some(of_scales)) => {
            let scales = Computed::new(of_scales, encoding_of_scales);
            let scales = BlockNumbers::new(&other.name, scales, shape.clone(), block);
            let operations = vec![Operation::MultiplyBlocks(Box::new(scales))];
            Some(Computed::new(stored, encoding).with_operations(operations).into_extent()?)
        }
        _ => None,
    };
    let PlacedTensor { mut tensor, placement } = elements;
    let placement = placement
        .with_extents(extent.into_iter().collect::<Extents>())
        .with_encoding(Encoding::new(DType::F32, AxisOrder::row_major(shape.rank())))
        .with_shape(None);
    (tensor.dtype, tensor.axes) = (how.dtype, tensor.axes.filter(|_| shape == tensor.shape));
    tensor.shape = shape;
    Ok(PlacedTensor { tensor, placement })
}

fn check_dtypes(elements: &Tensor, scales: &Tensor, format: ScaledFormat) -> Result<()> {
    let (of_elements, of_scales, is_scale) = match format {
        ScaledFormat::Scaled => (
            "a small dtype, such as f8_e4m3 or i8",
            "f32, bf16, f16 or f8_e8m0",
            matches!(scales.dtype, DType::F32 | DType::Bf16 | DType::F16 | DType::F8E8m0),
        ),
        ScaledFormat::Mxfp4 => (
            "u8, two elements of MXFP4 in each byte",
            "u8 or f8_e8m0",
            matches!(scales.dtype, DType::U8 | DType::F8E8m0),
        ),
    };
    let is_unit = |tensor: &Tensor| tensor.quantization.is_some();
    if !format.is_quantized(elements.dtype) || is_unit(elements) {
        return Err(Error::mapping("a rule dequantizes a tensor that is not quantized")
            .tensor(&elements.name)
            .found(elements.dtype.name())
            .expected(of_elements));
    }
    if !is_scale || is_unit(scales) {
        return Err(Error::mapping("the scales have the wrong dtype")
            .tensor(&scales.name)
            .found(scales.dtype.name())
            .expected(of_scales));
    }
    Ok(())
}

/// Returns the length of a block on each axis.
fn block_of(elements: &Tensor, scales: &Tensor, block: Option<&[u64]>) -> Result<Vec<u64>> {
    let rank = elements.shape.rank();
    let wrong = |expected: String| {
        Error::mapping("the scales do not fit the elements")
            .tensor(&scales.name)
            .found(format!("scales of shape {}", scales.shape))
            .expected(format!("{expected}, for '{}' of shape {}", elements.name, elements.shape))
    };
    let Some(block) = block else {
        if scales.shape.elements() == 1 {
            return Ok(elements.shape.iter().map(|len| (*len).max(1)).collect());
        }
        let pairs = elements.shape.iter().zip(scales.shape.iter());
        let lens = pairs.map(|(len, scales)| match *scales {
            1 => Some((*len).max(1)),
            scales => (scales == *len).then_some(1),
        });
        let lens = lens.collect::<Option<Vec<u64>>>().filter(|_| scales.shape.rank() == rank);
        return lens.ok_or_else(|| {
            wrong("one scale, or on each axis one or as many as indices".to_owned())
                .help("if each block has a scale, state its lengths in the rule, such as block = [128, 128]")
        });
    };
    let Some(leading) = rank.checked_sub(block.len()) else {
        return Err(wrong(format!("elements of at least {} axes, as 'block' has lengths", block.len())));
    };
    let lens: Vec<u64> = vec![1; leading].into_iter().chain(block.iter().copied()).collect();
    let blocks =
        Shape::new(elements.shape.iter().zip(&lens).map(|(len, block)| len.div_ceil((*block).max(1))))?;
    match blocks == scales.shape {
        true => Ok(lens),
        false => Err(wrong(format!("{blocks}, one scale for each block of {block:?}"))),
    }
}

/// Returns the shape of the elements, and the length of a block on each axis.
fn mxfp4_shape(elements: &Tensor, scales: &Tensor) -> Result<(Shape, Vec<u64>)> {
    let Some((bytes, blocks)) = elements
        .shape
        .split_last()
        .filter(|(bytes, blocks)| **bytes == MXFP4_BLOCK / 2 && !blocks.is_empty())
    else {
        return Err(Error::mapping("the elements are no blocks of MXFP4")
            .tensor(&elements.name)
            .found(elements.shape.to_string())
            .expected(format!("[…, blocks, {}]: the last axis is the bytes of a block", MXFP4_BLOCK / 2)));
    };
    if *scales.shape != *blocks {
        return Err(Error::mapping("the scales do not fit the elements")
            .tensor(&scales.name)
            .found(format!("scales of shape {}", scales.shape))
            .expected(format!(
                "{}, one scale for each {bytes} bytes of '{}'",
                Shape::new(blocks)?,
                elements.name
            )));
    }
    let mut lens = blocks.to_vec();
    if let Some(last) = lens.last_mut() {
        *last = last.saturating_mul(MXFP4_BLOCK);
    }
    let mut block = vec![1; lens.len()];
    block.splice(lens.len() - 1.., [MXFP4_BLOCK]);
    Ok((Shape::new(lens)?, block))
}

/// Returns the one extent of a tensor that is stored whole and in order, without a region; `None` if it has no elements.
fn stored(placed: &PlacedTensor) -> Result<(Option<Extent>, Encoding)> {
    let PlacedTensor { tensor, placement } = placed;
    match placement.whole_extent(tensor) {
        Some(extent) => Ok((extent.cloned(), placement.encoding.clone())),
        None => {
            Err(Error::unsupported("a tensor that is not stored whole and in order cannot be dequantized")
                .tensor(&tensor.name)
                .help(STORE_WHOLE))
        }
    }
}

/// Returns what a target loses that is dequantized from these tensors.
pub(super) fn losses(target: &Target, sources: &[&Tensor]) -> Vec<Loss> {
    let (Join::Dequantized(how), [elements, scales]) = (&target.recipe.join, sources) else {
        return Vec::new();
    };
    let dtype = how.dtype;
    let detail = match how.format {
        ScaledFormat::Mxfp4 => format!("stored as MXFP4 with scales, and now as {dtype}"),
        ScaledFormat::Scaled => {
            format!("stored as {} with scales, and now as {dtype}", elements.dtype)
        }
    };
    let mut losses = vec![Loss::new(LossKind::Dequantized, &target.name, detail)];
    // A power of two times a small float needs no more digits.
    let is_power = how.format == ScaledFormat::Mxfp4 || scales.dtype == DType::F8E8m0;
    if dtype != DType::F32 && !(is_power && dtype == DType::Bf16) {
        let detail = format!("the products of elements and scales are rounded to {dtype}");
        losses.push(Loss::new(LossKind::Narrowed, &target.name, detail));
    }
    losses
}
