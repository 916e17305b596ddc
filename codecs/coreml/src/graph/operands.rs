//! What operations take: values, weights, and numbers that are known now.

use super::{Lowering, Read, Val};
use crate::read::{Argument, Data, Operation, SMALL, Value, stored_value};
use ckpt_api::{Axis, DType, Tensor};
use ckpt_graph::shape::{of_sizes, resolve};
use half::f16;

impl Lowering<'_, '_> {
    /// The value of an operand; `None` if it is left out.
    pub(super) fn optional(&mut self, operation: &Operation, name: &str) -> Read<Option<Val>> {
        match operation.argument(name) {
            None => Ok(None),
            Some(Argument::Name(own)) => {
                let own = own.clone();
                self.named(&own).map(Some)
            }
            Some(Argument::Value(value)) => self.literal(&value.clone(), name).map(Some),
        }
    }

    /// The value of an operand.
    pub(super) fn take(&mut self, operation: &Operation, name: &str) -> Read<Val> {
        self.optional(operation, name)?.ok_or_else(|| format!("lacks '{name}'"))
    }

    /// All values of an operand.
    pub(super) fn list(&mut self, operation: &Operation, name: &str) -> Read<Vec<Val>> {
        let arguments = operation.inputs.get(name).ok_or_else(|| format!("lacks '{name}'"))?;
        let mut all = Vec::with_capacity(arguments.len());
        for argument in arguments {
            all.push(match argument {
                Argument::Name(own) => self.named(own)?,
                Argument::Value(value) => self.literal(value, name)?,
            });
        }
        Ok(all)
    }

    /// A value by its name in the program: constants become nodes.
    pub(super) fn named(&mut self, name: &str) -> Read<Val> {
        if let Some(val) = self.known.get(name) {
            return Ok(val.clone());
        }
        let val = match self.ids.get(name).and_then(|id| self.tensors.get(*id)) {
            Some(tensor) => {
                let (name, dims) = (tensor.name.to_string(), of_sizes(&tensor.shape));
                self.builder.stored(&name, dims)?
            }
            None => {
                let operation = self.operations.get(name).copied();
                let value = operation.filter(|own| own.op == "const").and_then(|own| own.value("val"));
                let value =
                    value.ok_or_else(|| format!("takes '{name}', which no operation before it makes"))?;
                self.literal(value, name)?
            }
        };
        self.known.insert(name.to_owned(), val.clone());
        Ok(val)
    }

    /// A constant of few numbers.
    fn literal(&mut self, value: &Value, name: &str) -> Read<Val> {
        let shape = value.ty.known().ok_or("takes a constant without a shape")?;
        let is_float = value.ty.element().is_some_and(|element| element.dtype.is_some_and(DType::is_float));
        let numbers = self.numbers_of(value).ok_or_else(|| format!("takes '{name}', which is no number"))?;
        match is_float {
            true => self.builder.floats(name, &shape, numbers),
            false => {
                let integers = numbers.iter().map(|number| whole(*number)).collect::<Option<Vec<i64>>>();
                self.builder.integers(name, &shape, integers.ok_or("takes an integer that is none")?)
            }
        }
    }

    /// The constant that an operand is.
    fn constant<'o>(&'o self, operation: &'o Operation, name: &str) -> Option<&'o Value> {
        if let Some(value) = operation.value(name) {
            return Some(value);
        }
        let Some(Argument::Name(own)) = operation.argument(name) else { return None };
        let constant = self.operations.get(own.as_str()).filter(|own| own.op == "const")?;
        constant.value("val")
    }

    /// The numbers of a small constant.
    fn numbers_of(&self, value: &Value) -> Option<Vec<f64>> {
        let files = &mut **self.files.try_borrow_mut().ok()?;
        let stored = stored_value(value, files).ok().flatten()?;
        let len = stored.shape.elements().checked_mul(stored.dtype().bytes()?)?;
        let bytes = (len <= SMALL).then(|| stored.elements(files).ok())??;
        let words = |bytes: &[u8]| bytes.as_chunks::<4>().0.to_vec();
        Some(match stored.dtype() {
            DType::F32 => words(&bytes).into_iter().map(|own| f32::from_le_bytes(own).into()).collect(),
            DType::I32 => words(&bytes).into_iter().map(|own| i32::from_le_bytes(own).into()).collect(),
            DType::F16 => {
                bytes.as_chunks::<2>().0.iter().map(|own| f16::from_le_bytes(*own).to_f64()).collect()
            }
            DType::Bool | DType::U8 => bytes.iter().map(|own| f64::from(*own)).collect(),
            DType::I8 => bytes.iter().map(|own| own.cast_signed().into()).collect(),
            DType::I16 => {
                bytes.as_chunks::<2>().0.iter().map(|own| i16::from_le_bytes(*own).into()).collect()
            }
            DType::U16 => {
                bytes.as_chunks::<2>().0.iter().map(|own| u16::from_le_bytes(*own).into()).collect()
            }
            _ => return None,
        })
    }

