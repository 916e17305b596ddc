//! Floats of 8 bits with scales that multiply them: for the whole tensor, for rows, or for blocks; and NVFP4 of ModelOpt.

use crate::numbers::{Blocks, Weight, numbers, numbers_as};
use crate::parts::{Part, Parts};
use ckpt_api::{DType, Encoding, Operation, Packing, Result, Shape};
use ckpt_engine::formats::Group;

/// The block of scales if none is stated.
pub(crate) const BLOCK: [u64; 2] = [128, 128];
/// Elements of a block of NVFP4.
pub(crate) const NVFP4_BLOCK: u64 = 16;
const FLOATS_OF_8_BITS: [DType; 2] = [DType::F8E4m3, DType::F8E5m2];
/// Endings of the tensors of scales behind the weight's name; both multiply.
const SCALES: [&str; 2] = ["_scale_inv", "_scale"];
/// The ending of ComfyUI's, behind the module's name.
pub(crate) const OF_MODULE: &str = ".scale_weight";

/// A weight of 8-bit floats; `None` if the tensors are none.
///
/// # Errors
/// [`ckpt_api::Kind::Corrupt`] for scales that do not fit the weight.
pub(crate) fn weight(stem: &str, parts: &Parts<'_>, block: Option<[u64; 2]>) -> Result<Option<Group>> {
    // Experts that are one tensor have no `.weight`.
    let own = if parts.has(stem, ".weight") { format!("{stem}.weight") } else { stem.to_owned() };
    let Some(weights) = parts.find(&own, "")? else { return Ok(None) };
    if !FLOATS_OF_8_BITS.contains(&weights.dtype()) {
        return Ok(None);
    }
    let scales = match SCALES.into_iter().find(|ending| parts.has(&own, ending)) {
        Some(ending) => parts.need(&own, ending, "")?,
        None if parts.has(stem, OF_MODULE) => parts.need(stem, OF_MODULE, ".weight")?,
        None => return Ok(None),
    };
    scales.is_of(&[DType::F32, DType::Bf16, DType::F16, DType::F8E8m0])?;
    let (block, title) = block_of(&weights, &scales, block.unwrap_or(BLOCK))?;
    let shape = weights.shape().clone();
    let of_scales = Operation::MultiplyBlocks(Blocks::new(&shape, block).of(&scales, numbers(&scales)));
    let computed = numbers(&weights).with_operations(vec![of_scales]);
    let title = format!("fp8 {}{title}", weights.dtype().name().trim_start_matches("f8_"));
    Weight::new(own, shape.clone(), computed, title).of([&weights, &scales]).map(Some)
}

/// The lengths of the blocks that have a scale each, and what people call them.
pub(crate) fn block_of(
    weights: &Part<'_>,
    scales: &Part<'_>,
    [rows, columns]: [u64; 2],
) -> Result<(Vec<u64>, String)> {
    let (lens, of_scales) = (weights.shape(), scales.shape());
    let whole = || lens.iter().map(|len| (*len).max(1)).collect();
    if of_scales.elements() == 1 {
        return Ok((whole(), String::new()));
    }
    let rank = lens.rank();
    // A scale for each row may be a vector.
    if rank == 2 && of_scales[..] == lens[..1] {
        return Ok((vec![1, lens[1].max(1)], " rows".to_owned()));
    }
    let fits = |block: &[u64]| {
        block.len() == of_scales.rank()
            && lens.iter().zip(block).map(|(len, block)| len.div_ceil(*block)).eq(of_scales.iter().copied())
    };
    let mut block = vec![1; rank];
    if let [.., second, last] = &mut block[..] {
        (*second, *last) = (rows, columns);
    }
    if rank >= 2 && fits(&block) {
        return Ok((block, format!(" {rows}x{columns}")));
    }
    let each: Option<Vec<u64>> = (of_scales.rank() == rank)
        .then(|| {
            let pairs = lens.iter().zip(of_scales.iter());
            pairs
                .map(
                    |(len, scales)| {
                        if *scales == 1 { Some((*len).max(1)) } else { (scales == len).then_some(1) }
                    },
                )
                .collect()
        })
        .flatten();
    each.map(|block| (block, " rows".to_owned())).ok_or_else(|| {
        scales.wrong(
            "the scales do not fit the weight",
            format!("scales of shape {of_scales} for {lens}"),
            format!("one, one for each row, or one for each block of {rows} × {columns}"),
        )
    })
}

