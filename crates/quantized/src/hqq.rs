//! HQQ: integers of 1 to 8 bits, packed in runs of rows, with a scale and a zero point of floats for each group.

use crate::numbers::{Blocks, FLOATS, Weight, numbers, numbers_as};
use crate::parts::{Part, Parts};
use ckpt_api::{Along, DType, Encoding, Error, FieldOrder, Operation, PackedIntegers, Result, Shape};
use ckpt_engine::formats::Group;

/// Names of the packings, with the bits of a field and the words that have the fields.
const PACKINGS: [(&str, u32, DType); 5] = [
    ("8bit_u8", 8, DType::U8),
    ("4bit_u8", 4, DType::U8),
    ("3bit_32", 3, DType::I32),
    ("2bit_u8", 2, DType::U8),
    ("1bit_u8", 1, DType::U8),
];
/// What else the library stores of a module.
const SETTINGS: [&str; 16] = [
    ".nbits",
    ".axis",
    ".group_size",
    ".shape",
    ".packing",
    ".unpack_view_dtype",
    ".view_as_float",
    ".quant_scale",
    ".quant_zero",
    ".compute_dtype",
    ".offload_meta",
    ".encoded_state_dict",
    ".stores_quant_config",
    ".channel_wise",
    ".optimize",
    ".round_zero",
];

/// The weight of a module; `None` if the tensors are none of HQQ.
///
/// # Errors
/// [`ckpt_api::Kind::Corrupt`] for parts that are missing or do not fit each other; [`ckpt_api::Kind::Unsupported`] for a packing
/// that is not known.
pub(crate) fn weight(stem: &str, parts: &Parts<'_>) -> Result<Option<Group>> {
    let weights = parts.need(stem, ".W_q", ".scale")?;
    let (scales, zeros) = (parts.need(stem, ".scale", ".W_q")?, parts.need(stem, ".zero", ".W_q")?);
    scales.is_of(&FLOATS)?;
    zeros.is_of(&[scales.dtype()])?;
    zeros.has_shape(scales.shape(), "a zero point for each scale")?;
    let shape = parts.shape(&parts.need(stem, ".shape", ".W_q")?)?;
    let (bits, word) = packing(stem, parts)?;
    let (matrix, block, group) = matrix(stem, parts, &weights, (&shape, &scales), word)?;
    let [rows, columns] = matrix[..] else { return Err(Error::defect("a matrix has no rows and columns")) };
    let integers = PackedIntegers::new(bits, [rows, columns], Along::Column, FieldOrder::Runs);
    let blocks = Blocks::new(&matrix, block);
    let subtract = Operation::SubtractBlocks(blocks.of(&zeros, numbers(&zeros)));
    let multiply = Operation::MultiplyBlocks(blocks.of(&scales, numbers(&scales)));
    // The library computes in the dtype of the scales.
    let dtype = scales.dtype();
    let round = Operation::Round(dtype);
    let rounded = vec![subtract.clone(), round.clone(), multiply.clone(), round];
    let words = numbers_as(&weights, Encoding::new(word, vec![0])).with_packed(integers);
    let computed = words.with_operations(vec![subtract, multiply]);
    let title = format!("hqq int{bits} g{group}");
    let mut weight = Weight::new(format!("{stem}.weight"), shape, computed, title);
    weight.rounded = (dtype != DType::F32).then_some((dtype, rounded));
    let settings = SETTINGS.iter().map(|ending| parts.find(stem, ending)).collect::<Result<Vec<_>>>()?;
    weight.of([&weights, &scales, &zeros].into_iter().chain(settings.iter().flatten())).map(Some)
}

/// The bits of a field, and the words that have the fields. Widths without a packing of their own are stored in that of the
/// next larger one.
fn packing(stem: &str, parts: &Parts<'_>) -> Result<(u32, DType)> {
    let part = parts.need(stem, ".packing", ".W_q")?;
    part.is_of(&[DType::U8])?;
    let found = parts.bytes(&part)?;
    let known = PACKINGS.iter().find(|(name, ..)| name.as_bytes() == found.as_slice());
    known.map(|(_, bits, word)| (*bits, *word)).ok_or_else(|| {
        let known: Vec<&str> = PACKINGS.iter().map(|(name, ..)| *name).collect();
        Error::unsupported("the integers of a quantized weight are packed in a way that is not known")
            .tensor(&part.tensor.name)
            .found(format!("'{}'", String::from_utf8_lossy(&found).escape_debug()))
            .expected(known.join(", "))
    })
}

/// The matrix whose rows are packed, the block that has a scale, and the elements of a group.
fn matrix(
    stem: &str,
    parts: &Parts<'_>,
    weights: &Part<'_>,
    (shape, scales): (&Shape, &Part<'_>),
    word: DType,
) -> Result<(Shape, [u64; 2], u64)> {
    let [_, stored] = weights.matrix()?;
    // The words may be stored as floats of the same bytes.
    let bytes = weights.dtype().bytes().unwrap_or(1).saturating_mul(stored);
    let columns = bytes / word.bytes().unwrap_or(1);
    let elements = shape.elements();
    let rows = elements.checked_div(columns).unwrap_or(0);
    let matrix = Shape::new([rows, columns])?;
    if matrix.elements() != elements {
        return Err(weights.wrong(
            "the tensors of a quantized weight do not fit each other",
            format!("rows of {columns} elements"),
            format!("rows that make up {shape}"),
        ));
    }
    let axis = parts.need(stem, ".axis", ".W_q")?;
    let found = parts.integers(&axis)?;
    let (block, expected) = match found[..] {
        _ if scales.shape().elements() == 1 => ([rows.max(1), columns.max(1)], scales.shape().to_vec()),
        [0] => ([rows.max(1), 1], vec![1, columns]),
        [1] => ([1, columns.max(1)], vec![rows, 1]),
        _ => {
            return Err(axis.wrong(
                "a quantized weight states a number that is not known",
                format!("{found:?}"),
                "0 or 1".to_owned(),
            ));
        }
    };
    scales.has_shape(&expected, &format!("a scale for each group along axis {found:?}"))?;
    let group = block[0].saturating_mul(block[1]);
    Ok((matrix, block, group))
}
