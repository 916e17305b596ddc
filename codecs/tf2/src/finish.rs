//! The last step of reading: names for people, roles, axes, and the graph.

use crate::describe::{Description, OPTIMIZER_NUMBER};
use ckpt_api::{Contents, Options, Result};

/// Gives the tensors, which until now have their keys as names, what the description says about them.
pub(crate) fn finish(contents: &mut Contents, description: Description, options: &Options) -> Result<()> {
    let Description { names, roles, axes, slots, numbers, graph, notes } = description;
    contents.notes.extend(notes);
    for tensor in &mut contents.checkpoint.tensors {
        tensor.role = roles.get(&tensor.name).copied().unwrap_or_default();
        tensor.slot = slots.get(&tensor.name).cloned().map(Box::new);
        if let Some(number) = numbers.get(&tensor.name) {
            tensor.metadata.insert("tf2", OPTIMIZER_NUMBER, *number);
        }
        tensor.axes = axes.get(&tensor.name).filter(|axes| axes.len() == tensor.shape.rank()).cloned();
    }
    contents.checkpoint.graph = graph;
    if !options.flag("keys") && !names.is_empty() {
        for tensor in &mut contents.checkpoint.tensors {
            // The name beside the key tells whether the tensor was renamed since.
            if let Some(name) = names.get(&tensor.name).filter(|name| **name != tensor.name) {
                tensor.metadata.insert("tf2", "key", tensor.name.as_str());
                tensor.metadata.insert("tf2", "name", name.as_str());
            }
        }
        contents.checkpoint.rename(&names)?;
    }
    match options.list("activations") {
        Some(names) => contents.checkpoint.specify(names).map_err(|error| error.field("activations")),
        None => Ok(()),
    }
}
