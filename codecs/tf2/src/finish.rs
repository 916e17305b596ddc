//! The last step of reading: names for people, roles, axes, and the graph.

use crate::describe::Description;
use ckpt_api::{Activation, Contents, Error, Options, Result};

/// Gives the tensors, which until now have their keys as names, what the description says about them.
pub(crate) fn finish(contents: &mut Contents, description: Description, options: &Options) -> Result<()> {
    let Description { names, roles, axes, graph, notes } = description;
    contents.notes.extend(notes);
    for tensor in &mut contents.checkpoint.tensors {
        tensor.role = roles.get(&tensor.name).copied().unwrap_or_default();
        tensor.axes = axes.get(&tensor.name).filter(|axes| axes.len() == tensor.shape.rank()).cloned();
    }
    contents.checkpoint.graph = graph;
    if options.text("names") != Some("key") && !names.is_empty() {
        for tensor in &mut contents.checkpoint.tensors {
            if names.get(&tensor.name).is_some_and(|name| *name != tensor.name) {
                tensor.metadata.insert("tf2", "key", tensor.name.as_str());
            }
        }
        contents.checkpoint.rename(&names)?;
    }
    specify(contents, options)
}

fn specify(contents: &mut Contents, options: &Options) -> Result<()> {
    let Some(words) = options.list("activations") else { return Ok(()) };
    let field = |error: Error| error.field("activations");
    let given = words.into_iter().map(Activation::from_name).collect::<Result<Vec<_>>>().map_err(field)?;
    let graph = contents.checkpoint.graph.as_mut().ok_or_else(|| {
        field(Error::usage(
            "the checkpoint does not say which layers it has, so none can be given an activation",
        ))
        .help("describe the model in an architecture file and give it with --arch")
    })?;
    graph.specify(&given).map_err(field)
}
