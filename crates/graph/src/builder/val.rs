//! A value of the graph that is built.

use super::Reason;
use crate::length::Length;
use crate::order::{Layout, position, to_first};
use crate::shape::{Dims, resolve};

/// What a source knows of a value beyond its lengths, such as the type of its elements.
pub trait Tag: Clone + Default {
    /// Returns what is known of the result of a node that takes this value first.
    #[must_use]
    fn passed(&self) -> Self {
        Self::default()
    }

    /// Returns what is known of the result of a node that combines values element by element, or joins them.
    fn combined<'a>(_all: impl Iterator<Item = &'a Self> + Clone) -> Self
    where
        Self: 'a,
    {
        Self::default()
    }
}

impl Tag for () {}

/// A value of the graph that is built.
#[derive(Clone, Debug)]
pub struct Val<K> {
    /// Its name in the graph.
    pub name: String,
    /// The order in which the graph has its axes.
    pub layout: Layout,
    /// Lengths of its axes in the source's order.
    pub dims: Dims,
    /// What the source knows of it.
    pub tag: K,
}

impl<K> Val<K> {
    /// Returns the number of its axes.
    pub fn rank(&self) -> usize {
        self.dims.len()
    }

    /// Returns the position of the source's axis in the graph's value.
    pub fn axis(&self, axis: usize) -> usize {
        match self.layout {
            Layout::Last => axis,
            Layout::First => position(axis, self.rank()),
        }
    }

    /// Returns the length of an axis in the source's order.
    pub fn len(&self, axis: usize) -> Length {
        self.dims.get(axis).copied().unwrap_or(Length::Unknown)
    }

    /// Returns the length of the last axis.
    pub fn features(&self) -> Length {
        self.dims.last().copied().unwrap_or(Length::Unknown)
    }

    /// Returns the length of the last axis, which must be known.
    ///
    /// # Errors
    /// If it is not.
    pub fn known_features(&self) -> Result<u64, Reason> {
        self.features().size().ok_or_else(|| "the number of its input's features is not stated".to_owned())
    }

    /// Returns the axis that a signed number states, which counts from the end if it is negative.
    ///
    /// # Errors
    /// If it does not exist.
    pub fn resolve(&self, axis: i64) -> Result<usize, Reason> {
        resolve(axis, self.rank()).ok_or_else(|| format!("axis {axis} does not exist"))
    }

    /// Returns the lengths of the graph's axes.
    pub(super) fn physical(&self) -> Dims {
        match self.layout {
            Layout::Last => self.dims.clone(),
            Layout::First => to_first(self.rank()).into_iter().map(|axis| self.len(axis)).collect(),
        }
    }

    /// Whether it is an image of one pixel, which has its numbers in the same order either way.
    pub(super) fn is_pixel(&self) -> bool {
        matches!(&self.dims[..], [_, sides @ .., _] if !sides.is_empty() && sides.iter().all(is_one))
    }
}

/// Whether a length is 1.
pub(super) fn is_one(len: &Length) -> bool {
    *len == Length::Known(1)
}
