//! The architecture file: what a checkpoint's own format does not record about its graph.
//!
//! A file that describes a chain of layers is an [`Architecture`]; its JSON Schema is
//! `schemas/architecture.schema.json`. A file whose `format` names a format is that codec's own
//! ([`Options::architecture`](crate::Options::architecture)).

mod bind;
mod fields;
mod json_tokens;
mod syntax;

use crate::{Axis, Checkpoint, Error, Limit, Limits, Op, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::num::NonZeroU32;
use syntax::{Syntax, invalid};

/// What to know if a layer has another type.
const LIMITS: &str = "a chain has only dense layers and convolutions; for others, write a graph or a template, or use a SavedModel";

/// The architecture file of the user, not parsed further than its syntax.
///
/// ```
/// let file = ckpt_api::ArchitectureFile::from_json(r#"{ "format": "bullet", "input": {} }"#)?;
/// assert_eq!(file.format(), Some("bullet"));
/// # Ok::<(), ckpt_api::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArchitectureFile {
    name: Option<String>,
    document: Value,
}

impl ArchitectureFile {
    /// A file with this content, as its JSON form: a type of a codec, a document of another syntax, or a
    /// [`crate::MetadataValue`]. [`ArchitectureFile::parse`] is the inverse.
    ///
    /// # Errors
    /// [`crate::Kind::Unsupported`] for content that has no JSON form.
    pub fn new(content: &impl Serialize) -> Result<Self> {
        let document = serde_json::to_value(content).map_err(|error| {
            Error::unsupported("the architecture has no JSON form").found(error.to_string()).caused_by(error)
        })?;
        Ok(ArchitectureFile { name: None, document })
    }

    /// Parses JSON.
    ///
    /// # Errors
    /// [`crate::Kind::Usage`] with the line and column.
    pub fn from_json(json: &str) -> Result<Self> {
        Self::from_json_within(json, &Limits::default())
    }

    /// As [`ArchitectureFile::from_json`], within limits of the caller's.
    ///
    /// # Errors
    /// As [`ArchitectureFile::from_json`]; [`crate::Kind::Limit`] for a text with more tokens than
    /// [`Limit::TextTokens`], before memory is allocated for each.
    pub fn from_json_within(json: &str, limits: &Limits) -> Result<Self> {
        limits.check(Limit::TextTokens, json_tokens::count(json))?;
        let document = serde_json::from_str(json).map_err(|error| invalid(&error.to_string()))?;
        Ok(ArchitectureFile { name: None, document })
    }

    /// Sets the path that errors name.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Returns the path that the file was read from.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Returns the content as JSON, without line breaks.
    pub fn to_json(&self) -> String {
        self.document.to_string()
    }

    /// Returns the id of the format whose codec parses the file; `None` for a chain of layers.
    pub fn format(&self) -> Option<&str> {
        self.document.get("format")?.as_str()
    }

    /// Whether the file has this key.
    ///
    /// ```
    /// let file = ckpt_api::ArchitectureFile::from_json(r#"{ "layers": [] }"#)?;
    /// assert!(file.has("layers") && !file.has("graph"));
    /// # Ok::<(), ckpt_api::Error>(())
    /// ```
    pub fn has(&self, key: &str) -> bool {
        self.document.get(key).is_some()
    }

    /// Parses the file as a chain of layers.
    ///
    /// # Errors
    /// [`crate::Kind::Usage`], naming the file.
    pub fn layers(&self) -> Result<Architecture> {
        let architecture = self.deserialize(|place, error| match place.ends_with("].type") {
            true => error.with_help(|known| format!("{known}; {LIMITS}")),
            false => error.help(self.syntax().example()),
        });
        architecture
            .map(|architecture: Architecture| Architecture { file: self.name.clone(), ..architecture })
    }

    /// Parses the file as a type of a codec.
    ///
    /// # Errors
    /// [`crate::Kind::Usage`], naming the file and the field.
    pub fn parse<T: serde::de::DeserializeOwned>(&self) -> Result<T> {
        self.deserialize(|_, error| error)
    }

    /// Parses the file; `advise` adds what to do to the error at a place.
    fn deserialize<T: serde::de::DeserializeOwned>(
        &self,
        advise: impl FnOnce(&str, Error) -> Error,
    ) -> Result<T> {
        serde_path_to_error::deserialize(&self.document).map_err(|error| {
            let place = error.path().to_string();
            let error = advise(&place, invalid(&error.inner().to_string()));
            let error = if place == "." { error } else { error.field(place) };
            match &self.name {
                Some(name) => error.file(name),
                None => error,
            }
        })
    }
}

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
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "fields::LayerFields")]
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

/// An activation by the name that people use for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Activation {
    /// None.
    #[default]
    Linear,
    /// `max(x, 0)`.
    Relu,
    /// Logistic function.
    Sigmoid,
    /// Hyperbolic tangent.
    Tanh,
    /// Over the last axis.
    Softmax,
    /// Over the last axis.
    LogSoftmax,
    /// Exponential linear unit, alpha 1.
    Elu,
    /// With the error function.
    Gelu,
    /// `ln(1 + eˣ)`.
    Softplus,
}

