//! Follows a graph from layer to layer, and refuses what CNN2 cannot hold.

use super::attributes::{conv_pad, float, image_pad, ints, refuse_others, text};
use super::model::{Model, cannot_hold, named_order};
use crate::format::{ACTIVATIONS, Border};
use crate::layer::{LayerShape, STATIC, Wiring};
use ckpt_api::{Attribute, Checkpoint, Error, Graph, Node, Op, Result, Tensor, TensorId};
use std::collections::HashMap;

/// Returns the layers of a graph: convolutions that keep the image's size, with activations, wired as the format
/// implies.
pub(super) fn model<'a>(checkpoint: &'a Checkpoint, graph: &'a Graph) -> Result<Model<'a>> {
    graph.check()?;
    let channels =
        graph.inputs.iter().map(|input| (input.name.as_str(), input.shape.get(1).copied().flatten()));
    let mut walk = Walk {
        checkpoint,
        by_name: checkpoint.by_name(),
        model: Model::default(),
        inputs: channels.collect(),
        aliases: HashMap::new(),
        concats: HashMap::new(),
        pads: HashMap::new(),
        static_features: None,
        last: None,
        has_activation: true,
        is_closed: false,
    };
    for node in &graph.nodes {
        walk.step(node)?;
    }
    if walk.model.layers.is_empty() {
        return Err(Error::lossy("the model has no convolution")
            .help("a CNN2 file stores a chain of convolutions and nothing else"));
    }
    match &graph.outputs[..] {
        [output] if walk.last == Some(walk.resolve(&output.name)) => Ok(walk.model),
        outputs => Err(Error::lossy("the model cannot be written as CNN2")
            .field("outputs")
            .found(ckpt_api::count(outputs.len(), "output"))
            .expected("only the output of the last layer")),
    }
}

struct Walk<'a> {
    checkpoint: &'a Checkpoint,
    by_name: HashMap<&'a str, TensorId>,
    model: Model<'a>,
    /// The graph's inputs and their numbers of channels, if they are stated.
    inputs: HashMap<&'a str, Option<u64>>,
    /// Values that equal another.
    aliases: HashMap<&'a str, &'a str>,
    /// Concatenations and their two parts.
    concats: HashMap<&'a str, [&'a str; 2]>,
    /// Padded values: the value before, the width, and the border unless it is unspecified.
    pads: HashMap<&'a str, (&'a str, u64, Option<Border>)>,
    static_features: Option<&'a str>,
    /// The output of the last layer.
    last: Option<&'a str>,
    /// Whether the last layer has its activation.
    has_activation: bool,
    /// Whether the output is transposed, so that no layer can follow.
    is_closed: bool,
}

impl<'a> Walk<'a> {
    fn step(&mut self, node: &'a Node) -> Result<()> {
        match &node.op {
            Op::Identity => {
                let (input, output) = self.unary(node)?;
                self.aliases.insert(output, input);
                Ok(())
            }
            Op::Transpose => self.transpose(node),
            Op::Concat => self.concat(node),
            Op::Pad => self.pad(node),
            Op::Conv => self.conv(node),
            _ => self.activation(node),
        }
    }

