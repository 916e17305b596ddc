//! bitsandbytes: 4 bits that choose from a table, times the largest value of their block; and 8 bits with a scale for each row.

use crate::numbers::{Blocks, Weight, numbers, numbers_as};
use crate::parts::{Part, Parts};
use ckpt_api::{
    Along, Computed, DType, Encoding, Error, FieldOrder, Limit, Operation, PackedIntegers, Result, Scalar,
    Shape,
};
use ckpt_engine::formats::Group;
use serde::Deserialize;

/// The text that states how a weight is stored.
#[derive(Deserialize)]
struct State {
    quant_type: String,
    blocksize: u64,
    shape: Vec<u64>,
    #[serde(default)]
    nested_blocksize: Option<u64>,
    #[serde(default)]
    nested_offset: Option<f32>,
}

/// A weight of bitsandbytes; `None` if the tensors are none of it.
///
/// # Errors
/// [`ckpt_api::Kind::Corrupt`] for parts that are missing or do not fit each other; [`ckpt_api::Kind::Unsupported`] for a layout
/// that is not known.
pub(crate) fn weight(stem: &str, parts: &Parts<'_>) -> Result<Option<Group>> {
    if parts.has(stem, ".SCB") {
        return of_rows(stem, parts).map(Some);
    }
    let endings = [".weight.quant_state.bitsandbytes__nf4", ".weight.quant_state.bitsandbytes__fp4"];
    match endings.into_iter().find(|ending| parts.has(stem, ending)) {
        Some(ending) => of_table(stem, ending, parts).map(Some),
        None if parts.has(stem, ".weight.absmax") => {
            parts.need(stem, endings[0], ".weight.absmax").map(|_| None)
        }
        None => Ok(None),
    }
}

/// A weight of 4 bits.
fn of_table(stem: &str, ending: &str, parts: &Parts<'_>) -> Result<Group> {
    let text = parts.need(stem, ending, ".weight")?;
    let weights = parts.need(stem, ".weight", ending)?;
    let largest = parts.need(stem, ".weight.absmax", ".weight")?;
    let table = parts.need(stem, ".weight.quant_map", ".weight")?;
    text.is_of(&[DType::U8])?;
    let state: State = serde_json::from_slice(&parts.bytes(&text)?).map_err(|error| {
        text.wrong(
            "the state of a quantized weight is not valid",
            error.to_string(),
            "JSON with quant_type, blocksize and shape".to_owned(),
        )
    })?;
    let State { quant_type, blocksize, shape, nested_blocksize, nested_offset } = state;
    if blocksize == 0 {
        return Err(text.wrong("a block has no elements", "a blocksize of 0".into(), "at least 1".into()));
    }
    parts.limits().check(Limit::Rank, shape.len() as u64).map_err(|error| error.tensor(&text.tensor.name))?;
    let shape = Shape::new(shape).map_err(|error| error.tensor(&text.tensor.name))?;
    let elements = shape.elements();
    // The bytes may be stored as elements of a larger dtype.
    let stored = weights.extent.as_ref().map_or(0, |extent| extent.len);
    if stored != elements.div_ceil(2) {
        return Err(weights.wrong(
            "the packed elements are not those of the shape that is stated for them",
            format!("{stored} bytes for {shape}"),
            format!("{} bytes, with two elements in each", elements.div_ceil(2)),
        ));
    }
    table.is_of(&[DType::F32])?;
    table.has_shape(&[16], "a number for each of the 16 values of 4 bits")?;
    let flat = Shape::new([elements])?;
    let counted =
        |part: &Part<'_>, of: u64, block: u64, why: &str| part.has_shape(&[of.div_ceil(block)], why);
    counted(&largest, elements, blocksize, &format!("a number for each block of {blocksize}"))?;
    let blocks = Shape::new([elements.div_ceil(blocksize)])?;
    let mut members = vec![weights.clone(), largest.clone(), table.clone(), text];
    let maxima = match largest.dtype() {
        DType::U8 => {
            let nested = parts.need(stem, ".weight.nested_absmax", ".weight.absmax")?;
            let nested_table = parts.need(stem, ".weight.nested_quant_map", ".weight.absmax")?;
            let nested_block = nested_blocksize.filter(|block| *block > 0);
            let nested_block = nested_block.ok_or_else(|| {
                largest.wrong("nested scales lack their block", "none".into(), "nested_blocksize".into())
            })?;
            nested.is_of(&[DType::F32])?;
            nested_table.is_of(&[DType::F32])?;
            nested_table.has_shape(&[256], "a number for each byte")?;
            let count = blocks.elements();
            counted(&nested, count, nested_block, &format!("a number for each {nested_block} scales"))?;
            let offset = Scalar::new(nested_offset.unwrap_or(0.0)).ok_or_else(|| {
                largest.wrong("an offset is not finite", "nested_offset".into(), "a number".into())
            })?;
            let operations = vec![
                Operation::LookUp(Box::new(numbers(&nested_table))),
                Operation::MultiplyBlocks(Blocks::new(&blocks, [nested_block]).of(&nested, numbers(&nested))),
                Operation::Add(offset),
            ];
            members.extend([nested, nested_table]);
            numbers(&largest).with_operations(operations)
        }
        _ => {
            largest.is_of(&[DType::F32])?;
            numbers(&largest)
        }
    };
    let own = PackedIntegers::new(4, [1, elements], Along::Row, FieldOrder::HighestFirst);
    let computed =
        numbers_as(&weights, Encoding::new(DType::U8, vec![0])).with_packed(own).with_operations(vec![
            Operation::LookUp(Box::new(numbers(&table))),
            Operation::MultiplyBlocks(Blocks::new(&flat, [blocksize]).of(&largest, maxima)),
        ]);
    let nested = if nested_blocksize.is_some() { " nested" } else { "" };
    let title = format!("bitsandbytes {quant_type} g{blocksize}{nested}");
    Weight::new(format!("{stem}.weight"), shape, computed, title).of(&members)
}

/// A weight of 8 bits.
fn of_rows(stem: &str, parts: &Parts<'_>) -> Result<Group> {
    let (weights, scales) = (parts.need(stem, ".weight", ".SCB")?, parts.need(stem, ".SCB", ".weight")?);
    weights.is_of(&[DType::I8])?;
    scales.is_of(&[DType::F32])?;
    let [rows, columns] = weights.matrix()?;
    scales.has_shape(&[rows], "a scale for each row")?;
    let layout = parts.find(stem, ".weight_format")?;
    if let Some(layout) = &layout {
        let found = parts.integers(layout)?;
        if found != [0] {
            return Err(Error::unsupported("8-bit weights are stored in a layout that is not known")
                .tensor(&layout.tensor.name)
                .found(format!("{found:?}"))
                .expected("0: rows"));
        }
    }
    let shape = Shape::new([rows, columns])?;
    let blocks = Blocks::new(&shape, [1, columns.max(1)]);
    let by_127 = Scalar::new(1.0 / 127.0).ok_or_else(|| Error::defect("1/127 is not finite"))?;
    let computed: Computed = numbers(&weights).with_operations(vec![
        Operation::MultiplyBlocks(blocks.of(&scales, numbers(&scales))),
        Operation::Multiply(by_127),
    ]);
    let members = [&weights, &scales].into_iter().chain(&layout);
    Weight::new(format!("{stem}.weight"), shape.clone(), computed, "bitsandbytes int8").of(members)
}