impl Activation {
    /// Every activation.
    pub const ALL: &'static [Activation] = &[
        Activation::Linear,
        Activation::Relu,
        Activation::Sigmoid,
        Activation::Tanh,
        Activation::Softmax,
        Activation::LogSoftmax,
        Activation::Elu,
        Activation::Gelu,
        Activation::Softplus,
    ];

    /// The name, as files and options write it (Keras's).
    pub fn name(self) -> &'static str {
        match self {
            Activation::Linear => "linear",
            Activation::Relu => "relu",
            Activation::Sigmoid => "sigmoid",
            Activation::Tanh => "tanh",
            Activation::Softmax => "softmax",
            Activation::LogSoftmax => "log_softmax",
            Activation::Elu => "elu",
            Activation::Gelu => "gelu",
            Activation::Softplus => "softplus",
        }
    }

    /// The operator; `None` for [`Activation::Linear`].
    pub fn op(self) -> Option<Op> {
        Some(match self {
            Activation::Linear => return None,
            Activation::Relu => Op::Relu,
            Activation::Sigmoid => Op::Sigmoid,
            Activation::Tanh => Op::Tanh,
            Activation::Softmax => Op::Softmax,
            Activation::LogSoftmax => Op::LogSoftmax,
            Activation::Elu => Op::Elu,
            Activation::Gelu => Op::Gelu,
            Activation::Softplus => Op::Softplus,
        })
    }

    /// The activation with this [`name`](Activation::name).
    ///
    /// # Errors
    /// [`crate::Kind::Usage`], listing the known ones.
    pub fn from_name(name: &str) -> Result<Activation> {
        let found = Activation::ALL.iter().copied().find(|activation| activation.name() == name);
        found.ok_or_else(|| {
            let known = Activation::ALL.iter().map(|activation| activation.name());
            Error::usage("unknown activation").found(format!("'{name}'")).help(crate::nearest(name, known))
        })
    }
}

impl Architecture {
    /// Parses an architecture file.
    ///
    /// # Errors
    /// [`crate::Kind::Usage`] with the line and column.
    pub fn from_json(json: &str) -> Result<Self> {
        serde_json::from_str(json).map_err(|error| invalid(&error.to_string()).help(Syntax::Json.example()))
    }

