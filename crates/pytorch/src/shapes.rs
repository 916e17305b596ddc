//! Lengths of the axes of a graph's values, as far as they are known: the batch is free.

use super::tensors::Tensors;
use ckpt_api::{Graph, Tensor};
use ckpt_graph::infer::{Known, infer};
use ckpt_graph::{Dims, Length};
use std::collections::HashMap;

/// The lengths of the axes of values; those that are not in it are not known.
pub(super) struct Shapes(HashMap<String, Lens>);

/// The lengths of a value's axes.
struct Lens {
    /// With symbols for free axes, for what follows from them.
    dims: Dims,
    /// `None` for a length that is not a number.
    sizes: Vec<Option<u64>>,
}

impl From<Dims> for Lens {
    fn from(dims: Dims) -> Self {
        Lens { sizes: dims.iter().map(|len| len.size()).collect(), dims }
    }
}

impl Shapes {
    /// Follows the lengths from the inputs of a graph through its nodes.
    pub(super) fn of(graph: &Graph, tensors: &Tensors<'_>) -> Self {
        let mut shapes = HashMap::new();
        for (number, input) in graph.inputs.iter().enumerate() {
            let first = number.saturating_mul(ckpt_graph::shape::MAX_RANK);
            let len = |(axis, len): (usize, &Option<u64>)| match (len, axis) {
                (Some(len), _) => Length::from(*len),
                // The first axes of all inputs are the batch.
                (None, 0) => Length::free(0),
                (None, axis) => Length::free(first.saturating_add(axis)),
            };
            let dims: Dims = input.shape.iter().enumerate().map(len).collect();
            shapes.insert(input.name.clone(), Lens::from(dims));
        }
        Shapes(shapes).with(graph, tensors)
    }

    /// Adds those of another graph of the same values, if they are not known yet.
    pub(super) fn with(mut self, graph: &Graph, tensors: &Tensors<'_>) -> Self {
        for node in &graph.nodes {
            let results = infer(node, &Values { shapes: &self, tensors });
            for (name, dims) in node.outputs.iter().zip(results) {
                if let (Some(dims), false) = (dims, self.0.contains_key(name)) {
                    self.0.insert(name.clone(), Lens::from(dims));
                }
            }
        }
        self
    }

    /// The lengths of a value's axes.
    pub(super) fn get(&self, value: &str) -> Option<&Vec<Option<u64>>> {
        self.0.get(value).map(|lens| &lens.sizes)
    }

    /// The number of a value's axes.
    pub(super) fn rank(&self, value: &str) -> Option<usize> {
        self.get(value).map(Vec::len)
    }
}

/// What is known of the inputs and tensors of nodes.
struct Values<'a> {
    shapes: &'a Shapes,
    tensors: &'a Tensors<'a>,
}

impl Known for Values<'_> {
    fn dims(&self, value: &str) -> Option<Dims> {
        self.shapes.0.get(value).map(|lens| lens.dims.clone())
    }

    fn tensor(&self, name: &str) -> Option<&Tensor> {
        self.tensors.get(name)
    }
}

pub(super) fn product(dims: &[Option<u64>]) -> Option<u64> {
    dims.iter().try_fold(1u64, |product, len| product.checked_mul((*len)?))
}
