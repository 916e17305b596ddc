//! Sums of products along named axes, as products of matrices.

use crate::operator::Operator;
use crate::unsupported;
use crate::values::{Builder, Kind, Val};
use ckpt_api::{Node, Result};
use ckpt_graph::{Dims, Length};

/// The labels of two values and of their product, by what becomes of them.
struct Labels {
    a: Vec<char>,
    b: Vec<char>,
    out: Vec<char>,
}

impl Labels {
    /// The labels of an equation of two values; `None` for another, and for labels that are summed or repeated in one value.
    fn parse(equation: &str) -> Option<Self> {
        let bare: String = equation.chars().filter(|character| !character.is_whitespace()).collect();
        let (inputs, out) = bare.split_once("->")?;
        let (a, b) = inputs.split_once(',')?;
        let all = |text: &str| -> Option<Vec<char>> {
            let labels: Vec<char> = text.chars().collect();
            let is_plain = |(at, label): (usize, &char)| {
                label.is_ascii_alphabetic() && labels.iter().position(|other| other == label) == Some(at)
            };
            labels.iter().enumerate().all(is_plain).then_some(labels)
        };
        let labels = Labels { a: all(a)?, b: all(b)?, out: all(out)? };
        let is_known = |label: &char| labels.a.contains(label) || labels.b.contains(label);
        let is_kept = |own: &[char], other: &[char]| {
            own.iter().all(|label| other.contains(label) || labels.out.contains(label))
        };
        let is_whole =
            labels.out.iter().all(is_known) && is_kept(&labels.a, &labels.b) && is_kept(&labels.b, &labels.a);
        is_whole.then_some(labels)
    }

    /// Those of both values and the product, of both values alone, and of one value and the product.
    fn groups(&self) -> [Vec<char>; 4] {
        let in_out = |label: &&char| self.out.contains(label);
        let both: Vec<char> = self.a.iter().copied().filter(|label| self.b.contains(label)).collect();
        [
            both.iter().filter(in_out).copied().collect(),
            both.iter().copied().filter(|label| !self.out.contains(label)).collect(),
            self.a.iter().copied().filter(|label| !self.b.contains(label)).collect(),
            self.b.iter().copied().filter(|label| !self.a.contains(label)).collect(),
        ]
    }
}

impl Builder<'_> {
    /// Writes ONNX's `Einsum` of two values.
    pub(super) fn einsum(&mut self, node: &Node) -> Result<Val> {
        let why = "its equation is no product of matrices";
        let labels = node.text("equation")?.and_then(Labels::parse).ok_or_else(|| unsupported(node, why))?;
        let (a, b) = (self.input(node, 0)?, self.input(node, 1)?);
        let (a, b) = (self.plain(&a)?, self.plain(&b)?);
        if (a.rank(), b.rank()) != (labels.a.len(), labels.b.len()) {
            return Err(unsupported(node, "its equation does not fit its values"));
        }
        let lens: Vec<(char, Length)> = labels
            .b
            .iter()
            .zip(&b.dims)
            .chain(labels.a.iter().zip(&a.dims))
            .map(|(label, len)| (*label, *len))
            .collect();
        let len = |label: char| {
            lens.iter().rev().find(|(own, _)| *own == label).map_or(Length::Unknown, |(_, len)| *len)
        };
        let dims = |all: &[char]| -> Dims { all.iter().map(|label| len(*label)).collect() };
        let [batch, inner, rows, columns] = labels.groups();
        let sides = |first: &[char], last: &[char]| [&batch[..], first, last].concat();
        let a = self.as_matrices(node, &a, &labels.a, &sides(&rows, &inner), [batch.len(), rows.len()])?;
        let b =
            self.as_matrices(node, &b, &labels.b, &sides(&inner, &columns), [batch.len(), inner.len()])?;
        let mut product: Dims = a.dims.iter().take(2).copied().collect();
        product.extend(b.dims.last());
        let made = self.emit(Operator::BatchMatMul, &[a.tensor, b.tensor], (product, false, Kind::Real))?;
        let order = sides(&rows, &columns);
        let made = self.reshaped(&made, dims(&order))?;
        self.relabeled(&made, &order, &labels.out)
    }

    /// A value with its labels in this order, as `[batch, rows, columns]`: so many labels are of the batch and of the rows.
    fn as_matrices(
        &mut self,
        node: &Node,
        val: &Val,
        own: &[char],
        order: &[char],
        [batch, rows]: [usize; 2],
    ) -> Result<Val> {
        let val = self.relabeled(val, own, order)?;
        let (of_batch, rest) = val.dims.split_at(batch.min(val.rank()));
        let (of_rows, of_columns) = rest.split_at(rows.min(rest.len()));
        let joined = |lens: &[Length]| lens.iter().fold(Length::Known(1), |product, len| product * *len);
        let dims: Dims = [of_batch, of_rows, of_columns].map(joined).to_vec();
        if dims.contains(&Length::Unknown) {
            return Err(unsupported(node, "several of its lengths are free"));
        }
        if dims == val.dims { Ok(val) } else { self.reshaped(&val, dims) }
    }

    fn relabeled(&mut self, val: &Val, own: &[char], wanted: &[char]) -> Result<Val> {
        let perm: Vec<usize> =
            wanted.iter().filter_map(|label| own.iter().position(|other| other == label)).collect();
        if perm.is_sorted() {
            return Ok(val.clone());
        }
        let dims = perm.iter().filter_map(|axis| val.dims.get(*axis).copied()).collect();
        self.permuted(val, &perm, (dims, false))
    }
}
