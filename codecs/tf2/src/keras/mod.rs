//! Namings by layer: what Keras 3, Keras 2 and TensorFlow 1 restore by themselves.
//!
//! They differ in keys and in the object graph, from which TensorFlow finds a variable's key by walking the object
//! graph and the Python objects side by side. An object can have several parents and names there, so that one object
//! graph serves a Sequential and a functional model, saved as `tf.train.Checkpoint(model=m)` or as
//! `tf.train.Checkpoint(m)`.

mod keras2;
mod keras3;
mod layers;
mod lists;
mod objects;
mod optimizer;
#[cfg(test)]
mod tests;
mod tf1;

use crate::describe::OPTIMIZER_NUMBER;
use crate::format::VARIABLE_VALUE;
use crate::naming::{Made, Named, Naming};
use ckpt_api::{Checkpoint, DType, Error, Loss, LossKind, Result, Role, Shape, Tensor, TensorId};

/// Whose names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// Keras 3: `tf.train.Checkpoint(model=m).restore(PREFIX)`.
    Keras3,
    /// Keras 2 (`tf_keras`): `m.load_weights(PREFIX)` too.
    Keras2,
    /// `tf.compat.v1.train.Saver`: `dense/kernel`, and no object graph.
    Tf1,
}

impl Style {
    /// The style that the option `names` calls so.
    pub(crate) fn from_name(name: &str) -> Option<Style> {
        [Style::Keras3, Style::Keras2, Style::Tf1].into_iter().find(|style| style.name() == name)
    }

    /// Its name, as the option `names` takes it.
    fn name(self) -> &'static str {
        match self {
            Style::Keras3 => "keras3",
            Style::Keras2 => "keras2",
            Style::Tf1 => "tf1",
        }
    }
}

/// What the activation of a dense or convolutional layer is in Keras.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Activations {
    /// The layer's argument: `Dense(10, activation="relu")`.
    Arguments,
    /// A layer of its own: `Dense(10)`, `ReLU()`.
    Layers,
}

/// Stores a checkpoint's tensors under the names of its layers.
///
/// # Errors
/// [`ckpt_api::Kind::Usage`] without a graph, or where it is not known what a weight's axes mean;
/// [`ckpt_api::Kind::Unsupported`], naming the layer, for a graph that is no chain of layers that Keras has.
pub(crate) fn naming(checkpoint: &Checkpoint, style: Style, activations: Activations) -> Result<Naming> {
    let model = layers::read(checkpoint, activations)
        .map_err(|error| error.help("--set names=plain stores every tensor under its own name"))?;
    let optimizer = optimizer::find(checkpoint, &model);
    let plan = Plan { checkpoint, keys: vec![None; checkpoint.tensors.len()], naming: Naming::default() };
    let plan = match style {
        Style::Keras3 => keras3::name(plan, &model, optimizer.as_ref()),
        Style::Keras2 => keras2::name(plan, &model, optimizer.as_ref()),
        Style::Tf1 => tf1::name(plan, &model, optimizer.as_ref()),
    };
    Ok(plan?.finish(style))
}

/// A naming in the making.
struct Plan<'a> {
    checkpoint: &'a Checkpoint,
    keys: Vec<Option<Named>>,
    naming: Naming,
}

impl Plan<'_> {
    /// Stores a tensor under `key`.
    fn store(&mut self, id: TensorId, order: &[usize], key: &str) {
        if let Some(place) = self.keys.get_mut(id.0) {
            *place = Some(Named { key: key.as_bytes().to_vec(), order: order.to_vec() });
        }
    }

    /// Stores the source's save counter under `key`, or makes one: TensorFlow misses it where there is none.
    fn store_counter(&mut self, key: &str) {
        match self.checkpoint.tensors.iter().position(is_save_counter) {
            Some(id) => self.store(TensorId(id), &[], key),
            None => self.naming.made.push(Made {
                key: key.as_bytes().to_vec(),
                dtype: DType::I64,
                shape: Shape::scalar(),
                value: 1i64.to_le_bytes().to_vec(),
            }),
        }
    }

    /// The source's `global_step`.
    fn global_step(&self) -> Option<TensorId> {
        let is = |tensor: &Tensor| tensor.metadata.text("tf2", OPTIMIZER_NUMBER) == Some("global_step");
        self.checkpoint.tensors.iter().position(|tensor| is(tensor) && tensor.shape.rank() == 0).map(TensorId)
    }

    /// What has no key is a loss.
    fn finish(self, style: Style) -> Naming {
        let Plan { checkpoint, keys, mut naming } = self;
        let without = checkpoint.tensors.iter().zip(&keys).filter(|(_, key)| key.is_none());
        let lost = without.map(|(tensor, _)| {
            let kind = LossKind::of_dropping(tensor.role);
            Loss::new(kind, &tensor.name, why(tensor.role, style))
        });
        naming.losses.splice(..0, lost);
        naming.tensors = keys;
        naming
    }
}

fn why(role: Role, style: Style) -> String {
    let style = style.name();
    match role {
        Role::Duplicate => "its values are stored once".to_owned(),
        Role::Bookkeeping => format!("names={style} says anew which variable is which"),
        Role::Weight => format!("no layer of the graph uses it, and names={style} names layers"),
        _ => format!("names={style} has no place for it"),
    }
}

fn is_save_counter(tensor: &Tensor) -> bool {
    let path = tensor.name.strip_suffix(VARIABLE_VALUE).unwrap_or(&tensor.name);
    path.rsplit('/').next() == Some("save_counter")
        && tensor.role == Role::Counter
        && tensor.dtype == DType::I64
        && tensor.shape.rank() == 0
}

/// `PATH/.ATTRIBUTES/VARIABLE_VALUE`.
fn key(path: &str) -> String {
    format!("{path}{VARIABLE_VALUE}")
}

fn too_many() -> Error {
    Error::unsupported("the graph has more layers than an object graph can number")
}