/// A weight of ModelOpt: 8-bit floats, or NVFP4 with a second scale; `None` if the tensors are none.
///
/// # Errors
/// As [`weight`].
pub(crate) fn modelopt(stem: &str, parts: &Parts<'_>) -> Result<Option<Group>> {
    let own = format!("{stem}.weight");
    if !parts.has(&own, "_scale_2") {
        let is_packed = parts.find(&own, "")?.is_some_and(|weights| weights.dtype() == DType::U8);
        return match is_packed {
            true => parts.need(&own, "_scale_2", "_scale").map(|_| None),
            false => weight(stem, parts, None),
        };
    }
    let (weights, scales) = (parts.need(&own, "", "_scale_2")?, parts.need(&own, "_scale", "_scale_2")?);
    let second = parts.need(&own, "_scale_2", "_scale")?;
    second.is_of(&[DType::F32])?;
    let computed = nvfp4(&weights, &scales)?;
    let (shape, of_scales) = computed;
    let one = Blocks::new(scales.shape(), whole(scales.shape()));
    if second.shape().elements() != 1 {
        second.has_shape(&[1], "one scale for the whole weight")?;
    }
    let of_scales =
        of_scales.with_operations(vec![Operation::MultiplyBlocks(one.of(&second, numbers(&second)))]);
    nvfp4_weight(own, (&weights, &scales), &shape, of_scales, "modelopt nvfp4")
        .of([&weights, &scales, &second])
        .map(Some)
}

/// A block that is all of a tensor.
pub(crate) fn whole(shape: &Shape) -> Vec<u64> {
    shape.iter().map(|len| (*len).max(1)).collect()
}

/// The shape of NVFP4 elements, two in a byte, and their scales as numbers.
pub(crate) fn nvfp4(weights: &Part<'_>, scales: &Part<'_>) -> Result<(Shape, ckpt_api::Computed)> {
    weights.is_of(&[DType::U8])?;
    scales.is_of(&[DType::F8E4m3, DType::U8])?;
    let mut lens = weights.shape().to_vec();
    let Some(last) = lens.last_mut() else {
        return Err(weights.wrong("packed elements have no axis", "a scalar".into(), "a matrix".into()));
    };
    *last = last.saturating_mul(2);
    let mut blocks = lens.clone();
    if let Some(last) = blocks.last_mut() {
        *last = last.div_ceil(NVFP4_BLOCK);
    }
    scales.has_shape(&blocks, "a scale for each 16 elements of a row")?;
    Ok((Shape::new(lens)?, numbers_as(scales, Encoding::new(DType::F8E4m3, vec![0]))))
}

/// The weight of NVFP4 elements and their scales.
pub(crate) fn nvfp4_weight(
    name: String,
    (weights, scales): (&Part<'_>, &Part<'_>),
    shape: &Shape,
    of_scales: ckpt_api::Computed,
    title: &str,
) -> Weight {
    let mut block = vec![1; shape.rank()];
    if let Some(last) = block.last_mut() {
        *last = NVFP4_BLOCK;
    }
    let elements = Encoding::new(DType::F4E2m1, vec![0]).with_packing(Packing::Bits);
    let computed = numbers_as(weights, elements)
        .with_operations(vec![Operation::MultiplyBlocks(Blocks::new(shape, block).of(scales, of_scales))]);
    Weight::new(name, shape.clone(), computed, title)
}
