//! Where the weights of layers are.

use super::layers::{self, shape};
use super::{Layer, Quantization, Weights};
use crate::decode::{Grid, Numbers, Recipe};
use crate::read::files::Files;
use crate::read::values::Located;
use ckpt_api::{DType, Encoding, Error, Extent, FileId, Result, Shape, Tensor};
use ckpt_containers::decoders::ProtobufNumbers;
use std::num::NonZeroU8;
use std::ops::Range;

const FLOAT: NonZeroU8 = NonZeroU8::new(4).expect("it is not 0");

/// The tensor of this name; `None` for weights that the layer does not have.
///
/// # Errors
/// [`ckpt_api::Kind::Corrupt`] for weights that do not fit the layer.
pub(in crate::read) fn locate(
    layer: &Layer,
    weights: &Weights,
    name: &str,
    files: &Files<'_>,
) -> Result<Option<Located>> {
    located(layer, weights, name, files).map_err(|error| match error.context().offset {
        Some(_) => error,
        None => error.offset(weights.at),
    })
}

fn located(layer: &Layer, weights: &Weights, name: &str, files: &Files<'_>) -> Result<Option<Located>> {
    let len = |range: &Range<u64>| range.end.saturating_sub(range.start);
    let is_quantized = weights.quantization.is_some();
    if let Some((tag, range)) = weights.floats.as_ref().filter(|(_, range)| !range.is_empty()) {
        let each = 4u64.saturating_add(u64::from(*tag));
        let shape = fitting(layer, weights, len(range) / each, len(range).is_multiple_of(each))?;
        let bytes = shape.elements().saturating_mul(4);
        let extent = Extent::new(FileId(0), range.start, bytes);
        let numbers = ProtobufNumbers { tag_bytes: *tag, element_bytes: FLOAT, is_varint: false };
        let extent = match tag {
            0 => extent,
            _ => extent.with_compression(numbers.compression(len(range))),
        };
        return Ok(Some(tensor(layer, weights, name, DType::F32, shape, vec![extent])));
    }
    if let Some(range) = weights.halves.as_ref().filter(|range| !range.is_empty()) {
        let shape = fitting(layer, weights, len(range) / 2, len(range).is_multiple_of(2))?;
        let extent = Extent::new(FileId(0), range.start, len(range));
        return Ok(Some(tensor(layer, weights, name, DType::F16, shape, vec![extent])));
    }
    let raw = weights.raw.as_ref().filter(|range| !range.is_empty());
    let signed = weights.signed.as_ref().filter(|range| !range.is_empty());
    match (raw, signed, &weights.quantization) {
        (None, None, _) => Ok(None),
        (Some(range), None, Some(own)) | (None, Some(range), Some(own)) => {
            let (shape, recipe) = quantized(layer, weights, range, own, signed.is_some())?;
            let extents = recipe.extents(FileId(0), range.start, |len| files.check(len))?;
            Ok(Some(tensor(layer, weights, name, DType::F32, shape, extents)))
        }
        _ => Err(wrong(layer, weights, "quantized weights have no scale, or are stored twice")
            .found(if is_quantized { "weights twice" } else { "no quantization" })
            .expected("integers and what they stand for")),
    }
}

/// The shape of weights that are so many.
fn fitting(layer: &Layer, weights: &Weights, count: u64, is_whole: bool) -> Result<Shape> {
    let shape = match shape(layer, weights) {
        Some(lens) => Shape::new(lens)?,
        None => Shape::new([count])?,
    };
    match is_whole && shape.elements() == count {
        true => Ok(shape),
        false => Err(misfit(layer, weights, count, &shape)),
    }
}

fn misfit(layer: &Layer, weights: &Weights, count: u64, shape: &Shape) -> Error {
    wrong(layer, weights, "a layer does not have as many weights as it states")
        .found(ckpt_api::count(count, "number"))
        .expected(format!("{} for {shape}", shape.elements()))
}

fn wrong(layer: &Layer, weights: &Weights, what: &str) -> Error {
    let field = format!("{} of layer '{}'", weights.name, layer.name.escape_debug());
    Error::corrupt(what.to_owned()).field(field)
}

