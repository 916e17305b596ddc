//! Names of tensors: those of the file, which need not differ.

use crate::read::model::Subgraph;
use ckpt_graph::Names;

/// Gives each tensor of the model a name of its own: the first subgraph's as they are, those of others after the
/// subgraph's name, and one that is taken with the tensor's number.
#[derive(Default)]
pub(crate) struct TensorNames {
    names: Names,
}

impl TensorNames {
    /// Returns the name of tensor `index` of subgraph `number`.
    pub(crate) fn name(&mut self, subgraph: &Subgraph<'_>, number: usize, index: usize) -> String {
        let own = subgraph.tensors.get(index).map_or("", |tensor| &tensor.name);
        let name = match (number, subgraph.name.as_str()) {
            (0, _) => own.to_owned(),
            (_, "") => format!("{number}/{own}"),
            (_, subgraph) => format!("{subgraph}/{own}"),
        };
        let name = if self.names.has(&name) { format!("{name}#{index}") } else { name };
        self.names.unused(&name)
    }
}
