//! What the layers of a configuration are made with: values of the graph, and the layers so far.

use crate::model::Generation;
use ckpt_api::{Checkpoint, Error, Graph, Result, TensorId};
use serde_json::{Map, Value};
use std::collections::{HashMap, HashSet};

/// A value of the graph.
#[derive(Clone, Debug)]
pub(super) enum Item {
    Value(Held),
    /// A tensor of the checkpoint, in its stored order.
    Stored(TensorId),
    Number(f64),
    /// A constant: its shape, and its numbers.
    Numbers(Vec<u64>, Vec<f64>),
    /// Lengths of values.
    Lens(Vec<Len>),
}

/// A length, for the shape of another value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Len {
    Known(u64),
    Batch,
    /// A length that depends on the input.
    Open,
}

/// A result of a layer, as the graph has it.
#[derive(Clone, Debug)]
pub(super) struct Held {
    /// The layer, by its position.
    pub(super) layer: usize,
    /// Which of its results.
    pub(super) result: usize,
    /// Lengths of its axes in Keras.
    pub(super) dims: Vec<Option<u64>>,
    /// For each axis of the graph's value, the axis in Keras; `None` for one of length 1 that Keras lacks.
    pub(super) axes: Vec<Option<usize>>,
    /// Whether the graph has the steps, the second axis in Keras, in reverse order.
    pub(super) is_reversed: bool,
}

impl Held {
    /// A value whose axes are those in Keras.
    pub(super) fn plain(layer: usize, result: usize, dims: Vec<Option<u64>>) -> Held {
        let axes = (0..dims.len()).map(Some).collect();
        Held { layer, result, dims, axes, is_reversed: false }
    }

    pub(super) fn is_plain(&self) -> bool {
        self.axes.iter().copied().eq((0..self.dims.len()).map(Some)) && !self.is_reversed
    }

    /// Whether the graph has the channels, the last axis in Keras, second.
    pub(super) fn is_channels_first(&self) -> bool {
        let rank = self.dims.len();
        rank > 2 && self.axes.iter().copied().eq([0, rank - 1].into_iter().chain(1..rank - 1).map(Some))
    }

    /// Returns the axis in Keras of an axis of the graph.
    pub(super) fn axis(&self, axis: i64) -> Result<usize> {
        let rank = i64::try_from(self.axes.len()).unwrap_or(i64::MAX);
        let at = if axis < 0 { axis.saturating_add(rank) } else { axis };
        let found = usize::try_from(at).ok().and_then(|at| self.axes.get(at)).copied().flatten();
        found.ok_or_else(|| Error::unsupported("Keras has no such axis").found(format!("axis {axis}")))
    }

    /// Returns the length of an axis in Keras.
    pub(super) fn len(&self, axis: usize) -> Option<u64> {
        self.dims.get(axis).copied().flatten()
    }
}

/// A tensor, and the order in which Keras stores its axes.
#[derive(Clone, Debug)]
pub(super) struct Bound {
    pub(super) tensor: TensorId,
    pub(super) order: Vec<usize>,
    /// Lengths of the stored axes.
    pub(super) shape: Vec<u64>,
    /// A tensor of this shape that is added to it.
    pub(super) added: Option<TensorId>,
}

/// Makes layers of the nodes, in their order.
pub(super) struct Emitter<'a> {
    pub(super) checkpoint: &'a Checkpoint,
    pub(super) graph: &'a Graph,
    pub(super) tensors: HashMap<&'a str, TensorId>,
    pub(super) generation: Generation,
    pub(super) layers: Vec<Emitted>,
    /// How often each name was wanted.
    pub(super) names: HashMap<String, u64>,
    pub(super) values: HashMap<&'a str, Item>,
    /// The nodes that take each value, by their positions.
    pub(super) takers: HashMap<&'a str, Vec<usize>>,
    /// The tensors that are constants of the graph, by the values' names.
    pub(super) constants: HashMap<&'a str, &'a str>,
    /// The graph's results.
    pub(super) results: HashSet<&'a str>,
    /// Whether the first axis of each value so far is that of the inputs.
    pub(super) keeps_batch: bool,
    /// Nodes that belong to the layer of another one.
    pub(super) absorbed: HashSet<usize>,
    /// Tensors by the names of their variables.
    pub(super) bound: HashMap<String, Bound>,
}

/// A layer, and what it takes.
pub(super) struct Emitted {
    pub(super) name: String,
    pub(super) class: &'static str,
    /// The module of an operation; `None` for a layer.
    pub(super) module: Option<&'static str>,
    pub(super) config: Map<String, Value>,
    pub(super) args: Vec<Arg>,
    pub(super) kwargs: Vec<(&'static str, Arg)>,
}

/// An argument of a layer.
pub(super) enum Arg {
    /// A result: layer, result.
    Value(usize, usize),
    List(Vec<Arg>),
    Constant(Value),
}

impl Arg {
    pub(super) fn of(held: &Held) -> Arg {
        Arg::Value(held.layer, held.result)
    }

    pub(super) fn values(&self, found: &mut Vec<(usize, usize)>) {
        match self {
            Arg::Value(layer, result) => found.push((*layer, *result)),
            Arg::List(items) => items.iter().for_each(|item| item.values(found)),
            Arg::Constant(_) => {}
        }
    }
}

/// The error for a value that is not made yet.
pub(super) fn lost() -> Error {
    Error::corrupt("the graph takes a value that it does not make")
}

pub(super) fn invalid() -> Error {
    Error::corrupt("an attribute of the node is not valid")
}
