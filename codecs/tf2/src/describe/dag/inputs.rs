//! The shapes of inputs that the file does not state.

use super::constant;
use super::reach::{Dag, Edge, What};
use super::value::{BATCH, Dims, Int};

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
    let base = u32::try_from(at).ok()?.checked_mul(32)?;
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
                let lens = constant::shape(op)?.into_iter().map(i64::try_from);
                lens.map(|len| len.ok().map(Int::Known)).collect::<Option<Dims>>()?
            }
            _ => continue,
        };
        let is_turned = super::super::node::flag(op, "transpose_b");
        return match (op.op.as_str(), &dims[..]) {
            ("MatMul", [rows, columns]) => {
                Some(vec![Int::free(BATCH), if is_turned { *columns } else { *rows }])
            }
            ("Conv2D", [_, _, channels, _]) => {
                let side = |axis| base.checked_add(axis).map(Int::free);
                Some(vec![Int::free(BATCH), side(1)?, side(2)?, *channels])
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
