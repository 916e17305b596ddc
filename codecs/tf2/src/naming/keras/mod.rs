//! Namings by layer, with which Keras 3, Keras 2 and TensorFlow 1 restore a model.
//!
//! TensorFlow finds the key of a variable by walking the object graph and the Python objects in parallel. An object of
//! the graph can have several parents and names. One object graph therefore serves a Sequential and a functional model,
//! restored as `tf.train.Checkpoint(model=m)` or as `tf.train.Checkpoint(m)`.

mod keras2;
mod keras3;
mod layers;
mod objects;
mod optimizer;
mod places;
mod recorded;
mod slot_lists;
#[cfg(test)]
mod tests;
mod tf1;
mod training;

use crate::describe::OPTIMIZER_NUMBER;
use crate::describe::objects::Objects;
use crate::format::VARIABLE_VALUE;
use crate::naming::{Assignment, ExtraEntry, Naming};
use crate::object_graph;
use ckpt_api::{
    Checkpoint, DType, Error, Limits, Loss, LossKind, Result, Role, Setting, Shape, Tensor, TensorId,
};
use training::Training;

/// The program that restores the checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// Keras 3: `tf.train.Checkpoint(model=m).restore(PREFIX)`.
    Keras3,
    /// Keras 2 (`tf_keras`): `m.load_weights(PREFIX)` too.
    Keras2,
    /// TensorFlow 1, `tf.compat.v1.train.Saver`: keys such as `dense/kernel`, and no object graph.
    Tf1,
}

impl Style {
    /// Returns the style with this name in the option `names`.
    pub(crate) fn from_name(name: &str) -> Option<Style> {
        [Style::Keras3, Style::Keras2, Style::Tf1].into_iter().find(|style| style.name() == name)
    }

    /// Returns the name of the style in the option `names`.
    fn name(self) -> &'static str {
        match self {
            Style::Keras3 => "keras3",
            Style::Keras2 => "keras2",
            Style::Tf1 => "tf1",
        }
    }
}

/// How the model that restores has the activations of dense and convolutional layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Activations {
    /// As arguments of the layers: `Dense(10, activation="relu")`.
    Arguments,
    /// As layers of their own: `Dense(10)`, `ReLU()`.
    Layers,
}

/// Assigns keys by the layers of the checkpoint's graph.
///
/// # Errors
/// [`ckpt_api::Kind::Usage`] without a graph, or if the axes of a weight are unknown; [`ckpt_api::Kind::Unsupported`],
/// naming the layer, for a graph that is not a chain of Keras's layers.
pub(crate) fn naming(checkpoint: &Checkpoint, style: Style, activations: Activations) -> Result<Naming> {
    let plain = |error: Error| {
        error.help(format!("{} stores each tensor under its name", Setting::WriteOption("names=plain")))
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

/// Collects a naming.
struct Builder<'a> {
    checkpoint: &'a Checkpoint,
    assigned: Vec<Option<Assignment>>,
    naming: Naming,
}

impl Builder<'_> {
    /// Assigns `key` to a tensor, whose stored axis order is `order`.
    fn store(&mut self, id: TensorId, order: &[usize], key: &str) {
        if let Some(assigned) = self.assigned.get_mut(id.0) {
            *assigned = Some(Assignment { key: key.into(), order: order.to_vec().into() });
        }
    }

    /// Assigns `key` to the save counter, or to a new one if there is none: TensorFlow expects one.
    fn store_counter(&mut self, key: &str) {
        match self.checkpoint.tensors.iter().position(is_save_counter) {
            Some(id) => self.store(TensorId(id), &[], key),
            None => self.naming.extra.push(ExtraEntry {
                key: key.into(),
                dtype: DType::I64,
                shape: Shape::scalar(),
                value: 1i64.to_le_bytes().to_vec(),
            }),
        }
    }

    /// Returns the tensor `global_step`.
    fn global_step(&self) -> Option<TensorId> {
        let is = |tensor: &Tensor| tensor.metadata.text("tf2", OPTIMIZER_NUMBER) == Some("global_step");
        self.checkpoint.tensors.iter().position(|tensor| is(tensor) && tensor.shape.rank() == 0).map(TensorId)
    }

    /// Returns the naming, with a loss for each tensor without a key.
    fn finish(self, style: Style) -> Naming {
        let Builder { checkpoint, assigned, mut naming } = self;
        let unassigned = checkpoint.tensors.iter().zip(&assigned).filter(|(_, assigned)| assigned.is_none());
        let losses = unassigned.map(|(tensor, _)| {
            let kind = LossKind::of_dropping(tensor.role);
            Loss::new(kind, &tensor.name, loss_detail(tensor.role, style))
        });
        naming.losses.splice(..0, losses);
        naming.tensors = assigned;
        naming
    }
}

/// Returns why a tensor of this role has no key.
fn loss_detail(role: Role, style: Style) -> String {
    let style = style.name();
    match role {
        Role::Duplicate => "it duplicates another tensor, which is stored".to_owned(),
        Role::Bookkeeping => format!("names={style} writes a new object graph, or none"),
        Role::Weight => {
            format!("no layer of the graph uses it, and names={style} stores the layers' variables")
        }
        _ => format!("names={style} cannot store it"),
    }
}

fn is_save_counter(tensor: &Tensor) -> bool {
    let path = tensor.name.strip_suffix(VARIABLE_VALUE).unwrap_or(&tensor.name);
    path.rsplit('/').next() == Some("save_counter")
        && tensor.role == Role::Counter
        && tensor.dtype == DType::I64
        && tensor.shape.rank() == 0
}

/// Returns the key of the variable at a path: `PATH/.ATTRIBUTES/VARIABLE_VALUE`.
fn key(path: &str) -> String {
    format!("{path}{VARIABLE_VALUE}")
}

fn too_many() -> Error {
    Error::unsupported("the graph has more layers than an object graph can have")
}
