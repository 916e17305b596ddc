//! Values of a subgraph: constants, integers that are known, and what nodes make.

use super::known::{Known, Val};
use super::lowering::{Lowering, Read};
use super::step::Operation;
use crate::format::{Stored, stored_dtype};
use crate::read::{Scheme, TensorTable, scheme};
use ckpt_api::{Affine, Axis, DType, Tensor};
use ckpt_graph::integers::Selection;
use ckpt_graph::shape::{of_sizes, resolve};
use ckpt_graph::{Integers, Length};
use std::rc::Rc;

/// Elements of integers that are computed while a model is read, at most.
const MOST_INTS: usize = 1 << 12;

impl<'a> Lowering<'a> {
    pub(super) fn table(&self, number: usize) -> Read<&'a TensorTable<'a>> {
        let model = self.model;
        let subgraph = model.subgraphs.get(self.subgraph);
        subgraph
            .and_then(|own| own.tensors.get(number))
            .ok_or_else(|| "refers to a tensor that does not exist".to_owned())
    }

    pub(super) fn dtype(&self, number: usize) -> Read<DType> {
        match stored_dtype(self.table(number)?.dtype) {
            Some(Stored::Elements(dtype)) => Ok(dtype),
            Some(Stored::Strings) => Err("takes or makes texts".to_owned()),
            _ => Err("takes or makes handles".to_owned()),
        }
    }

    /// The scales of a value of integers; `None` if they stand for themselves, or for numbers that are not integers.
    pub(super) fn affine(&self, number: usize) -> Read<Option<Affine>> {
        let table = self.table(number)?;
        if self.dtype(number)?.is_float() {
            return Ok(None);
        }
        let Some(own) = &table.quantization else { return Ok(None) };
        match scheme(own, &table.shape).map_err(|error| format!("has scales that are not valid: {error}"))? {
            Scheme::Plain => Ok(None),
            Scheme::Affine(quantization) => Ok(quantization.affine().cloned()),
            Scheme::Blocks(_) => Err("takes integers with a scale for each block".to_owned()),
        }
    }

    /// The constant that a value is, by subgraph and number.
    pub(super) fn constant(&self, number: usize) -> Option<(usize, usize)> {
        match self.known.get(&number) {
            Some(Known::Constant(constant)) => Some(*constant),
            Some(_) => None,
            None => Some((self.subgraph, number)).filter(|own| self.constants.ids.contains_key(own)),
        }
    }

    /// The tensor of the checkpoint that a value is.
    pub(super) fn weight(&self, number: usize) -> Option<(usize, &Tensor)> {
        let constant = self.constant(number)?;
        let id = *self.constants.ids.get(&constant)?;
        Some((id, self.tensors.get(id)?))
    }

    /// Names the axes of a tensor, which another operator may not take in another way; returns the tensor's name and shape.
    pub(super) fn claim(&mut self, number: usize, axes: &[Axis]) -> Read<(String, Vec<u64>)> {
        let (id, _) = self.weight(number).ok_or("has weights that are computed")?;
        let tensor = self.tensors.get_mut(id).ok_or("has no weights")?;
        if tensor.shape.rank() != axes.len() {
            return Err(format!("has weights of shape {}", tensor.shape));
        }
        match tensor.axes.as_deref() {
            Some(own) if own != axes => {
                return Err("has weights that another operator takes otherwise".to_owned());
            }
            Some(_) => {}
            None => tensor.axes = Some(axes.into()),
        }
        Ok((tensor.name.to_string(), tensor.shape.to_vec()))
    }

    /// Integers that are known: those of a small constant, or computed from lengths.
    pub(super) fn known_ints(&self, number: usize) -> Option<Integers> {
        match self.known.get(&number) {
            Some(Known::Ints(ints)) => Some(ints.clone()),
            Some(Known::Val(_)) => None,
            Some(Known::Constant(_)) | None => self.stored_ints(number),
        }
    }

