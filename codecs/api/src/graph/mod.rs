//! What a model computes.

mod activation;
mod attributes;
mod chain;
mod computed;
mod model;
mod nested;
mod op;
mod op_spec;

pub use activation::Activation;
pub use model::{Attribute, Graph, Node, Value};
pub use nested::MAX_GRAPH_LEVELS;
pub use op::Op;
pub use op_spec::{
    HostedOp, InputKind, InputSpec, InputView, OpCall, OpShapes, OpSpec, OutputView, ParameterSpec,
    Reference, ResultShape,
};
