//! Operators whose inputs are broadcast with each other.

use super::val::is_one;
use super::{Builder, Reason, Tag, Val, ints};
use crate::length::Length;
use crate::order::Layout;
use crate::shape::{Dims, broadcast_all, show};
use ckpt_api::{Node, Op};

impl<K: Tag> Builder<K> {
    /// Adds an elementwise node.
    ///
    /// # Errors
    /// As [`Builder::add`], and for shapes that do not fit.
    pub fn elementwise(&mut self, node: Node, inputs: &[&Val<K>]) -> Result<Val<K>, Reason> {
        let (aligned, layout, dims) = self.aligned(inputs)?;
        let tag = K::combined(aligned.iter().map(|val| &val.tag));
        let name = self.push(node, aligned.into_iter().map(|val| val.name).collect())?;
        Ok(self.val(name, layout, dims, tag))
    }

    /// Adds an elementwise node without attributes, at the current place.
    ///
    /// # Errors
    /// As [`Builder::elementwise`].
    pub fn apply(&mut self, op: impl Into<Op>, inputs: &[&Val<K>]) -> Result<Val<K>, Reason> {
        self.elementwise(self.node(op), inputs)
    }

    /// Brings values that are broadcast with each other into one layout. Returns it with the shape of the result.
    ///
    /// # Errors
    /// As [`Builder::elementwise`].
    pub fn aligned(&mut self, inputs: &[&Val<K>]) -> Result<(Vec<Val<K>>, Layout, Dims), Reason> {
        let rank = inputs.iter().map(|val| val.rank()).max().unwrap_or(0);
        let layout = match inputs.iter().any(|val| val.layout == Layout::First && val.rank() == rank) {
            true => Layout::First,
            false => Layout::Last,
        };
        let dims = broadcast_all(inputs.iter().map(|val| &val.dims[..])).ok_or_else(|| {
            let shown: Vec<String> = inputs.iter().map(|val| show(&val.dims)).collect();
            format!("it combines shapes that do not fit: {}", shown.join(", "))
        })?;
        let mut aligned = Vec::with_capacity(inputs.len());
        for val in inputs {
            aligned.push(match layout {
                Layout::First if val.dims.iter().all(is_one) => self.last(val)?,
                Layout::First if val.rank() == rank => self.first(val)?,
                Layout::First => {
                    let val = self.last(val)?;
                    self.raise(&val, rank)?
                }
                Layout::Last => self.last(val)?,
            });
        }
        Ok((aligned, layout, dims))
    }

    /// Adds axes to a value so that it is broadcast with one of `rank` axes whose channels are first.
    fn raise(&mut self, val: &Val<K>, rank: usize) -> Result<Val<K>, Reason> {
        let node = |kind: &str, axes: std::ops::Range<usize>| {
            let axes: Vec<usize> = axes.collect();
            let node = Node::new(format!("{}/{kind}", val.name), Op::Unsqueeze);
            ints(&axes).map(|axes| node.attribute("axes", axes))
        };
        if val.rank() == 1 {
            let key = (val.name.clone(), rank);
            let name = match self.raised.get(&key) {
                Some(known) => known.clone(),
                None => {
                    let name =
                        self.push(node("per_channel", 1..rank.saturating_sub(1))?, vec![key.0.clone()])?;
                    self.raised.insert(key, name.clone());
                    name
                }
            };
            return Ok(Val { name, ..val.clone() });
        }
        let count = rank.saturating_sub(val.rank());
        let dims = [vec![Length::Known(1); count], val.dims.clone()].concat();
        let raised = self.plain(node("raised", 0..count)?, &[val], dims)?;
        self.first(&raised)
    }
}
