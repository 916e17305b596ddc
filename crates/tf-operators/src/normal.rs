//! Normalizations by the statistics of each example, of operators that the format has.

use crate::operator::{Binary, Operator, Reduction, Unary};
use crate::unsupported;
use crate::values::{Builder, Kind, Val};
use ckpt_api::{Node, Op, Result};
use ckpt_graph::Length;
use ckpt_graph::shape::resolve;

impl Builder<'_> {
    /// Writes a normalization; `None` for another operator.
    pub(super) fn normal_node(&mut self, node: &Node) -> Result<Option<Val>> {
        let is_centered = match node.op {
            Op::LayerNormalization => true,
            Op::RMSNormalization => false,
            Op::GroupNormalization | Op::InstanceNormalization => return self.grouped(node).map(Some),
            _ => return Ok(None),
        };
        let x = self.input(node, 0)?;
        let x = self.plain(&x)?;
        let rank = x.rank();
        let first = resolve(node.int("axis", -1)?, rank)
            .ok_or_else(|| unsupported(node, "its axis does not exist"))?;
        let axes: Vec<usize> = (first..rank).collect();
        let mut made = self.normalized(&x, &axes, is_centered, node.float("epsilon", 1e-5)?)?;
        let result = (x.dims.clone(), false, Kind::Real);
        for (role, own) in [("scale", Binary::Mul), ("bias", Binary::Add)] {
            if let Some((id, tensor)) = self.parameter(node, role)? {
                let shape = tensor.shape.to_vec();
                let weight = self.weight(id, (0..shape.len()).collect(), shape)?;
                made = self.emit(Operator::Binary(own), &[made.tensor, weight], result.clone())?;
            }
        }
        Ok(Some(made))
    }

    /// Values divided by the root of their mean square along axes, first less their mean if they are centered.
    fn normalized(&mut self, x: &Val, axes: &[usize], is_centered: bool, epsilon: f64) -> Result<Val> {
        let one = (ckpt_graph::shape::reduced(&x.dims, axes, true), false, Kind::Real);
        let axes: Vec<i64> = axes.iter().map(|axis| i64::try_from(*axis).unwrap_or(0)).collect();
        let axes = self.ints(&axes)?;
        let mean_of = || Operator::Reduce { by: Reduction::Mean, keeps: true };
        let centered = match is_centered {
            true => {
                let mean = self.emit(mean_of(), &[x.tensor, axes], one.clone())?;
                self.two(Binary::Sub, x, &mean)?
            }
            false => x.clone(),
        };
        let squares = self.two(Binary::Mul, &centered, &centered)?;
        let variance = self.emit(mean_of(), &[squares.tensor, axes], one)?;
        let sum = self.with_scalar(Binary::Add, &variance, epsilon)?;
        let root = self.unary(Unary::Sqrt, &sum)?;
        self.two(Binary::Div, &centered, &root)
    }

    /// A normalization of groups of channels, or of each channel: a row for each of them.
    fn grouped(&mut self, node: &Node) -> Result<Val> {
        let x = self.input(node, 0)?;
        let x = self.plain(&x)?;
        let [batch, channels, places @ ..] = &x.dims[..] else {
            return Err(unsupported(node, "it takes a value without channels"));
        };
        let groups = match node.op {
            Op::InstanceNormalization => *channels,
            _ => Length::Known(node.int("num_groups", 1)?),
        };
        let places: Length = places.iter().product();
        let len = channels.floor_div(groups) * places;
        if groups.known().is_none() || len.known().is_none() {
            return Err(unsupported(node, "the size of its groups is not known"));
        }
        let rows = self.reshaped(&x, vec![*batch, groups, len])?;
        let rows = self.normalized(&rows, &[2], true, node.float("epsilon", 1e-5)?)?;
        let mut made = self.reshaped(&rows, x.dims.clone())?;
        for (role, own) in [("scale", Binary::Mul), ("bias", Binary::Add)] {
            if let Some((id, tensor)) = self.parameter(node, role)? {
                let order = (0..tensor.shape.rank()).collect();
                let mut shape = vec![1; x.rank().saturating_sub(1)];
                shape.iter_mut().take(1).for_each(|len| *len = tensor.shape.elements());
                let weight = self.weight(id, order, shape)?;
                let result = (x.dims.clone(), false, Kind::Real);
                made = self.emit(Operator::Binary(own), &[made.tensor, weight], result)?;
            }
        }
        Ok(made)
    }
}
