//! What a graph takes.

use super::{Program, fits, show_open};
use crate::Array;
use crate::lower::{Info, show};
use crate::random::Random;
use crate::value::{Numbers, Parameters, Value, count};
use ckpt_api::{Axis, Error, Graph, Op, Result};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Rows and columns of an image whose size the graph leaves free.
const SIDE: usize = 32;

/// Indices of one example where the graph leaves their number free.
const SLOTS: usize = 32;

/// A shape for each input of a graph: the first axis, where it is free, is `batch`; other free axes are 32 long (rows and columns of an
/// image, indices of a sparse input), but for features that a matrix is multiplied with.
pub fn default_shapes(
    graph: &Graph,
    parameters: &dyn Parameters,
    batch: usize,
) -> BTreeMap<String, Vec<usize>> {
    let (indices, features) = (integers(graph), features(graph, parameters));
    let shape = |input: &ckpt_api::Value| -> Vec<usize> {
        let stated = |len: u64| usize::try_from(len).unwrap_or(usize::MAX);
        let free = |axis: usize| match (axis, input.shape.len()) {
            (0, _) => batch,
            (_, 4) => SIDE,
            _ if indices.contains(input.name.as_str()) => SLOTS,
            _ => features.get(input.name.as_str()).copied().unwrap_or(SIDE),
        };
        input.shape.iter().enumerate().map(|(axis, len)| len.map_or_else(|| free(axis), stated)).collect()
    };
    graph.inputs.iter().map(|input| (input.name.clone(), shape(input))).collect()
}

/// For each value that is multiplied with a matrix, the features that this has.
fn features<'g>(graph: &'g Graph, parameters: &dyn Parameters) -> HashMap<&'g str, usize> {
    let products = graph.nodes.iter().filter(|node| matches!(node.op, Op::Gemm | Op::BucketedGemm));
    let found = products.filter_map(|node| {
        let tensor = parameters.tensor(node.parameters.get("weight")?)?;
        let len = usize::try_from(*tensor.shape.get(tensor.axis(Axis::In)?)?).ok()?;
        Some((node.inputs.first()?.as_str(), len))
    });
    found.collect()
}

/// The graph's inputs with their shapes.
pub(super) fn bind(graph: &Graph, shapes: &BTreeMap<String, Vec<usize>>) -> Result<Vec<(String, Info)>> {
    let known: HashSet<&str> = graph.inputs.iter().map(|input| input.name.as_str()).collect();
    if let Some(name) = shapes.keys().find(|name| !known.contains(name.as_str())) {
        let names = graph.inputs.iter().map(|input| input.name.as_str());
        return Err(Error::usage("the graph does not take such an input")
            .field(name)
            .help(ckpt_api::nearest(name, names)));
    }
    let indices = integers(graph);
    let input = |input: &ckpt_api::Value| {
        let shape = shapes
            .get(&input.name)
            .ok_or_else(|| Error::usage("an input of the graph is not given").field(&input.name))?;
        if !fits(&input.shape, shape) || count(shape).is_none() {
            return Err(Error::usage("an input has another shape than the graph takes")
                .field(&input.name)
                .found(show(shape))
                .expected(show_open(&input.shape)));
        }
        let is_index = indices.contains(input.name.as_str());
        let numbers = if is_index { Numbers::Integer } else { Numbers::Real };
        Ok((input.name.clone(), Info { shape: shape.clone(), numbers }))
    };
    graph.inputs.iter().map(input).collect()
}

/// Values that a node takes as indices, and those that they are moved from.
fn integers(graph: &Graph) -> HashSet<&str> {
    let mut indices: HashSet<&str> = HashSet::new();
    for node in graph.nodes.iter().rev() {
        let taken: &[usize] = match node.op {
            Op::FeatureTransformer => &[0, 1],
            Op::Gather => &[0],
            Op::BucketedGemm | Op::Bias => &[1],
            _ => &[],
        };
        indices.extend(taken.iter().filter_map(|index| node.inputs.get(*index)).map(String::as_str));
        if moves(&node.op) && node.outputs.iter().any(|name| indices.contains(name.as_str())) {
            indices.extend(node.inputs.iter().map(String::as_str));
        }
    }
    indices
}

/// Operators whose results are elements of what they take.
fn moves(op: &Op) -> bool {
    matches!(
        op,
        Op::Identity | Op::Concat | Op::Split | Op::Slice | Op::Reshape | Op::Transpose | Op::Flatten
    )
}

/// Which indices a value may hold.
#[derive(Clone, Copy)]
struct Bound {
    below: usize,
    padded: bool,
}

impl Program<'_> {
    /// Inputs that are the same for the same seed on every machine: real numbers in −1..1 that binary32 holds, indices in their
    /// range; of a sparse input's, one in eight is −1.
    pub fn random_inputs(&self, seed: u64) -> BTreeMap<String, Value> {
        let mut random = Random::new(seed);
        let bounds = self.bounds();
        let mut inputs = BTreeMap::new();
        for (id, (name, info)) in self.values.iter().take(self.inputs).enumerate() {
            let array = match info.numbers {
                Numbers::Real => Array::F64((0..info.len()).map(|_| random.real()).collect()),
                Numbers::Integer => {
                    let bound = bounds.get(&id).copied().unwrap_or(Bound { below: 1, padded: false });
                    Array::I32((0..info.len()).map(|_| bound.index(&mut random)).collect())
                }
            };
            inputs.insert(name.clone(), Value { shape: info.shape.clone(), array });
        }
        inputs
    }

    /// The tightest bound on the indices in each value.
    fn bounds(&self) -> HashMap<usize, Bound> {
        let mut bounds: HashMap<usize, Bound> = HashMap::new();
        let tighten = |bounds: &mut HashMap<usize, Bound>, id: usize, new: Bound| {
            let old = bounds.entry(id).or_insert(new);
            *old = Bound { below: old.below.min(new.below), padded: old.padded && new.padded };
        };
        for (node, step) in self.graph.nodes.iter().zip(&self.steps).rev() {
            for check in &step.lowered.checks {
                if let Some(id) = step.inputs.get(check.input).copied().flatten() {
                    tighten(&mut bounds, id, Bound { below: check.bound, padded: check.padded });
                }
            }
            if moves(&node.op) {
                let made: Vec<Bound> = step.outputs.iter().filter_map(|id| bounds.get(id).copied()).collect();
                for id in step.inputs.iter().flatten() {
                    made.iter().for_each(|bound| tighten(&mut bounds, *id, *bound));
                }
            }
        }
        bounds
    }
}

impl Bound {
    fn index(self, random: &mut Random) -> i32 {
        if self.padded && (self.below == 0 || random.chance(8)) {
            return -1;
        }
        i32::try_from(random.between(0, self.below.max(1) - 1)).unwrap_or(i32::MAX)
    }
}
