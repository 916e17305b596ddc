//! A model as its configuration states it: layers, their options and calls, and the optimizer.

use super::calls::{Call, TensorRef};
use serde_json::{Map, Value};

/// Which generation of Keras wrote a model. Defaults, names and paths differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Generation {
    /// Keras 1.
    Keras1,
    /// Keras 2 and `tf_keras`.
    Keras2,
    /// Keras 3.
    Keras3,
}

/// A model: its layers, and how they are connected.
#[derive(Clone, Debug)]
pub struct Model {
    /// The model's name; may be empty.
    pub name: String,
    /// The name of its class.
    pub class: String,
    /// Who wrote it.
    pub generation: Generation,
    /// The layers in the model's order, with the input layers that the configuration states.
    pub layers: Vec<Layer>,
    /// How the layers are connected.
    pub structure: Structure,
    /// The optimizer that the model was compiled with, if the configuration states it; `.h5` files have it apart.
    pub optimizer: Option<Optimizer>,
}

/// How the layers of a model are connected.
#[derive(Clone, Debug)]
pub enum Structure {
    /// Each layer takes what the one before it makes.
    Sequential {
        /// Lengths of the input's axes, if they are stated; `None` for the batch and other free ones.
        input: Option<Vec<Option<u64>>>,
    },
    /// As each layer's calls state.
    Functional {
        /// The results of input layers, with the names that the model gives them, if it does.
        inputs: Vec<(Option<String>, TensorRef)>,
        /// The results, likewise.
        outputs: Vec<(Option<String>, TensorRef)>,
    },
    /// The configuration does not state it: the reason, as a clause.
    Unknown(String),
}

/// A layer of a model, or an operation that Keras records as one.
#[derive(Clone, Debug)]
pub struct Layer {
    /// The layer's name, unique in its model.
    pub name: String,
    /// The name of its class, such as `Dense`.
    pub class: String,
    /// The model, if the layer is one.
    pub model: Option<Box<Model>>,
    pub(super) module: String,
    pub(super) registered_name: Option<String>,
    pub(super) shared_object: Option<u64>,
    pub(super) config: Map<String, Value>,
    pub(super) calls: Vec<Call>,
}

/// An optimizer, as the configuration states it.
#[derive(Clone, Debug)]
pub struct Optimizer {
    /// The name of its class, such as `Adam`.
    pub class: String,
    pub(super) options: Layer,
    pub(super) generation: Generation,
    /// The group of `.weights.h5` that has its variables, without `/vars`.
    pub(super) group: String,
}
