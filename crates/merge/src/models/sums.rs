//! Sums of the numbers of several tensors.

use crate::matrix::Numbers;
use ckpt_api::{
    Agreement, BlockNumbers, Error, Kept, Operation, Placement, Result, Scalar, Shape, Tensor, Term,
};

/// Divisors below this count as 1, as in mergekit.
const NO_DIVISOR: f32 = 1e-8;

/// What happens to the numbers of a tensor.
#[derive(Clone, Debug)]
pub(super) enum Recipe {
    /// `Σ factor · T`, divided by a number.
    Sum { factors: Vec<Scalar>, divisor: Option<Scalar> },
    /// `base + factor · Σ weight · change`, divided by the sum of the weights if it is a mean.
    Changes {
        changes: Vec<Change>,
        is_mean: bool,
        /// Whether only those count that agree in sign.
        elects: bool,
        factor: Scalar,
    },
}

/// What a model changed of the base.
#[derive(Clone, Debug)]
pub(super) struct Change {
    /// Which input.
    pub(super) input: usize,
    pub(super) weight: Scalar,
    /// Which elements count; all if `None`.
    pub(super) kept: Option<Kept>,
    /// By what these are multiplied.
    pub(super) scale: Scalar,
}

/// The numbers of a tensor in one model.
#[derive(Debug)]
pub(super) struct Operand {
    /// What people call it.
    pub(super) name: String,
    pub(super) numbers: Numbers,
}

/// The numbers of a tensor in all models.
#[derive(Debug)]
pub(super) struct Operands {
    pub(super) inputs: Vec<Operand>,
    pub(super) base: Option<Operand>,
}

impl Operands {
    /// Checks that all are stored in one order.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Unsupported`] if not.
    pub(super) fn checked(self) -> Result<Self> {
        let mut orders =
            self.inputs.iter().chain(&self.base).map(|operand| (&operand.name, &operand.numbers.order));
        let first = orders.next().map(|(_, order)| order);
        match orders.find(|(_, order)| Some(*order) != first) {
            Some((name, _)) => Err(Error::unsupported(
                "the axes of a tensor are stored in another order than in the other models",
            )
            .found(name.as_str())),
            None => Ok(self),
        }
    }
}

/// Refuses a tensor whose elements are not stored in the order of its axes.
///
/// # Errors
/// [`ckpt_api::Kind::Unsupported`].
pub(super) fn check_order(tensor: &Tensor, placement: &Placement) -> Result<()> {
    match Numbers::of(tensor, placement)?.is_none_or(|numbers| numbers.is_row_major()) {
        true => Ok(()),
        false => Err(Error::unsupported(
            "some elements of a tensor whose axes are stored in another order cannot be chosen",
        )
        .tensor(&tensor.name)),
    }
}

impl Recipe {
    /// The numbers that it makes.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Defect`] for operands that are no longer those that it was made for.
    pub(super) fn apply(self, operands: Operands) -> Result<Numbers> {
        match self {
            Recipe::Sum { factors, divisor } => {
                let operands = operands.inputs.into_iter().zip(factors);
                let terms = operands.map(|(operand, factor)| operand.with(multiply(factor))).collect();
                let mut sum = added(terms)?;
                sum.numbers.computed.operations.extend(divisor.filter(is_not_one).map(Operation::Divide));
                Ok(sum.numbers)
            }
            Recipe::Changes { changes, is_mean, elects, factor } => {
                let Operands { inputs, base } = operands;
                let base = base.ok_or_else(|| Error::defect("a merge has no base"))?;
                let mut inputs: Vec<Option<Operand>> = inputs.into_iter().map(Some).collect();
                let mut changed = Vec::with_capacity(changes.len());
                for change in changes {
                    let operand = inputs.get_mut(change.input).and_then(Option::take);
                    let operand = operand.ok_or_else(|| Error::defect("a merge has no such input"))?;
                    changed.push((operand.changes_of(&base, &change)?, change.weight));
                }
                match (changed.is_empty(), elects) {
                    (true, _) => Ok(base.numbers),
                    (false, true) => Ok(base.with(agreeing(changed, is_mean, factor)).numbers),
                    (false, false) => with_changes(&base, changed, is_mean, factor),
                }
            }
        }
    }
}

impl Operand {
    /// The same numbers after further operations.
    fn with(mut self, operations: impl IntoIterator<Item = Operation>) -> Self {
        self.numbers.computed.operations.extend(operations);
        self
    }

    /// The numbers, one for each element of another tensor.
    fn each(&self) -> Result<Box<BlockNumbers>> {
        let computed = self.numbers.computed.clone();
        let count = computed.elements().ok_or_else(|| Error::defect("operands are not whole"))?;
        Ok(Box::new(BlockNumbers::new(&self.name, computed, Shape::new([count])?, vec![1])))
    }

    /// What differs from the base, of that what is kept.
    fn changes_of(self, base: &Operand, change: &Change) -> Result<Self> {
        let keep = change.kept.map(Operation::Keep);
        let operations = [Operation::SubtractBlocks(base.each()?)].into_iter().chain(keep);
        Ok(self.with(operations.chain(multiply(change.scale))))
    }
}

fn is_not_one(factor: &Scalar) -> bool {
    factor.get() != 1.0
}

fn multiply(factor: Scalar) -> Option<Operation> {
    Some(factor).filter(is_not_one).map(Operation::Multiply)
}

/// The sum of these, in their order.
fn added(operands: Vec<Operand>) -> Result<Operand> {
    let mut operands = operands.into_iter();
    let mut sum = operands.next().ok_or_else(|| Error::defect("a sum has no terms"))?;
    for operand in operands {
        sum = sum.with([Operation::AddBlocks(operand.each()?)]);
    }
    Ok(sum)
}

/// The sum of these numbers, in 32-bit floats and in order; `None` if it is not finite.
pub(super) fn sum(numbers: &[Scalar]) -> Option<Scalar> {
    Scalar::new(numbers.iter().fold(0.0, |sum, number| sum + number.get()))
}

/// `base + factor · Σ weight · change`, or with the mean in the place of the sum.
fn with_changes(
    base: &Operand,
    changed: Vec<(Operand, Scalar)>,
    is_mean: bool,
    factor: Scalar,
) -> Result<Numbers> {
    let weights: Vec<Scalar> = changed.iter().map(|(_, weight)| *weight).collect();
    let divisor = sum(&weights).filter(|sum| is_mean && is_not_one(sum) && sum.get().abs() >= NO_DIVISOR);
    let terms = changed.into_iter().map(|(operand, weight)| operand.with(multiply(weight)));
    let sum = added(terms.collect())?;
    let sum = sum.with(divisor.map(Operation::Divide)).with(multiply(factor));
    Ok(sum.with([Operation::AddBlocks(base.each()?)]).numbers)
}

/// Adds what several changes agree on.
fn agreeing(changed: Vec<(Operand, Scalar)>, is_mean: bool, factor: Scalar) -> [Operation; 1] {
    let term =
        |(operand, weight): (Operand, Scalar)| Term::new(operand.name, weight, operand.numbers.computed);
    let terms: Vec<Term> = changed.into_iter().map(term).collect();
    [Operation::AddAgreeing(Box::new(Agreement::new(terms, is_mean, factor)))]
}