    fn resolve(&self, value: &'a str) -> &'a str {
        self.aliases.get(value).copied().unwrap_or(value)
    }

    /// Returns the only input and the only output of a node.
    fn unary(&self, node: &'a Node) -> Result<(&'a str, &'a str)> {
        match (&node.inputs[..], &node.outputs[..]) {
            ([input], [output]) => Ok((self.resolve(input), output)),
            _ => {
                let found = format!("{} with several inputs or outputs", node.op);
                Err(cannot_hold(&node.name, &found, "one of each"))
            }
        }
    }

    /// Accepts `[N, H, W, C]` to `[N, C, H, W]` before the first layer, and the inverse after the last.
    fn transpose(&mut self, node: &'a Node) -> Result<()> {
        let (input, output) = self.unary(node)?;
        let perm = ints(node, "perm").unwrap_or_default();
        let opens = perm == [0, 3, 1, 2] && self.inputs.contains_key(input);
        let closes = perm == [0, 2, 3, 1] && self.last == Some(input);
        if !opens && !closes {
            return Err(cannot_hold(&node.name, &format!("Transpose {perm:?}"), "convolutions"));
        }
        self.is_closed |= closes;
        self.aliases.insert(output, input);
        Ok(())
    }

    fn concat(&mut self, node: &'a Node) -> Result<()> {
        let joins_channels = matches!(node.attributes.get("axis"), Some(Attribute::Int(1 | -3)));
        match (&node.inputs[..], &node.outputs[..]) {
            ([first, second], [output]) if joins_channels && node.attributes.len() == 1 => {
                self.concats.insert(output, [self.resolve(first), self.resolve(second)]);
                Ok(())
            }
            _ => Err(cannot_hold(
                &node.name,
                "another Concat",
                "a Concat of two values along axis 1, the channels",
            )),
        }
    }

    fn pad(&mut self, node: &'a Node) -> Result<()> {
        let (input, output) = self.unary(node)?;
        let border = match text(node, "mode") {
            None | Some("constant") => Some(Border::Zero),
            Some("edge") => Some(Border::Clamp),
            Some("unspecified") => None,
            Some(mode) => {
                return Err(cannot_hold(&node.name, &format!("Pad with mode {mode}"), "constant or edge"));
            }
        };
        refuse_others(node, &["mode", "pads"])?;
        self.pads.insert(output, (input, image_pad(node)?, border));
        Ok(())
    }

    fn activation(&mut self, node: &'a Node) -> Result<()> {
        let known = ACTIVATIONS.iter().find(|(_, op)| op.as_ref() == Some(&node.op)).map(|(name, _)| *name);
        if known.is_none() && node.op != Op::Unspecified {
            let expected = "convolutions, each with relu, sigmoid, tanh or a clamp to 0…1 as its activation";
            return Err(cannot_hold(&node.name, node.op.name(), expected));
        }
        let (input, output) = self.unary(node)?;
        let limits = [("min", 0.0), ("max", 1.0)];
        match node.op {
            Op::Clip if limits.iter().all(|(name, limit)| float(node, name) == Some(*limit)) => {}
            Op::Clip => return Err(cannot_hold(&node.name, "Clip with other limits", "0 and 1")),
            Op::Unspecified => refuse_others(node, &["layer"])?,
            _ => refuse_others(node, &[])?,
        }
        if self.last != Some(input) || self.has_activation {
            return Err(cannot_hold(&node.name, node.op.name(), "one activation, right after a convolution"));
        }
        let layer = self.model.layers.last().map_or("", |layer| layer.name.as_str());
        let stated = known.map(|name| format!("{name} of '{layer}'"));
        self.model.stated.extend(stated);
        self.last = Some(output);
        self.has_activation = true;
        Ok(())
    }

    fn conv(&mut self, node: &'a Node) -> Result<()> {
        let (mut input, output) = self.unary(node)?;
        if self.is_closed {
            return Err(cannot_hold(&node.name, "a Transpose before it", "none between layers"));
        }
        let previous = self.model.outputs();
        let (id, weight) = self.weight(node)?;
        let order = named_order(&node.name, weight)?;
        let shape = self.model.push(node.name.clone(), (id, weight), order)?;
        if let Some(bias) = self.parameter(node, "bias")?
            && let Some(layer) = self.model.layers.last_mut()
        {
            layer.fold(bias, previous)?;
        }
        let mut pad = conv_pad(node, shape.kernel)?;
        let mut border = Some(Border::Zero);
        if let Some((before, width, mode)) = self.pads.get(input).copied().filter(|_| pad == 0) {
            (input, pad, border) = (before, width, mode);
        }
        if pad != shape.kernel / 2 {
            let found = format!("padding of {pad}");
            return Err(cannot_hold(&node.name, &found, "an output of the same size as the input"));
        }
        self.check_wiring(node, &shape, previous, input)?;
        let stated = border.filter(|_| pad > 0);
        let stated = stated.map(|border| format!("{} border of '{}'", border.name(), node.name));
        self.model.stated.extend(stated);
        self.last = Some(output);
        self.has_activation = false;
        Ok(())
    }

    fn weight(&self, node: &Node) -> Result<(TensorId, &'a Tensor)> {
        if let Some(role) = node.parameters.keys().find(|role| !matches!(role.as_str(), "weight" | "bias")) {
            return Err(cannot_hold(&node.name, &format!("a parameter '{role}'"), "weight and bias"));
        }
        self.parameter(node, "weight")?.ok_or_else(|| cannot_hold(&node.name, "no weight", "one"))
    }

    /// Returns the tensor of a node with this role; `None` if the node has none.
    fn parameter(&self, node: &Node, role: &str) -> Result<Option<(TensorId, &'a Tensor)>> {
        let Some(name) = node.parameters.get(role) else { return Ok(None) };
        let id = self.by_name.get(name.as_str()).copied();
        let found = id.and_then(|id| Some((id, self.checkpoint.tensors.get(id.0)?)));
        found.map(Some).ok_or_else(|| {
            Error::mapping(format!("a tensor of layer '{}' is missing", node.name))
                .field(role)
                .tensor(name)
                .help("do not exclude or drop it")
        })
    }

    /// Checks that the layer takes what its number of channels implies.
    fn check_wiring(
        &mut self,
        node: &Node,
        shape: &LayerShape,
        previous: Option<u64>,
        input: &'a str,
    ) -> Result<()> {
        let parts = self.concats.get(input).copied();
        let channels = |value: &str| self.inputs.get(value).copied().flatten();
        let fits = match (shape.wiring(previous), parts) {
            (Some(Wiring::Static { extra }), Some([static_features, others])) => {
                self.static_features = Some(static_features);
                channels(static_features) == Some(STATIC) && channels(others) == Some(extra)
            }
            (Some(Wiring::Static { extra }), None) => {
                self.static_features = Some(input).filter(|_| extra == 0);
                self.inputs.contains_key(input)
            }
            (Some(Wiring::Previous), None) => self.last == Some(input),
            (Some(Wiring::PreviousAndStatic), Some([before, static_features])) => {
                self.last == Some(before) && self.static_features == Some(static_features)
            }
            _ => false,
        };
        if fits {
            return Ok(());
        }
        let expected = match previous {
            None => "an input of 8 channels, the static features, alone or followed by up to 7 others",
            Some(_) => "the output of the layer before, alone or followed by the static features",
        };
        Err(cannot_hold(&node.name, &format!("{} channels of another origin", shape.inputs), expected))
    }
}
