//! Losses of classes.

use super::super::values::{Attributes, Read};
use super::parts::Parts;
use ckpt_api::Op;

impl Parts<'_, '_> {
    /// The negative logarithm of each target's likelihood: logarithms, targets, and perhaps a weight of each class.
    pub(super) fn negative_likelihood(&mut self) -> Read<()> {
        let x = self.input(0)?;
        let value = self.loss(&x)?;
        self.finish(0, &value);
        Ok(())
    }

    /// The same of the softmax of scores, which may be an output, too.
    pub(super) fn cross_entropy(&mut self) -> Read<()> {
        let x = self.input(0)?;
        let logarithms = self.with(Op::LogSoftmax, &[&x], Attributes::new().int("axis", 1));
        let value = self.loss(&logarithms)?;
        self.finish(0, &value);
        if self.has_output(1) {
            self.finish(1, &logarithms);
        }
        Ok(())
    }

    fn loss(&mut self, x: &str) -> Read<String> {
        let (rank, classes) = (self.rank(x)?, self.len(x, 1)?);
        let targets = self.input(1)?;
        let column = self.unsqueeze(&targets, &[1]);
        let all = self.count(classes, 1, rank)?;
        let is_target = self.apply(Op::Equal, &[&column, &all]);
        let (nothing, one) = (self.number(0.0), self.number(1.0));
        let chosen = self.choose(&is_target, x, &nothing);
        let logarithm = self.reduce(Op::ReduceSum, &chosen, &[1], false);
        let mut loss = self.apply(Op::Neg, &[&logarithm]);
        let mut weight = None;
        if let Some(weights) = self.optional(2)? {
            let mut shape = vec![1; rank];
            shape[1] = -1;
            let weights = self.reshape(&weights, &shape);
            let own = self.choose(&is_target, &weights, &nothing);
            weight = Some(self.reduce(Op::ReduceSum, &own, &[1], false));
        }
        if let Some(ignored) = self.node.int("ignore_index") {
            let ignored = self.integer(ignored);
            let is_ignored = self.apply(Op::Equal, &[&targets, &ignored]);
            loss = self.choose(&is_ignored, &nothing, &loss);
            let own = weight.as_deref().unwrap_or(&one).to_owned();
            weight = Some(self.choose(&is_ignored, &nothing, &own));
        }
        if let Some(weight) = &weight {
            loss = self.mul(&loss, weight);
        }
        Ok(match (self.node.text("reduction").unwrap_or("mean"), weight) {
            ("none", _) => loss,
            ("sum", _) => self.reduce(Op::ReduceSum, &loss, &[], false),
            ("mean", None) => self.reduce(Op::ReduceMean, &loss, &[], false),
            ("mean", Some(weight)) => {
                let (sum, all) = (
                    self.reduce(Op::ReduceSum, &loss, &[], false),
                    self.reduce(Op::ReduceSum, &weight, &[], false),
                );
                self.div(&sum, &all)
            }
            (other, _) => return Err(format!("has the unknown reduction '{}'", other.escape_debug())),
        })
    }
}
