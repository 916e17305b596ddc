//! Namings by layer, with which Keras 3, Keras 2 and TensorFlow 1 restore a model.
//!
//! TensorFlow finds the key of a variable by walking the object graph and the Python objects in parallel. An object of
//! the graph can have several parents and names. One object graph therefore serves a Sequential and a functional model,
//! restored as `tf.train.Checkpoint(model=m)` or as `tf.train.Checkpoint(m)`.

mod builder;
mod keras2;
mod keras3;
mod layers;
mod objects;
mod optimizer;
mod places;
mod recorded;
mod slot_lists;
mod style;
#[cfg(test)]
mod tests;
mod tf1;
mod training;

use crate::describe::objects::Objects;
use crate::naming::Naming;
use crate::object_graph;
use builder::Builder;
use ckpt_api::{Checkpoint, Error, Limits, Result, Setting, text};
pub(crate) use style::{Activations, Style};
use training::Training;

/// Assigns keys by the layers of the checkpoint's graph.
///
/// # Errors
/// [`ckpt_api::Kind::Usage`] without a graph, or if the axes of a weight are unknown; [`ckpt_api::Kind::Unsupported`],
/// naming the layer, for a graph that is not a chain of Keras's layers.
pub(crate) fn naming(checkpoint: &Checkpoint, style: Style, activations: Activations) -> Result<Naming> {
    let plain = |error: Error| {
        error.help(text![Setting::WRITE_OPTION.of("names=plain"), " stores each tensor under its name"])
    };
    let mut model = layers::read(checkpoint, activations).map_err(plain)?;
    let objects = recorded_objects(checkpoint)?;
    if style != Style::Tf1 {
        places::assign(checkpoint, &mut model, objects.as_ref())?;
    }
    let optimizer = training::find(checkpoint, &model, style, objects.as_ref());
    let assigned = vec![None; checkpoint.tensors.len()];
    let builder = Builder { checkpoint, assigned, naming: Naming::default() };
    let builder = match style {
        Style::Keras3 => keras3::assign(builder, &model, optimizer.as_ref()),
        Style::Keras2 => keras2::assign(builder, &model, optimizer.as_ref()),
        Style::Tf1 => tf1::assign(builder, &model, optimizer.as_ref().and_then(Training::known)),
    };
    Ok(builder?.finish(style))
}

/// Returns the object graph of the source.
fn recorded_objects(checkpoint: &Checkpoint) -> Result<Option<Objects>> {
    let Some(bytes) = object_graph::recorded(checkpoint) else { return Ok(None) };
    // What is wrong with it was reported when the checkpoint was read.
    Objects::parse(&bytes, &Limits::default(), &mut Vec::new())
}
