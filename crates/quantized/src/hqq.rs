//! HQQ: integers of 1 to 8 bits, packed in runs of rows, with a scale and a zero point of floats for each group.

use crate::numbers::{Blocks, FLOATS, Weight, numbers, packed};
use crate::parts::{Part, Parts};
use ckpt_api::{Along, DType, FieldOrder, Operation, PackedIntegers, Result, Shape};
use ckpt_engine::formats::Group;

/// The weight of a module; `None` if the tensors are none of HQQ.
///
/// # Errors
/// [`ckpt_api::Kind::Corrupt`] for parts that are missing or do not fit each other.
pub(crate) fn weight(stem: &str, parts: &Parts<'_>) -> Result<Option<Group>> {
    let weights = parts.need(stem, ".W_q", ".scale")?;
    let (scales, zeros) = (parts.need(stem, ".scale", ".W_q")?, parts.need(stem, ".zero", ".W_q")?);
    let (lens, bits) = (parts.need(stem, ".shape", ".W_q")?, parts.need(stem, ".nbits", ".W_q")?);
    let axis = parts.need(stem, ".axis", ".W_q")?;
    let number = |part: &Part<'_>, known: &dyn Fn(i64) -> bool, expected: &str| -> Result<i64> {
        match parts.integers(part)?[..] {
            [number] if known(number) => Ok(number),
            ref other => Err(part.wrong(
                "a quantized weight states a number that is not known",
                format!("{other:?}"),
                expected.into(),
            )),
        }
    };
    let width = number(&bits, &|bits| matches!(bits, 1 | 2 | 3 | 4 | 8), "1, 2, 3, 4 or 8")?;
    let along = number(&axis, &|axis| matches!(axis, 0 | 1), "0 or 1")?;
    let lens_found = parts.integers(&lens)?;
    let shape = lens_found.iter().map(|len| u64::try_from(*len).ok()).collect::<Option<Vec<u64>>>();
    let shape = shape
        .ok_or_else(|| lens.wrong("a shape is negative", format!("{lens_found:?}"), "lengths".into()))?;
    let shape = Shape::new(shape)?;
    scales.is_of(&FLOATS)?;
    zeros.is_of(&[scales.dtype()])?;
    zeros.has_shape(scales.shape(), "a zero point for each scale")?;
    let count = scales.shape().elements().max(1);
    // The elements are a matrix whose rows, or columns, are groups.
    let other = shape.elements() / count;
    let (rows, columns) = if along == 1 { (count, other) } else { (other, count) };
    let bits_of_field = u32::try_from(width).unwrap_or(8);
    weights.is_of(&[if width == 3 { DType::I32 } else { DType::U8 }])?;
    let matrix = Shape::new([rows, columns])?;
    let block = if along == 1 { [1, columns.max(1)] } else { [rows.max(1), 1] };
    let blocks = Blocks::new(&matrix, block);
    let integers = PackedIntegers::new(bits_of_field, [rows, columns], Along::Column, FieldOrder::Runs);
    let subtract = Operation::SubtractBlocks(blocks.of(&zeros, numbers(&zeros)));
    let multiply = Operation::MultiplyBlocks(blocks.of(&scales, numbers(&scales)));
    let dtype = scales.dtype();
    let round = Operation::Round(dtype);
    let rounded = vec![subtract.clone(), round.clone(), multiply.clone(), round];
    let computed = packed(&weights, integers).with_operations(vec![subtract, multiply]);
    let mut weight =
        Weight::new(format!("{stem}.weight"), shape, computed, format!("hqq int{width} g{other}"));
    weight.rounded = (dtype != DType::F32).then_some((dtype, rounded));
    let others = [
        ".nbits",
        ".axis",
        ".group_size",
        ".shape",
        ".packing",
        ".view_as_float",
        ".channel_wise",
        ".optimize",
        ".round_zero",
    ];
    let more = others.iter().map(|ending| parts.find(stem, ending)).collect::<Result<Vec<_>>>()?;
    weight.of([&weights, &scales, &zeros].into_iter().chain(more.iter().flatten())).map(Some)
}
