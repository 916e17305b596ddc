//! The graph, or the names, of an opened model, to open other checkpoints with.

use super::Source;
use super::model_graph::ModelGraph;
use super::options::OpenOptions;
use ckpt_api::{FormatInfo, Input, Metadata, Role, Tensor};
use std::collections::HashSet;
use std::sync::Arc;

impl ModelGraph {
    /// The graph of a model, with the tensors that it uses; of a checkpoint without a graph, its weights.
    pub fn of(model: &Source) -> Self {
        let contents = model.contents();
        let graph = contents.checkpoint.graph.clone();
        let used: Option<HashSet<&str>> = graph.as_ref().map(|graph| graph.tensors().collect());
        let is_used = |tensor: &&Tensor| match &used {
            Some(used) => used.contains(tensor.name.as_str()),
            None => tensor.role == Role::Weight,
        };
        let tensors = contents.checkpoint.tensors.iter().filter(is_used);
        let tensors = tensors.map(|tensor| (tensor.name.clone(), tensor.shape.clone(), tensor.axes.clone()));
        let info = model.codec.info();
        // Without a graph, the tree is what there is to describe.
        let own = |metadata: &Metadata| match info.describes_models || graph.is_none() {
            true => owned(metadata, info),
            false => Metadata::default(),
        };
        let all = contents.checkpoint.tensors.iter();
        let of_tensors = all.map(|tensor| (tensor.name.clone(), own(&tensor.metadata)));
        let of_tensors = of_tensors.filter(|(_, metadata)| !metadata.is_empty()).collect();
        let file = info.graph_file.or(contents.files.first().map(String::as_str).filter(|_| graph.is_none()));
        let input = graph_input(&model.input, file);
        let metadata = own(&contents.checkpoint.metadata);
        let tensors = tensors.collect();
        let missing = contents.missing_graph.as_ref().map(|missing| missing.reason.clone());
        let name = model.shown();
        ModelGraph { input, format: model.format(), name, graph, missing, tensors, metadata, of_tensors }
    }
}

impl OpenOptions {
    /// Takes the graph of another model, such as one in ONNX, whose tensors have the names and shapes of the source's.
    /// Default: the source's own graph. A checkpoint without a graph serves only the way back of a mapping that is made of
    /// names and shapes.
    #[must_use]
    pub fn graph_of(mut self, model: &Source) -> Self {
        self.graph = Some(Arc::new(ModelGraph::of(model)));
        self
    }
}

/// The file of a model that has the graph, or its first one without a graph: it is what plans record.
fn graph_input(model: &Input, file: Option<&str>) -> Input {
    let Some(file) = file else { return model.clone() };
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
