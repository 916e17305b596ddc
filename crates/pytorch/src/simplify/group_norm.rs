//! Group normalization, which Keras computes of means, differences and products.

use super::Rewriter;
use ckpt_api::{Attribute, Node, Op};

impl Rewriter<'_> {
    /// Finds the last node of each group normalization, and replaces it.
    pub(super) fn group_norms(&mut self) {
        for number in 0..self.graph.nodes.len() {
            let Some(mut made) = self.node(number).and_then(|node| self.group_norm(node)) else { continue };
            if let (Some(node), Some(last)) = (self.graph.nodes.get_mut(number), made.pop()) {
                *node = last;
                self.added.insert(number, made);
            }
        }
    }

    /// The nodes in place of the one that puts groups together again: the channels move to the second place, and back.
    fn group_norm(&self, last: &Node) -> Option<Vec<Node>> {
        if last.op != Op::Reshape {
            return None;
        }
        let sum = self.only(last, 0, &Op::Add)?;
        let product = self.only(sum, 0, &Op::Mul)?;
        let grouped = self.before(product, 0).filter(|node| node.op == Op::Reshape)?;
        let factor = product.inputs.get(1)?;
        let shift = self.before(sum, 1)?;
        let (shift, beta) = match shift.op {
            Op::Add => (self.before(shift, 0)?, Some(self.constant(shift, 1)?)),
            _ => (shift, None),
        };
        if shift.op != Op::Mul || shift.inputs.get(1) != Some(factor) {
            return None;
        }
        let negated = self.before(shift, 0).filter(|node| node.op == Op::Neg)?;
        let mean = self.before(negated, 0).filter(|node| node.op == Op::ReduceMean)?;
        let factor = self.node(*self.makers.get(factor)?)?;
        let (root, gamma) = match factor.op {
            Op::Mul => (self.before(factor, 0)?, Some(self.constant(factor, 1)?)),
            _ => (factor, None),
        };
        let root = self.before(root, 0).filter(|node| root.op == Op::Reciprocal && node.op == Op::Sqrt)?;
        let variance = self.before(root, 0).filter(|node| node.op == Op::Add)?;
        let epsilon = self.number(variance, 1)?;
        let variance = self.before(variance, 0).filter(|node| node.op == Op::ReduceMean)?;
        let square = self
            .before(variance, 0)
            .filter(|node| node.op == Op::Mul && node.inputs.first() == node.inputs.get(1))?;
        let difference = self.before(square, 0).filter(|node| node.op == Op::Sub)?;
        let groups = grouped.outputs.first();
        let is_of_groups = mean.inputs.first() == groups
            && difference.inputs.first() == groups
            && difference.inputs.get(1) == mean.outputs.first();
        let divided = self.shapes.get(groups?)?;
        let rank = divided.len();
        let count = divided.get(rank.checked_sub(2)?).copied().flatten()?;
        let axes: Vec<i64> = (1..rank)
            .filter(|axis| axis + 2 != rank)
            .map(|axis| i64::try_from(axis).ok())
            .collect::<Option<_>>()?;
        let is_over =
            |node: &Node| matches!(node.attributes.get("axes"), Some(Attribute::Ints(own)) if *own == axes);
        let x = grouped.inputs.first()?;
        let same =
            self.shapes.get(x).is_some() && self.shapes.get(x) == self.shapes.get(last.outputs.first()?);
        if !is_of_groups || !is_over(mean) || !is_over(variance) || !same || rank < 3 {
            return None;
        }
        let tensor = gamma.or(beta)?;
        let name = self.layer(tensor);
        let mut norm = Node::new(name.rsplit(['/', '.']).next()?, Op::GroupNormalization)
            .attribute("num_groups", Attribute::Int(i64::try_from(count).ok()?))
            .attribute("epsilon", Attribute::Float(epsilon));
        for (role, tensor) in [("scale", gamma), ("bias", beta)] {
            if let Some(tensor) = tensor {
                norm = norm.parameter(role, tensor);
            }
        }
        Some(between_moves(norm, x, last, rank - 1))
    }
}

/// A node of values with their channels second, between values of so many axes with their channels last.
fn between_moves(mut norm: Node, x: &str, last: &Node, rank: usize) -> Vec<Node> {
    if rank < 3 {
        (norm.inputs, norm.outputs) = (vec![x.to_owned()], last.outputs.clone());
        return vec![norm];
    }
    let perm = |axes: Vec<usize>| {
        Attribute::Ints(axes.into_iter().filter_map(|axis| i64::try_from(axis).ok()).collect())
    };
    let first = [0, rank - 1].into_iter().chain(1..rank - 1).collect();
    let back = [0].into_iter().chain(2..rank).chain([1]).collect();
    let named = |suffix: &str| format!("{}#{suffix}", last.name);
    let mut to = Node::new(named("channels_first"), Op::Transpose).attribute("perm", perm(first));
    (to.inputs, to.outputs) = (vec![x.to_owned()], vec![to.name.clone()]);
    (norm.inputs, norm.outputs) = (to.outputs.clone(), vec![named("normalized")]);
    let mut from = Node::new(last.name.clone(), Op::Transpose).attribute("perm", perm(back));
    (from.inputs, from.outputs) = (norm.outputs.clone(), last.outputs.clone());
    vec![to, norm, from]
}
