//! What is known while a subgraph is read.

use super::known::{Known, Val};
use crate::flat::Flat;
use crate::read::{Model, ParsedConstants};
use ckpt_api::Tensor;
use ckpt_graph::Builder;
use std::collections::HashMap;

/// What a model could not be read for: a clause that follows the operator's name.
pub(super) type Read<T> = Result<T, String>;

/// What is known of the values of a subgraph while it is read.
pub(super) struct Lowering<'a> {
    pub(super) flat: &'a Flat<'a>,
    pub(super) model: &'a Model<'a>,
    pub(super) constants: &'a ParsedConstants,
    /// The tensors of the checkpoint, whose axes get names.
    pub(super) tensors: &'a mut [Tensor],
    /// The subgraph that is read.
    pub(super) subgraph: usize,
    pub(super) builder: Builder<()>,
    /// What is known of a value of the subgraph, by the number of its tensor.
    pub(super) known: HashMap<usize, Known>,
    /// Constants that are nodes already, by subgraph and number.
    pub(super) stored: HashMap<(usize, usize), Val>,
    /// Free axes so far.
    pub(super) free: usize,
    /// Loops and branches around the subgraph that is read, and operators that were lowered in them.
    pub(super) level: usize,
    pub(super) lowered: usize,
    /// What the graph assumes.
    pub(super) notes: Vec<String>,
}
