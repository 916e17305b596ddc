//! The shapes of inputs that the file does not state.

use super::constant;
use super::reach::{Dag, Edge, What};
use ckpt_graph::shape::MAX_RANK;
use ckpt_graph::{Dims, Length};

/// The number of the free axis that is the batch.
pub(super) const BATCH: usize = 0;

/// Limit on the operations that are followed from a weight back to the input.
const MAX_STEPS: usize = 64;

/// Operations whose results have the shape of their first input.
const ELEMENTWISE: [&str; 11] = [
    "Cast",
    "Elu",
    "Identity",
    "LeakyRelu",
    "Relu",
    "Relu6",
    "Selu",
    "Sigmoid",
    "Softmax",
    "Softplus",
    "Tanh",
];

/// Returns the shape of input number `at` from the first layer with a weight that takes it. Only elementwise operations
/// may precede that layer.
pub(super) fn inferred(dag: &Dag, at: usize, variable: impl Fn(&str) -> Option<Dims>) -> Option<Dims> {
    let base = at.checked_mul(MAX_RANK)?;
    for node in &dag.nodes {
        let (What::Op(op), [x, weight, ..]) = (&node.what, &node.inputs[..]) else { continue };
        if !matches!(op.op.as_str(), "MatMul" | "Conv2D")
            || !matches!(source(dag, *x), Some(What::Input(own)) if *own == at)
        {
            continue;
        }
        let dims = match source(dag, *weight) {
            Some(What::Variable(key)) => variable(key)?,
            Some(What::Op(op)) if op.op == "Const" => {
                constant::shape(op)?.into_iter().map(Length::from).collect()
            }
            _ => continue,
        };
        let is_turned = super::super::node::flag(op, "transpose_b");
        return match (op.op.as_str(), &dims[..]) {
            ("MatMul", [rows, columns]) => {
                Some(vec![Length::free(BATCH), if is_turned { *columns } else { *rows }])
            }
            ("Conv2D", [_, _, channels, _]) => {
                let side = |axis| base.checked_add(axis).map(Length::free);
                Some(vec![Length::free(BATCH), side(1)?, side(2)?, *channels])
            }
            _ => None,
        };
    }
    None
}

/// Follows elementwise operations to what they take.
fn source<'d>(dag: &'d Dag, mut edge: Edge) -> Option<&'d What<'d>> {
    for _ in 0..MAX_STEPS {
        let node = dag.nodes.get(edge.node)?;
        match &node.what {
            What::Op(op) if ELEMENTWISE.contains(&op.op.as_str()) => edge = *node.inputs.first()?,
            found => return Some(found),
        }
    }
    None
}
