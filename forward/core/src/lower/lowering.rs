//! A node that is being lowered: its inputs, and the kernels collected so far.

use crate::value::{Numbers, Parameters, count};
use crate::{Kernel, ReferenceCall};
use ckpt_api::{Error, Node, Op, Result, Text};

/// Shape and kind of a value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Info {
    pub(crate) shape: Vec<usize>,
    pub(crate) numbers: Numbers,
}

impl Info {
    pub(crate) fn len(&self) -> usize {
        self.shape.iter().product()
    }
}

/// A buffer that a kernel of a node reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operand {
    Input(usize),
    Parameter(usize),
    Temporary(usize),
    Output(usize),
}

/// What a call computes.
#[derive(Clone, Debug)]
pub(crate) enum Task {
    Kernel(Kernel),
    /// An operator that a codec registers, for which there is no kernel.
    Reference(ReferenceCall),
}

/// A computation of one buffer from others.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) task: Task,
    pub(crate) operands: Vec<Operand>,
    pub(crate) output: Operand,
}

/// Values that are on the device only while a node runs.
#[derive(Clone, Debug)]
pub(crate) enum Load {
    /// A tensor's elements, divided by `scale` where integers represent real numbers.
    Tensor { name: String, len: usize, numbers: Numbers, scale: Option<f64> },
    /// One real number, repeated.
    Constant { value: f64, len: usize },
    /// These integers.
    Integers(Vec<i32>),
    /// These real numbers.
    Reals(Vec<f64>),
    /// The integers `first`, `first + step` and so on.
    Range { first: i64, step: i64, len: usize },
}

impl Load {
    fn numbers(&self) -> Numbers {
        match self {
            Load::Tensor { numbers, .. } => *numbers,
            Load::Constant { .. } | Load::Reals(_) => Numbers::Real,
            Load::Integers(_) | Load::Range { .. } => Numbers::Integer,
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Load::Tensor { len, .. } | Load::Constant { len, .. } | Load::Range { len, .. } => *len,
            Load::Integers(values) => values.len(),
            Load::Reals(values) => values.len(),
        }
    }
}

/// A check that the elements of an input are indices below `bounds`, which repeat: element `k` is below bound
/// `k mod len`.
#[derive(Clone, Debug)]
pub(crate) struct IndexCheck {
    pub(crate) input: usize,
    pub(crate) bounds: Vec<usize>,
    pub(crate) negative: Negative,
}

/// What a negative index stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Negative {
    /// It is an error.
    Nothing,
    /// No element.
    Padding,
    /// It counts from the end: −1 is the last one.
    FromEnd,
}

/// A node lowered to kernels.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lowered {
    pub(crate) outputs: Vec<Info>,
    pub(crate) calls: Vec<Call>,
    pub(crate) temporaries: Vec<Info>,
    pub(crate) loads: Vec<Load>,
    pub(crate) checks: Vec<IndexCheck>,
}

/// A node that is being lowered.
pub(super) struct Lowering<'a> {
    pub(super) node: &'a Node,
    /// The node's inputs; `None` for one that is left out.
    pub(super) inputs: &'a [Option<&'a Info>],
    pub(super) parameters: &'a dyn Parameters,
    pub(super) lowered: Lowered,
}

