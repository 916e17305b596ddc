//! Weights that a program computes of smaller ones when it is loaded: operations whose names begin with `constexpr_`.

use super::files::{Files, Run};
use super::program::{Argument, Data, Operation, Value};
use super::values::{Located, Stored, stored};
use crate::decode::{Grid, Numbers, Recipe, decoded};
use ckpt_api::{DType, Encoding, Error, Result, Shape, Tensor};
use half::f16;
use std::collections::HashMap;

/// What the names of these operations begin with.
pub(super) const PREFIX: &str = "constexpr_";
/// Operations that are operands of each other, in a row.
const MOST_LEVELS: usize = 4;

/// Operations of a function that have constants, by the names of their results, with the number of the result.
pub(super) type Definitions<'p> = HashMap<&'p str, (&'p Operation, usize)>;

/// Weights as the program stores them.
struct Weights {
    dtype: DType,
    shape: Shape,
    recipe: Recipe,
    /// The items.
    stored: Stored,
}

/// Numbers in memory.
struct Held {
    dtype: DType,
    shape: Shape,
    bytes: Vec<u8>,
}

/// The tensor that an operation computes; `None` for one that only another such operation can take.
///
/// # Errors
/// [`ckpt_api::Kind::Corrupt`] for operands that do not fit each other or the result; [`ckpt_api::Kind::Unsupported`] for an
/// operation that is not known.
pub(super) fn tensor(
    operation: &Operation,
    name: &str,
    definitions: &Definitions<'_>,
    files: &mut Files<'_>,
) -> Result<Option<Located>> {
    let placed = |error: Error| match error.context().offset {
        Some(_) => error,
        None => error.offset(operation.at),
    };
    let mut reader = Reader { definitions, files };
    match operation.op.as_str() {
        "constexpr_lut_to_sparse" | "constexpr_sparse_blockwise_shift_scale" => Ok(None),
        _ => {
            let weights = reader.weights(operation, MOST_LEVELS).map_err(placed)?;
            weights.located(name, reader.files).map(Some)
        }
    }
}

impl Weights {
    fn located(self, name: &str, files: &Files<'_>) -> Result<Located> {
        let tensor = Tensor::new(name, self.dtype, self.shape);
        let Run { file, offset, .. } = self.stored.run;
        let extents = self.recipe.extents(file, offset, |len| files.check(len))?;
        let encoding = Encoding::row_major(&tensor);
        Ok(Located { tensor, extents, encoding })
    }
}

struct Reader<'r, 'f, 'p> {
    definitions: &'r Definitions<'p>,
    files: &'r mut Files<'f>,
}