fn tensor(
    layer: &Layer,
    weights: &Weights,
    name: &str,
    dtype: DType,
    shape: Shape,
    extents: Vec<Extent>,
) -> Located {
    let tensor = Tensor::new(name, dtype, shape);
    let encoding = Encoding::row_major(&tensor);
    // The one matrix that is stored by columns.
    let by_columns = layer.kind == layers::kind::BATCHED_MATMUL && weights.name == "weights";
    let encoding = if by_columns { encoding.column_major() } else { encoding };
    Located { tensor, extents, encoding }
}

/// The shape of integers that stand for numbers, and these.
fn quantized(
    layer: &Layer,
    weights: &Weights,
    range: &Range<u64>,
    own: &Quantization,
    is_signed: bool,
) -> Result<(Shape, Recipe)> {
    let stored = range.end.saturating_sub(range.start);
    let bits = u32::try_from(own.bits).ok().filter(|bits| (1..=8).contains(bits));
    let bits = bits.filter(|bits| !is_signed || *bits == 8).ok_or_else(|| {
        wrong(layer, weights, "weights are quantized to a number of bits that is none")
            .found(own.bits.to_string())
            .expected(if is_signed { "8" } else { "1 to 8" })
    })?;
    let shape = match shape(layer, weights) {
        Some(lens) => Shape::new(lens)?,
        // The last byte may have bits that are no number: the most that fit are taken.
        None => Shape::new([stored.saturating_mul(8) / u64::from(bits)])?,
    };
    let needed = shape.elements().checked_mul(bits.into()).map(|bits| bits.div_ceil(8));
    if needed != Some(stored) {
        return Err(wrong(layer, weights, "a layer does not have as many weights as it states")
            .found(ckpt_api::count(stored, "byte"))
            .expected(format!("{} for {shape} of {bits} bits", needed.unwrap_or(u64::MAX))));
    }
    let numbers = match &own.table {
        Some(table) => table_of(table, bits, &shape).ok_or_else(|| {
            counts(layer, weights, table.len()).expected(format!("{} entries", 1u64 << bits))
        })?,
        None => linear(layer, weights, own, &shape)?,
    };
    let recipe = Recipe {
        bits,
        is_signed,
        is_high_first: true,
        width: 4,
        elements: shape.elements(),
        numbers,
        mask: None,
    };
    Ok((shape, recipe))
}

fn counts(layer: &Layer, weights: &Weights, found: usize) -> Error {
    wrong(layer, weights, "what quantized weights stand for does not fit them").found(found.to_string())
}

/// One table for all weights; `None` for another number of entries.
fn table_of(table: &[f32], bits: u32, shape: &Shape) -> Option<Numbers> {
    (table.len() as u64 == 1 << bits).then_some(())?;
    let grid = Grid::new(shape.to_vec(), vec![1; shape.rank()])?;
    let entries = table.iter().flat_map(|number| number.to_le_bytes()).collect();
    Some(Numbers::Table { grid, entries, vector: 1, axis_len: 1, stride: 1 })
}

/// One scale and bias for all weights, or for each output.
fn linear(layer: &Layer, weights: &Weights, own: &Quantization, shape: &Shape) -> Result<Numbers> {
    let (is_deconvolution, rest) = match layer.kind {
        layers::kind::CONVOLUTION if layer.is_set(60) && weights.name == "weights" => (true, shape.get(2..)),
        _ => (false, shape.get(1..)),
    };
    let run: u64 = rest.unwrap_or_default().iter().product();
    let outputs = shape.get(usize::from(is_deconvolution)).copied().unwrap_or(1);
    let fits = |count: usize| count == 1 || count as u64 == outputs;
    if !fits(own.scales.len()) {
        return Err(counts(layer, weights, own.scales.len()).expected(format!("1 or {outputs} scales")));
    }
    if !own.biases.is_empty() && !fits(own.biases.len()) {
        return Err(counts(layer, weights, own.biases.len()).expected(format!("1 or {outputs} biases")));
    }
    let wide = |numbers: &[f32]| numbers.iter().map(|number| f64::from(*number)).collect();
    Ok(Numbers::Linear { scales: wide(&own.scales), biases: wide(&own.biases), run: run.max(1) })
}
