//! Values with bounds on their errors, and kernels in binary64.

use crate::kernel::Kernel;
use crate::lower::Load;
use crate::{Arithmetic, Array, Backend, Cpu, Element};
use ckpt_api::Result;

/// A value in binary64, and a bound on its error in a coarser arithmetic, in units of that arithmetic's unit roundoff.
#[derive(Clone)]
pub(super) struct Bounded {
    pub(super) value: Array,
    pub(super) error: Vec<f64>,
}

impl Bounded {
    /// Adds the elements of another value of the same type.
    pub(super) fn append(&mut self, other: Bounded) {
        match (&mut self.value, other.value) {
            (Array::I32(own), Array::I32(more)) => own.extend(more),
            (own, more) => *own = Array::F64([own.to_f64(), more.to_f64()].concat()),
        }
        self.error.extend(other.error);
    }

    pub(super) fn exact(value: Array) -> Self {
        Bounded { error: vec![0.0; value.len()], value }
    }

    /// The sizes of the elements.
    pub(super) fn sizes(&self) -> Array {
        match &self.value {
            Array::I32(integers) => Array::I32(integers.clone()),
            reals => Array::F64(reals.as_f64().iter().map(|x| x.abs()).collect()),
        }
    }

    /// The errors as a value; integers have none.
    pub(super) fn errors(&self) -> Array {
        match &self.value {
            Array::I32(integers) => Array::I32(integers.clone()),
            _ => Array::F64(self.error.clone()),
        }
    }
}

/// Reads what a node loads, with bounds on the errors if it has any.
pub(super) type Fetch<'f> = &'f dyn Fn(&Load) -> Result<(Array, Option<Vec<f64>>)>;

/// Runs a kernel in binary64.
pub(super) fn compute(kernel: &Kernel, operands: &[&Array], before: &Array) -> Result<Array> {
    let mut cpu = Cpu::new(Arithmetic::F64);
    let mut ids = Vec::with_capacity(operands.len());
    for operand in operands {
        ids.push(cpu.upload(&(*operand).clone().into_real(Element::F64))?);
    }
    let output = cpu.upload(before)?;
    cpu.run(kernel, &ids, output)?;
    cpu.download(output)
}
