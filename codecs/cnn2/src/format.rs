//! The format's constants, structures and rules.

use ckpt_api::{Axis, Op};

/// Id of the format and its namespace in the metadata.
pub(crate) const ID: &str = "cnn2";
pub(crate) const MAGIC: [u8; 4] = *b"CNN2";
/// Bytes of one entry of the layer table.
pub(crate) const LAYER_BYTES: u64 = 20;
/// Bytes of one weight.
pub(crate) const WEIGHT_BYTES: u64 = 2;
/// Keys of the `cnn2` metadata.
pub(crate) const KEY_VERSION: &str = "version";
pub(crate) const KEY_MIP: &str = "mip";
pub(crate) const KEY_PAD: &str = "pad";

/// Static features: R, G, B, D, UV_X, UV_Y, sin(10·UV_X), 1.0.
pub(crate) const STATIC: u64 = 8;
/// Which of them is the constant 1.0.
pub(crate) const CONSTANT: u64 = 7;
/// Features that the first layer may take beside the static ones.
const MOST_EXTRA: u64 = 7;
const MOST_OUTPUTS: u64 = 8;
const MOST_MIP: u32 = 3;

/// What the weights' axes mean, slowest first.
pub(crate) const AXES: [Axis; 4] = [Axis::Out, Axis::In, Axis::KernelY, Axis::KernelX];

/// `layer{n}.weight`, `n` from 1.
pub(crate) fn weight_name(index: usize) -> String {
    format!("{}.weight", layer_name(index))
}

/// `layer{n}`, `n` from 1.
pub(crate) fn layer_name(index: usize) -> String {
    format!("layer{}", index.saturating_add(1))
}

/// Which revision of the format.
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

    /// Where the layer table begins.
    pub(crate) fn header_bytes(self) -> u64 {
        match self {
            Version::One => 16,
            Version::Two => 20,
        }
    }
}

/// The mip level, if it is one.
pub(crate) fn mip(level: u32) -> Option<u32> {
    (level <= MOST_MIP).then_some(level)
}

/// What follows an odd number of weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pad {
    /// Nothing.
    None,
    /// Two bytes of zero.
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

    /// Bytes of weights and padding; `None` beyond 64 bits.
    pub(crate) fn data_bytes(self, weights: u64) -> Option<u64> {
        let padding = if self == Pad::Zero { weights % 2 } else { 0 };
        weights.checked_add(padding)?.checked_mul(WEIGHT_BYTES)
    }
}

/// The elementwise functions that a renderer of CNN2 files knows.
pub(crate) const ACTIVATIONS: [(&str, Option<Op>); 5] = [
    ("none", None),
    ("clamp", Some(Op::Clip)),
    ("relu", Some(Op::Relu)),
    ("sigmoid", Some(Op::Sigmoid)),
    ("tanh", Some(Op::Tanh)),
];

/// What a convolution takes in place of the pixels beyond the edge of the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Border {
    Zero,
    Clamp,
    /// The source does not state it.
    Unspecified,
}

impl Border {
    pub(crate) const NAMES: [&str; 2] = ["zero", "clamp"];

    pub(crate) fn from_name(name: Option<&str>) -> Border {
        match name {
            Some("zero") => Border::Zero,
            Some("clamp") => Border::Clamp,
            _ => Border::Unspecified,
        }
    }
}

/// Sizes of one layer: the weight is `[outputs, inputs, kernel, kernel]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LayerShape {
    pub(crate) kernel: u64,
    pub(crate) inputs: u64,
    pub(crate) outputs: u64,
}

/// What a layer takes. The channels come in the order in which they are named here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wiring {
    /// The first: the static features, and so many more.
    Static { extra: u64 },
    /// What the layer before it makes.
    Previous,
    /// What the layer before it makes, and the static features.
    PreviousAndStatic,
}

/// A rule of the format that a layer breaks.
pub(crate) struct Breach {
    pub(crate) rule: &'static str,
    pub(crate) field: &'static str,
    pub(crate) found: String,
    pub(crate) expected: String,
    /// Whether the tensors alone make no sense either.
    pub(crate) fatal: bool,
}

impl LayerShape {
    pub(crate) fn dims(&self) -> [u64; 4] {
        [self.outputs, self.inputs, self.kernel, self.kernel]
    }

