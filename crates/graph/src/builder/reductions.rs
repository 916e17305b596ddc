//! Reductions over axes.

use super::{Builder, Reason, Tag, Val, ints};
use crate::length::Length;
use crate::order::Layout;
use crate::shape::reduced;
use ckpt_api::{Attribute, Op};

impl<K: Tag> Builder<K> {
    /// Adds a reduction over axes in the source's order; over none, the value stays as it is.
    ///
    /// # Errors
    /// As [`Builder::add`].
    pub fn reduce(
        &mut self,
        op: impl Into<Op>,
        x: &Val<K>,
        axes: &[usize],
        keeps: bool,
    ) -> Result<Val<K>, Reason> {
        if axes.is_empty() {
            return Ok(x.clone());
        }
        // Without the axes that are removed, the others must be in the source's order.
        let kept: Vec<usize> =
            (0..x.rank()).filter(|axis| !axes.contains(axis)).map(|axis| x.axis(axis)).collect();
        let x = if keeps || kept.is_sorted() { x.clone() } else { self.last(x)? };
        let mut own: Vec<usize> = axes.iter().map(|axis| x.axis(*axis)).collect();
        own.sort_unstable();
        let node = self.node(op).attribute("axes", ints(&own)?);
        let node = node.attribute("keepdims", Attribute::Int(i64::from(keeps)));
        let made = self.same(node, &x, reduced(&x.dims, axes, keeps))?;
        Ok(if keeps { made } else { Val { layout: Layout::Last, ..made } })
    }

    /// Adds a pooling over all rows and columns of images, whose channels are first.
    ///
    /// # Errors
    /// As [`Builder::add`].
    pub fn pool_globally(&mut self, op: impl Into<Op>, x: &Val<K>) -> Result<Val<K>, Reason> {
        let mut dims = x.dims.clone();
        let last = dims.len().saturating_sub(1);
        dims.iter_mut().take(last).skip(1).for_each(|len| *len = Length::Known(1));
        self.same(self.node(op), x, dims)
    }
}
