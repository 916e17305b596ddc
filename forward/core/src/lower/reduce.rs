//! Lowers functions of whole axes.

use super::local::Local;
use super::lowering::{Info, Lowering, elements, show};
use super::shapes::axes;
use crate::kernel::{Function, Pairwise, Reduction};
use crate::value::Numbers;
use ckpt_api::{Error, Result};

/// A function of the elements on some axes.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Summary {
    Plain(Reduction),
    /// `Σ|x|`.
    L1,
    /// `√Σx²`.
    L2,
    /// `Σx²`.
    SumSquare,
    /// `ln Σx`.
    LogSum,
    /// `ln Σeˣ`, as `m + ln Σe^(x − m)` with the greatest element `m`.
    LogSumExp,
}

/// Lowers a function of the elements on `axes`: these become the last axes, if they are not.
pub(super) fn reduce(lowering: &mut Lowering, summary: Summary) -> Result<()> {
    lowering.allow_attributes(&["axes", "keepdims", "noop_with_empty_axes"])?;
    lowering.allow_roles(&[])?;
    let [x] = lowering.exactly()?;
    if !is_of_integers(summary) {
        lowering.check_numbers(x, Numbers::Real)?;
    }
    let rank = x.shape.len();
    let given = axes(lowering, x, rank)?.filter(|axes| !axes.is_empty());
    let reduced = match given {
        Some(axes) => axes,
        None if lowering.node.flag("noop_with_empty_axes")? => Vec::new(),
        None => (0..rank).collect(),
    };
    if reduced.is_empty() && matches!(summary, Summary::Plain(_)) {
        return super::moves::copied(lowering);
    }
    let keeps = lowering.node.int("keepdims", 1)? != 0;
    let kept: Vec<usize> = (0..rank).filter(|axis| !reduced.contains(axis)).collect();
    let lens = |axes: &[usize]| axes.iter().map(|axis| x.shape[*axis]).collect::<Vec<_>>();
    let needs_one = match summary {
        Summary::Plain(function) => !matches!(function, Reduction::Sum | Reduction::Product),
        summary => summary == Summary::LogSumExp,
    };
    let shape: Vec<usize> = match keeps {
        true => (0..rank).map(|axis| if reduced.contains(&axis) { 1 } else { x.shape[axis] }).collect(),
        false => lens(&kept),
    };
    if elements(&lens(&reduced))? == 0 && elements(&lens(&kept))? > 0 && needs_one {
        return of_nothing(lowering, summary, x, shape);
    }
    let input = lowering.local(0)?;
    let turned = lowering.transposed(&input, &[&kept[..], &reduced].concat())?;
    let (rows, len) = (elements(&lens(&kept))?, elements(&lens(&reduced))?);
    let value = summarized(lowering, summary, &turned.reshaped([rows, len]))?;
    lowering.finish(&value, shape)
}

/// The greatest of no real numbers is −∞, the least is ∞, and the logarithm of their sum −∞.
fn of_nothing(lowering: &mut Lowering, summary: Summary, x: &Info, shape: Vec<usize>) -> Result<()> {
    let value = match (summary, x.numbers) {
        (Summary::Plain(Reduction::Maximum) | Summary::LogSumExp, Numbers::Real) => f64::NEG_INFINITY,
        (Summary::Plain(Reduction::Minimum), Numbers::Real) => f64::INFINITY,
        _ => {
            return Err(Error::unsupported("nothing is reduced to a number")
                .found(show(&x.shape))
                .expected("an element on the axes that are reduced"));
        }
    };
    let number = lowering.number(value);
    let strides = vec![0; shape.len()];
    let value = lowering.viewed(&number, shape.clone(), &strides)?;
    lowering.finish(&value, shape)
}

fn is_of_integers(summary: Summary) -> bool {
    !matches!(summary, Summary::Plain(Reduction::Mean) | Summary::L2 | Summary::LogSum | Summary::LogSumExp)
}

/// Computes one element for each row of a matrix.
fn summarized(lowering: &mut Lowering, summary: Summary, x: &Local) -> Result<Local> {
    let sum = |lowering: &mut Lowering, x: &Local| lowering.reduced(Reduction::Sum, x, 1);
    match summary {
        Summary::Plain(function) => lowering.reduced(function, x, 1),
        Summary::L1 => {
            let sizes = lowering.apply(Function::Abs, x)?;
            sum(lowering, &sizes)
        }
        Summary::L2 | Summary::SumSquare => {
            let squares = lowering.apply(Function::Square, x)?;
            let total = sum(lowering, &squares)?;
            if summary == Summary::L2 { lowering.apply(Function::Sqrt, &total) } else { Ok(total) }
        }
        Summary::LogSum => {
            let total = sum(lowering, x)?;
            lowering.apply(Function::Log, &total)
        }
        Summary::LogSumExp => {
            // An infinite greatest element would give `∞ − ∞`.
            let bound = f64::from(f32::MAX);
            let greatest = lowering.reduced(Reduction::Maximum, x, 1)?;
            let greatest = lowering.apply(Function::Clip { min: -bound, max: bound }, &greatest)?;
            let column = greatest.reshaped([greatest.info.len(), 1]);
            let shifted = lowering.combine(Pairwise::Subtract, x, &column)?;
            let powers = lowering.apply(Function::Exp, &shifted)?;
            let total = sum(lowering, &powers)?;
            let logarithm = lowering.apply(Function::Log, &total)?;
            lowering.combine(Pairwise::Add, &logarithm, &greatest)
        }
    }
}