    /// `out · in · k²`; `None` beyond 64 bits.
    pub(crate) fn weights(&self) -> Option<u64> {
        self.dims().iter().try_fold(1u64, |product, dim| product.checked_mul(*dim))
    }

    /// The wiring that the numbers of channels imply, `previous` being what the layer before makes.
    pub(crate) fn wiring(&self, previous: Option<u64>) -> Option<Wiring> {
        let Some(previous) = previous else {
            let extra = self.inputs.checked_sub(STATIC)?;
            return (extra <= MOST_EXTRA).then_some(Wiring::Static { extra });
        };
        match self.inputs.checked_sub(previous)? {
            0 => Some(Wiring::Previous),
            STATIC => Some(Wiring::PreviousAndStatic),
            _ => None,
        }
    }

    /// Which input channel is always 1.0, so that its center tap acts as the bias.
    pub(crate) fn constant_channel(&self, previous: Option<u64>) -> Option<u64> {
        match self.wiring(previous)? {
            Wiring::Static { .. } => Some(CONSTANT),
            Wiring::Previous => None,
            Wiring::PreviousAndStatic => previous?.checked_add(CONSTANT),
        }
    }

    /// The rules that the layer breaks, those first that leave no sense in it.
    pub(crate) fn breaches(&self, previous: Option<u64>) -> Vec<Breach> {
        let fatal = |rule, field, found: u64, expected: &str| Breach {
            rule,
            field,
            found: found.to_string(),
            expected: expected.to_owned(),
            fatal: true,
        };
        let mut breaches = Vec::new();
        if self.kernel == 0 {
            breaches.push(fatal("a kernel has no pixels", "kernel_size", self.kernel, "1, 3, 5, …"));
        }
        if self.inputs == 0 {
            breaches.push(fatal("a layer takes no channels", "in_channels", self.inputs, "at least 1"));
        }
        if !(1..=MOST_OUTPUTS).contains(&self.outputs) {
            let rule = "a layer makes a number of channels that the format does not have";
            breaches.push(fatal(rule, "out_channels", self.outputs, "1 to 8"));
        }
        if self.kernel.is_multiple_of(2) && self.kernel > 0 {
            let rule = "a kernel has no center";
            let breach = fatal(rule, "kernel_size", self.kernel, "an odd number");
            breaches.push(Breach { fatal: false, ..breach });
        }
        if self.wiring(previous).is_none() && self.inputs > 0 {
            let (rule, expected) = match previous {
                None => ("the first layer does not take the static features", "8 to 15".to_owned()),
                Some(previous) => (
                    "what the layer takes is not what there is to take",
                    format!(
                        "{previous} (what the layer before makes) or {} (with the static features)",
                        previous.saturating_add(STATIC)
                    ),
                ),
            };
            let found = self.inputs.to_string();
            breaches.push(Breach { rule, field: "in_channels", found, expected, fatal: false });
        }
        breaches
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_imply_the_wiring() {
        let wiring = |inputs, previous| LayerShape { kernel: 3, inputs, outputs: 4 }.wiring(previous);
        assert_eq!(wiring(7, None), None);
        assert_eq!(wiring(8, None), Some(Wiring::Static { extra: 0 }));
        assert_eq!(wiring(15, None), Some(Wiring::Static { extra: 7 }));
        assert_eq!(wiring(16, None), None);
        assert_eq!(wiring(3, Some(4)), None);
        assert_eq!(wiring(4, Some(4)), Some(Wiring::Previous));
        assert_eq!(wiring(12, Some(4)), Some(Wiring::PreviousAndStatic));
        assert_eq!(wiring(11, Some(4)), None);
    }

    #[test]
    fn the_bias_is_the_last_static_feature() {
        let constant =
            |inputs, previous| LayerShape { kernel: 3, inputs, outputs: 4 }.constant_channel(previous);
        assert_eq!(constant(15, None), Some(7));
        assert_eq!(constant(12, Some(4)), Some(11));
        assert_eq!(constant(4, Some(4)), None);
    }

    #[test]
    fn a_count_of_weights_beyond_64_bits_is_none() {
        let most = u64::from(u32::MAX);
        assert_eq!(LayerShape { kernel: most, inputs: most, outputs: most }.weights(), None);
        assert_eq!(LayerShape { kernel: 3, inputs: 15, outputs: 8 }.weights(), Some(1080));
    }
}
