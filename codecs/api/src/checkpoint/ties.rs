//! Tensors that share their stored bytes.

use crate::{DType, Error, Result, TensorId};
use std::collections::BTreeMap;

/// Which tensors are ties: they have the same stored bytes, read in the same way (tied weights).
///
/// ```
/// use ckpt_api::{Contents, Ties};
/// assert!(Ties::of(&Contents::default()).is_empty());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ties {
    /// From each tensor to the first one that it shares bytes with; the first one itself is left out.
    first: BTreeMap<TensorId, TensorId>,
    /// For tensors whose bytes are those of another dtype or shape, too, the first of these tensors, and the own dtype;
    /// the first one itself is listed. All are stored as they are in memory.
    views: BTreeMap<TensorId, (TensorId, DType)>,
}

impl Ties {
    /// Whether no tensors share bytes, read in the same way or in another one.
    pub fn is_empty(&self) -> bool {
        self.first.is_empty() && self.views.is_empty()
    }

    /// The first tensor with the same bytes: the tensor itself if it shares them with none before it.
    pub fn first_of(&self, tensor: TensorId) -> TensorId {
        self.first.get(&tensor).copied().unwrap_or(tensor)
    }

    /// Every tensor that shares bytes with an earlier one, and the first of these.
    pub fn iter(&self) -> impl Iterator<Item = (TensorId, TensorId)> {
        self.first.iter().map(|(tensor, first)| (*tensor, *first))
    }

    /// The ties that [`Ties::iter`] returned.
    ///
    /// ```
    /// use ckpt_api::{TensorId, Ties};
    /// let ties = Ties::of_pairs([(TensorId(2), TensorId(0))])?;
    /// assert_eq!(ties.first_of(TensorId(2)), TensorId(0));
    /// assert!(Ties::of_pairs([(TensorId(0), TensorId(2))]).is_err());
    /// # Ok::<(), ckpt_api::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`crate::Kind::Defect`] for a tensor whose first one is not before it, or shares bytes with one before it itself.
    pub fn of_pairs(pairs: impl IntoIterator<Item = (TensorId, TensorId)>) -> Result<Self> {
        let first: BTreeMap<TensorId, TensorId> = pairs.into_iter().collect();
        match first.iter().find(|(tensor, earlier)| earlier >= tensor || first.contains_key(earlier)) {
            Some((tensor, _)) => {
                Err(Error::defect("a tensor is no tie of the one that is named").found(tensor.0.to_string()))
            }
            None => Ok(Ties { first, ..Ties::default() }),
        }
    }

    /// The first tensor with the same bytes read as any dtype and shape, and the tensor's own dtype; `None` if there is no
    /// other one.
    pub(crate) fn viewed(&self, tensor: TensorId) -> Option<(TensorId, DType)> {
        self.views.get(&self.first_of(tensor)).copied()
    }

    /// Adds tensors with the same bytes, of which no two are ties.
    pub(crate) fn add_views(&mut self, views: &[(TensorId, DType)]) {
        if let [(first, _), _, ..] = views {
            self.views.extend(views.iter().map(|(tensor, dtype)| (*tensor, (*first, *dtype))));
        }
    }

    /// Adds a tensor that shares its bytes with `first`, an earlier one.
    pub(crate) fn add(&mut self, tensor: TensorId, first: TensorId) {
        self.first.insert(tensor, first);
    }
}
