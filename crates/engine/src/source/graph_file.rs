//! A graph that an architecture file writes out, as `inspect` prints it.

use ckpt_api::{ArchitectureFile, Axis, Contents, Error, Graph, Limit, Limits, Result, nearest};
use serde::Deserialize;
use std::collections::BTreeMap;

/// A graph, and the meaning of its tensors' axes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct GraphFile {
    graph: Graph,
    /// The axes of tensors, in stored order.
    #[serde(default)]
    axes: BTreeMap<String, Vec<Axis>>,
}

/// Gives the checkpoint the graph of a file, and its tensors the axes that the file names.
///
/// # Errors
/// [`ckpt_api::Kind::Usage`], naming the file, for tensors that are missing or do not fit, and for a graph that cannot
/// run in its order.
pub(crate) fn apply(file: &ArchitectureFile, contents: &mut Contents, limits: &Limits) -> Result<()> {
    let located = |error: Error| match file.name() {
        Some(name) => error.file(name),
        None => error,
    };
    let given: GraphFile = file.parse()?;
    limits.check(Limit::GraphNodes, given.graph.all_nodes().count() as u64).map_err(located)?;
    given.graph.check().map_err(located)?;
    bind(given, contents).map_err(located)
}

fn bind(given: GraphFile, contents: &mut Contents) -> Result<()> {
    let ids: BTreeMap<String, usize> =
        contents.checkpoint.by_name().into_iter().map(|(name, id)| (name.to_owned(), id.0)).collect();
    let missing = |name: &str| {
        Error::usage("the architecture names a tensor that the source does not have")
            .tensor(name)
            .help(nearest(name, ids.keys().map(String::as_str)))
    };
    if let Some(name) = given.graph.tensors().find(|name| !ids.contains_key(*name)) {
        return Err(missing(name));
    }
    for (name, axes) in given.axes {
        let id = ids.get(&name).ok_or_else(|| missing(&name))?;
        let Some(tensor) = contents.checkpoint.tensors.get_mut(*id) else { continue };
        if tensor.shape.rank() != axes.len() {
            return Err(Error::usage("the axes do not fit the tensor")
                .tensor(name)
                .found(format!("{} axes for shape {}", axes.len(), tensor.shape))
                .expected(tensor.shape.rank().to_string()));
        }
        tensor.axes = Some(axes.into());
    }
    contents.checkpoint.graph = Some(given.graph);
    contents.missing_graph = None;
    contents.graph_notes.clear();
    Ok(())
}
