//! The places of layers: models can contain models.

use super::layers::Model;
use crate::describe::NESTED;
use crate::describe::objects::Objects;
use crate::describe::roles::optimizers;
use crate::naming::per_tensor::key;
use ckpt_api::{Checkpoint, Error, MetadataValue, Result};
use std::collections::{HashMap, HashSet};

/// Most models that contain each other, far above what people nest.
const MAX_DEPTH: usize = 16;

/// Gives each layer its place: within a single model, or, if a model of the source contains models, within these.
///
/// # Errors
/// [`ckpt_api::Kind::Unsupported`] if models contain models, and the source does not record in which place of them its
/// layers are. TensorFlow finds variables by these places: with others it restores a layer from another's variables,
/// and is silent.
pub(super) fn assign(checkpoint: &Checkpoint, model: &mut Model, objects: Option<&Objects>) -> Result<()> {
    let recorded = objects.and_then(|objects| recorded(checkpoint, model, objects));
    if let Some(places) = recorded.as_ref().filter(|places| places.iter().any(|place| place.len() > 1)) {
        for (layer, place) in model.layers.iter_mut().zip(places) {
            layer.place.clone_from(place);
        }
        return Ok(());
    }
    let is_read = checkpoint.metadata.value("tf2", NESTED).and_then(MetadataValue::as_bool) == Some(true);
    let is_flat = recorded.is_some();
    if !is_flat && (is_read || objects.is_some_and(has_models_within_models)) {
        return Err(Error::unsupported("the source does not record the places of layers within layers")
            .expected("a model without models in it: Keras finds a layer by its place in each model that contains it")
            .help(
                "convert a checkpoint that tf.train.Checkpoint(model=model) saved from Keras 3: it records the places",
            ));
    }
    for (layer, number) in model.layers.iter_mut().zip(1..) {
        layer.place = vec![number];
    }
    Ok(())
}

/// Returns the place of each layer of the model, as the object graph of Keras 3 records it; empty for one without
/// variables.
fn recorded(checkpoint: &Checkpoint, model: &Model, objects: &Objects) -> Option<Vec<Vec<u64>>> {
    let by_key = places_by_key(objects)?;
    let mut found = Vec::with_capacity(model.layers.len());
    let mut last: &[u64] = &[];
    for layer in &model.layers {
        let mut places = layer.variables.iter().map(|variable| {
            let tensor = checkpoint.tensors.get(variable.tensor.0)?;
            by_key.get(std::str::from_utf8(&key(tensor)).ok()?)
        });
        let Some(first) = places.next() else {
            found.push(Vec::new());
            continue;
        };
        let place = first?;
        if place.as_slice() <= last || !places.all(|other| other == Some(place)) {
            return None;
        }
        last = place;
        found.push(place.clone());
    }
    Some(found)
}

/// Returns the place of each variable's layer by the variable's key.
fn places_by_key(objects: &Objects) -> Option<HashMap<&str, Vec<u64>>> {
    let optimizers = optimizers(objects);
    let is_optimizer = |id: usize| optimizers.get(id) == Some(&true);
    let near = objects.reach([0], |_, _, child| !is_optimizer(child));
    let first = (0..objects.nodes.len())
        .find(|id| near.get(*id) == Some(&true) && operations(objects, *id).is_some())?;
    let mut seen = HashSet::new();
    let mut open = vec![(first, Vec::new())];
    let mut found = HashMap::new();
    while let Some((id, place)) = open.pop() {
        // A model that is used twice is no part of a chain.
        if !seen.insert(id) || place.len() > MAX_DEPTH {
            return None;
        }
        match operations(objects, id) {
            Some(list) => {
                for (number, layer) in objects.children(list) {
                    if let Ok(number) = number.parse() {
                        open.push((layer, [&place[..], &[number]].concat()));
                    }
                }
            }
            None => {
                let values = objects.children(id).filter_map(|(_, child)| objects.variable(child));
                found.extend(values.map(|value| (value.key.as_str(), place.clone())));
            }
        }
    }
    Some(found)
}

/// Returns the list of operations of a Keras 3 model.
fn operations(objects: &Objects, model: usize) -> Option<usize> {
    let functional = objects.child(model, "_functional").unwrap_or(model);
    objects.child(functional, "_operations")
}

/// Whether a layer of a Keras model is a model.
fn has_models_within_models(objects: &Objects) -> bool {
    let is_model =
        |id: usize| operations(objects, id).is_some() || objects.child(id, "layer_with_weights-0").is_some();
    let layers = |id: usize| {
        let list = operations(objects, id).unwrap_or(id);
        objects.children(list).filter(|(name, _)| name.starts_with("layer") || name.parse::<u64>().is_ok())
    };
    (0..objects.nodes.len()).filter(|id| is_model(*id)).any(|id| layers(id).any(|(_, layer)| is_model(layer)))
}
