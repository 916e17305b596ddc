//! The architecture file: what a checkpoint's own format does not say about its graph.
//!
//! A file that describes a chain of layers is an [`Architecture`]; its JSON Schema is
//! `schemas/architecture.schema.json`. A file whose `format` names a format is that codec's own
//! ([`Options::architecture`](crate::Options::architecture)).

use crate::{Attribute, Axis, Checkpoint, Error, Graph, Node, Op, Result, TensorId};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::HashMap;

/// The file that the user gave with `--arch`, not yet understood.
///
/// ```
/// let file = ckpt_api::ArchitectureFile::from_json(r#"{ "format": "bullet", "input": {} }"#)?;
/// assert_eq!(file.format(), Some("bullet"));
/// # Ok::<(), ckpt_api::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ArchitectureFile {
    /// Where it was read from, for errors.
    pub name: Option<String>,
    /// What it says.
    pub document: Value,
}

impl ArchitectureFile {
    /// Parses JSON.
    ///
    /// # Errors
    /// [`crate::Kind::Usage`] with the line and column.
    pub fn from_json(json: &str) -> Result<Self> {
        let document = serde_json::from_str(json).map_err(|error| invalid(&error))?;
        Ok(ArchitectureFile { name: None, document })
    }

    /// The id of the format whose codec understands it; `None` for a chain of layers.
    pub fn format(&self) -> Option<&str> {
        self.document.get("format")?.as_str()
    }

    /// The chain of layers that it describes.
    ///
    /// # Errors
    /// [`crate::Kind::Usage`], naming the file.
    pub fn layers(&self) -> Result<Architecture> {
        self.parse().map(|architecture| Architecture { file: self.name.clone(), ..architecture })
    }

    /// What it describes, as a type of its codec's.
    ///
    /// # Errors
    /// [`crate::Kind::Usage`], naming the file.
    pub fn parse<T: serde::de::DeserializeOwned>(&self) -> Result<T> {
        T::deserialize(&self.document).map_err(|error| match &self.name {
            Some(name) => invalid(&error).file(name),
            None => invalid(&error),
        })
    }
}

fn invalid(error: &serde_json::Error) -> Error {
    Error::usage("the architecture file is not valid").found(error.to_string())
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Architecture {
    /// The file that it was read from, for errors.
    #[serde(skip)]
    pub file: Option<String>,
    /// The model's name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The layers, first to last.
    pub layers: Vec<ArchitectureLayer>,
}

/// One layer of an architecture file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase", deny_unknown_fields)]
#[non_exhaustive]
pub enum ArchitectureLayer {
    /// A fully connected layer.
    Dense {
        /// The layer's name; the source's own where it is left out.
        #[serde(default)]
        name: Option<String>,
        /// Name of the weight tensor; where it is left out, the tensors are those of the source's own n-th dense layer.
        #[serde(default)]
        weight: Option<String>,
        /// Name of the bias tensor.
        #[serde(default)]
        bias: Option<String>,
        /// Meaning of the weight's axes, where the source does not say it: `["in", "out"]` or `["out", "in"]`.
        #[serde(default)]
        weight_axes: Option<Vec<Axis>>,
        /// Applied to the result.
        #[serde(default)]
        activation: Activation,
    },
    /// `[N, …]` to `[N, ∏]`.
    Flatten {},
    /// An activation as a layer of its own.
    Activation {
        /// Which one.
        activation: Activation,
    },
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
        serde_json::from_str(json).map_err(|error| {
            invalid(&error)
                .help("it looks like { \"layers\": [{ \"type\": \"dense\", \"activation\": \"relu\" }] }")
        })
    }

    /// Replaces the checkpoint's graph by this one, bound to the checkpoint's tensors, and labels their axes.
    ///
    /// # Errors
    /// [`crate::Kind::Usage`] for tensors that are missing or do not fit.
    pub fn apply(&self, checkpoint: &mut Checkpoint) -> Result<()> {
        self.bind(checkpoint).map_err(|error| match &self.file {
            Some(file) => error.file(file),
            None => error,
        })
    }

    fn bind(&self, checkpoint: &mut Checkpoint) -> Result<()> {
        let names: Index = checkpoint.by_name().into_iter().map(|(name, id)| (name.to_owned(), id)).collect();
        let own = dense_layers(checkpoint);
        let mut own = own.into_iter();
        let mut nodes = Vec::new();
        for (index, layer) in self.layers.iter().enumerate() {
            match layer {
                ArchitectureLayer::Flatten {} => {
                    nodes.push(Node::new(format!("flatten{index}"), Op::Flatten))
                }
                ArchitectureLayer::Activation { activation } => {
                    nodes.extend(activation.op().map(|op| Node::new(format!("activation{index}"), op)));
                }
                ArchitectureLayer::Dense { name, weight, bias, weight_axes, activation } => {
                    let source = own.next();
                    let mut node =
                        source.clone().unwrap_or_else(|| Node::new(format!("dense{index}"), Op::Gemm));
                    if let Some(name) = name {
                        node.name.clone_from(name);
                    }
                    if let Some(weight) = weight {
                        node.parameters.clear();
                        node = node.parameter("weight", weight.as_str());
                    }
                    if let Some(bias) = bias {
                        node = node.parameter("bias", bias.as_str());
                    }
                    bind_dense(checkpoint, &names, &node, weight_axes.as_deref(), index)?;
                    let activation_name = format!("{}/activation", node.name);
                    nodes.push(node);
                    nodes.extend(activation.op().map(|op| Node::new(activation_name, op)));
                }
            }
        }
        let features = |checkpoint: &Checkpoint, node: Option<&Node>, axis| {
            let weight = node.and_then(|node| node.parameters.get("weight"));
            let tensor = weight.and_then(|name| checkpoint.tensor(name)).map(|(_, tensor)| tensor);
            vec![None, tensor.and_then(|tensor| Some(tensor.shape[tensor.axis(axis)?]))]
        };
        let mut dense = nodes.iter().filter(|node| node.op == Op::Gemm);
        let (first, last) = (dense.clone().next(), dense.next_back());
        let (input, output) = (features(checkpoint, first, Axis::In), features(checkpoint, last, Axis::Out));
        checkpoint.graph = Some(Graph::sequential(self.name.as_str(), input, output, nodes));
        Ok(())
    }
}