    fn stored_ints(&self, number: usize) -> Option<Integers> {
        let (_, tensor) = self.weight(number)?;
        let is_plain = tensor.quantization.is_none() && matches!(tensor.dtype, DType::I32 | DType::I64);
        let shape: Vec<usize> =
            tensor.shape.iter().map(|len| usize::try_from(*len).ok()).collect::<Option<_>>()?;
        let bytes = self.small(number).filter(|_| is_plain)?;
        let values: Vec<i64> = match tensor.dtype {
            DType::I32 => bytes.as_chunks().0.iter().map(|own| i32::from_le_bytes(*own).into()).collect(),
            _ => bytes.as_chunks().0.iter().map(|own| i64::from_le_bytes(*own)).collect(),
        };
        Integers::vector(values.into_iter().map(Length::Known).collect()).with_shape(shape)
    }

    /// The one number of a constant, such as an exponent.
    pub(super) fn number(&self, number: usize) -> Option<f64> {
        if let Some(ints) = self.known_ints(number) {
            let only = ints.only()?.known()?;
            return i32::try_from(only).ok().map(f64::from);
        }
        let (_, tensor) = self.weight(number)?;
        let bytes = self.small(number)?;
        match (tensor.dtype, &bytes[..]) {
            (DType::F32, [a, b, c, d]) => Some(f32::from_le_bytes([*a, *b, *c, *d]).into()),
            _ => None,
        }
    }

    /// The bytes of a small constant.
    fn small(&self, number: usize) -> Option<Vec<u8>> {
        let (_, tensor) = self.weight(number)?;
        let (subgraph, number) = self.constant(number)?;
        let table = self.model.subgraphs.get(subgraph)?.tensors.get(number)?;
        let len = tensor.value_bytes();
        let buffer = self.model.buffers.get(usize::try_from(table.buffer).ok()?)?;
        let is_small = len <= crate::read::SMALL && len <= buffer.len && table.sparsity.is_none();
        is_small.then(|| self.flat.bytes(buffer.offset, len).ok())?
    }

    /// The value of a tensor, which a node can take: constants become nodes.
    pub(super) fn operand(&mut self, number: usize) -> Read<Val> {
        match self.known.get(&number) {
            Some(Known::Val(val)) => return Ok(val.clone()),
            Some(Known::Ints(ints)) => {
                let ints = ints.clone();
                let values = ints.known().ok_or("takes the length of a free axis as a number")?;
                let name = self.builder.constant_name();
                return self.builder.integers(&name, &ints.sizes(), values);
            }
            Some(Known::Constant(_)) | None => {}
        }
        let constant = self.constant(number).ok_or("takes a value that no operator before it makes")?;
        if let Some(val) = self.stored.get(&constant) {
            return Ok(val.clone());
        }
        let (_, tensor) = self.weight(number).ok_or("takes a value that no operator before it makes")?;
        let is_number = tensor.dtype.is_float() || tensor.quantization.is_some();
        let is_integer = matches!(tensor.dtype, DType::I32 | DType::I64 | DType::Bool);
        if !is_number && !is_integer {
            return Err(format!("takes a constant of {}", tensor.dtype));
        }
        let (name, dims) = (tensor.name.to_string(), of_sizes(&tensor.shape));
        let val = self.builder.stored(&name, dims)?;
        self.stored.insert(constant, val.clone());
        Ok(val)
    }

    /// The value of input `index` of an operator.
    pub(super) fn take(&mut self, operation: &Operation<'_>, index: usize) -> Read<Val> {
        self.operand(operation.required(index)?)
    }

    /// The integers of input `index`, which must be known.
    pub(super) fn ints(&self, operation: &Operation<'_>, index: usize) -> Read<Vec<i64>> {
        let number = operation.required(index)?;
        let ints = self.known_ints(number).and_then(|ints| ints.known());
        ints.ok_or_else(|| format!("takes input {index} from what the model computes"))
    }