    /// The integers of an operand; `None` if it is left out.
    pub(super) fn optional_ints(&self, operation: &Operation, name: &str) -> Read<Option<Vec<i64>>> {
        if operation.argument(name).is_none() && operation.value(name).is_none() {
            return Ok(None);
        }
        let numbers = self.constant(operation, name).and_then(|value| self.numbers_of(value));
        let numbers = numbers.ok_or_else(|| format!("takes '{name}' from what the model computes"))?;
        let integers = numbers.iter().map(|number| whole(*number)).collect::<Option<Vec<i64>>>();
        integers.map(Some).ok_or_else(|| format!("takes '{name}' that is no integer"))
    }

    /// The integers of an operand.
    pub(super) fn ints(&self, operation: &Operation, name: &str) -> Read<Vec<i64>> {
        self.optional_ints(operation, name)?.ok_or_else(|| format!("lacks '{name}'"))
    }

    /// An integer, or a default.
    pub(super) fn int_or(&self, operation: &Operation, name: &str, default: i64) -> Read<i64> {
        Ok(self.optional_ints(operation, name)?.and_then(|all| all.first().copied()).unwrap_or(default))
    }

    pub(super) fn flag(&self, operation: &Operation, name: &str, default: bool) -> Read<bool> {
        Ok(self.int_or(operation, name, i64::from(default))? != 0)
    }

    /// A number, or a default.
    pub(super) fn float_or(&self, operation: &Operation, name: &str, default: f64) -> Read<f64> {
        if operation.argument(name).is_none() {
            return Ok(default);
        }
        let numbers = self.constant(operation, name).and_then(|value| self.numbers_of(value));
        let number = numbers.and_then(|numbers| numbers.first().copied());
        number.ok_or_else(|| format!("takes '{name}' from what the model computes"))
    }

    /// A text; empty if it is left out.
    pub(super) fn text(&self, operation: &Operation, name: &str) -> String {
        match self.constant(operation, name).map(|value| &value.data) {
            Some(Data::Texts(texts)) => texts.first().cloned().unwrap_or_default(),
            _ => String::new(),
        }
    }

    /// The axes that an operand names.
    pub(super) fn axes(&self, operation: &Operation, name: &str, rank: usize) -> Read<Vec<usize>> {
        let axes = self.ints(operation, name)?;
        let found = axes.iter().map(|axis| resolve(*axis, rank)).collect::<Option<Vec<usize>>>();
        found.ok_or_else(|| format!("names axes {axes:?} of a value of {rank}"))
    }

    /// The one axis that an operand names.
    pub(super) fn axis(&self, operation: &Operation, rank: usize, default: i64) -> Read<usize> {
        let axis = self.int_or(operation, "axis", default)?;
        resolve(axis, rank).ok_or_else(|| format!("names axis {axis} of a value of {rank}"))
    }

    /// The tensor that an operand is.
    pub(super) fn weight(&self, operation: &Operation, name: &str) -> Option<(usize, &Tensor)> {
        let Some(Argument::Name(own)) = operation.argument(name) else { return None };
        let id = *self.ids.get(own.as_str())?;
        Some((id, self.tensors.get(id)?))
    }

    /// Names the axes of a tensor, which another operation may not take in another way; returns its name and shape.
    pub(super) fn claim(
        &mut self,
        operation: &Operation,
        name: &str,
        axes: &[Axis],
    ) -> Read<(String, Vec<u64>)> {
        let (id, _) = self.weight(operation, name).ok_or_else(|| match operation.argument(name) {
            Some(_) => format!("has '{name}' that is computed"),
            None => format!("lacks '{name}'"),
        })?;
        let tensor = self.tensors.get_mut(id).ok_or("has no weights")?;
        if tensor.shape.rank() != axes.len() {
            return Err(format!("has '{name}' of shape {}", tensor.shape));
        }
        match tensor.axes.as_deref() {
            Some(own) if own != axes => {
                return Err("has weights that another operation takes otherwise".to_owned());
            }
            Some(_) => {}
            None => tensor.axes = Some(axes.into()),
        }
        Ok((tensor.name.to_string(), tensor.shape.to_vec()))
    }
}

/// The integer that a number is; those of constants have at most 32 bits.
#[expect(clippy::cast_possible_truncation, reason = "what is lost is found")]
fn whole(number: f64) -> Option<i64> {
    let integer = number as i64;
    (number.fract() == 0.0 && number.abs() < 9e15).then_some(integer)
}
