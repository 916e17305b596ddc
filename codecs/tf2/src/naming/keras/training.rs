//! The state of training: what the naming stores of an optimizer.

use super::layers::Model;
use super::optimizer::{self, Optimizer};
use super::recorded::Recorded;
use super::style::Style;
use crate::describe::objects::Objects;
use ckpt_api::Checkpoint;

/// An optimizer that can be stored.
#[derive(Debug)]
pub(super) enum Training {
    /// One that is known, with all of its state. Every generation of Keras can have it.
    Known(Optimizer),
    /// One of any kind, which the generation of Keras that stored it restores.
    Recorded(Recorded),
}

impl Training {
    /// Returns the optimizer if it is known.
    pub fn known(&self) -> Option<&Optimizer> {
        match self {
            Training::Known(optimizer) => Some(optimizer),
            Training::Recorded(_) => None,
        }
    }
}

/// Returns the optimizer, or `None` if the source has none that `style` can store.
pub(super) fn find(
    checkpoint: &Checkpoint,
    model: &Model,
    style: Style,
    objects: Option<&Objects>,
) -> Option<Training> {
    let known = optimizer::find(checkpoint, model);
    let recorded = match style {
        Style::Tf1 => None,
        Style::Keras3 | Style::Keras2 => {
            objects.and_then(|objects| Recorded::find(checkpoint, model, style, objects))
        }
    };
    let is_known = |optimizer: &Optimizer| {
        let all = optimizer.tensors();
        recorded.as_ref().is_none_or(|recorded| recorded.tensors().all(|id| all.contains(&id)))
    };
    match known {
        Some(optimizer) if is_known(&optimizer) => Some(Training::Known(optimizer)),
        known => recorded.map(Training::Recorded).or(known.map(Training::Known)),
    }
}
