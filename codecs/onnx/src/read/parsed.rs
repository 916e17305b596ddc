//! A model with its tensors and its graph.

use super::initializers::{Ids, tensors};
use super::tensor::Locator;
use super::{gates, graph, model};
use crate::format::message::Model;
use ckpt_api::{Contents, Error, File, FileId, Input, Kind, Limits, MissingGraph, Result, Rules, TensorId};
use std::collections::HashMap;

/// A model with its tensors and its graph, without its metadata.
pub(crate) struct Parsed {
    pub(crate) model: Model,
    pub(crate) contents: Contents,
    pub(crate) files: Vec<String>,
    /// The file of each location of external data.
    pub(crate) locations: HashMap<String, FileId>,
}

impl Parsed {
    pub(crate) fn of(input: &Input, file: &File, rules: &mut Rules, limits: &Limits) -> Result<Self> {
        let model = model::parse(file, limits)?;
        let Some(graph) = &model.graph else {
            return Err(Error::corrupt("the file is not an ONNX model: it has no graph"));
        };
        if model.opset().is_none() && model.opsets.is_empty() {
            return Err(Error::corrupt("the model imports no operator set").field("opset_import"));
        }
        if let Some(name) = graph.sparse.first() {
            return Err(Error::unsupported("sparse initializers are not supported")
                .tensor(name.as_str())
                .help("store it dense with the program that wrote the model"));
        }
        graph::check_order(graph)?;
        let mut locator = Locator::new(input, file, limits, input.entry());
        let mut contents = Contents::default();
        let mut ids = Ids::new();
        for (stored, name) in tensors(graph) {
            let (id, name) = (TensorId(contents.checkpoint.tensors.len()), name.as_str());
            match locator.locate(stored, name, id) {
                Ok((tensor, placement)) => {
                    ids.insert(stored.span.start, id.0);
                    contents.checkpoint.tensors.push(tensor);
                    contents.placements.push(placement);
                }
                Err(error) if error.kind() == Kind::Unsupported => rules.mend(
                    name,
                    "it is no tensor of the checkpoint, and stays in an ONNX model that is written",
                    error,
                )?,
                Err(error) => return Err(error),
            }
        }
        let reordered = gates::reorder(graph, &mut contents);
        let tensors = &mut contents.checkpoint.tensors;
        match graph::read(&model, graph, file, tensors, &reordered, &ids) {
            Ok(read) => contents.checkpoint.graph = Some(read),
            Err(reason) => {
                contents.missing_graph =
                    Some(MissingGraph { reason: reason.into(), is_unstated: false, help: None });
            }
        }
        let Locator { files, ids: locations, .. } = locator;
        Ok(Parsed { model, contents, files, locations })
    }
}