    /// The axes that the integers of input `index` name.
    pub(super) fn axes(&self, operation: &Operation<'_>, index: usize, rank: usize) -> Read<Vec<usize>> {
        let axes = self.ints(operation, index)?;
        let found = axes.iter().map(|axis| resolve(*axis, rank)).collect::<Option<Vec<usize>>>();
        found.ok_or_else(|| format!("names axes {axes:?} of a value of {rank}"))
    }

    /// Computes the integers of an operator whose inputs are known, or passes a constant on; whether it did.
    pub(super) fn folded(&mut self, operation: &Operation<'_>) -> Read<bool> {
        let Some(output) = operation.output(0) else { return Err("makes nothing".to_owned()) };
        let passes_on = match operation.name.as_str() {
            "DENSIFY" => true,
            // Of floats of 16 bits.
            "DEQUANTIZE" => {
                let from = self.dtype(operation.required(0)?)?;
                from.is_float()
            }
            _ => false,
        };
        let input = operation.input(0);
        if let Some(constant) = input.filter(|_| passes_on).and_then(|input| self.constant(input)) {
            self.known.insert(output, Known::Constant(constant));
            return Ok(true);
        }
        // Integers with scales are numbers.
        let is_integer = matches!(self.dtype(output), Ok(DType::I32 | DType::I64 | DType::Bool));
        if !is_integer || self.affine(output)?.is_some() {
            return Ok(false);
        }
        match self.computed(operation)? {
            Some(ints) => {
                self.known.insert(output, Known::Ints(ints));
                Ok(true)
            }
            None => Ok(false),
        }
    }

