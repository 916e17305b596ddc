//! A network: what its file holds, array after array.

use super::features::{Columns, Inputs, PSQT_BUCKETS};
use super::layers::{self, Layers};
use super::{
    KEY_ARCHITECTURE, KEY_DESCRIPTION, KEY_FEATURE_HASH, KEY_FEATURES, KEY_L1, KEY_VERSION, VERSION,
};
use ckpt_api::{DType, Metadata, MetadataValue, Result, Shape};
use std::num::NonZeroU32;

/// Units per 1.0 of the weights and biases of each layer, in the current version.
const LAYER_UNITS: [[u32; 2]; 3] = [[128, 128 * 128], [64, 64 * 128], [128, 128 * 128]];
const TRANSFORMER_UNITS: u32 = 256;
const PSQT_UNITS: u32 = 600 * 16;

/// What a file holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Network {
    pub(crate) version: u32,
    pub(crate) description: String,
    pub(crate) inputs: Inputs,
    /// Neurons of one side.
    pub(crate) l1: u32,
    pub(crate) layers: Layers,
}

/// An array of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// The name of the tensor.
    pub(crate) name: String,
    pub(crate) shape: Shape,
    pub(crate) dtype: DType,
    /// Whether it may be compressed.
    pub(crate) is_compressible: bool,
    /// Units per 1.0; `None` if the version leaves them open.
    pub(crate) units: Option<NonZeroU32>,
}

impl Part {
    /// Bytes of its integers as they are.
    pub(crate) fn bytes(&self) -> u64 {
        self.shape.elements().saturating_mul(self.dtype.bytes().unwrap_or(1))
    }
}

impl Network {
    /// The hash before the transformer.
    pub(crate) fn transformer_hash(inputs: &Inputs, l1: u32) -> u32 {
        inputs.hash ^ l1.wrapping_mul(2)
    }

    /// The hash before each stack.
    pub(crate) fn layers_hash(&self) -> u32 {
        layers::hash(self.l1, self.layers.outputs)
    }

    /// How many stacks of layers there are.
    pub(crate) fn stacks(inputs: &Inputs) -> u64 {
        if inputs.has_one_stack { 1 } else { PSQT_BUCKETS }
    }

    /// The arrays of the transformer, in the order of the file.
    ///
    /// # Errors
    /// For shapes that are too large.
    pub(crate) fn transformer(version: u32, inputs: &Inputs, l1: u32) -> Result<Vec<Part>> {
        let l1 = l1.into();
        let part = |name: String, lens: &[u64], dtype: DType, units: u32| {
            let shape = Shape::new(lens)?;
            Ok(Part { name, shape, dtype, is_compressible: dtype != DType::I8, units: known(version, units) })
        };
        let bias = part("transformer.bias".to_owned(), &[l1], DType::I16, TRANSFORMER_UNITS);
        let arrays = inputs.arrays.iter().map(|array| {
            let units = if array.columns == Columns::Neurons { TRANSFORMER_UNITS } else { PSQT_UNITS };
            part(array.name.clone(), &[array.rows, array.columns.count(l1)], array.dtype, units)
        });
        [bias].into_iter().chain(arrays).collect()
    }

    /// The arrays of one stack, in the order of the file.
    ///
    /// # Errors
    /// For shapes that are too large.
    pub(crate) fn stack(version: u32, layers: Layers, stack: u64) -> Result<Vec<Part>> {
        let mut parts = Vec::new();
        for ((name, [outputs, inputs]), units) in
            Layers::NAMES.into_iter().zip(layers.shapes()).zip(LAYER_UNITS)
        {
            let [weight, bias] = units.map(|units| known(version, units));
            for (role, lens, dtype, units) in [
                ("bias", &[outputs][..], DType::I32, bias),
                ("weight", &[outputs, inputs][..], DType::I8, weight),
            ] {
                let name = format!("stacks.{stack}.{name}.{role}");
                let shape = Shape::new(lens)?;
                parts.push(Part { name, shape, dtype, is_compressible: false, units });
            }
        }
        Ok(parts)
    }

    /// The sizes in one line.
    pub(crate) fn architecture(&self) -> String {
        let [first, second] = self.layers.outputs;
        let stacks = match Network::stacks(&self.inputs) {
            1 => String::new(),
            stacks => format!(", {stacks} stacks"),
        };
        let (features, l1) = (self.inputs.features, self.l1);
        format!("({features} -> {l1})x2 -> {first} -> {second} -> 1{stacks}")
    }

    /// Keeps what no tensor states in the format's metadata.
    pub(crate) fn keep(&self, metadata: &mut Metadata) {
        let number = |number: u32| MetadataValue::integer(number.into());
        let id = super::ID;
        metadata.insert(id, KEY_ARCHITECTURE, self.architecture());
        metadata.insert(id, KEY_FEATURES, self.inputs.text.as_str());
        metadata.insert(id, KEY_FEATURE_HASH, number(self.inputs.hash));
        metadata.insert(id, KEY_L1, number(self.l1));
        metadata.insert(id, KEY_VERSION, number(self.version));
        metadata.insert(id, KEY_DESCRIPTION, self.description.as_str());
    }
}

fn known(version: u32, units: u32) -> Option<NonZeroU32> {
    NonZeroU32::new(units).filter(|_| version == VERSION)
}
