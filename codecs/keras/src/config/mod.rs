//! The configuration of a model: layers, how they are connected, and their options.
//!
//! [`Model::parse`] reads the JSON of Keras 3, of Keras 2 and `tf_keras`, and of Keras 1 where it has the same form.
//! [`Model::variables`] lists the variables in the order of the layers, and [`Model::graph`] lowers the layers to
//! operators.

mod calls;
mod einsum;
pub(crate) mod json;
mod kernels;
mod layer;
mod lower;
mod naming;
mod optimizer;
mod parse;
mod quantized;
#[cfg(test)]
mod tests;
mod training;
mod variables;
mod write;

pub use calls::TensorRef;
pub use layer::Layer;
pub use lower::NoGraph;
pub use optimizer::{Optimizer, OptimizerVariable};
pub use quantized::Quantized;
pub use training::training_only;
pub use variables::{Variable, Variables};
pub use write::{Described, DescribedVariable};

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
        /// Lengths of the input's axes, where they are stated; `None` for the batch and other free ones.
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

impl Model {
    /// Returns the name of a layer whose weights are quantized, or that has LoRA: it has other variables than its class.
    pub(crate) fn altered_layer(&self) -> Option<&str> {
        let mut open = vec![self];
        while let Some(model) = open.pop() {
            open.extend(model.layers.iter().filter_map(|layer| layer.model.as_deref()));
            let is_altered =
                |layer: &&Layer| layer.quantization().is_some() || layer.option("lora_rank").is_some();
            if let Some(layer) = model.layers.iter().find(is_altered) {
                return Some(&layer.name);
            }
        }
        None
    }

    /// Whether a layer holds its variables in bfloat16, as its dtype or policy states. Mixed policies hold them in 32 bits.
    pub(crate) fn holds_bfloat16(&self) -> bool {
        let mut open = vec![self];
        while let Some(model) = open.pop() {
            open.extend(model.layers.iter().filter_map(|layer| layer.model.as_deref()));
            if model.layers.iter().any(|layer| layer.policy() == Some("bfloat16")) {
                return true;
            }
        }
        false
    }

    /// Whether a layer computes in 16 bits, as policies such as `mixed_bfloat16` state. The graph does not show it: run
    /// in more bits, it gives results that differ from the model's by the rounding of 16 bits.
    pub fn computes_in_16_bits(&self) -> bool {
        let mut open = vec![self];
        while let Some(model) = open.pop() {
            open.extend(model.layers.iter().filter_map(|layer| layer.model.as_deref()));
            let policies =
                model.layers.iter().filter(|layer| layer.class != "InputLayer").filter_map(Layer::policy);
            if policies.into_iter().any(|policy| policy.ends_with("float16")) {
                return true;
            }
        }
        false
    }
}
