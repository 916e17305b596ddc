//! Normalizations by the statistics of each example, of operators that the format has.

use super::super::flat::Field;
use super::unsupported;
use super::values::{Builder, Kind, Val, options};
use ckpt_api::{Node, Op, Result};
use ckpt_graph::shape::resolve;

impl Builder<'_> {
    /// Writes a normalization; `None` for another operator.
    pub(super) fn normal_node(&mut self, node: &Node) -> Result<Option<Val>> {
        let is_centered = match node.op {
            Op::LayerNormalization => true,
            Op::RMSNormalization => false,
            _ => return Ok(None),
        };
        let x = self.input(node, 0)?;
        let x = self.plain(&x)?;
        let rank = x.rank();
        let first = resolve(node.int("axis", -1)?, rank)
            .ok_or_else(|| unsupported(node, "its axis does not exist"))?;
        let axes: Vec<i64> = (first..rank).map(|axis| i64::try_from(axis).unwrap_or(0)).collect();
        let axes = self.ints(&axes)?;
        let result = (x.dims.clone(), false, Kind::Real);
        let kept: Vec<usize> = (first..rank).collect();
        let one = (ckpt_graph::shape::reduced(&x.dims, &kept, true), false, Kind::Real);
        let keeps = || options(27, [(0, Field::Flag(true))]);
        let centered = match is_centered {
            true => {
                let mean = self.emit(40, &[x.tensor, axes], keeps(), one.clone())?;
                self.emit(41, &[x.tensor, mean.tensor], options(28, []), result.clone())?
            }
            false => x.clone(),
        };
        let squares = self.emit(18, &[centered.tensor, centered.tensor], options(21, []), result.clone())?;
        let variance = self.emit(40, &[squares.tensor, axes], keeps(), one.clone())?;
        let epsilon = self.scalar(node.float("epsilon", 1e-5)?)?;
        let sum = self.emit(0, &[variance.tensor, epsilon], options(11, []), one.clone())?;
        let root = self.emit(75, &[sum.tensor], None, one)?;
        let mut made = self.emit(42, &[centered.tensor, root.tensor], options(29, []), result.clone())?;
        for (role, code, kind) in [("scale", 18, 21), ("bias", 0, 11)] {
            if let Some((id, tensor)) = self.parameter(node, role)? {
                let shape = tensor.shape.to_vec();
                let weight = self.weight(id, (0..shape.len()).collect(), shape)?;
                made = self.emit(code, &[made.tensor, weight], options(kind, []), result.clone())?;
            }
        }
        Ok(Some(made))
    }
}
