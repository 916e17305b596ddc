//! The order of the gates of recurrent layers.
//!
//! ONNX has one order. A tensor whose gates have another one is stored in ONNX's, block by block, and the node has the
//! tensor's own order as a property: so the tensor is read as it was.

pub(crate) use ckpt_graph::cells::Gates;

/// Key of the property of a node that has the order of gates in which its tensors are read.
pub(crate) const PROPERTY: &str = "ckpt.gates";

/// ONNX's order of the gates of an operator; `None` for one that is no recurrent layer.
pub(crate) fn standard(op: &str) -> Option<&'static str> {
    ckpt_graph::cells::defaults(op).map(|own| own.gates)
}
