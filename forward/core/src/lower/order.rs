//! Lowers operators on elements in the order of an axis, or of their size.

use super::lowering::{Lowering, Operand, elements, misfit};
use crate::Kernel;
use crate::kernel::{Extreme, Function, Pairwise, Ranking, Relation, Scan, Unary};
use crate::value::Numbers;
use ckpt_api::{Attribute, Error, Op, Result};

/// Lowers the place of the greatest or least element on an axis.
pub(super) fn arg_extreme(lowering: &mut Lowering) -> Result<()> {
    lowering.allow_attributes(&["axis", "keepdims", "select_last_index"])?;
    lowering.allow_roles(&[])?;
    let [x] = lowering.exactly()?;
    let axis = lowering.axis(x, 0)?;
    let extreme = if lowering.node.op == Op::ArgMin { Extreme::Least } else { Extreme::Greatest };
    let kernel = Ranking {
        outer: elements(&x.shape[..axis])?,
        len: x.shape[axis],
        inner: elements(&x.shape[axis + 1..])?,
        count: 1,
        extreme,
        prefer_last: lowering.node.flag("select_last_index")?,
    };
    if kernel.len == 0 && elements(&[kernel.outer, kernel.inner])? > 0 {
        return Err(misfit(&x.shape, "an element on the axis"));
    }
    let mut shape = x.shape.clone();
    if lowering.node.int("keepdims", 1)? == 0 {
        shape.remove(axis);
    } else {
        shape[axis] = 1;
    }
    let output = lowering.output(shape, Numbers::Integer)?;
    lowering.call(Kernel::Ranking(kernel), [Operand::Input(0)], output);
    Ok(())
}

/// Lowers the `k` greatest or least elements on an axis, in their order, and their places.
pub(super) fn top_k(lowering: &mut Lowering) -> Result<()> {
    // Sorted results are one of those that `sorted` 0 allows.
    lowering.allow_attributes(&["k", "axis", "largest", "sorted"])?;
    lowering.allow_roles(&[])?;
    let [x] = lowering.exactly()?;
    let axis = lowering.axis(x, -1)?;
    let len = x.shape[axis];
    let stated = lowering.node.int("k", -1)?;
    let count = usize::try_from(stated).ok().filter(|count| *count <= len);
    let count = count.ok_or_else(|| Attribute::Int(stated).invalid("k", format!("0 to {len}")))?;
    let extreme = if lowering.node.int("largest", 1)? == 0 { Extreme::Least } else { Extreme::Greatest };
    let (outer, inner) = (elements(&x.shape[..axis])?, elements(&x.shape[axis + 1..])?);
    let mut shape = x.shape.clone();
    shape[axis] = count;
    let values = lowering.output(shape.clone(), x.numbers)?;
    let places = lowering.output(shape, Numbers::Integer)?;
    let kernel = Ranking { outer, len, inner, count, extreme, prefer_last: false };
    lowering.call(Kernel::Ranking(kernel), [Operand::Input(0)], places);
    // Element `i` of axis `a` is element `i·inner + rest` of `a`'s part of the value.
    let found = super::local::Local::new(places, vec![outer, count, inner], Numbers::Integer);
    let part = elements(&[len, inner])?;
    let signed = |len: usize| i64::try_from(len).unwrap_or(i64::MAX);
    let stride = lowering.range(signed(inner), 0, 1);
    let parts = lowering.range(0, signed(part), outer).reshaped([outer, 1, 1]);
    let rest = lowering.range(0, 1, inner);
    let scaled = lowering.combine(Pairwise::Multiply, &found, &stride)?;
    let within = lowering.combine(Pairwise::Add, &scaled, &rest)?;
    let flat = lowering.combine(Pairwise::Add, &within, &parts)?;
    let table = elements(&x.shape)?;
    let rows = flat.info.len();
    let gather = crate::kernel::Gather { rows, columns: 1, table, strides: [1, 1] };
    lowering.call(Kernel::Gather(gather), [Operand::Input(0), flat.operand], values);
    Ok(())
}

