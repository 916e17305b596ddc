//! A chain of layers.

use super::syntax::{Syntax, invalid};
use crate::{Activation, Axis, Result};
use serde::{Deserialize, Serialize};
use std::num::NonZeroU32;

/// A chain of layers, given by the user with `--arch`.
///
/// ```
/// let json = r#"{ "layers": [
///     { "type": "dense", "activation": "relu" },
///     { "type": "dense", "weight": "out/kernel", "bias": "out/bias", "weight_axes": ["in", "out"] }
/// ] }"#;
/// let architecture = ckpt_api::Architecture::from_json(json)?;
/// assert_eq!(architecture.layers.len(), 2);
/// # Ok::<(), ckpt_api::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Architecture {
    /// The file that it was read from, for errors.
    #[serde(skip)]
    pub file: Option<String>,
    /// The model's name.
    #[serde(default)]
    pub name: String,
    /// The layers, first to last.
    pub layers: Vec<ArchitectureLayer>,
}

/// One layer of an architecture file.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ArchitectureLayer {
    /// A fully connected layer.
    Dense(WeightedLayer),
    /// A convolution of images, `[N, C, H, W]`, as ONNX's Conv: the kernel is not flipped. Softmax is over the
    /// channels.
    Conv(WeightedLayer, ConvolutionWindow),
    /// `[N, …]` to `[N, ∏]`.
    Flatten,
    /// An activation as a layer of its own.
    Activation(Activation),
}

/// What every layer with a weight has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WeightedLayer {
    /// The layer's name; `None` for the source's own.
    pub name: Option<String>,
    /// Name of the weight tensor; `None` for the tensors of the source's own n-th layer of this kind.
    pub weight: Option<String>,
    /// Name of the bias tensor.
    pub bias: Option<String>,
    /// Meaning of the weight's axes, if the source does not record it: `["in", "out"]` in its order, and `kernel_y` and
    /// `kernel_x` of a convolution.
    pub weight_axes: Option<Vec<Axis>>,
    /// Applied to the result.
    pub activation: Activation,
}

/// How a convolution slides over the image.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConvolutionWindow {
    /// Rows and columns from one output pixel to the next.
    pub strides: [NonZeroU32; 2],
    /// Zeros around the image, by what they are for; [`Padding::Valid`] if neither this nor `pads` is given.
    pub padding: Option<Padding>,
    /// Zeros around the image: top, left, bottom, right.
    pub pads: Option<[u32; 4]>,
    /// Rows and columns from one tap of the kernel to the next.
    pub dilations: [NonZeroU32; 2],
    /// Number of parts, independent of each other, into which the channels are divided.
    pub group: NonZeroU32,
}

/// How a convolution pads the image, by Keras's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Padding {
    /// With zeros, so that the output has the size of the input divided by the strides, rounded up; where the zeros are
    /// odd in number, one more at the bottom and on the right.
    Same,
    /// Not at all.
    Valid,
}

impl Architecture {
    /// Parses an architecture file.
    ///
    /// # Errors
    /// [`crate::Kind::Usage`] with the line and column.
    pub fn from_json(json: &str) -> Result<Self> {
        serde_json::from_str(json).map_err(|error| invalid(&error.to_string()).help(Syntax::Json.example()))
    }
}