fn dense_layers(checkpoint: &Checkpoint) -> Vec<Node> {
    let nodes = checkpoint.graph.iter().flat_map(|graph| &graph.nodes);
    nodes.filter(|node| node.op == Op::Gemm).cloned().collect()
}

type Index = HashMap<String, TensorId>;

fn bind_dense(
    checkpoint: &mut Checkpoint,
    index: &Index,
    node: &Node,
    axes: Option<&[Axis]>,
    layer: usize,
) -> Result<()> {
    let field = format!("layers[{layer}]");
    let Some(weight) = node.parameters.get("weight") else {
        return Err(Error::usage("the architecture's layer has no weight, and the source names none for it")
            .field(field)
            .help("add \"weight\": \"NAME\" and \"bias\": \"NAME\"; `ckpt inspect` lists the names"));
    };
    for name in node.parameters.values() {
        if !index.contains_key(name) {
            let names = checkpoint.tensors.iter().map(|tensor| tensor.name.as_str());
            return Err(Error::usage("the architecture names a tensor that the source has not")
                .field(field)
                .tensor(name.as_str())
                .help(crate::nearest(name, names)));
        }
    }
    let Some(id) = index.get(weight) else { return Ok(()) };
    let tensor = &mut checkpoint.tensors[id.0];
    if let Some(axes) = axes {
        let mut sorted = axes.to_vec();
        sorted.sort_unstable();
        if sorted != [Axis::In, Axis::Out] || tensor.shape.rank() != 2 {
            return Err(Error::usage("weight_axes do not fit the tensor")
                .field(field)
                .tensor(weight.as_str())
                .found(format!("{} axes for shape {}", axes.len(), tensor.shape))
                .expected("\"in\" and \"out\" for a tensor of rank 2"));
        }
        tensor.axes = Some(axes.to_vec());
    } else if tensor.axes.is_none() {
        return Err(Error::usage("the source does not say what the weight's axes mean")
            .field(field)
            .tensor(weight.as_str())
            .help("add \"weight_axes\": [\"in\", \"out\"] (TensorFlow, Keras) or [\"out\", \"in\"] (PyTorch, DataCode)"));
    }
    if let Some(id) = node.parameters.get("bias").and_then(|bias| index.get(bias)) {
        let bias = &mut checkpoint.tensors[id.0];
        if bias.axes.is_none() && bias.shape.rank() == 1 {
            bias.axes = Some(vec![Axis::Out]);
        }
    }
    Ok(())
}

impl From<Activation> for Attribute {
    fn from(activation: Activation) -> Self {
        Attribute::Text(activation.name().to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DType, Shape, Tensor};

    fn checkpoint() -> Checkpoint {
        let tensor = |name: &str, dims: &[u64]| Tensor::new(name, DType::F32, Shape::new(dims).unwrap());
        Checkpoint { tensors: vec![tensor("w", &[4, 2]), tensor("b", &[2])], ..Checkpoint::default() }
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
        assert_eq!(checkpoint.tensor("b").unwrap().1.axes, Some(vec![Axis::Out]));
    }

    #[test]
    fn axes_that_nobody_states_are_asked_for() {
        let error = apply(r#"{"layers":[{"type":"dense","weight":"w"}]}"#).unwrap_err();
        assert!(error.to_string().contains("weight_axes"), "{error}");
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
}
