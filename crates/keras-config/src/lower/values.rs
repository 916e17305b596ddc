//! The values of the graph that is made, in Keras's order.

use crate::layer::Reason;
use ckpt_graph::{Builder, Tag};

/// What Keras knows of a value's elements.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Kind {
    /// Whether they are integers.
    pub is_integer: bool,
    /// Whether they have fewer bits than those that graphs compute with, and wrap around where Keras computes with them.
    pub is_narrow: bool,
    /// Whether Keras passes a mask with the value, which states the steps of a sequence that count.
    pub has_mask: bool,
}

impl Tag for Kind {
    fn passed(&self) -> Self {
        *self
    }

    fn combined<'a>(all: impl Iterator<Item = &'a Self> + Clone) -> Self {
        let is_integer = all.clone().all(|kind| kind.is_integer);
        let is_narrow = is_integer && all.clone().any(|kind| kind.is_narrow);
        Kind { is_integer, is_narrow, has_mask: all.clone().any(|kind| kind.has_mask) }
    }
}

/// A value of the graph; its lengths are in Keras's order.
pub(super) type Val = ckpt_graph::Val<Kind>;

/// The nodes of the graph that is made.
pub(super) type Values = Builder<Kind>;

/// Returns the axis of `rank` that a signed number states.
pub(super) fn resolve(axis: i64, rank: usize) -> Result<usize, Reason> {
    ckpt_graph::shape::resolve(axis, rank).ok_or_else(|| format!("axis {axis} does not exist"))
}
