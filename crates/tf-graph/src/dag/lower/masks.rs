//! Lowers operations that select by position, and remainders.

use super::super::super::no_chain::NoChain;
use super::super::facts::{dtype, int};
use super::super::reach::Edge;
use super::lowering::{Lowering, lost};
use super::values::Val;
use crate::proto::NodeDef;
use ckpt_graph::Length;
use ckpt_graph::shape::resolve;

/// Limit on the elements of a mask.
const MAX_MASK: u64 = 1 << 20;

impl Lowering<'_> {
    /// Lowers a selection by position or a remainder; `None` if it is another operation.
    pub(super) fn masked(
        &mut self,
        op: &NodeDef,
        edge: Edge,
        inputs: &[Val],
    ) -> Result<Option<Val>, NoChain> {
        let made = match (op.op.as_str(), inputs) {
            ("MatrixBandPart", [x]) if is_real(op) => self.band(edge, x)?,
            ("OneHot", [x]) => self.one_hot(op, edge, x)?,
            ("FloorMod", [a, b]) => self.values.floor_mod(a, b, is_real(op))?,
            ("FloorDiv", [a, b]) => self.values.floor_div(a, b, is_real(op))?,
            ("Tan", [x]) => {
                let (sine, cosine) = (self.values.apply("Sin", &[x])?, self.values.apply("Cos", &[x])?);
                self.values.apply("Div", &[&sine, &cosine])?
            }
            ("BiasAdd", [x, bias]) => {
                let axes: Vec<usize> = (1..x.rank().saturating_sub(1)).collect();
                let bias = self.values.unsqueeze(bias, &axes)?;
                let x = self.values.last(x)?;
                self.values.apply("Add", &[&x, &bias])?
            }
            _ => return Ok(None),
        };
        Ok(Some(made))
    }

    /// Keeps some diagonals of matrices, and makes all else 0.
    fn band(&mut self, edge: Edge, x: &Val) -> Result<Val, NoChain> {
        let ([lower], [upper]) = (&self.list(edge, 1)?[..], &self.list(edge, 2)?[..]) else {
            return Err(lost());
        };
        let [.., Length::Known(rows), Length::Known(columns)] = x.dims[..] else {
            return Err(NoChain::unsupported("its matrices have a size that depends on the input"));
        };
        let mut mask = Vec::new();
        let (height, width) = (size(rows)?, size(columns)?);
        if height.checked_mul(width).is_none_or(|elements| elements > MAX_MASK) {
            return Err(NoChain::unsupported("its matrices are too large"));
        }
        for row in 0..rows {
            for column in 0..columns {
                let is_kept =
                    (*lower < 0 || row - column <= *lower) && (*upper < 0 || column - row <= *upper);
                mask.push(i64::from(is_kept));
            }
        }
        let name = format!("{}/band", self.values.place);
        let mask = self.values.integers(&name, &[height, width], mask)?;
        let zero = self.values.scalar(0.0)?;
        Ok(self.values.apply("Where", &[&mask, x, &zero])?)
    }

    fn one_hot(&mut self, op: &NodeDef, edge: Edge, x: &Val) -> Result<Val, NoChain> {
        let [depth] = self.list(edge, 1)?[..] else { return Err(lost()) };
        let count = size(depth).ok().filter(|count| (1..=MAX_MASK).contains(count));
        let count = count.ok_or_else(|| NoChain::unsupported(format!("it has {depth} classes")))?;
        if !matches!(dtype(op, "T"), Some(1) | None) {
            return Err(NoChain::unsupported("its values are no float32 numbers"));
        }
        let number = |at: usize| self.view.inputs(edge).get(at).and_then(|value| self.view.number(*value));
        let (Some(on), Some(off)) = (number(2), number(3)) else {
            return Err(NoChain::unsupported("its values are no constants"));
        };
        let axis = resolve(int(op, "axis").unwrap_or(-1), x.rank() + 1).ok_or_else(lost)?;
        let x = self.values.unsqueeze(x, &[axis])?;
        let mut shape = vec![1; x.rank()];
        *shape.get_mut(axis).ok_or_else(lost)? = count;
        let name = format!("{}/classes", self.values.place);
        let classes = self.values.integers(&name, &shape, (0..depth).collect())?;
        let is_own = self.values.apply("Equal", &[&x, &classes])?;
        let (on, off) = (self.values.scalar(on)?, self.values.scalar(off)?);
        Ok(self.values.apply("Where", &[&is_own, &on, &off])?)
    }
}

/// Whether the operands are floating-point numbers.
fn is_real(op: &NodeDef) -> bool {
    matches!(dtype(op, "T"), Some(1 | 2 | 14 | 19) | None)
}

fn size(len: i64) -> Result<u64, NoChain> {
    u64::try_from(len).map_err(|_| lost())
}
