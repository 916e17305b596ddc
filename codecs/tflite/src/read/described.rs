//! The graph of a model, beside its tensors.

use super::parsed::Parsed;
use crate::flat::Flat;
use crate::graph;
use ckpt_api::MissingGraph;

impl<'a> Parsed<'a> {
    /// Reads the graph, or remembers why it cannot be read.
    pub(crate) fn read_graph(&mut self, flat: &'a Flat<'a>) {
        let Parsed { model, contents, constants } = self;
        let mut tensors = contents.checkpoint.tensors.clone();
        match graph::read(flat, model, constants, &mut tensors) {
            Ok((graph, notes)) => {
                contents.checkpoint.tensors = tensors;
                contents.checkpoint.graph = Some(graph);
                contents.graph_notes.extend(notes.into_iter().map(Into::into));
                if model.signatures.len() > 1 {
                    let of_first = model.signatures.iter().find(|own| own.subgraph == 0);
                    let name = of_first.map_or("its first subgraph", |own| own.key.as_str());
                    let count = model.signatures.len();
                    contents.graph_notes.push(
                        format!("the model has {count} signatures, and the graph is that of '{name}'").into(),
                    );
                }
            }
            Err(reason) => {
                let reason = reason.into();
                contents.missing_graph = Some(MissingGraph { reason, is_unstated: false, help: None });
            }
        }
    }
}