/// Lowers sums or products of the elements so far on an axis.
pub(super) fn cumulative(lowering: &mut Lowering) -> Result<()> {
    lowering.allow_attributes(&["axis", "exclusive", "reverse"])?;
    lowering.allow_roles(&[])?;
    let [x] = lowering.exactly()?;
    let axis = lowering.axis(x, 0)?;
    let kernel = Scan {
        outer: elements(&x.shape[..axis])?,
        len: x.shape[axis],
        inner: elements(&x.shape[axis + 1..])?,
        exclusive: lowering.node.flag("exclusive")?,
        reverse: lowering.node.flag("reverse")?,
        product: lowering.node.op == Op::CumProd,
    };
    let output = lowering.output(x.shape.clone(), x.numbers)?;
    lowering.call(Kernel::Scan(kernel), [Operand::Input(0)], output);
    Ok(())
}

/// Lowers the elements above or below a diagonal of matrices; 0 elsewhere.
pub(super) fn triangle(lowering: &mut Lowering) -> Result<()> {
    lowering.allow_attributes(&["upper", "k"])?;
    lowering.allow_roles(&[])?;
    let [x] = lowering.exactly()?;
    let &[.., rows, columns] = &x.shape[..] else {
        return Err(misfit(&x.shape, "matrices, in the last two axes"));
    };
    if [rows, columns].iter().any(|len| *len >= 1 << 30) {
        return Err(Error::limit("a matrix has too many rows or columns").found(format!("{:?}", x.shape)));
    }
    let diagonal = lowering.node.int("k", 0)?.clamp(-(1 << 30), 1 << 30);
    let is_upper = lowering.node.int("upper", 1)? != 0;
    let input = lowering.local(0)?;
    // The element of row r and column c is above or on the diagonal if r + k ≤ c, below or on it if c ≤ r + k.
    let row = lowering.range(diagonal, 1, rows).reshaped([rows, 1]);
    let column = lowering.range(0, 1, columns).reshaped([1, columns]);
    let kept = match is_upper {
        true => lowering.relate(Relation::LessOrEqual, &row, &column)?,
        false => lowering.relate(Relation::LessOrEqual, &column, &row)?,
    };
    let zero = match x.numbers {
        Numbers::Real => lowering.number(0.0),
        Numbers::Integer => lowering.range(0, 0, 1).reshaped([]),
    };
    let value = lowering.choose(&kept, &input, &zero)?;
    lowering.finish(&value, &x.shape[..])
}

/// Lowers a test of each element, 1 or 0.
pub(super) fn is_nan(lowering: &mut Lowering) -> Result<()> {
    lowering.allow_attributes(&[])?;
    lowering.allow_roles(&[])?;
    let [x] = lowering.exactly()?;
    lowering.real(0)?;
    let input = lowering.local(0)?;
    let equal = lowering.relate(Relation::Equal, &input, &input)?;
    let output = lowering.output(x.shape.clone(), Numbers::Integer)?;
    let kernel = Unary { len: x.len(), function: Function::Not };
    lowering.call(Kernel::Unary(kernel), [equal.operand], output);
    Ok(())
}

/// Lowers a test of each element, 1 or 0: whether it is infinite with one of the signs that count.
pub(super) fn is_infinite(lowering: &mut Lowering) -> Result<()> {
    lowering.allow_attributes(&["detect_negative", "detect_positive"])?;
    lowering.allow_roles(&[])?;
    let [x] = lowering.exactly()?;
    lowering.real(0)?;
    let (input, infinity) = (lowering.local(0)?, lowering.number(f64::INFINITY));
    let signs = ["detect_negative", "detect_positive"].map(|name| lowering.node.int(name, 1));
    let value = match signs {
        [Err(error), _] | [_, Err(error)] => return Err(error),
        [Ok(0), Ok(0)] => lowering.range(0, 0, x.len()),
        [Ok(0), _] => lowering.relate(Relation::Equal, &input, &infinity)?,
        [_, Ok(0)] => {
            let negated = lowering.apply(Function::Negate, &input)?;
            lowering.relate(Relation::Equal, &negated, &infinity)?
        }
        _ => {
            let size = lowering.apply(Function::Abs, &input)?;
            lowering.relate(Relation::Equal, &size, &infinity)?
        }
    };
    lowering.finish(&value, &x.shape[..])
}
