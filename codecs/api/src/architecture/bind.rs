//! A chain of layers, bound to a checkpoint's tensors.

use super::syntax::Syntax;
use super::{Architecture, ArchitectureLayer, ConvolutionWindow, Padding, WeightedLayer};
use crate::{
    Activation, Attribute, Axis, Checkpoint, Error, Graph, Node, Op, Result, Setting, TensorId, text,
};
use std::collections::HashMap;
use std::num::NonZeroU32;

impl Architecture {
    /// Replaces the checkpoint's graph by this one, bound to the checkpoint's tensors, and labels their axes.
    ///
    /// # Errors
    /// [`crate::Kind::Usage`] for tensors that are missing or do not fit.
    pub fn apply(&self, checkpoint: &mut Checkpoint) -> Result<()> {
        bind(self, checkpoint).map_err(|error| match &self.file {
            Some(file) => error.file(file),
            None => error,
        })
    }
}

/// Gives the checkpoint the graph that the architecture describes, and its tensors their axes.
fn bind(architecture: &Architecture, checkpoint: &mut Checkpoint) -> Result<()> {
    let own = |op: &Op| -> Vec<Node> {
        let nodes = checkpoint.graph.iter().flat_map(|graph| &graph.nodes);
        nodes.filter(|node| node.op == *op).cloned().collect()
    };
    let mut binder = Binder {
        names: checkpoint.by_name().into_iter().map(|(name, id)| (name.to_owned(), id)).collect(),
        dense: own(&Op::Gemm).into_iter(),
        conv: own(&Op::Conv).into_iter(),
        nodes: Vec::new(),
        image: false,
        syntax: Syntax::of(architecture.file.as_deref()),
        checkpoint,
    };
    for (index, layer) in architecture.layers.iter().enumerate() {
        binder.layer(index, layer).map_err(|error| error.field(format!("layers[{index}]")))?;
    }
    let (input, output) = (binder.shape(End::First), binder.shape(End::Last));
    let nodes = binder.nodes;
    checkpoint.graph = Some(Graph::sequential(architecture.name.as_str(), input, output, nodes));
    Ok(())
}

struct Binder<'a> {
    checkpoint: &'a mut Checkpoint,
    names: HashMap<String, TensorId>,
    /// The source's own layers that are not taken yet.
    dense: std::vec::IntoIter<Node>,
    conv: std::vec::IntoIter<Node>,
    nodes: Vec<Node>,
    /// Whether the layer before makes images.
    image: bool,
    /// The syntax of the file.
    syntax: Syntax,
}

/// Which end of the chain.
#[derive(Clone, Copy, PartialEq)]
enum End {
    First,
    Last,
}

