//! An operator with its options.

use super::lowering::Read;
use crate::flat::Table;
use crate::read::Step;

/// One use of an operator.
pub(super) struct Operation<'a> {
    pub(super) step: &'a Step<'a>,
    /// Its number in the subgraph.
    number: usize,
    /// The name of the operator, as the schema has it.
    pub(super) name: String,
}

impl<'a> Operation<'a> {
    pub(super) fn new(step: &'a Step<'a>, number: usize) -> Self {
        Operation { step, number, name: step.operator.shown() }
    }

    /// What the operator is called in messages; `result` is the name of its result.
    pub(super) fn shown(&self, result: &str) -> String {
        format!("{} ('{}', operator {})", self.name, result.escape_debug(), self.number)
    }

    /// The number of input `index`; `None` if it is left out.
    pub(super) fn input(&self, index: usize) -> Option<usize> {
        usize::try_from(*self.step.inputs.get(index)?).ok()
    }

    /// The number of input `index`, which may not be left out.
    pub(super) fn required(&self, index: usize) -> Read<usize> {
        self.input(index).ok_or_else(|| format!("lacks input {index}"))
    }

    /// The numbers of all inputs, none of which may be left out.
    pub(super) fn inputs(&self) -> Read<Vec<usize>> {
        (0..self.step.inputs.len()).map(|index| self.required(index)).collect()
    }

    /// The number of result `index`.
    pub(super) fn output(&self, index: usize) -> Option<usize> {
        usize::try_from(*self.step.outputs.get(index)?).ok()
    }

    /// An option that is an integer of 32 bits; 0 if it is absent.
    pub(super) fn int(&self, number: u64) -> Read<i32> {
        self.int_or(number, 0)
    }

    /// An option that is an integer of 32 bits; `default` if it is absent.
    pub(super) fn int_or(&self, number: u64, default: i32) -> Read<i32> {
        self.option(default, |table| table.i32(number, default))
    }

    /// An option that is a number of 8 bits; 0 if it is absent.
    pub(super) fn code(&self, number: u64) -> Read<u8> {
        self.option(0, |table| table.u8(number, 0))
    }

    /// An option that is a truth value; `false` if it is absent.
    pub(super) fn flag(&self, number: u64) -> Read<bool> {
        Ok(self.code(number)? != 0)
    }

    /// An option that is a number; `default` if it is absent.
    pub(super) fn float(&self, number: u64, default: f32) -> Read<f64> {
        self.option(default, |table| table.f32(number, default)).map(f64::from)
    }

    /// An option that is a list of integers; none if it is absent.
    pub(super) fn ints(&self, number: u64) -> Read<Vec<i32>> {
        self.option(Vec::new(), |table| table.i32s(number))
    }

    fn option<T>(&self, default: T, read: impl FnOnce(&Table<'a>) -> ckpt_api::Result<T>) -> Read<T> {
        match &self.step.options {
            Some(table) => read(table).map_err(|error| format!("has options that cannot be read: {error}")),
            None => Ok(default),
        }
    }
}
