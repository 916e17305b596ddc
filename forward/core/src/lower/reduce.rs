//! Lowers functions of whole axes.

use super::lowering::{Lowering, Operand, elements, misfit};
use super::moves::permuted;
use super::shapes::axes;
use super::strides::row_major;
use crate::Kernel;
use crate::kernel::{Reduce, Reduction};
use crate::value::Numbers;
use ckpt_api::Result;

/// Lowers a function of the elements on `axes`: these become the last axes, where they are not.
pub(super) fn reduce(lowering: &mut Lowering, function: Reduction) -> Result<()> {
    lowering.allow_attributes(&["axes", "keepdims", "noop_with_empty_axes"])?;
    lowering.allow_roles(&[])?;
    let [x] = lowering.exactly()?;
    if function == Reduction::Mean {
        lowering.check_numbers(x, Numbers::Real)?;
    }
    let rank = x.shape.len();
    let given = axes(lowering, x, rank)?.filter(|axes| !axes.is_empty());
    let reduced = match given {
        Some(axes) => axes,
        None if lowering.node.flag("noop_with_empty_axes")? => return super::moves::copied(lowering),
        None => (0..rank).collect(),
    };
    let keeps = lowering.node.int("keepdims", 1)? != 0;
    let kept: Vec<usize> = (0..rank).filter(|axis| !reduced.contains(axis)).collect();
    let lens = |axes: &[usize]| axes.iter().map(|axis| x.shape[*axis]).collect::<Vec<_>>();
    let (rows, len) = (elements(&lens(&kept))?, elements(&lens(&reduced))?);
    let needs_one = !matches!(function, Reduction::Sum | Reduction::Product);
    if len == 0 && rows > 0 && needs_one {
        return Err(misfit(&x.shape, "an element on the axes that are reduced"));
    }
    let shape = match keeps {
        true => (0..rank).map(|axis| if reduced.contains(&axis) { 1 } else { x.shape[axis] }).collect(),
        false => lens(&kept),
    };
    let output = lowering.output(shape, x.numbers)?;
    let order = [kept, reduced].concat();
    let operand = match order.is_sorted() {
        true => Operand::Input(0),
        false => {
            let own = row_major(&x.shape);
            let strides: Vec<usize> = order.iter().map(|axis| own[*axis]).collect();
            let turned = lowering.temporary(lens(&order), x.numbers)?;
            permuted(lowering, Operand::Input(0), &lens(&order), &strides, turned)?;
            turned
        }
    };
    lowering.call(Kernel::Reduce(Reduce { rows, len, function }), [operand], output);
    Ok(())
}
