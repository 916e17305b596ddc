//! What network the tensors of a checkpoint are.

use crate::format::{
    Array, ID, Inputs, KEY_DESCRIPTION, KEY_FEATURE_HASH, KEY_FEATURES, KEY_L1, KEY_VERSION, Layers, Network,
    VERSION,
};
use ckpt_api::{Checkpoint, DType, Error, Result, Setting, Tensor, TensorId, text};
use std::collections::HashMap;

const BIAS: &str = "transformer.bias";

/// The network whose tensors a checkpoint has.
///
/// # Errors
/// If tensors are missing, or do not fit each other.
pub(super) fn network(checkpoint: &Checkpoint) -> Result<Network> {
    let names = checkpoint.by_name();
    let tensors = Tensors { checkpoint, names };
    let bias = tensors.get(BIAS)?;
    let number =
        |key| checkpoint.metadata.value(ID, key).and_then(|value| u32::try_from(value.as_u64()?).ok());
    let l1 = match number(KEY_L1) {
        Some(l1) => l1,
        None => size(bias, 0)?,
    };
    let is_read = |inputs: &Inputs| {
        let text = checkpoint.metadata.text(ID, KEY_FEATURES);
        text.is_none_or(|text| text == inputs.text)
            && number(KEY_FEATURE_HASH).is_none_or(|hash| hash == inputs.hash)
    };
    let text = checkpoint.metadata.text(ID, KEY_FEATURES);
    let other = text.and_then(Inputs::other_features).zip(number(KEY_FEATURE_HASH));
    let other = other.map(|(features, hash)| Inputs::other(features, hash));
    let mut all = other.iter().chain(Inputs::all()).filter(|inputs| is_read(inputs));
    let inputs =
        all.find(|inputs| tensors.are_those_of(inputs, l1)).ok_or_else(|| unknown_inputs(checkpoint))?;
    Ok(Network {
        version: number(KEY_VERSION).unwrap_or(VERSION),
        description: checkpoint.metadata.text(ID, KEY_DESCRIPTION).unwrap_or_default().to_owned(),
        inputs: inputs.clone(),
        l1,
        layers: tensors.layers()?,
    })
}

/// Whether a tensor holds the bytes of a compressed array.
pub(super) fn is_compressed(tensor: &Tensor) -> bool {
    tensor.dtype == DType::U8 && tensor.shape.rank() == 1
}

/// The error for a tensor that is missing.
pub(super) fn missing(checkpoint: &Checkpoint, name: &str) -> Error {
    let is_other = checkpoint.tensors.iter().all(|tensor| !tensor.name.starts_with("transformer."));
    if is_other {
        return other_architecture(checkpoint);
    }
    Error::unsupported("the checkpoint lacks a tensor of the network").tensor(name)
}

/// The error for a network that has none of the tensors, such as one of bullet.
fn other_architecture(checkpoint: &Checkpoint) -> Error {
    let inputs = checkpoint.tensors.first().map(|tensor| format!("'{}' of {}", tensor.name, tensor.shape));
    Error::unsupported("the checkpoint is not a network of the architecture of Stockfish")
        .found(inputs.map_or_else(|| "no tensors".to_owned(), |tensor| format!("tensors such as {tensor}")))
        .expected(format!(
            "'{BIAS}', the weights of {} or of one of its other feature sets, and 'stacks.N.LAYER' of {}",
            "HalfKAv2_hm (22528 features)",
            Layers::NAMES.join(", ")
        ))
        .help(text![
            "if the layers and the features are the same, give the tensors these names with ",
            Setting::MAPPING
        ])
}

fn unknown_inputs(checkpoint: &Checkpoint) -> Error {
    let names = checkpoint.tensors.iter().filter(|tensor| tensor.name.starts_with("transformer."));
    let names: Vec<String> = names.map(|tensor| format!("'{}' of {}", tensor.name, tensor.shape)).collect();
    Error::unsupported("the tensors of the transformer are not those of known inputs")
        .found(ckpt_api::first_few(&names, 8))
        .expected("weights, and piece-square values, of the feature sets of Stockfish")
}

fn size(tensor: &Tensor, axis: usize) -> Result<u32> {
    let len = tensor.shape.get(axis).and_then(|len| u32::try_from(*len).ok());
    len.filter(|_| tensor.dtype != DType::U8).ok_or_else(|| {
        let error = Error::unsupported("the shape of a tensor does not state the sizes of the network");
        error.tensor(&tensor.name).found(format!("{} of {}", tensor.shape, tensor.dtype))
    })
}

struct Tensors<'a> {
    checkpoint: &'a Checkpoint,
    names: HashMap<&'a str, TensorId>,
}

impl<'a> Tensors<'a> {
    fn get(&self, name: &str) -> Result<&'a Tensor> {
        let tensor = self.names.get(name).and_then(|id| self.checkpoint.tensors.get(id.0));
        tensor.ok_or_else(|| missing(self.checkpoint, name))
    }

    /// Whether the tensors of the transformer are those of the inputs, and no others.
    fn are_those_of(&self, inputs: &Inputs, l1: u32) -> bool {
        let own = self.names.keys().filter(|name| name.starts_with("transformer.")).count();
        let fits = |array: &Array| {
            let shape = [array.rows, array.columns.count(l1.into())];
            let is_alike = |tensor: &Tensor| tensor.shape[..] == shape || is_compressed(tensor);
            self.get(&array.name).is_ok_and(is_alike)
        };
        own == inputs.arrays.len() + 1 && inputs.arrays.iter().all(fits)
    }

    /// The layers of the first stack: others have the same, or do not fit.
    fn layers(&self) -> Result<Layers> {
        let weights = Layers::NAMES.map(|name| self.get(&format!("stacks.0.{name}.weight")));
        let [first, second, output] = weights;
        let (first, second, output) = (first?, second?, output?);
        let inputs = |tensor| size(tensor, 1).map(u64::from);
        Ok(Layers {
            inputs: [inputs(first)?, inputs(second)?, inputs(output)?],
            outputs: [size(first, 0)?, size(second, 0)?],
        })
    }
}