impl Reader<'_, '_, '_> {
    fn weights(&mut self, operation: &Operation, levels: usize) -> Result<Weights> {
        if levels == 0 {
            return Err(Error::unsupported(
                "operands of compressed weights are compressed at too many levels",
            )
            .field(operation.op.clone())
            .found(format!("more than {MOST_LEVELS} levels"))
            .expected(format!("at most {MOST_LEVELS}")));
        }
        let weights = match operation.op.as_str() {
            "constexpr_affine_dequantize" => self.affine(operation),
            "constexpr_blockwise_shift_scale" => self.blockwise(operation, levels),
            "constexpr_lut_to_dense" => self.palette(operation, levels),
            "constexpr_sparse_to_dense" => self.sparse(operation, levels),
            "constexpr_cast" => self.cast(operation),
            other => Err(Error::unsupported("weights are compressed in a way that is not supported")
                .field(operation.name().to_owned())
                .found(other.to_owned())
                .expected("affine_dequantize, blockwise_shift_scale, lut_to_dense, sparse_to_dense or cast")
                .help("decompress the model with coremltools.optimize.coreml.decompress_weights first")),
        }?;
        let stated = operation.outputs.first().map(|output| &output.ty);
        let is_same = stated.is_some_and(|ty| {
            ty.known().is_some_and(|lens| lens == weights.shape[..])
                && ty.element().is_some_and(|own| own.dtype == Some(weights.dtype))
        });
        match is_same {
            true => Ok(weights),
            false => {
                Err(Error::corrupt("compressed weights do not have the type that their operation states")
                    .field(operation.op.clone())
                    .found(format!("{} of {}", weights.dtype, weights.shape))
                    .expected("the type of the operation's result"))
            }
        }
    }

    /// `constexpr_affine_dequantize`: a scale and a zero point for all elements, or for each index of an axis.
    fn affine(&mut self, operation: &Operation) -> Result<Weights> {
        let data = self.items(operation, "quantized_data")?;
        let scales = self.held(operation, "scale", 1)?;
        let zero_points = self.held(operation, "zero_point", 1)?;
        let axis = self.axis(operation, "axis", data.shape.rank())?;
        let mut groups = vec![1; data.shape.rank()];
        let (count, zeros) = (scales.shape.elements(), zero_points.shape.elements());
        let many = count.max(zeros);
        if many != 1 {
            let len = axis.and_then(|axis| data.shape.get(axis).copied());
            if len != Some(many) || ![1, many].contains(&count) || ![1, many].contains(&zeros) {
                return Err(misfit("scale", &format!("{count} scales, {zeros} zero points"))
                    .expected(format!("one, or one for each index of an axis of {}", data.shape)));
            }
            if let Some(groups) = axis.and_then(|axis| groups.get_mut(axis)) {
                *groups = many;
            }
        }
        let filled = |held: &Held| -> Result<Vec<f32>> {
            let all = held.numbers()?;
            let len = usize::try_from(many).unwrap_or(0);
            Ok(all.iter().copied().cycle().take(len).collect())
        };
        let dtype = scales.float("scale")?;
        let (scales, offsets) = (filled(&scales)?, filled(&zero_points)?);
        let grid = grid(&data.shape, groups, "scale")?;
        let numbers = Numbers::Shifted { grid, scales, offsets };
        Ok(Weights::new(dtype, data.shape.clone(), numbers, data))
    }

    /// `constexpr_blockwise_shift_scale`: a scale and an offset for each block.
    fn blockwise(&mut self, operation: &Operation, levels: usize) -> Result<Weights> {
        let data = self.items(operation, "data")?;
        let (dtype, numbers) = self.shifts(operation, &data.shape, levels)?;
        Ok(Weights::new(dtype, data.shape.clone(), numbers, data))
    }

    /// The scales and offsets of the blocks of a shape.
    fn shifts(&mut self, operation: &Operation, shape: &Shape, levels: usize) -> Result<(DType, Numbers)> {
        let scales = self.held(operation, "scale", levels)?;
        let offsets = match has(operation, "offset") {
            true => Some(self.held(operation, "offset", levels)?),
            false => None,
        };
        let grid = grid(shape, scales.shape.to_vec(), "scale")?;
        if !grid.is_even() {
            return Err(misfit("scale", &scales.shape.to_string())
                .expected(format!("lengths that divide those of {shape}")));
        }
        if let Some(offsets) = offsets.as_ref().filter(|offsets| offsets.shape != scales.shape) {
            return Err(misfit("offset", &offsets.shape.to_string())
                .expected(format!("{}, as the scales have", scales.shape)));
        }
        let dtype = scales.float("scale")?;
        let offsets = offsets.map(|offsets| offsets.numbers()).transpose()?.unwrap_or_default();
        Ok((dtype, Numbers::Shifted { grid, scales: scales.numbers()?, offsets }))
    }

    /// `constexpr_lut_to_dense`: indices of a table.
    fn palette(&mut self, operation: &Operation, levels: usize) -> Result<Weights> {
        if has(operation, "shape") {
            return self.stream_of_indices(operation, levels);
        }
        let indices = self.items(operation, "indices")?;
        let (dtype, shape, numbers) = self.tables(operation, &indices.shape, indices.element.bits, levels)?;
        Ok(Weights::new(dtype, shape, numbers, indices))
    }

    /// The form of iOS 16: indices as a stream of bits, one table, and the shape.
    fn stream_of_indices(&mut self, operation: &Operation, levels: usize) -> Result<Weights> {
        let indices = self.items(operation, "indices")?;
        let table = self.held(operation, "lut", levels)?;
        let shape = self.stated_shape(operation)?;
        let entries = table.shape.elements();
        let bits = entries.checked_ilog2().filter(|bits| entries.is_power_of_two() && (1..=8).contains(bits));
        let bits = bits.ok_or_else(|| {
            misfit("lut", &format!("{entries} entries")).expected("2, 4, 8, 16, 32, 64, 128 or 256")
        })?;
        let expected = shape.elements().checked_mul(bits.into()).map(|bits| bits.div_ceil(8));
        if expected != Some(indices.run.len) || indices.element.bits != 8 {
            return Err(misfit("indices", &ckpt_api::count(indices.run.len, "byte")).expected(format!(
                "{} for {bits} bits for each element of {shape}",
                expected.unwrap_or(u64::MAX)
            )));
        }
        let grid = grid(&shape, vec![1; shape.rank()], "lut")?;
        let numbers = Numbers::Table { grid, entries: table.bytes, vector: 1, axis_len: 1, stride: 1 };
        let mut weights = Weights::new(table.dtype, shape, numbers, indices);
        (weights.recipe.bits, weights.recipe.is_signed) = (bits, false);
        Ok(weights)
    }

    /// The tables of groups of indices of this shape, and the shape of the elements.
    fn tables(
        &mut self,
        operation: &Operation,
        indices: &Shape,
        bits: u32,
        levels: usize,
    ) -> Result<(DType, Shape, Numbers)> {
        let table = self.held(operation, "lut", levels)?;
        let rank = indices.rank();
        let [groups @ .., entries, vector] = &table.shape[..] else {
            return Err(misfit("lut", &table.shape.to_string()).expected("at least two axes"));
        };
        if groups.len() != rank || bits > 8 || *entries != 1 << bits || *vector == 0 {
            return Err(misfit("lut", &table.shape.to_string()).expected(format!(
                "tables of 2^{bits} entries, for groups on {}",
                ckpt_api::count(rank, "axis")
            )));
        }
        let (mut lens, mut axis_len, mut stride) = (indices.to_vec(), 1, 1);
        if *vector > 1 {
            let axis = self.axis(operation, "vector_axis", rank)?;
            let place = axis.and_then(|axis| lens.get_mut(axis));
            let place = place.ok_or_else(|| {
                misfit("vector_axis", "nothing").expected("an axis along which entries have several elements")
            })?;
            *place = place.checked_mul(*vector).ok_or_else(|| misfit("lut", "too many elements"))?;
            axis_len = *place;
            stride = lens.iter().skip(axis.map_or(0, |axis| axis.saturating_add(1))).product();
        }
        let shape = Shape::new(lens)?;
        let grid = grid(&shape, groups.to_vec(), "lut")?;
        let numbers = Numbers::Table { grid, entries: table.bytes, vector: *vector, axis_len, stride };
        Ok((table.dtype, shape, numbers))
    }

    /// `constexpr_sparse_to_dense`: elements behind a mask, which may be compressed themselves.
    fn sparse(&mut self, operation: &Operation, levels: usize) -> Result<Weights> {
        if let Some(Argument::Name(name)) = operation.argument("nonzero_data")
            && let Some((inner, 1)) = self.definitions.get(name.as_str()).copied()
        {
            return self.packed_sparse(inner, levels);
        }
        let (shape, mask) = match has(operation, "shape") {
            true => {
                let mask = self.items(operation, "mask")?;
                (self.stated_shape(operation)?, mask)
            }
            false => {
                let mask = self.items(operation, "mask")?;
                (mask.shape.clone(), mask)
            }
        };
        let items = self.items(operation, "nonzero_data")?;
        let bits = self.mask(&mask, &shape, &items)?;
        let dtype = items.dtype();
        let mut weights = Weights::new(dtype, shape, Numbers::Plain, items);
        weights.recipe.mask = Some(bits);
        Ok(weights)
    }

    /// Elements behind a mask that have tables, or scales: `constexpr_lut_to_sparse`,
    /// `constexpr_sparse_blockwise_shift_scale`.
    fn packed_sparse(&mut self, operation: &Operation, levels: usize) -> Result<Weights> {
        let (mask, items) = match operation.op.as_str() {
            "constexpr_lut_to_sparse" => ("indices_mask", "indices_nonzero_data"),
            "constexpr_sparse_blockwise_shift_scale" => ("data_mask", "nonzero_data"),
            other => {
                return Err(Error::unsupported(
                    "sparse weights are compressed in a way that is not supported",
                )
                .field("nonzero_data")
                .found(other.to_owned())
                .expected("constexpr_lut_to_sparse or constexpr_sparse_blockwise_shift_scale"));
            }
        };
        let (mask, items) = (self.items(operation, mask)?, self.items(operation, items)?);
        let shape = mask.shape.clone();
        let bits = self.mask(&mask, &shape, &items)?;
        let (dtype, numbers) = match operation.op.as_str() {
            "constexpr_lut_to_sparse" => {
                let (dtype, _, numbers) = self.tables(operation, &shape, items.element.bits, levels)?;
                if matches!(numbers, Numbers::Table { vector: 2.., .. }) {
                    return Err(Error::unsupported("sparse weights have entries of several elements")
                        .field("lut")
                        .found("vectors")
                        .expected("entries of one element"));
                }
                (dtype, numbers)
            }
            _ => self.shifts(operation, &shape, levels)?,
        };
        let mut weights = Weights::new(dtype, shape, numbers, items);
        weights.recipe.mask = Some(bits);
        Ok(weights)
    }

    /// The bits of a mask, as many of which are set as there are items.
    fn mask(&mut self, mask: &Stored, shape: &Shape, items: &Stored) -> Result<Vec<u8>> {
        let expected = shape.elements().div_ceil(8);
        if mask.run.len != expected || !matches!(mask.element.name, "UINT1" | "UINT8") {
            return Err(misfit("mask", &ckpt_api::count(mask.run.len, "byte"))
                .expected(format!("a bit for each element of {shape}")));
        }
        let bits = self.files.bytes(mask.run)?;
        let unused = expected.saturating_mul(8).saturating_sub(shape.elements());
        let all: u64 = bits.iter().map(|byte| u64::from(byte.count_ones())).sum();
        let beyond = bits.last().map_or(0, |last| (u16::from(*last) << unused) >> 8);
        let set = all.saturating_sub(beyond.count_ones().into());
        match set == items.shape.elements() {
            true => Ok(bits),
            false => Err(misfit("nonzero_data", &ckpt_api::count(items.shape.elements(), "element"))
                .expected(format!("{set}, as many as the mask has"))),
        }
    }

    /// `constexpr_cast`: 16-bit floats as those of 32 bits.
    fn cast(&mut self, operation: &Operation) -> Result<Weights> {
        let source = self.items(operation, "source_val")?;
        let found = source.dtype();
        if found != DType::F16 {
            return Err(misfit("source_val", found.name()).expected("f16"));
        }
        Ok(Weights::new(DType::F32, source.shape.clone(), Numbers::Plain, source))
    }

    /// The items of an operand, which are in a file as they are.
    fn items(&mut self, operation: &Operation, name: &'static str) -> Result<Stored> {
        let value = self.value(operation, name).ok_or_else(|| missing(name))?;
        let found = stored(value, self.files).map_err(|error| error.field(name))?;
        found.filter(Stored::is_plain).ok_or_else(|| missing(name))
    }

    /// The value of an operand: its own, or that of a constant.
    fn value<'o>(&self, operation: &'o Operation, name: &str) -> Option<&'o Value>
    where
        Self: 'o,
    {
        if let Some(value) = operation.value(name) {
            return Some(value);
        }
        let Some(Argument::Name(own)) = operation.argument(name) else { return None };
        let (constant, _) = self.definitions.get(own.as_str()).copied()?;
        constant.value("val").filter(|_| constant.op == "const")
    }

    /// The numbers of an operand, in memory; it may be compressed itself.
    fn held(&mut self, operation: &Operation, name: &'static str, levels: usize) -> Result<Held> {
        if let Some(value) = self.value(operation, name) {
            let found = stored(value, self.files).map_err(|error| error.field(name))?;
            let found = found.ok_or_else(|| missing(name))?;
            let bytes = found.elements(self.files)?;
            return Ok(Held { dtype: found.dtype(), shape: found.shape, bytes });
        }
        let Some(Argument::Name(own)) = operation.argument(name) else { return Err(missing(name)) };
        let inner = self.definitions.get(own.as_str()).copied();
        let (inner, _) =
            inner.filter(|(inner, _)| inner.op.starts_with(PREFIX)).ok_or_else(|| missing(name))?;
        let Weights { dtype, shape, recipe, stored } = self.weights(inner, levels.saturating_sub(1))?;
        self.files.check(recipe.elements.saturating_mul(recipe.width))?;
        let bytes = decoded(&recipe, &self.files.bytes(stored.run)?)?;
        Ok(Held { dtype, shape, bytes })
    }

    /// An axis that an operand states; `None` if it does not.
    fn axis(&mut self, operation: &Operation, name: &'static str, rank: usize) -> Result<Option<usize>> {
        if !has(operation, name) {
            return Ok(None);
        }
        let held = self.held(operation, name, 1)?;
        let number = held.integers().first().copied();
        let len = i64::try_from(rank).unwrap_or(i64::MAX);
        let axis = number.map(|number| if number < 0 { number.saturating_add(len) } else { number });
        let axis = axis.and_then(|axis| usize::try_from(axis).ok()).filter(|axis| *axis < rank);
        match axis {
            None if rank > 0 => {
                let found = number.map_or("no number".to_owned(), |number| number.to_string());
                Err(misfit(name, &found).expected(format!("from {} to {}", -len, len.saturating_sub(1))))
            }
            axis => Ok(axis),
        }
    }

    /// The shape that an operand states.
    fn stated_shape(&mut self, operation: &Operation) -> Result<Shape> {
        let held = self.held(operation, "shape", 1)?;
        let lens = held.integers().into_iter().map(|len| u64::try_from(len).ok());
        let lens = lens.collect::<Option<Vec<u64>>>();
        Shape::new(lens.ok_or_else(|| misfit("shape", "a negative length").expected("lengths"))?)
    }
}

