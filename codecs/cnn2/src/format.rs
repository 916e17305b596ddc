//! The constants and vocabularies of the format.

use ckpt_api::{Axis, Op};

/// The format's id, and the namespace of its metadata.
pub(crate) const ID: &str = "cnn2";
pub(crate) const MAGIC: [u8; 4] = *b"CNN2";
/// Bytes of one entry of the layer table.
pub(crate) const LAYER_BYTES: u64 = 20;
/// Bytes of one weight.
pub(crate) const WEIGHT_BYTES: u64 = 2;

/// Metadata: the version.
pub(crate) const KEY_VERSION: &str = "version";
/// Metadata: the mip level.
pub(crate) const KEY_MIP: &str = "mip";
/// Metadata: the padding, if the number of weights is odd.
pub(crate) const KEY_PAD: &str = "pad";

const MAX_MIP: u32 = 3;

/// The weights' axes, slowest first.
pub(crate) const AXES: [Axis; 4] = [Axis::Out, Axis::In, Axis::KernelY, Axis::KernelX];

/// Returns `layer{n}.weight`, with `n` from 1.
pub(crate) fn weight_name(index: usize) -> String {
    format!("{}.weight", layer_name(index))
}

/// Returns `layer{n}`, with `n` from 1.
pub(crate) fn layer_name(index: usize) -> String {
    format!("layer{}", index.saturating_add(1))
}

/// A version of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    One,
    Two,
}

impl Version {
    pub(crate) fn number(self) -> u32 {
        match self {
            Version::One => 1,
            Version::Two => 2,
        }
    }

    pub(crate) fn from_number(number: u32) -> Option<Version> {
        [Version::One, Version::Two].into_iter().find(|version| version.number() == number)
    }

    /// The offset of the layer table.
    pub(crate) fn header_bytes(self) -> u64 {
        match self {
            Version::One => 16,
            Version::Two => 20,
        }
    }
}

/// Returns the mip level if it is valid.
pub(crate) fn mip(level: u32) -> Option<u32> {
    (level <= MAX_MIP).then_some(level)
}

/// What follows an odd number of weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pad {
    /// Nothing.
    None,
    /// Two zero bytes.
    Zero,
}

impl Pad {
    pub(crate) const NAMES: [&str; 2] = ["none", "zero"];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Pad::None => "none",
            Pad::Zero => "zero",
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<Pad> {
        [Pad::None, Pad::Zero].into_iter().find(|pad| pad.name() == name)
    }

    /// Bytes of the weights and their padding.
    pub(crate) fn data_bytes(self, weights: u32) -> u64 {
        let padding = if self == Pad::Zero { weights % 2 } else { 0 };
        (u64::from(weights) + u64::from(padding)) * WEIGHT_BYTES
    }
}

/// The activations of the renderers that read CNN2 files.
pub(crate) const ACTIVATIONS: [(&str, Option<Op>); 5] = [
    ("none", None),
    ("clamp", Some(Op::Clip)),
    ("relu", Some(Op::Relu)),
    ("sigmoid", Some(Op::Sigmoid)),
    ("tanh", Some(Op::Tanh)),
];

/// The pixels that a convolution reads beyond the edge of the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Border {
    /// Zeros.
    Zero,
    /// The nearest pixel of the image.
    Clamp,
}

impl Border {
    pub(crate) const NAMES: [&str; 2] = ["zero", "clamp"];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Border::Zero => "zero",
            Border::Clamp => "clamp",
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<Border> {
        [Border::Zero, Border::Clamp].into_iter().find(|border| border.name() == name)
    }
}