    /// Replaces the checkpoint's graph by this one, bound to the checkpoint's tensors, and labels their axes.
    ///
    /// # Errors
    /// [`crate::Kind::Usage`] for tensors that are missing or do not fit.
    pub fn apply(&self, checkpoint: &mut Checkpoint) -> Result<()> {
        bind::bind(self, checkpoint).map_err(|error| match &self.file {
            Some(file) => error.file(file),
            None => error,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Attribute, DType, Shape, Tensor};

    fn checkpoint() -> Checkpoint {
        let tensor = |name: &str, dims: &[u64]| Tensor::new(name, DType::F32, Shape::new(dims).unwrap());
        let tensors = vec![tensor("w", &[4, 2]), tensor("b", &[2]), tensor("k", &[3, 3, 4, 2])];
        Checkpoint { tensors, ..Checkpoint::default() }
    }

    fn apply(json: &str) -> Result<Checkpoint> {
        let mut checkpoint = checkpoint();
        Architecture::from_json(json)?.apply(&mut checkpoint)?;
        Ok(checkpoint)
    }

    #[test]
    fn an_architecture_gives_a_graph_and_axes_to_bare_tensors() {
        let json = r#"{"layers":[{"type":"dense","weight":"w","bias":"b","weight_axes":["in","out"],"activation":"relu"}]}"#;
        let checkpoint = apply(json).unwrap();
        let graph = checkpoint.graph.as_ref().unwrap();
        assert_eq!(graph.nodes[1].op, Op::Relu);
        assert_eq!(graph.inputs[0].shape, [None, Some(4)]);
        assert_eq!(checkpoint.tensor("b").unwrap().1.axes, Some([Axis::Out].into()));
    }

    #[test]
    fn axes_that_nobody_states_are_asked_for() {
        let error = apply(r#"{"layers":[{"type":"dense","weight":"w"}]}"#).unwrap_err();
        assert!(error.to_string().contains("weight_axes"), "{error}");
    }

    #[test]
    fn help_is_in_the_syntax_of_the_file() {
        for (name, axes, weight) in [
            ("net.json", "\"weight_axes\": [\"in\", \"out\"]", "\"weight\": \"NAME\""),
            ("net.toml", "weight_axes = [\"in\", \"out\"]", "weight = \"NAME\""),
        ] {
            for (layer, help) in [(r#"{"type":"dense","weight":"w"}"#, axes), (r#"{"type":"dense"}"#, weight)]
            {
                let file = ArchitectureFile::from_json(&format!(r#"{{"layers":[{layer}]}}"#)).unwrap();
                let layers = file.named(name).layers().unwrap();
                let error = layers.apply(&mut checkpoint()).unwrap_err().to_string();
                assert!(error.contains(&format!("add {help}")), "{error}");
            }
        }
    }

    #[test]
    fn a_tensor_that_is_missing_is_named() {
        let error = apply(r#"{"layers":[{"type":"dense","weight":"v"}]}"#).unwrap_err();
        assert!(error.to_string().contains("tensor v"), "{error}");
    }

    #[test]
    fn an_unknown_field_is_an_error() {
        assert!(apply(r#"{"layers":[{"type":"dense","wieght":"w"}]}"#).is_err());
    }

    #[test]
    fn a_field_of_another_type_of_layer_is_an_error() {
        for (layer, field) in [
            (r#"{"type":"dense","strides":[1,1]}"#, "strides"),
            (r#"{"type":"flatten","name":"f"}"#, "name"),
            (r#"{"type":"activation","activation":"relu","group":1}"#, "group"),
            (r#"{"type":"activation"}"#, "activation"),
        ] {
            let error = apply(&format!(r#"{{"layers":[{layer}]}}"#)).unwrap_err().to_string();
            assert!(error.contains(&format!("`{field}`")), "{error}");
        }
    }

    const HWIO: &str = r#""weight":"k","weight_axes":["kernel_y","kernel_x","in","out"]"#;

    fn conv(rest: &str) -> Result<Checkpoint> {
        apply(&format!(r#"{{"layers":[{{"type":"conv",{HWIO}{rest}}}]}}"#))
    }

    #[test]
    fn a_convolution_takes_images_and_says_how_it_slides() {
        let rest = r#","bias":"b","strides":[2,1],"padding":"same","dilations":[1,2],"group":2,"activation":"softmax""#;
        let checkpoint = conv(rest).unwrap();
        let graph = checkpoint.graph.as_ref().unwrap();
        let node = &graph.nodes[0];
        assert_eq!((&node.op, &graph.nodes[1].op), (&Op::Conv, &Op::Softmax));
        let ints = |values: &[i64]| Some(Attribute::Ints(values.to_vec()));
        assert_eq!(node.attributes.get("strides").cloned(), ints(&[2, 1]));
        assert_eq!(node.attributes.get("dilations").cloned(), ints(&[1, 2]));
        assert_eq!(node.attributes.get("group"), Some(&Attribute::Int(2)));
        assert_eq!(node.attributes.get("auto_pad"), Some(&Attribute::Text("SAME_UPPER".into())));
        assert_eq!(graph.nodes[1].attributes.get("axis"), Some(&Attribute::Int(1)));
        assert_eq!(graph.inputs[0].shape, [None, Some(8), None, None]);
        assert_eq!(graph.outputs[0].shape, [None, Some(2), None, None]);
        let axes = vec![Axis::KernelY, Axis::KernelX, Axis::In, Axis::Out];
        assert_eq!(checkpoint.tensor("k").unwrap().1.axes, Some(axes.into()));
        assert_eq!(checkpoint.tensor("b").unwrap().1.axes, Some([Axis::Out].into()));
        let padded = conv(r#","pads":[1,2,3,4]"#).unwrap();
        let pads = padded.graph.as_ref().unwrap().nodes[0].attributes.get("pads").cloned();
        assert_eq!(pads, ints(&[1, 2, 3, 4]));
    }

    #[test]
    fn a_convolution_that_makes_no_sense_is_refused_with_the_layer() {
        for rest in [r#","strides":[0,1]"#, r#","dilations":[1,0]"#, r#","group":0"#, r#","pads":[-1,0,0,0]"#]
        {
            assert_eq!(conv(rest).unwrap_err().kind(), crate::Kind::Usage, "{rest}");
        }
        let both = conv(r#","padding":"same","pads":[1,1,1,1]"#).unwrap_err().to_string();
        assert!(both.contains("layers[0]") && both.contains("padding or pads"), "{both}");
        for axes in [r#"["in","out"]"#, r#"["in","in","kernel_y","kernel_x"]"#] {
            let json = format!(r#"{{"layers":[{{"type":"conv","weight":"k","weight_axes":{axes}}}]}}"#);
            assert!(apply(&json).unwrap_err().to_string().contains("do not fit"), "{axes}");
        }
        let error = apply(r#"{"layers":[{"type":"conv","weight":"k"}]}"#).unwrap_err();
        assert!(error.to_string().contains("weight_axes"), "{error}");
    }

    #[test]
    fn what_follows_a_convolution_must_take_images() {
        for next in [r#"{"type":"flatten"}"#, r#"{"type":"dense","weight":"w","weight_axes":["in","out"]}"#] {
            let error = apply(&format!(r#"{{"layers":[{{"type":"conv",{HWIO}}},{next}]}}"#)).unwrap_err();
            assert!(error.to_string().contains("layers[1]"), "{error}");
        }
    }
}
