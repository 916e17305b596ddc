//! Errors about layers that PyTorch's modules cannot hold.

use ckpt_api::{Error, Node};
use ckpt_engine::words::quote;

/// An error about a layer that has no form in PyTorch.
pub(super) fn refuse(node: &Node, why: &str) -> Error {
    Error::unsupported(format!("layer {} {why}", quote(&node.name))).found(format!("operator {}", node.op))
}
