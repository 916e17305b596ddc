//! Constants of the graph that can be weights: tensors whose bytes are in the file of the graph.
//!
//! Which constants are weights is known when the graph is made, so each has a key of its own until then: its name and
//! its shape. An operation that only reshapes a constant is the same constant in another shape.

use super::super::chain::Context;
use super::super::{Catalog, GraphConstant, TensorInfo, last};
use super::constant;
use super::facts::Facts;
use super::reach::{Dag, Edge, What};
use crate::proto::NodeDef;
use ckpt_api::{Axis, DType, Graph, Shape};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Fewest elements of a constant that is a tensor; fewer are a number that an operation takes.
const LEAST: u64 = 2;

/// The constants of a graph that can be weights.
#[derive(Debug, Default)]
pub(super) struct Constants {
    all: Vec<Named>,
    /// Positions by the numbers of the nodes that are these constants.
    by_node: HashMap<usize, usize>,
    by_key: HashMap<String, usize>,
}

#[derive(Debug)]
struct Named {
    /// The name of the constant's operation.
    name: String,
    constant: GraphConstant,
}

impl Constants {
    /// Finds the constants among the nodes of a graph, which is in the file of the context.
    pub fn find(dag: &Dag, facts: &Facts, context: &Context) -> Self {
        let mut found = Constants::default();
        let mut known: HashMap<(u64, Shape), Option<usize>> = HashMap::new();
        for (at, node) in dag.nodes.iter().enumerate() {
            let What::Op(op) = &node.what else { continue };
            let edge = Edge { node: at, output: 0 };
            let constant = match op.op.as_str() {
                "Const" => located(op, context.file).map(|constant| (op.name.as_str(), constant)),
                _ => found.reshaped(op, edge, &node.inputs, facts),
            };
            let Some((name, constant)) = constant else { continue };
            let name = name.to_owned();
            let place = (constant.offset, constant.shape.clone());
            let position = known.entry(place).or_insert_with(|| found.add(name, constant, context));
            found.by_node.extend(position.map(|position| (at, position)));
        }
        found
    }

    /// Adds a constant under a key of its own.
    fn add(&mut self, name: String, mut constant: GraphConstant, context: &Context) -> Option<usize> {
        constant.key = format!("{name} as {} at {}", constant.shape, constant.offset);
        let is_taken = context.catalog.contains_key(&constant.key) || self.by_key.contains_key(&constant.key);
        if is_taken {
            return None;
        }
        self.by_key.insert(constant.key.clone(), self.all.len());
        self.all.push(Named { name, constant });
        Some(self.all.len() - 1)
    }

    /// Returns the constant that an operation gives another shape.
    fn reshaped(
        &self,
        op: &NodeDef,
        edge: Edge,
        inputs: &[Edge],
        facts: &Facts,
    ) -> Option<(&str, GraphConstant)> {
        let input = inputs.first().filter(|input| input.output == 0)?;
        let named = self.all.get(*self.by_node.get(&input.node)?)?;
        let is_kept = match op.op.as_str() {
            "Reshape" | "ExpandDims" | "Squeeze" => true,
            // With the same number of elements, it takes all of them.
            "StridedSlice" => {
                let steps = facts.get(*inputs.get(3)?).ints.as_ref()?.known()?;
                steps.iter().all(|step| *step == 1)
            }
            _ => false,
        };
        let lens: Option<Vec<u64>> = facts.dims(edge)?.iter().map(|len| len.len()).collect();
        let shape = Shape::new(lens?).ok()?;
        let is_same = shape.elements() == named.constant.shape.elements();
        (is_kept && is_same).then(|| (named.name.as_str(), GraphConstant { shape, ..named.constant.clone() }))
    }

    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Returns the tensors of a catalog and the constants, sorted by key.
    pub fn added_to<'a>(&'a self, catalog: &Catalog<'a>) -> Vec<TensorInfo<'a>> {
        let constants = self.all.iter().map(|Named { constant, .. }| TensorInfo {
            key: &constant.key,
            dtype: constant.dtype,
            shape: &constant.shape,
        });
        let mut all: Vec<TensorInfo> = catalog.0.iter().copied().chain(constants).collect();
        all.sort_by_key(|tensor| tensor.key);
        all
    }

