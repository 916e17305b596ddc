//! Weights without a configuration, read as those of a model that is given beside them.
//!
//! Keras finds the variables of a model by their places: by classes and order in `.weights.h5` files, by layers in `.h5` files.
//! So the configuration of the model tells what each tensor is, whatever container it was read from. A model of another
//! format gets one made of its graph.

use super::{Files, read_files};
use crate::config::{Described, Generation, Model};
use crate::format::{ID, KEY_CONFIG, KEY_PATH, KEY_VERSION};
use crate::write::order;
use ckpt_api::{Checkpoint, Contents, DType, Limits, Result, Rules, Shape};
use std::collections::HashMap;

/// The configuration of a model, and the shapes of its variables by their paths.
struct Given {
    config: String,
    version: Option<String>,
    shapes: HashMap<String, Shape>,
}

impl Given {
    fn of(model: &Checkpoint) -> Option<Self> {
        match model.metadata.text(ID, KEY_CONFIG) {
            Some(config) => {
                let shape = |tensor: &ckpt_api::Tensor| {
                    Some((tensor.metadata.text(ID, KEY_PATH)?.to_owned(), tensor.shape.clone()))
                };
                Some(Given {
                    config: config.to_owned(),
                    version: model.metadata.text(ID, KEY_VERSION).map(str::to_owned),
                    shapes: model.tensors.iter().filter_map(shape).collect(),
                })
            }
            None => Self::described(model),
        }
    }

    /// Makes a configuration of a graph; `None` if the graph does not show which of two layers comes first.
    fn described(model: &Checkpoint) -> Option<Self> {
        let Described { config, variables } = Model::describe(model, Generation::Keras3).ok()?;
        let mut shapes = HashMap::new();
        let mut names = Vec::new();
        for own in &variables {
            let tensor = model.tensors.get(own.tensor.0)?;
            shapes.insert(own.variable.path.clone(), tensor.shape.permuted(&own.order));
            names.push((own.variable.path.as_str(), tensor.name.as_str()));
        }
        let is_certain = order::losses(model.graph.as_ref()?, names.into_iter()).is_empty();
        is_certain.then_some(Given { config, version: Some("3".to_owned()), shapes })
    }
}

/// Reads files that have no configuration with that of the model; `None` if they lack one of its variables, or have it in
/// another shape. `files` have the configuration then.
///
/// # Errors
/// Those of reading the files.
pub(super) fn adopt(
    files: &mut Files,
    model: &Checkpoint,
    chosen: Option<DType>,
    rules: &mut Rules,
    limits: &Limits,
) -> Result<Option<Contents>> {
    let Some(Given { config, version, shapes }) = Given::of(model) else { return Ok(None) };
    let before = (files.config.take(), files.version.take());
    (files.config, files.version) = (Some(config), version);
    let mut contents = read_files(files, chosen, rules, limits)?;
    let is_shaped = |tensor: &ckpt_api::Tensor| {
        let path = tensor.metadata.text(ID, KEY_PATH)?;
        (shapes.get(path)? == &tensor.shape).then_some(path.to_owned())
    };
    let found = contents.checkpoint.tensors.iter().filter_map(is_shaped).count();
    if contents.checkpoint.graph.is_some() && found == shapes.len() {
        contents.adopts_model = true;
        return Ok(Some(contents));
    }
    (files.config, files.version) = before;
    Ok(None)
}
