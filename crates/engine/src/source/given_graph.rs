//! The graph of an opened model, to open other checkpoints with.

use super::Source;
use super::model_graph::ModelGraph;
use super::options::OpenOptions;
use ckpt_api::{Error, FormatInfo, Input, Metadata, Result};
use std::collections::HashSet;
use std::sync::Arc;

impl ModelGraph {
    /// The graph of a model, with the tensors that it uses.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`] for a checkpoint without a graph.
    pub fn of(model: &Source) -> Result<Self> {
        let name = model.shown();
        let contents = model.contents();
        let Some(graph) = contents.checkpoint.graph.clone() else {
            let error = Error::usage("the model has no graph to give to another checkpoint").file(name);
            return Err(match &contents.missing_graph {
                Some(missing) => error.found(missing.reason.clone()),
                None => error,
            });
        };
        let used: HashSet<&str> = graph.tensors().collect();
        let tensors = contents.checkpoint.tensors.iter().filter(|tensor| used.contains(tensor.name.as_str()));
        let tensors = tensors.map(|tensor| (tensor.name.clone(), tensor.shape.clone(), tensor.axes.clone()));
        let info = model.codec.info();
        let own = |metadata: &Metadata| match info.describes_models {
            true => owned(metadata, info),
            false => Metadata::default(),
        };
        let all = contents.checkpoint.tensors.iter();
        let of_tensors = all.map(|tensor| (tensor.name.clone(), own(&tensor.metadata)));
        let of_tensors = of_tensors.filter(|(_, metadata)| !metadata.is_empty()).collect();
        let input = graph_input(&model.input, info);
        let metadata = own(&contents.checkpoint.metadata);
        let tensors = tensors.collect();
        Ok(ModelGraph { input, format: model.format(), name, graph, tensors, metadata, of_tensors })
    }
}

impl OpenOptions {
    /// Takes the graph of another model, such as one in ONNX, whose tensors have the names and shapes of the source's.
    /// Default: the source's own graph.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`] for a model without a graph.
    pub fn graph_of(mut self, model: &Source) -> Result<Self> {
        self.graph = Some(Arc::new(ModelGraph::of(model)?));
        Ok(self)
    }
}

/// The file of a model that has the graph: it is what plans record.
fn graph_input(model: &Input, info: &FormatInfo) -> Input {
    let Some(file) = info.graph_file else { return model.clone() };
    let entry = format!("{}/{file}", model.entry().trim_end_matches('/'));
    let entry = entry.trim_start_matches('/');
    match model.is_directory() && model.has_file(entry) {
        true => Input::within_store(model.store().clone(), entry).within(model.limits()),
        false => model.clone(),
    }
}

/// The namespaces of a format.
fn owned(metadata: &Metadata, info: &FormatInfo) -> Metadata {
    let mut own = Metadata::default();
    for (namespace, entries) in metadata.iter().filter(|(namespace, _)| info.owns(namespace)) {
        entries.iter().for_each(|(key, value)| own.insert(namespace, key, value.clone()));
    }
    own
}
