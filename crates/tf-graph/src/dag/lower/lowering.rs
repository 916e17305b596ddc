//! What operations are lowered with.

use super::super::pattern::View;
use super::super::reach::Edge;
use super::super::recurrent::Recurrent;
use super::values::{Maker, Val, Values};
use crate::no_chain::NoChain;
use crate::node::describe;
use crate::proto::NodeDef;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

pub(super) struct Lowering<'a> {
    pub(super) view: View<'a>,
    /// Loops that are recurrent layers, by the numbers of their nodes.
    pub(super) loops: &'a HashMap<usize, Recurrent>,
    pub(super) values: Values<'a>,
    pub(super) made: HashMap<Edge, Val>,
    pub(super) is_half: bool,
    /// Number of elements that further constants may have.
    pub(super) elements: usize,
    /// What precedes the layers in the names of operations with weights: models.
    pub(super) scopes: HashSet<String>,
}

/// Returns the name of an operation without the model's, which comes first.
pub(super) fn shown(name: &str) -> &str {
    match name.split_once('/') {
        Some((_, rest)) if rest.contains('/') => rest,
        _ => name,
    }
}

/// Returns the scope of an operation: its layer's.
pub(super) fn scope(name: &str) -> &str {
    name.rsplit_once('/').map_or("", |(scope, _)| scope)
}

/// The layer that made a value, for the names of what follows.
pub(super) fn layer(name: &str, op: &NodeDef) -> Maker {
    Maker(Some(Rc::new((name.to_owned(), scope(&op.name).to_owned()))))
}

pub(super) fn refuse(op: &NodeDef, why: &str) -> NoChain {
    NoChain::unsupported(format!("{} {why}", describe(op)))
}

/// A value that was not made in order, which would be a defect of this reader.
pub(super) fn lost() -> NoChain {
    NoChain::unsupported("a value is taken before it is made")
}
