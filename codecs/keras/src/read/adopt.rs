//! Weights without a configuration, read as those of a model that is given beside them.
//!
//! Keras finds the variables of a model by their places: by classes and order in `.weights.h5` files, by layers in `.h5` files.
//! So the configuration of the model tells what each tensor is, whatever container it was read from. A model of another
//! format gets one made of its graph.
//!
//! Of an `.h5` file, `load_weights` of Keras takes the layers with weights in the order of `layer_names`, even if the model has
//! layers of these names in another order. Only `by_name=True` joins them by their names.

use super::Files;
use super::tensors::read_files;
use super::variables::weight_lists;
use crate::config::{Described, Generation, Model};
use crate::format::{ID, KEY_CONFIG, KEY_PATH, KEY_VERSION};
use crate::write::order;
use ckpt_api::{Checkpoint, Contents, DType, Limits, Options, Result, Rules, Shape, ShapeMismatch, Tensor};
use std::collections::{BTreeMap, HashMap};

/// The configuration of a model, and the shapes of its variables by their paths.
struct Given {
    config: String,
    version: Option<String>,
    shapes: HashMap<String, Shape>,
    /// Whether the configuration has the layers in the order in which Keras has them.
    is_ordered: bool,
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
                    is_ordered: true,
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
        let (mut numbered, mut layers) = (Vec::new(), HashMap::new());
        for own in &variables {
            let tensor = model.tensors.get(own.tensor.0)?;
            shapes.insert(own.variable.path.clone(), tensor.shape.permuted(&own.order));
            names.push((own.variable.path.as_str(), tensor.name.as_str()));
            let next = layers.len();
            numbered.push((tensor.name.as_str(), *layers.entry(own.variable.group.as_str()).or_insert(next)));
        }
        let graph = model.graph.as_ref()?;
        let is_certain = order::losses(graph, names.into_iter()).is_empty();
        let is_ordered = order::is_certain(graph, numbered.into_iter());
        is_certain.then_some(Given { config, version: Some("3".to_owned()), shapes, is_ordered })
    }

    /// The tensors of the model's variables, by their paths; `None` if one is lacking, or has another shape.
    fn tensors<'t>(&self, contents: &'t Contents) -> Option<BTreeMap<&'t str, &'t str>> {
        contents.checkpoint.graph.as_ref()?;
        let is_shaped = |tensor: &'t Tensor| {
            let path = tensor.metadata.text(ID, KEY_PATH)?;
            (self.shapes.get(path)? == &tensor.shape).then_some((path, tensor.name.as_str()))
        };
        let tensors: BTreeMap<_, _> = contents.checkpoint.tensors.iter().filter_map(is_shaped).collect();
        (tensors.len() == self.shapes.len()).then_some(tensors)
    }

    /// The first variable that has another shape than in the model.
    fn misfit(&self, contents: &Contents) -> Option<ShapeMismatch> {
        contents.checkpoint.tensors.iter().find_map(|tensor| {
            let expected = self.shapes.get(tensor.metadata.text(ID, KEY_PATH)?)?;
            let misfit = || ShapeMismatch {
                tensor: tensor.name.clone(),
                found: tensor.shape.clone(),
                expected: expected.clone(),
            };
            (expected != &tensor.shape).then(misfit)
        })
    }
}

/// Weights that were read with the configuration of a model.
pub(super) enum Adoption {
    /// They are the model's.
    Fits(Box<Contents>),
    /// They are not. Names the first variable that has another shape, if one has.
    Differs(Option<ShapeMismatch>),
}

/// The note on lists of weights, by whether they are joined by order.
fn note_on_order(is_by_order: bool) -> String {
    let joined = match is_by_order {
        true => "each has the weights of the same place, whatever the names, as with load_weights of Keras",
        false => "each has the weights of the same name, as with load_weights(by_name=True) of Keras",
    };
    format!("the file lists its layers in another order than the model that is given beside it: {joined}")
}

/// Reads files that have no configuration with that of the model. `files` have the configuration if the weights fit: if each
/// variable of the model is there, in its shape.
///
/// # Errors
/// Those of reading the files.
pub(super) fn adopt(
    files: &mut Files,
    model: &Checkpoint,
    chosen: Option<DType>,
    options: &Options,
    limits: &Limits,
) -> Result<Adoption> {
    let Some(mut given) = Given::of(model) else { return Ok(Adoption::Differs(None)) };
    let before = (files.config.take(), files.version.take());
    (files.config, files.version) = (Some(std::mem::take(&mut given.config)), given.version.take());
    let read = |files: &mut Files, joins_by_order: bool| -> Result<Contents> {
        files.joins_by_order = joins_by_order;
        let mut rules = Rules::new(options);
        let mut contents = read_files(files, chosen, &mut rules, limits)?;
        contents.repairs = rules.repairs;
        Ok(contents)
    };
    let by_order = read(files, true)?;
    let has_lists = files.parts.first().is_some_and(|part| !weight_lists(part).is_empty());
    let by_name = has_lists.then(|| read(files, false)).transpose()?;
    let ordered = given.tensors(&by_order);
    let named = by_name.as_ref().and_then(|contents| given.tensors(contents));
    let takes_order = ordered.is_some() && (given.is_ordered || named.is_none());
    let (is_named, is_other_order) = (named.is_some(), by_name.is_some() && ordered != named);
    let mut contents = match by_name.filter(|_| is_named && !takes_order) {
        Some(by_name) => by_name,
        None if takes_order => by_order,
        None => {
            (files.config, files.version) = before;
            files.joins_by_order = false;
            return Ok(Adoption::Differs(given.misfit(&by_order)));
        }
    };
    files.joins_by_order = takes_order;
    contents.adopts_model = true;
    if is_other_order {
        contents.notes.push(note_on_order(takes_order).into());
    }
    Ok(Adoption::Fits(Box::new(contents)))
}
