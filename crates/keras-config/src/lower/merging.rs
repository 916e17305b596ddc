//! Lowers layers that merge several values.

use super::lowering::Lowering;
use super::values::Val;
use crate::layer::Reason;
use crate::model::Layer;
use ckpt_api::{Attribute, Op};

impl Lowering {
    /// Lowers a layer that merges values; `None` if it is another one.
    pub(super) fn merged(&mut self, layer: &Layer, inputs: &[Val]) -> Result<Option<Val>, Reason> {
        let op = match layer.class.as_str() {
            "Add" | "Average" => Op::Add,
            "Subtract" => Op::Sub,
            "Multiply" => Op::Mul,
            "Maximum" => Op::Max,
            "Minimum" => Op::Min,
            "Concatenate" => {
                let first = inputs.first().ok_or("it takes no values")?;
                let axis = first.resolve(layer.int("axis", -1)?)?;
                return self.values.join(axis, inputs).map(Some);
            }
            "Dot" => {
                refuse_narrow(inputs)?;
                return self.dot(layer, inputs).map(Some);
            }
            _ => return Ok(None),
        };
        if !matches!(op, Op::Max | Op::Min) {
            refuse_narrow(inputs)?;
        }
        if op == Op::Sub && inputs.len() != 2 {
            return Err(format!("it takes two values, but is given {}", inputs.len()));
        }
        let rank = inputs.iter().map(Val::rank).max().unwrap_or(0);
        let mut made: Option<Val> = None;
        for input in inputs {
            // Keras adds the axes that a value lacks behind the batch.
            let lacking: Vec<usize> = (1..=rank - input.rank()).collect();
            let input =
                if lacking.is_empty() { input.clone() } else { self.values.unsqueeze(input, &lacking)? };
            made = Some(match made {
                None => input,
                Some(sum) => self.values.apply(op.clone(), &[&sum, &input])?,
            });
        }
        let made = made.ok_or("it takes no values")?;
        if layer.class != "Average" {
            return Ok(Some(made));
        }
        #[expect(clippy::cast_precision_loss, reason = "the number of inputs is small")]
        let count = self.values.scalar(inputs.len() as f64)?;
        self.values.apply(Op::Div, &[&made, &count]).map(Some)
    }

    /// Lowers `Dot`: products of the matrices of two values, over one axis of each.
    fn dot(&mut self, layer: &Layer, inputs: &[Val]) -> Result<Val, Reason> {
        let [a, b] = inputs else {
            return Err(format!("it takes two values, but is given {}", inputs.len()));
        };
        let axes = layer.ints("axes")?.unwrap_or_default();
        let (over_a, over_b) = match axes[..] {
            [axis] => (a.resolve(axis)?, b.resolve(axis)?),
            [left, right] => (a.resolve(left)?, b.resolve(right)?),
            _ => return Err("its option 'axes' is not valid".to_owned()),
        };
        let is_known = |val: &Val, axis: usize| axis > 0 && (2..=3).contains(&val.rank());
        if !is_known(a, over_a) || !is_known(b, over_b) {
            return Err(
                "it takes values of other than two or three axes, or multiplies over the batch".to_owned()
            );
        }
        let mut turned = Vec::new();
        for (val, axis) in [(a, over_a), (b, over_b)] {
            let val = match layer.flag("normalize", false) {
                true => {
                    let node = self.values.node(Op::LpNormalization).attribute("p", Attribute::Int(2));
                    let node = node.attribute("axis", Attribute::Int(ckpt_graph::int(val.axis(axis))?));
                    self.values.map(node, val)?
                }
                false => val.clone(),
            };
            turned.push(val);
        }
        let [a, b] = <[Val; 2]>::try_from(turned).map_err(|_| "it takes two values")?;
        // A vector is a row of the first, and a column of the second.
        let left = match (a.rank(), over_a) {
            (2, _) => self.values.unsqueeze(&a, &[1])?,
            (_, 1) => self.values.transpose(&a, &[0, 2, 1])?,
            _ => self.values.last(&a)?,
        };
        let right = match (b.rank(), over_b) {
            (2, _) => self.values.unsqueeze(&b, &[2])?,
            (_, 2) => self.values.transpose(&b, &[0, 2, 1])?,
            _ => self.values.last(&b)?,
        };
        let dims = vec![left.len(0), left.len(1), right.len(2)];
        let made = self.values.plain(self.values.node(Op::MatMul), &[&left, &right], dims)?;
        match (a.rank(), b.rank()) {
            (2, 2) => self.values.squeeze(&made, &[1]),
            (2, _) => self.values.squeeze(&made, &[1]),
            (_, 2) => self.values.squeeze(&made, &[2]),
            _ => Ok(made),
        }
    }
}

/// Refuses to compute with integers of few bits: Keras's wrap around, those of graphs do not.
pub(super) fn refuse_narrow(vals: &[Val]) -> Result<(), Reason> {
    match vals.iter().any(|val| val.tag.is_narrow) {
        true => {
            Err("it computes with integers of 8 or 16 bits, which wrap around; cast them first".to_owned())
        }
        false => Ok(()),
    }
}