/// Whether an operation has an operand.
fn has(operation: &Operation, name: &str) -> bool {
    let is_stated = |value: &Value| value.data != Data::None;
    operation.value(name).map_or_else(|| operation.argument(name).is_some(), is_stated)
}

fn missing(name: &'static str) -> Error {
    Error::corrupt("an operand of compressed weights is not there, or is no constant")
        .field(name)
        .found("no numbers")
        .expected("the numbers of a constant")
}

fn misfit(name: &'static str, found: &str) -> Error {
    Error::corrupt("an operand of compressed weights does not fit the others")
        .field(name)
        .found(found.to_owned())
}

fn grid(shape: &Shape, groups: Vec<u64>, name: &'static str) -> Result<Grid> {
    let shown = format!("{groups:?}");
    Grid::new(shape.to_vec(), groups)
        .ok_or_else(|| misfit(name, &shown).expected(format!("at most one group for each index of {shape}")))
}

impl Weights {
    /// The weights of these items.
    fn new(dtype: DType, shape: Shape, numbers: Numbers, stored: Stored) -> Self {
        let recipe = Recipe {
            bits: stored.element.bits,
            is_signed: stored.element.is_signed(),
            is_high_first: false,
            width: dtype.bytes().unwrap_or(1),
            elements: shape.elements(),
            numbers,
            mask: None,
        };
        Weights { dtype, shape, recipe, stored }
    }
}