impl<'a> Lowering<'a> {
    /// Returns an input that must be present.
    pub(super) fn input(&self, index: usize) -> Result<&'a Info> {
        self.inputs.get(index).copied().flatten().ok_or_else(|| {
            Error::corrupt("the layer lacks an input")
                .found(ckpt_api::count(self.inputs.iter().flatten().count(), "input"))
                .expected(format!("input {index}"))
        })
    }

    /// Returns the inputs, which must be exactly `N`.
    pub(super) fn exactly<const N: usize>(&self) -> Result<[&'a Info; N]> {
        self.at_most(N)?;
        let inputs = (0..N).map(|index| self.input(index)).collect::<Result<Vec<_>>>()?;
        <[&Info; N]>::try_from(inputs).map_err(|_| Error::corrupt("the layer lacks an input"))
    }

    /// Fails for more than `most` inputs.
    pub(super) fn at_most(&self, most: usize) -> Result<()> {
        if self.inputs.len() > most {
            return Err(Error::corrupt("the layer has more inputs than its operator")
                .found(ckpt_api::count(self.inputs.len(), "input"))
                .expected(format!("{most} for {}", self.node.op)));
        }
        Ok(())
    }

    /// Returns an input that must hold real numbers.
    pub(super) fn real(&self, index: usize) -> Result<&'a Info> {
        let info = self.input(index)?;
        self.check_numbers(info, Numbers::Real)?;
        Ok(info)
    }

    /// Returns an input of indices, which the runner checks to be below `bound`.
    pub(super) fn index(&mut self, input: usize, bound: usize, negative: Negative) -> Result<&'a Info> {
        self.places(input, vec![bound], negative)
    }

    /// Returns an input of indices along several axes in turn, which the runner checks to be below `bounds`.
    pub(super) fn places(
        &mut self,
        input: usize,
        bounds: Vec<usize>,
        negative: Negative,
    ) -> Result<&'a Info> {
        let info = self.input(input)?;
        self.check_numbers(info, Numbers::Integer)?;
        self.lowered.checks.push(IndexCheck { input, bounds, negative });
        Ok(info)
    }

    pub(super) fn check_numbers(&self, info: &Info, numbers: Numbers) -> Result<()> {
        if info.numbers == numbers {
            return Ok(());
        }
        let name = |numbers| if numbers == Numbers::Real { "real numbers" } else { "integers" };
        Err(Error::corrupt(format!("{} takes values of a different kind", self.node.op))
            .found(name(info.numbers))
            .expected(name(numbers)))
    }

    /// Returns the kind of an operand's elements.
    pub(super) fn numbers(&self, operand: Operand) -> Result<Numbers> {
        let made = |infos: &[Info], index: usize| infos.get(index).map(|info| info.numbers);
        let numbers = match operand {
            Operand::Input(index) => return Ok(self.input(index)?.numbers),
            Operand::Temporary(index) => made(&self.lowered.temporaries, index),
            Operand::Output(index) => made(&self.lowered.outputs, index),
            Operand::Parameter(index) => self.lowered.loads.get(index).map(Load::numbers),
        };
        numbers.ok_or_else(|| Error::corrupt("the layer lacks an operand"))
    }

    /// Adds an output.
    pub(super) fn output(&mut self, shape: Vec<usize>, numbers: Numbers) -> Result<Operand> {
        elements(&shape)?;
        self.lowered.outputs.push(Info { shape, numbers });
        Ok(Operand::Output(self.lowered.outputs.len() - 1))
    }

    /// Adds a value for this node's kernels only.
    pub(super) fn temporary(&mut self, shape: Vec<usize>, numbers: Numbers) -> Result<Operand> {
        elements(&shape)?;
        self.lowered.temporaries.push(Info { shape, numbers });
        Ok(Operand::Temporary(self.lowered.temporaries.len() - 1))
    }

    pub(super) fn load(&mut self, load: Load) -> Operand {
        self.lowered.loads.push(load);
        Operand::Parameter(self.lowered.loads.len() - 1)
    }

    /// Adds a call of a kernel.
    pub(super) fn call(&mut self, kernel: Kernel, operands: impl Into<Vec<Operand>>, output: Operand) {
        self.add(Task::Kernel(kernel), operands.into(), output);
    }

    /// Adds a call.
    pub(super) fn add(&mut self, task: Task, operands: Vec<Operand>, output: Operand) {
        self.lowered.calls.push(Call { task, operands, output });
    }
}

/// Returns the number of elements of a shape.
///
/// # Errors
/// [`ckpt_api::Kind::Limit`] for more than 2⁴⁸.
pub(super) fn elements(shape: &[usize]) -> Result<usize> {
    count(shape).ok_or_else(|| {
        Error::limit("a value has too many elements").found(show(shape)).expected("at most 2^48")
    })
}

/// Formats a shape for errors.
pub(crate) fn show(shape: &[usize]) -> String {
    format!("{shape:?}")
}

/// The error for a value whose shape does not fit its layer.
pub(super) fn misfit(found: &[usize], expected: impl Into<Text>) -> Error {
    Error::corrupt("a value's shape does not fit the layer").found(show(found)).expected(expected)
}

/// The error for an operator that has neither kernels nor a definition.
pub(super) fn unsupported(op: &Op) -> Error {
    Error::unsupported("the forward pass does not support this operator").found(op.name())
}