    fn computed(&self, operation: &Operation<'_>) -> Read<Option<Integers>> {
        if operation.name == "SHAPE" {
            let x = operation.required(0)?;
            let dims = match self.known.get(&x) {
                Some(Known::Val(val)) => val.dims.clone(),
                _ => match self.weight(x) {
                    Some((_, tensor)) => of_sizes(&tensor.shape),
                    None => return Ok(None),
                },
            };
            return Ok(Some(Integers::vector(dims)));
        }
        let inputs = operation.inputs()?;
        let ints = inputs.iter().map(|input| self.known_ints(*input)).collect::<Option<Vec<Integers>>>();
        let Some(ints) = ints else { return Ok(None) };
        let resolved = |axis: i32, rank: usize| resolve(axis.into(), rank);
        Ok(match (operation.name.as_str(), &ints[..]) {
            ("CAST" | "STOP_GRADIENT", [x]) => Some(x.clone()),
            ("ADD", [a, b]) => a.zip(b, MOST_INTS, |a, b| a + b),
            ("SUB", [a, b]) => a.zip(b, MOST_INTS, |a, b| a - b),
            ("MUL", [a, b]) => a.zip(b, MOST_INTS, |a, b| a * b),
            ("FLOOR_DIV", [a, b]) => a.zip(b, MOST_INTS, Length::floor_div),
            ("MAXIMUM", [a, b]) => a.zip(b, MOST_INTS, |a, b| ckpt_graph::integers::extreme(a, b, true)),
            ("MINIMUM", [a, b]) => a.zip(b, MOST_INTS, |a, b| ckpt_graph::integers::extreme(a, b, false)),
            ("LESS", [a, b]) => a.zip(b, MOST_INTS, |a, b| a.compare(b, |a, b| a < b)),
            ("LESS_EQUAL", [a, b]) => a.zip(b, MOST_INTS, |a, b| a.compare(b, |a, b| a <= b)),
            ("GREATER", [a, b]) => a.zip(b, MOST_INTS, |a, b| a.compare(b, |a, b| a > b)),
            ("GREATER_EQUAL", [a, b]) => a.zip(b, MOST_INTS, |a, b| a.compare(b, |a, b| a >= b)),
            ("EQUAL", [a, b]) => a.zip(b, MOST_INTS, |a, b| a.compare(b, |a, b| a == b)),
            ("NOT_EQUAL", [a, b]) => a.zip(b, MOST_INTS, |a, b| a.compare(b, |a, b| a != b)),
            ("LOGICAL_AND", [a, b]) => a.zip(b, MOST_INTS, |a, b| a * b),
            ("RESHAPE", [x, shape]) => shape.known().and_then(|shape| x.reshaped(&shape, false)),
            ("SQUEEZE", [x]) => {
                Some(x.clone()).filter(|x| x.values.len() == 1).and_then(|x| x.with_shape(Vec::new()))
            }
            ("EXPAND_DIMS", [x, axis]) => {
                let at =
                    axis.only().and_then(Length::known).and_then(|axis| resolve(axis, x.shape.len() + 1));
                let mut shape = x.shape.clone();
                match at {
                    Some(at) => {
                        shape.insert(at, 1);
                        x.with_shape(shape)
                    }
                    None => None,
                }
            }
            ("PACK", all) => {
                let rank = all.first().map_or(0, |first| first.shape.len());
                let axis = resolved(operation.int(1)?, rank.saturating_add(1));
                let unsqueezed = all.iter().map(|own| {
                    let mut shape = own.shape.clone();
                    shape.insert(axis?, 1);
                    own.with_shape(shape).map(Rc::new)
                });
                unsqueezed
                    .collect::<Option<Vec<_>>>()
                    .and_then(|all| Integers::joined(&all, axis?, MOST_INTS))
            }
            ("CONCATENATION", all) => {
                let rank = all.first().map_or(0, |first| first.shape.len());
                let axis = resolved(operation.int(0)?, rank);
                let all: Vec<Rc<Integers>> = all.iter().cloned().map(Rc::new).collect();
                axis.and_then(|axis| Integers::joined(&all, axis, MOST_INTS))
            }
            ("GATHER", [x, indices]) => resolved(operation.int(0)?, x.shape.len())
                .filter(|_| operation.int(1) == Ok(0))
                .and_then(|axis| x.gathered(indices, axis, MOST_INTS)),
            ("REDUCE_PROD", [x, _]) => {
                let product = x.values.iter().fold(Length::Known(1), |product, len| product * *len);
                match (x.shape.len(), operation.flag(0)?) {
                    (1, true) => Some(Integers::vector(vec![product])),
                    (0 | 1, false) => Some(Integers::scalar(product)),
                    _ => None,
                }
            }
            ("FILL", [shape, value]) => {
                let shape = shape.lens();
                let value = value.only();
                shape.zip(value).and_then(|(shape, value)| Integers::filled(shape, value, MOST_INTS))
            }
            ("RANGE", [start, end, step]) => {
                let one = |ints: &Integers| ints.only().and_then(Length::known);
                match (one(start), one(end), one(step)) {
                    (Some(start), Some(end), Some(step)) => Integers::steps(start, end, step, MOST_INTS),
                    _ => None,
                }
            }
            ("STRIDED_SLICE", [x, bounds @ ..]) => {
                let dims: Vec<Length> = x.shape.iter().map(|len| Length::from(*len)).collect();
                super::moves::selections(operation, bounds, &dims)?.and_then(|all| x.selected(&all))
            }
            ("SLICE", [x, begin, size]) => match (begin.known(), size.known()) {
                (Some(begin), Some(size)) => {
                    let range = |(axis, (begin, size)): (usize, (&i64, &i64))| Selection::Range {
                        axis,
                        begin: *begin,
                        end: if *size < 0 { i64::MAX } else { begin.saturating_add(*size) },
                        step: 1,
                    };
                    let all: Vec<Selection> = begin.iter().zip(&size).enumerate().map(range).collect();
                    x.selected(&all)
                }
                _ => None,
            },
            _ => None,
        })
    }
}