impl Held {
    /// The dtype, if it is one of floats that weights have.
    fn float(&self, name: &'static str) -> Result<DType> {
        match self.dtype {
            DType::F16 | DType::F32 => Ok(self.dtype),
            other => Err(misfit(name, other.name()).expected("f16 or f32")),
        }
    }

    fn numbers(&self) -> Result<Vec<f32>> {
        let words = |bytes: &[u8]| bytes.as_chunks::<2>().0.to_vec();
        Ok(match self.dtype {
            DType::F32 => self.bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect(),
            DType::F16 => {
                words(&self.bytes).into_iter().map(|bytes| f16::from_le_bytes(bytes).to_f32()).collect()
            }
            DType::I8 | DType::I4 => self.bytes.iter().map(|byte| byte.cast_signed().into()).collect(),
            DType::U8 | DType::U4 | DType::U2 => self.bytes.iter().map(|byte| (*byte).into()).collect(),
            other => {
                return Err(Error::unsupported("scales and offsets of this type are not supported")
                    .field("offset")
                    .found(other.name())
                    .expected("f16, f32, or integers of at most 8 bits"));
            }
        })
    }

    fn integers(&self) -> Vec<i64> {
        let bytes = &self.bytes[..];
        match self.dtype.bytes() {
            Some(8) => bytes.as_chunks().0.iter().map(|bytes| i64::from_le_bytes(*bytes)).collect(),
            Some(4) if self.dtype == DType::U32 => {
                bytes.as_chunks().0.iter().map(|bytes| u32::from_le_bytes(*bytes).into()).collect()
            }
            Some(4) => bytes.as_chunks().0.iter().map(|bytes| i32::from_le_bytes(*bytes).into()).collect(),
            Some(2) => bytes.as_chunks().0.iter().map(|bytes| u16::from_le_bytes(*bytes).into()).collect(),
            _ => bytes.iter().map(|byte| (*byte).into()).collect(),
        }
    }
}
