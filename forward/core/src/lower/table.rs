//! Lowers lookups of elements by their index.

use super::copies::permuted;
use super::linear::arithmetic;
use super::lowering::{Lowering, Negative, Operand, elements};
use super::strides::row_major;
use crate::Kernel;
use crate::kernel::Gather;
use ckpt_api::{Axis, Error, Result};

/// Lowers the lookup of rows in a table, or of elements along an axis of a value.
pub(super) fn gather(lowering: &mut Lowering) -> Result<()> {
    lowering.allow_roles(&["weight"])?;
    if lowering.node.parameters.contains_key("weight") {
        return embedding(lowering);
    }
    lowering.allow_attributes(&["axis"])?;
    let [data, _] = lowering.exactly()?;
    let axis = lowering.axis(data, 0)?;
    let index = lowering.index(1, data.shape[axis], Negative::FromEnd)?;
    let shape = [&data.shape[..axis], &index.shape, &data.shape[axis + 1..]].concat();
    let output = lowering.output(shape, data.numbers)?;
    along(lowering, (Operand::Input(0), &data.shape), axis, (Operand::Input(1), index.len()), output)
}

/// Lowers the lookup of rows in a stored table.
fn embedding(lowering: &mut Lowering) -> Result<()> {
    lowering.allow_attributes(&["arithmetic", "axis"])?;
    if lowering.node.int("axis", 0)? != 0 {
        return Err(Error::unsupported("a stored table is looked up along another axis than its rows")
            .expected("axis 0: the axes of the tensor say which are the rows"));
    }
    let numbers = arithmetic(lowering)?;
    let [index] = lowering.exactly()?;
    let weight = lowering.required_weight("weight", &[Axis::Feature, Axis::Out], numbers)?;
    let (feature, out) = (weight.axis(Axis::Feature)?, weight.axis(Axis::Out)?);
    lowering.index(0, feature.len, Negative::FromEnd)?;
    let output = lowering.output([&index.shape[..], &[out.len]].concat(), numbers)?;
    let kernel = Gather {
        rows: index.len(),
        columns: out.len,
        table: feature.len,
        strides: [feature.stride, out.stride],
    };
    lowering.call(Kernel::Gather(kernel), [weight.operand, Operand::Input(0)], output);
    Ok(())
}

/// Looks up `count` indices along an axis of a row-major value: `output` has them in place of the axis.
pub(super) fn along(
    lowering: &mut Lowering,
    (value, shape): (Operand, &[usize]),
    axis: usize,
    (indices, count): (Operand, usize),
    output: Operand,
) -> Result<()> {
    let (outer, len) = (elements(&shape[..axis])?, shape[axis]);
    let inner = elements(&shape[axis + 1..])?;
    // The kernel looks up rows: the axis comes first, and goes back.
    let columns = elements(&[outer, inner])?;
    let kernel = Kernel::Gather(Gather { rows: count, columns, table: len, strides: [columns, 1] });
    if outer == 1 {
        lowering.call(kernel, [value, indices], output);
        return Ok(());
    }
    let numbers = lowering.numbers(value)?;
    let table = lowering.temporary(vec![len, outer, inner], numbers)?;
    let own = row_major(&[outer, len, inner]);
    permuted(lowering, value, &[len, outer, inner], &[own[1], own[0], own[2]], table)?;
    let rows = lowering.temporary(vec![count, outer, inner], numbers)?;
    lowering.call(kernel, [table, indices], rows);
    let found = row_major(&[count, outer, inner]);
    permuted(lowering, rows, &[outer, count, inner], &[found[1], found[0], found[2]], output)
}