    /// Returns the key of the constant that a node of the graph is.
    pub fn key(&self, node: usize) -> Option<&str> {
        self.all.get(*self.by_node.get(&node)?).map(|named| named.constant.key.as_str())
    }

    /// Returns the name of the operation of the constant with this key.
    pub fn name(&self, key: &str) -> Option<&str> {
        self.all.get(*self.by_key.get(key)?).map(|named| named.name.as_str())
    }

    /// Returns the name of the layer that the name of a weight has before its last slash, if it has one.
    pub fn layer(&self, key: &str) -> Option<&str> {
        self.name(key)?.rsplit_once('/').map(|(layer, _)| last(layer))
    }

    /// Returns the constants that a graph uses, and gives each its operation's name as the key, or a numbered one where
    /// another tensor has that.
    pub fn used(
        &self,
        graph: &mut Graph,
        axes: &mut BTreeMap<String, Vec<Axis>>,
        context: &Context,
    ) -> Vec<GraphConstant> {
        let parameters = graph.nodes.iter().flat_map(|node| node.parameters.values());
        let used: HashSet<usize> = parameters.filter_map(|key| self.by_key.get(key).copied()).collect();
        if used.is_empty() {
            return Vec::new();
        }
        let taken: HashSet<&str> = context.names.values().map(String::as_str).collect();
        let mut given: HashSet<String> = HashSet::new();
        let mut numbers: HashMap<&str, u64> = HashMap::new();
        let mut keys: HashMap<&str, String> = HashMap::new();
        let mut made = Vec::with_capacity(used.len());
        for (_, Named { name, constant }) in self.all.iter().enumerate().filter(|(at, _)| used.contains(at)) {
            let number = numbers.entry(name).or_default();
            let key = loop {
                let key = if *number == 0 { name.clone() } else { format!("{name}_{number}") };
                *number += 1;
                if !taken.contains(key.as_str())
                    && !context.catalog.contains_key(&key)
                    && given.insert(key.clone())
                {
                    break key;
                }
            };
            if let Some(named) = axes.remove(&constant.key) {
                axes.insert(key.clone(), named);
            }
            keys.insert(&constant.key, key.clone());
            made.push(GraphConstant { key, ..constant.clone() });
        }
        for key in graph.nodes.iter_mut().flat_map(|node| node.parameters.values_mut()) {
            if let Some(new) = keys.get(key.as_str()) {
                key.clone_from(new);
            }
        }
        made
    }
}

/// Returns where in the file the numbers of a `Const` are, if it stores each of them, and is no single number.
fn located(op: &NodeDef, file: &[u8]) -> Option<GraphConstant> {
    let tensor = constant::tensor(op)?;
    let dtype = match tensor.dtype {
        1 => DType::F32,
        2 => DType::F64,
        14 => DType::Bf16,
        19 => DType::F16,
        _ => return None,
    };
    let lens = constant::dims(tensor, usize::MAX)?;
    let shape = Shape::new(lens.into_iter().map(|len| len as u64).collect::<Vec<u64>>()).ok()?;
    // The parser takes the bytes from the file without copying them.
    let content = &tensor.tensor_content[..];
    let offset = content.as_ptr().addr().checked_sub(file.as_ptr().addr())?;
    let stored = file.get(offset..offset.checked_add(content.len())?)?;
    let len = stored.len() as u64;
    let is_whole = shape.elements().checked_mul(dtype.bytes()?) == Some(len);
    (is_whole && shape.elements() >= LEAST).then(|| GraphConstant {
        key: String::new(),
        dtype,
        shape,
        offset: offset as u64,
        len,
    })
}
