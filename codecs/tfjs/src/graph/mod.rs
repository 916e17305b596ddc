//! The graph of a model: the layers of Keras, or the graph of TensorFlow, that the topology has.

mod functions;
mod graph_def;
mod layers;
mod names;

pub(crate) use names::Names;

use crate::format::TOPOLOGY;
use ckpt_api::{Checksum, ChecksumAlgorithm, Contents, Graph, Input, Limits, MissingGraph, Result};
use serde_json::Value;

/// Whether the topology is a graph of TensorFlow, with operations.
pub(crate) fn is_graph(model: &Value) -> bool {
    let nodes = model.get(TOPOLOGY).and_then(|topology| topology.get("node"));
    nodes.is_some_and(|nodes| nodes.as_array().is_none_or(|nodes| !nodes.is_empty()))
}

/// A mark of a graph: whether one that was read was changed since.
pub(crate) fn mark(graph: &Graph) -> Option<String> {
    let text = serde_json::to_string(graph).ok()?;
    let mut sum = Checksum { algorithm: ChecksumAlgorithm::Crc32c, seed: 0, value: None }.start();
    sum.update(text.as_bytes());
    Some(format!("{:08x} of {} bytes", sum.finish(), text.len()))
}

/// Describes the tensors of a model, and adds its graph. `input` has the files of a model that is read.
///
/// # Errors
/// [`ckpt_api::Kind::Limit`] for a topology that is too large. One that is not understood is a reason for no graph.
pub(crate) fn describe(
    model: &Value,
    contents: &mut Contents,
    input: Option<&Input>,
    limits: &Limits,
) -> Result<()> {
    let topology = model.get(TOPOLOGY).unwrap_or(&Value::Null);
    let nodes = topology.get("node");
    let outcome = match topology {
        Value::Null => Err(("the file has no topology".to_owned(), true)),
        _ if nodes.is_some_and(|nodes| nodes.as_array().is_some_and(Vec::is_empty)) => {
            Err(("the topology is empty".to_owned(), true))
        }
        _ if nodes.is_some() => {
            functions::describe(model, topology, contents, input, limits)?.map_err(|reason| (reason, false))
        }
        _ => layers::describe(topology, contents, limits)?.map_err(|reason| (reason, false)),
    };
    if let Err((reason, is_unstated)) = outcome {
        contents.missing_graph = Some(MissingGraph { reason: reason.into(), is_unstated, help: None });
    }
    Ok(())
}
