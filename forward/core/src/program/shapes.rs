//! The shapes of a graph's inputs.

use crate::lower::{Info, show};
use crate::op;
use crate::value::{Numbers, Parameters, count};
use ckpt_api::{Axis, Error, Graph, InputKind, InputSpec, Node, Op, Result};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Height and width of an image whose size the graph leaves free.
const SIDE: usize = 32;

/// Indices of one example whose number the graph leaves free.
const SLOTS: usize = 32;

/// Returns a shape for each input of a graph.
///
/// If the first axis is free, its length is `batch`. Other free axes have the length of the matrix that they are
/// multiplied with, or else 32 (height and width of an image, indices of a sparse input). Axes of one name have one length.
pub fn default_shapes(
    graph: &Graph,
    parameters: &dyn Parameters,
    batch: usize,
) -> BTreeMap<String, Vec<usize>> {
    shapes(graph, parameters, batch, None)
}

/// Returns a shape for each input of a graph, as [`default_shapes`] does, but with `length` for free axes other than the
/// first. Only the last axis of a value that is multiplied with a matrix has the matrix's length.
pub fn shapes_of_length(
    graph: &Graph,
    parameters: &dyn Parameters,
    batch: usize,
    length: usize,
) -> BTreeMap<String, Vec<usize>> {
    shapes(graph, parameters, batch, Some(length))
}

fn shapes(
    graph: &Graph,
    parameters: &dyn Parameters,
    batch: usize,
    length: Option<usize>,
) -> BTreeMap<String, Vec<usize>> {
    let (indices, features) = (integers(graph, parameters), features(graph, parameters));
    let shape = |input: &ckpt_api::Value| -> Vec<usize> {
        let stated = |len: u64| usize::try_from(len).unwrap_or(usize::MAX);
        let free = |axis: usize| match (axis, input.shape.len(), length) {
            (0, ..) => batch,
            (_, rank, Some(length)) => match features.get(input.name.as_str()) {
                Some(features) if axis + 1 == rank => *features,
                _ => length,
            },
            (_, 4, None) => SIDE,
            _ if indices.contains(input.name.as_str()) => SLOTS,
            _ => features.get(input.name.as_str()).copied().unwrap_or(SIDE),
        };
        input.shape.iter().enumerate().map(|(axis, len)| len.map_or_else(|| free(axis), stated)).collect()
    };
    let mut shapes: BTreeMap<String, Vec<usize>> =
        graph.inputs.iter().map(|input| (input.name.clone(), shape(input))).collect();
    // Axes of one name have one length, that of the first.
    let mut named: HashMap<&str, usize> = HashMap::new();
    for input in &graph.inputs {
        for (axis, len) in shapes.get_mut(&input.name).into_iter().flatten().enumerate() {
            if let Some(name) = input.axis_name(axis) {
                *len = *named.entry(name).or_insert(*len);
            }
        }
    }
    shapes
}

/// The number of features of each value that is multiplied with a matrix.
fn features<'g>(graph: &'g Graph, parameters: &dyn Parameters) -> HashMap<&'g str, usize> {
    let multiplies = |op: &Op| *op == Op::Gemm || op.name() == op::BUCKETED_GEMM;
    let products = graph.nodes.iter().filter(|node| multiplies(&node.op));
    let found = products.filter_map(|node| {
        let tensor = parameters.tensor(node.parameters.get("weight")?)?;
        let len = usize::try_from(*tensor.shape.get(tensor.axis(Axis::In)?)?).ok()?;
        Some((node.inputs.first()?.as_str(), len))
    });
    found.collect()
}

/// Returns the graph's inputs with these shapes.
///
/// # Errors
/// [`ckpt_api::Kind::Usage`] for an unknown or missing input, and for a shape that does not fit.
pub(super) fn bind_inputs(
    graph: &Graph,
    parameters: &dyn Parameters,
    shapes: &BTreeMap<String, Vec<usize>>,
) -> Result<Vec<(String, Info)>> {
    let known: HashSet<&str> = graph.inputs.iter().map(|input| input.name.as_str()).collect();
    if let Some(name) = shapes.keys().find(|name| !known.contains(name.as_str())) {
        let names = graph.inputs.iter().map(|input| input.name.as_str());
        return Err(Error::usage("the graph does not have this input")
            .field(name)
            .help(ckpt_api::nearest(name, names)));
    }
    let indices = integers(graph, parameters);
    let input = |input: &ckpt_api::Value| {
        let shape = shapes
            .get(&input.name)
            .ok_or_else(|| Error::usage("an input of the graph is missing").field(&input.name))?;
        if !fits(&input.shape, shape) || count(shape).is_none() {
            return Err(Error::usage("an input has a different shape than the graph states")
                .field(&input.name)
                .found(show(shape))
                .expected(show_stated(&input.shape)));
        }
        let is_integer = match input.dtype {
            Some(dtype) => !dtype.is_float(),
            None => indices.contains(input.name.as_str()),
        };
        let numbers = if is_integer { Numbers::Integer } else { Numbers::Real };
        Ok((input.name.clone(), Info { shape: shape.clone(), numbers }))
    };
    graph.inputs.iter().map(input).collect()
}

/// The values that are used as indices, and those that they are moved from.
fn integers<'g>(graph: &'g Graph, parameters: &dyn Parameters) -> HashSet<&'g str> {
    let mut indices: HashSet<&str> = HashSet::new();
    for node in graph.nodes.iter().rev() {
        let taken = index_inputs(node, parameters);
        indices.extend(taken.into_iter().filter_map(|index| node.inputs.get(index)).map(String::as_str));
        if moves(&node.op) && node.outputs.iter().any(|name| indices.contains(name.as_str())) {
            indices.extend(node.inputs.iter().map(String::as_str));
        }
    }
    indices
}

/// The inputs of a node that are indices.
fn index_inputs(node: &Node, parameters: &dyn Parameters) -> Vec<usize> {
    match (&node.op, node.op.name()) {
        (Op::Gather, _) => vec![usize::from(!node.parameters.contains_key("weight"))],
        (Op::GatherND | Op::GatherElements | Op::ScatterND | Op::ScatterElements, _) => vec![1],
        (_, op::FEATURE_TRANSFORMER) => vec![0, 1],
        (_, op::BUCKETED_GEMM | op::BIAS) => vec![1],
        (Op::Custom(name), _) => {
            let inputs = parameters.op(name).map_or(&[][..], |spec| spec.inputs);
            let is_index = |input: &InputSpec| input.kind != InputKind::Real;
            (0..).zip(inputs).filter(|(_, input)| is_index(input)).map(|(index, _)| index).collect()
        }
        _ => Vec::new(),
    }
}

/// Whether an operator only moves elements of its inputs.
pub(super) fn moves(op: &Op) -> bool {
    matches!(
        op,
        Op::Identity | Op::Concat | Op::Split | Op::Slice | Op::Reshape | Op::Transpose | Op::Flatten
    )
}

/// Whether a shape fits the one that a graph states, whose lengths may be free.
pub(super) fn fits(stated: &[Option<u64>], shape: &[usize]) -> bool {
    stated.len() == shape.len()
        && stated.iter().zip(shape).all(|(stated, len)| stated.is_none_or(|stated| stated == *len as u64))
}

/// Formats a stated shape for errors, `?` for a free length.
pub(super) fn show_stated(shape: &[Option<u64>]) -> String {
    let lens: Vec<String> =
        shape.iter().map(|len| len.map_or("?".to_owned(), |len| len.to_string())).collect();
    format!("[{}]", lens.join(", "))
}
