//! Values of a subgraph.

use ckpt_graph::Integers;

/// A value of the graph; its lengths are in the model's order.
pub(super) type Val = ckpt_graph::Val<()>;

/// What is known of a value.
#[derive(Clone)]
pub(super) enum Known {
    /// What a node makes.
    Val(Val),
    /// Integers that are known now.
    Ints(Integers),
    /// A constant, by subgraph and number: what a change of the dtype, or of sparse elements to dense ones, passes on.
    Constant((usize, usize)),
}
