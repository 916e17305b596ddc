//! What is known of each value before anything is lowered: its shape, and its integers where they are folded.

mod arithmetic;
mod attributes;
mod fact;
mod selection;
mod shapes;
mod window;

use super::super::node::attribute;
use super::constant;
use super::inputs::BATCH;
use super::reach::{Dag, DagNode, Edge, What};
use crate::proto::attr_value::Value;
use crate::proto::{NodeDef, TensorShapeProto};
pub(super) use attributes::{dtype, int, is_channels_first, is_channels_last, keeps_dims};
use ckpt_graph::shape::MAX_RANK;
use ckpt_graph::{Dims, Integers, Length};
use fact::Fact;
pub(super) use selection::selections;
pub(super) use shapes::{squeezed, subscripts};
use std::rc::Rc;
pub(super) use window::{kernel, window};

/// Limit on the integers of one folded value.
const MAX_INTS: usize = 1 << 16;

/// Limit on the integers of all folded values.
const MAX_TOTAL: usize = 1 << 20;

/// Limit on the integers that folding takes and makes.
const MAX_WORK: usize = 1 << 23;

/// Limit on the lengths of all shapes.
const MAX_DIMS: usize = 1 << 20;

/// The facts of all nodes of a graph.
pub(super) struct Facts {
    of: Vec<Vec<Fact>>,
    /// The fact of a value that does not exist.
    nothing: Fact,
}

impl Facts {
    /// Infers the facts. `inputs` are the stated shapes of the inputs, `variable` returns the shape of a key.
    pub fn infer(dag: &Dag, inputs: &[Option<Dims>], variable: impl Fn(&str) -> Option<Dims>) -> Self {
        let mut facts = Facts { of: Vec::with_capacity(dag.nodes.len()), nothing: Fact::default() };
        let (mut total, mut work, mut lens) = (0usize, 0usize, 0usize);
        for node in &dag.nodes {
            let mut found = match &node.what {
                What::Input(at) => vec![Fact { dims: inputs.get(*at).cloned().flatten(), ints: None }],
                What::Variable(key) => vec![Fact { dims: variable(key), ints: None }],
                What::Op(op) => {
                    let taken = node.inputs.iter().filter_map(|edge| facts.get(*edge).ints.as_ref());
                    work = taken.fold(work, |work, ints| work.saturating_add(ints.values.len()));
                    let room = if work > MAX_WORK { 0 } else { MAX_TOTAL.saturating_sub(total) };
                    facts.of_op(op, node, room)
                }
            };
            for ints in found.iter().filter_map(|fact| fact.ints.as_ref()) {
                total = total.saturating_add(ints.values.len());
            }
            lens = found.iter().fold(lens, |lens, fact| lens + 1 + fact.dims.as_ref().map_or(0, Vec::len));
            if lens > MAX_DIMS {
                found.clear();
            }
            found.shrink_to_fit();
            facts.of.push(found);
        }
        facts
    }

    pub fn get(&self, edge: Edge) -> &Fact {
        self.of.get(edge.node).and_then(|facts| facts.get(edge.output)).unwrap_or(&self.nothing)
    }

    pub fn dims(&self, edge: Edge) -> Option<&Dims> {
        self.get(edge).dims.as_ref()
    }

    fn of_op(&self, op: &NodeDef, node: &DagNode, room: usize) -> Vec<Fact> {
        let inputs: Vec<&Fact> = node.inputs.iter().map(|edge| self.get(*edge)).collect();
        let ints = arithmetic::fold(op, &inputs, room.min(MAX_INTS));
        if !ints.is_empty() {
            let fact = |ints: Rc<Integers>| Fact {
                dims: Some(ints.shape.iter().map(|len| Length::from(*len)).collect()),
                ints: Some(ints),
            };
            return ints.into_iter().map(fact).collect();
        }
        let inferred = match op.op.as_str() {
            "Const" => vec![constant::shape(op).map(|dims| dims.into_iter().map(Length::from).collect())],
            _ => shapes::infer(op, &inputs),
        };
        let inferred: Vec<_> = inferred.into_iter().map(|dims| dims.map(lengths_of)).collect();
        let claims = claims(op);
        let count = inferred.len().max(claims.len());
        let merged = (0..count).map(|at| {
            let claim = claims.get(at).cloned().flatten();
            match (inferred.get(at).cloned().flatten(), claim) {
                (None, claim) => claim,
                (Some(dims), Some(claim)) if dims.len() == claim.len() => {
                    let merge = |(own, claim): (&Length, &Length)| match own {
                        Length::Unknown => *claim,
                        own => *own,
                    };
                    Some(dims.iter().zip(&claim).map(merge).collect())
                }
                (dims, _) => dims,
            }
        });
        merged.map(|dims| Fact { dims: dims.filter(|dims| dims.len() <= MAX_RANK), ints: None }).collect()
    }
}

/// Returns inferred lengths; those below 0, which only damaged files have, are unknown.
fn lengths_of(dims: Dims) -> Dims {
    let len = |len: Length| if len.known().is_some_and(|len| len < 0) { Length::Unknown } else { len };
    dims.into_iter().map(len).collect()
}

/// Returns the shapes that TensorFlow states of an operation's results. Free lengths are unknown: nothing tells which
/// they are.
fn claims(op: &NodeDef) -> Vec<Option<Dims>> {
    match attribute(op, "_output_shapes") {
        Some(Value::List(list)) => list.shape.iter().map(stated).collect(),
        _ => Vec::new(),
    }
}

/// Returns a stated shape, with unknown lengths.
fn stated(shape: &TensorShapeProto) -> Option<Dims> {
    let len = |size: i64| if size < 0 { Length::Unknown } else { Length::Known(size) };
    (!shape.unknown_rank && shape.dim.len() <= MAX_RANK)
        .then(|| shape.dim.iter().map(|dim| len(dim.size)).collect())
}

/// Returns the shape of input number `at` from its stated shape: each free length gets a number. The first axes of all
/// inputs are the batch.
pub(super) fn input(at: usize, shape: &TensorShapeProto) -> Option<Dims> {
    let base = at.checked_mul(MAX_RANK)?;
    let dims = stated(shape)?.into_iter().enumerate();
    let named = dims.map(|(axis, len)| match (len, axis) {
        (Length::Unknown, 0) => Some(Length::free(BATCH)),
        (Length::Unknown, _) => Some(Length::free(base.checked_add(axis)?)),
        (known, _) => Some(known),
    });
    named.collect()
}
