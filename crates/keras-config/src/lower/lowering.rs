//! What the layers of a model are lowered with.

use super::values::Values;
use crate::layer::Reason;
use crate::model::{Generation, Layer};
use crate::naming::shown_name;
use std::collections::HashSet;

/// Makes a graph of operators.
pub(super) struct Lowering {
    pub(super) values: Values,
    pub(super) generation: Generation,
    /// Uses of layers that are left.
    pub(super) uses: usize,
    /// What is made if a layer has no operators; `None` if it ends the graph.
    pub(super) outline: Option<Outline>,
}

/// A graph of the layers that have variables. Layers without any that no operators compute are left out: what they take stands
/// for what they make.
#[derive(Default)]
pub(super) struct Outline {
    /// Values whose lengths may be others, for such a layer made what they are made of.
    pub(super) guessed: HashSet<String>,
}

/// A layer at its place.
#[derive(Clone, Copy)]
pub(super) struct Site<'a> {
    pub(super) layer: &'a Layer,
    /// The name of the object that has the variables: the models around the layer, the layer, objects within it.
    pub(super) scope: &'a str,
}

impl Site<'_> {
    pub(super) fn variable(&self, role: &str) -> String {
        format!("{}/{role}", self.scope)
    }
}

/// Names the layer that a reason is about.
pub(super) fn named(layer: &Layer, reason: &str) -> Reason {
    format!("layer '{}' ({}): {reason}", shown_name(&layer.name), shown_name(&layer.class))
}