impl Binder<'_> {
    fn layer(&mut self, index: usize, layer: &ArchitectureLayer) -> Result<()> {
        match layer {
            ArchitectureLayer::Flatten => {
                self.refuse_images()?;
                self.nodes.push(Node::new(format!("flatten{index}"), Op::Flatten));
            }
            ArchitectureLayer::Activation(activation) => {
                self.activate(format!("activation{index}"), *activation);
            }
            ArchitectureLayer::Dense(layer) => {
                self.refuse_images()?;
                let node = self.dense.next().unwrap_or_else(|| Node::new(format!("dense{index}"), Op::Gemm));
                let node = self.named(node, layer)?;
                self.push(node, layer.activation);
            }
            ArchitectureLayer::Conv(layer, window) => {
                let mut node =
                    self.conv.next().unwrap_or_else(|| Node::new(format!("conv{index}"), Op::Conv));
                node.attributes.clear();
                let node = self.named(node, layer)?;
                self.image = true;
                self.push(slide(node, window)?, layer.activation);
            }
        }
        Ok(())
    }

    /// Frameworks flatten `[H, W, C]` or `[C, H, W]`, and the file does not record which.
    fn refuse_images(&self) -> Result<()> {
        if !self.image {
            return Ok(());
        }
        Err(Error::unsupported(
            "an architecture file cannot state how the output of a convolution is flattened",
        )
        .expected("a conv or activation layer after a conv layer"))
    }

    fn push(&mut self, node: Node, activation: Activation) {
        let name = format!("{}/activation", node.name);
        self.nodes.push(node);
        self.activate(name, activation);
    }

    fn activate(&mut self, name: String, activation: Activation) {
        let node = activation.op().map(|op| Node::new(name, op));
        let over_channels = self.image && matches!(activation, Activation::Softmax | Activation::LogSoftmax);
        self.nodes.extend(match over_channels {
            true => node.map(|node| node.attribute("axis", Attribute::Int(1))),
            false => node,
        });
    }

    /// Gives the node its name and its tensors, and these their axes.
    fn named(&mut self, mut node: Node, layer: &WeightedLayer) -> Result<Node> {
        if let Some(name) = &layer.name {
            node.name.clone_from(name);
        }
        if let Some(weight) = &layer.weight {
            node.parameters.clear();
            node = node.parameter("weight", weight.as_str());
        }
        if let Some(bias) = &layer.bias {
            node = node.parameter("bias", bias.as_str());
        }
        let Some(weight) = node.parameters.get("weight") else {
            return Err(Error::usage(
                "the layer names no weight, and the source has none of the expected name",
            )
            .help(text![
                format!(
                    "add {} and {}; ",
                    self.syntax.word("weight", "NAME"),
                    self.syntax.word("bias", "NAME")
                ),
                Setting::TENSOR_NAMES,
                " lists the names"
            ]));
        };
        for name in node.parameters.values() {
            if !self.names.contains_key(name) {
                let names = self.checkpoint.tensors.iter().map(|tensor| tensor.name.as_str());
                return Err(Error::usage("the architecture names a tensor that the source does not have")
                    .tensor(name.as_str())
                    .help(crate::nearest(name, names)));
            }
        }
        self.label(weight, layer.weight_axes.as_deref(), &node.op)?;
        let bias = node.parameters.get("bias").and_then(|bias| self.names.get(bias));
        if let Some(bias) = bias.and_then(|id| self.checkpoint.tensors.get_mut(id.0))
            && bias.axes.is_none()
            && bias.shape.rank() == 1
        {
            bias.axes = Some([Axis::Out].into());
        }
        Ok(node)
    }

    fn label(&mut self, weight: &str, axes: Option<&[Axis]>, op: &Op) -> Result<()> {
        let id = self.names.get(weight);
        let Some(tensor) = id.and_then(|id| self.checkpoint.tensors.get_mut(id.0)) else { return Ok(()) };
        let (kinds, tensorflow, other): (&[Axis], &[&str], _) = match op {
            Op::Conv => (
                &[Axis::In, Axis::Out, Axis::KernelY, Axis::KernelX],
                &["kernel_y", "kernel_x", "in", "out"],
                "[\"out\", \"in\", \"kernel_y\", \"kernel_x\"] (PyTorch)",
            ),
            _ => (&[Axis::In, Axis::Out], &["in", "out"], "[\"out\", \"in\"] (PyTorch, DataCode)"),
        };
        let Some(axes) = axes else {
            return match tensor.axes {
                Some(_) => Ok(()),
                None => Err(Error::usage("the source does not store what the weight's axes mean")
                    .tensor(weight)
                    .help(format!(
                        "add {} (TensorFlow, Keras) or {other}",
                        self.syntax.list("weight_axes", tensorflow)
                    ))),
            };
        };
        let mut sorted = axes.to_vec();
        sorted.sort_unstable();
        if sorted != kinds || tensor.shape.rank() != kinds.len() {
            let names: Vec<String> = kinds.iter().map(|axis| format!("\"{}\"", axis.name())).collect();
            return Err(Error::usage("weight_axes do not fit the tensor")
                .tensor(weight)
                .found(format!("{} axes for shape {}", axes.len(), tensor.shape))
                .expected(format!("{} for a tensor of rank {}", names.join(", "), kinds.len())));
        }
        tensor.axes = Some(axes.into());
        Ok(())
    }

    /// What the chain takes, or what it makes.
    fn shape(&self, end: End) -> Vec<Option<u64>> {
        let mut weighted = self.nodes.iter().filter(|node| matches!(node.op, Op::Gemm | Op::Conv));
        let (node, axis) = match end {
            End::First => (weighted.next(), Axis::In),
            End::Last => (weighted.next_back(), Axis::Out),
        };
        let weight = node.and_then(|node| node.parameters.get("weight"));
        let tensor = weight.and_then(|name| self.checkpoint.tensors.get(self.names.get(name)?.0));
        let channels = tensor.and_then(|tensor| tensor.shape.get(tensor.axis(axis)?).copied());
        let group = match node.and_then(|node| node.attributes.get("group")) {
            Some(Attribute::Int(group)) if end == End::First => u64::try_from(*group).unwrap_or(1),
            _ => 1,
        };
        let channels = channels.and_then(|channels| channels.checked_mul(group));
        match node.is_some_and(|node| node.op == Op::Conv) {
            true => vec![None, channels, None, None],
            false => vec![None, channels],
        }
    }
}

/// Describes how a convolution slides over the image.
fn slide(node: Node, window: &ConvolutionWindow) -> Result<Node> {
    let ConvolutionWindow { strides, padding, pads, dilations, group } = window;
    let ints = |numbers: &[u32]| Attribute::Ints(numbers.iter().copied().map(i64::from).collect());
    let node = node
        .attribute("strides", ints(&strides.map(NonZeroU32::get)))
        .attribute("dilations", ints(&dilations.map(NonZeroU32::get)));
    let node = match group.get() {
        1 => node,
        group => node.attribute("group", Attribute::Int(i64::from(group))),
    };
    match (padding, pads) {
        (Some(_), Some(_)) => Err(Error::usage("a layer has padding or pads, not both")),
        (Some(Padding::Same), None) => {
            Ok(node.attribute("auto_pad", Attribute::Text("SAME_UPPER".to_owned())))
        }
        (Some(Padding::Valid), None) => Ok(node.attribute("pads", ints(&[0; 4]))),
        (None, pads) => Ok(node.attribute("pads", ints(&pads.unwrap_or_default()))),
    }
}
