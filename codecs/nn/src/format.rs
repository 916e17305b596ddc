//! The format's constants and structures.

use ckpt_api::Op;
use std::fmt;

/// Id of the format, and its metadata namespace.
pub(crate) const ID: &str = "nn";
pub(crate) const MAGIC: &[u8; 8] = b"DATACODE";
pub(crate) const VERSION: u32 = 1;

/// Bytes that every tensor takes at least: the length of its name, and its number of dimensions.
pub(crate) const SMALLEST_TENSOR: u64 = 4 + 4;
/// Offset of the JSON block, after the magic number, the version and the JSON's length.
pub(crate) const JSON_OFFSET: u64 = 16;
/// Number of training stages that dialect b keeps.
pub(crate) const STAGES_KEPT: usize = 10;
/// Keys of the `nn` metadata.
pub(crate) const KEY_JSON: &str = "json";
pub(crate) const KEY_DIALECT: &str = "dialect";
pub(crate) const KEY_ORDER: &str = "order";

/// A dialect of the format, by the version of DataCode that writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    A,
    B,
}

impl Dialect {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Dialect::A => "a",
            Dialect::B => "b",
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<Dialect> {
        [Dialect::A, Dialect::B].into_iter().find(|dialect| dialect.name() == name)
    }

    /// Returns the number N in the names of a Linear layer and its tensors.
    pub(crate) fn number(self, linear: &Linear) -> usize {
        match self {
            Dialect::A => linear.position,
            Dialect::B => linear.ordinal,
        }
    }

    /// Returns the stored shape of a weight.
    pub(crate) fn weight_dims(self, inputs: u64, outputs: u64) -> [u64; 2] {
        match self {
            Dialect::A => [inputs, outputs],
            Dialect::B => [outputs, inputs],
        }
    }
}

/// A layer type of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LayerKind {
    Linear,
    Relu,
    Sigmoid,
    Tanh,
    Softmax,
    Flatten,
}

impl LayerKind {
    pub(crate) const ALL: [LayerKind; 6] = [
        LayerKind::Linear,
        LayerKind::Relu,
        LayerKind::Sigmoid,
        LayerKind::Tanh,
        LayerKind::Softmax,
        LayerKind::Flatten,
    ];

    /// Returns the value of the JSON's `type`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            LayerKind::Linear => "Linear",
            LayerKind::Relu => "ReLU",
            LayerKind::Sigmoid => "Sigmoid",
            LayerKind::Tanh => "Tanh",
            LayerKind::Softmax => "Softmax",
            LayerKind::Flatten => "Flatten",
        }
    }

    pub(crate) fn op(self) -> Op {
        match self {
            LayerKind::Linear => Op::Gemm,
            LayerKind::Relu => Op::Relu,
            LayerKind::Sigmoid => Op::Sigmoid,
            LayerKind::Tanh => Op::Tanh,
            LayerKind::Softmax => Op::Softmax,
            LayerKind::Flatten => Op::Flatten,
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<LayerKind> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    pub(crate) fn from_op(op: &Op) -> Option<LayerKind> {
        Self::ALL.into_iter().find(|kind| kind.op() == *op)
    }

    /// Lists all types, for messages.
    pub(crate) fn names() -> String {
        Self::ALL.map(LayerKind::name).join(", ")
    }
}

/// A layer, as the JSON describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layer {
    pub(crate) kind: LayerKind,
    /// `in_features`; 0 for other types, and for a convolution stored as Linear.
    pub(crate) inputs: u64,
    /// `out_features`; 0 likewise.
    pub(crate) outputs: u64,
}

impl Layer {
    /// Returns whether the layer is a convolution, which DataCode stores as a Linear layer with 0 features.
    pub(crate) fn is_convolution(&self) -> bool {
        self.kind == LayerKind::Linear && self.inputs == 0
    }
}

/// A Linear layer with its positions.
#[derive(Clone, Debug)]
pub(crate) struct Linear<'a> {
    /// Index among all layers.
    pub(crate) position: usize,
    /// Index among the Linear layers.
    pub(crate) ordinal: usize,
    pub(crate) layer: &'a Layer,
}

impl Linear<'_> {
    /// Returns the layer's name, as the dialect derives it.
    pub(crate) fn name(&self, dialect: Dialect) -> String {
        format!("layer{}", dialect.number(self))
    }
}

/// Returns the layers that have tensors.
pub(crate) fn linears(layers: &[Layer]) -> impl Iterator<Item = Linear<'_>> {
    let numbered = layers.iter().enumerate().filter(|(_, layer)| layer.kind == LayerKind::Linear);
    numbered.enumerate().map(|(ordinal, (position, layer))| Linear { position, ordinal, layer })
}

/// Returns the name of each layer, as the dialect derives it.
pub(crate) fn layer_names(layers: &[Layer], dialect: Dialect) -> impl Iterator<Item = String> {
    let mut linears = linears(layers).peekable();
    (0..layers.len()).map(move |position| match linears.next_if(|linear| linear.position == position) {
        Some(linear) => linear.name(dialect),
        None => format!("layer{position}"),
    })
}

/// The role of a tensor in its layer, in the order in which a layer's tensors are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Part {
    Weight,
    Bias,
}

impl Part {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Part::Weight => "weight",
            Part::Bias => "bias",
        }
    }
}

/// A tensor's name: `layer{number}.weight` or `layer{number}.bias`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) number: usize,
    pub(crate) part: Part,
}

impl Key {
    /// Parses a name; `None` if the key would be written differently.
    pub(crate) fn parse(name: &str) -> Option<Key> {
        let (number, part) = name.strip_prefix("layer")?.split_once('.')?;
        let part = [Part::Weight, Part::Bias].into_iter().find(|known| known.name() == part)?;
        let key = Key { number: number.parse().ok()?, part };
        (key.to_string() == name).then_some(key)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "layer{}.{}", self.number, self.part.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tensor_name_is_layer_number_weight_or_bias_and_nothing_else() {
        let key = Key::parse("layer10.bias").unwrap();
        assert_eq!((key.number, key.part, key.to_string().as_str()), (10, Part::Bias, "layer10.bias"));
        for name in [
            "layer.weight",
            "layer0",
            "layer0.",
            "layer0.gamma",
            "layer01.bias",
            "layer+1.bias",
            "layer-1.bias",
            "Layer0.bias",
            "layer0.bias ",
            "layer99999999999999999999.bias",
            "",
        ] {
            assert_eq!(Key::parse(name), None, "{name:?}");
        }
    }

    #[test]
    fn the_dialects_number_linear_layers_differently() {
        let layer = |kind| Layer { kind, inputs: 1, outputs: 1 };
        let layers = [LayerKind::Linear, LayerKind::Relu, LayerKind::Linear, LayerKind::Softmax].map(layer);
        let names = |dialect| layer_names(&layers, dialect).collect::<Vec<_>>();
        assert_eq!(names(Dialect::A), ["layer0", "layer1", "layer2", "layer3"]);
        assert_eq!(names(Dialect::B), ["layer0", "layer1", "layer1", "layer3"]);
    }
}
