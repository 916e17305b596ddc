//! Writing: follows a graph from layer to layer, and refuses what CNN2 has no way to say.

use crate::format::{ACTIVATIONS, Border, LayerShape, STATIC, Wiring};
use crate::model::{Model, named_order, unsayable};
use ckpt_api::{Attribute, Checkpoint, Error, Graph, Node, Op, Result, TensorId};
use std::collections::HashMap;

/// The layers of a graph: convolutions of the same size, each with an activation, wired as the format implies.
pub(crate) fn layers<'a>(checkpoint: &'a Checkpoint, graph: &'a Graph) -> Result<Model<'a>> {
    graph.check()?;
    let channels =
        graph.inputs.iter().map(|input| (input.name.as_str(), input.shape.get(1).copied().flatten()));
    let mut walk = Walk {
        checkpoint,
        by_name: checkpoint.by_name(),
        model: Model { layers: Vec::new(), unsaid: Vec::new() },
        inputs: channels.collect(),
        same: HashMap::new(),
        joined: HashMap::new(),
        padded: HashMap::new(),
        fixed: None,
        last: None,
        activated: true,
        closed: false,
    };
    for node in &graph.nodes {
        walk.step(node)?;
    }
    match &graph.outputs[..] {
        _ if walk.model.layers.is_empty() => Err(Error::lossy("the model has no convolution")
            .help("a CNN2 file holds a chain of convolutions and nothing else")),
        [output] if walk.last == Some(walk.root(&output.name)) => Ok(walk.model),
        outputs => Err(Error::lossy("the model cannot be written as CNN2")
            .field("outputs")
            .found(format!("{} outputs", outputs.len()))
            .expected("what the last layer makes, and nothing else")),
    }
}

struct Walk<'a> {
    checkpoint: &'a Checkpoint,
    by_name: HashMap<&'a str, TensorId>,
    model: Model<'a>,
    /// The graph's inputs and their channels, where they are stated.
    inputs: HashMap<&'a str, Option<u64>>,
    /// Values that are the same as another.
    same: HashMap<&'a str, &'a str>,
    joined: HashMap<&'a str, [&'a str; 2]>,
    padded: HashMap<&'a str, (&'a str, u64, Border)>,
    /// The static features.
    fixed: Option<&'a str>,
    /// What the last layer makes.
    last: Option<&'a str>,
    /// Whether the last layer has its activation.
    activated: bool,
    /// Whether the layout has been changed for what comes after the last layer.
    closed: bool,
}

impl<'a> Walk<'a> {
    fn step(&mut self, node: &'a Node) -> Result<()> {
        match &node.op {
            Op::Identity => {
                let (input, output) = self.unary(node)?;
                self.same.insert(output, input);
                Ok(())
            }
            Op::Transpose => self.transpose(node),
            Op::Concat => self.concat(node),
            Op::Pad => self.pad(node),
            Op::Conv => self.conv(node),
            _ => self.activation(node),
        }
    }

    fn root(&self, value: &'a str) -> &'a str {
        self.same.get(value).copied().unwrap_or(value)
    }

    fn unary(&self, node: &'a Node) -> Result<(&'a str, &'a str)> {
        match (&node.inputs[..], &node.outputs[..]) {
            ([input], [output]) => Ok((self.root(input), output)),
            _ => Err(unsayable(
                &node.name,
                &format!("{} with several inputs or outputs", node.op),
                "one of each",
            )),
        }
    }

    /// Passes between `[N, H, W, C]` and `[N, C, H, W]` before the first layer and after the last.
    fn transpose(&mut self, node: &'a Node) -> Result<()> {
        let (input, output) = self.unary(node)?;
        let perm = match node.attributes.get("perm") {
            Some(Attribute::Ints(perm)) => &perm[..],
            _ => &[],
        };
        let opens = perm == [0, 3, 1, 2] && self.inputs.contains_key(input);
        let closes = perm == [0, 2, 3, 1] && self.last == Some(input);
        if !opens && !closes {
            return Err(unsayable(&node.name, &format!("Transpose {perm:?}"), "convolutions"));
        }
        self.closed |= closes;
        self.same.insert(output, input);
        Ok(())
    }

    fn concat(&mut self, node: &'a Node) -> Result<()> {
        let channels = matches!(node.attributes.get("axis"), Some(Attribute::Int(1 | -3)));
        match (&node.inputs[..], &node.outputs[..]) {
            ([first, second], [output]) if channels && node.attributes.len() == 1 => {
                self.joined.insert(output, [self.root(first), self.root(second)]);
                Ok(())
            }
            _ => Err(unsayable(&node.name, "this Concat", "one of two values, over axis 1, the channels")),
        }
    }

    fn pad(&mut self, node: &'a Node) -> Result<()> {
        let (input, output) = self.unary(node)?;
        let border = match text(node, "mode") {
            None | Some("constant") => Border::Zero,
            Some("edge") => Border::Clamp,
            Some("unspecified") => Border::Unspecified,
            Some(mode) => {
                return Err(unsayable(&node.name, &format!("Pad with mode {mode}"), "constant or edge"));
            }
        };
        refuse_attributes(node, &["mode", "pads"])?;
        let pads = ints(node, "pads").unwrap_or_default();
        let pad = match pads {
            [0, 0, pad, _, 0, 0, _, _] => u64::try_from(*pad).ok(),
            _ => None,
        };
        let even = pads.iter().enumerate().all(|(k, side)| k % 4 < 2 || u64::try_from(*side).ok() == pad);
        match pad.filter(|_| even) {
            Some(pad) => {
                self.padded.insert(output, (input, pad, border));
                Ok(())
            }
            None => Err(unsayable(
                &node.name,
                &format!("Pad {pads:?}"),
                "the same on all four sides of the image",
            )),
        }
    }

    fn activation(&mut self, node: &'a Node) -> Result<()> {
        let stated = ACTIVATIONS.iter().find(|(_, op)| op.as_ref() == Some(&node.op)).map(|(name, _)| *name);
        if stated.is_none() && node.op != Op::Unspecified {
            return Err(unsayable(
                &node.name,
                node.op.name(),
                "convolutions, and relu, sigmoid, tanh or a clamp to 0…1 as their activation",
            ));
        }
        let (input, output) = self.unary(node)?;
        let limits = [("min", 0.0), ("max", 1.0)];
        match node.op {
            Op::Clip if limits.iter().all(|(name, limit)| float(node, name) == Some(*limit)) => {}
            Op::Clip => return Err(unsayable(&node.name, "Clip with other limits", "0 and 1")),
            Op::Unspecified => refuse_attributes(node, &["layer"])?,
            _ => refuse_attributes(node, &[])?,
        }
        if self.last != Some(input) || self.activated {
            return Err(unsayable(&node.name, node.op.name(), "one activation right after each convolution"));
        }
        let layer = self.model.layers.last().map_or("", |layer| layer.name.as_str());
        let unsaid = stated.map(|name| format!("{name} of '{layer}'"));
        self.model.unsaid.extend(unsaid);
        self.last = Some(output);
        self.activated = true;
        Ok(())
    }

    fn conv(&mut self, node: &'a Node) -> Result<()> {
        let (mut input, output) = self.unary(node)?;
        if self.closed {
            return Err(unsayable(&node.name, "a change of layout before it", "none between layers"));
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
        let mut border = Border::Zero;
        if let Some((before, width, mode)) = self.padded.get(input).copied().filter(|_| pad == 0) {
            (input, pad, border) = (before, width, mode);
        }
        if pad != shape.kernel / 2 {
            let found = format!("padding of {pad}");
            return Err(unsayable(&node.name, &found, "an output of the same size as the input"));
        }
        self.check_wiring(node, &shape, previous, input)?;
        let stated = match border {
            Border::Zero => Some("zero"),
            Border::Clamp => Some("clamp"),
            Border::Unspecified => None,
        };
        let stated = stated.filter(|_| pad > 0);
        self.model.unsaid.extend(stated.map(|border| format!("{border} border of '{}'", node.name)));
        self.last = Some(output);
        self.activated = false;
        Ok(())
    }

    fn weight(&self, node: &Node) -> Result<(TensorId, &'a ckpt_api::Tensor)> {
        if let Some(role) = node.parameters.keys().find(|role| !matches!(role.as_str(), "weight" | "bias")) {
            return Err(unsayable(&node.name, &format!("a parameter '{role}'"), "weights alone"));
        }
        self.parameter(node, "weight")?.ok_or_else(|| unsayable(&node.name, "no weight", "one"))
    }

    /// The tensor that plays this role for the node, where one does.
    fn parameter(&self, node: &Node, role: &str) -> Result<Option<(TensorId, &'a ckpt_api::Tensor)>> {
        let Some(name) = node.parameters.get(role) else { return Ok(None) };
        let id = self.by_name.get(name.as_str()).copied();
        let found = id.and_then(|id| Some((id, self.checkpoint.tensors.get(id.0)?)));
        found.map(Some).ok_or_else(|| {
            Error::mapping(format!("layer '{}' needs a tensor that is not there", node.name))
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
        let joined = self.joined.get(input).copied();
        let channels = |value: &str| self.inputs.get(value).copied().flatten();
        let fits = match (shape.wiring(previous), joined) {
            (Some(Wiring::Static { extra }), Some([fixed, others])) => {
                self.fixed = Some(fixed);
                channels(fixed) == Some(STATIC) && channels(others) == Some(extra)
            }
            (Some(Wiring::Static { extra }), None) => {
                self.fixed = Some(input).filter(|_| extra == 0);
                self.inputs.contains_key(input)
            }
            (Some(Wiring::Previous), None) => self.last == Some(input),
            (Some(Wiring::PreviousAndStatic), Some([before, fixed])) => {
                self.last == Some(before) && self.fixed == Some(fixed)
            }
            _ => false,
        };
        if fits {
            return Ok(());
        }
        let expected = match previous {
            None => {
                "the 8 static features (an input of 8 channels), alone or joined with up to 7 more inputs"
            }
            Some(_) => "what the layer before makes, alone or joined with the static features, these last",
        };
        Err(unsayable(&node.name, &format!("{} channels of something else", shape.inputs), expected))
    }
}

/// Zeros on each side; refuses strides, dilations, groups and sides that differ.
fn conv_pad(node: &Node, kernel: u64) -> Result<u64> {
    refuse_attributes(node, &["strides", "dilations", "group", "kernel_shape", "pads", "auto_pad"])?;
    let refuse = |found: String, expected: &str| Err(unsayable(&node.name, &found, expected));
    for name in ["strides", "dilations"] {
        let found = ints(node, name).unwrap_or(&[1, 1]);
        if found != [1, 1] {
            return refuse(format!("{name} {found:?}"), "1");
        }
    }
    match node.attributes.get("group") {
        None | Some(Attribute::Int(1)) => {}
        Some(group) => return refuse(format!("group {group:?}"), "1"),
    }
    let stated = ints(node, "kernel_shape");
    if stated.is_some_and(|stated| stated.iter().any(|side| u64::try_from(*side).ok() != Some(kernel))) {
        return refuse(format!("kernel_shape {stated:?}"), "the weight's");
    }
    match text(node, "auto_pad") {
        Some("SAME_UPPER" | "SAME_LOWER") => return Ok(kernel / 2),
        None | Some("NOTSET" | "VALID") => {}
        Some(other) => return refuse(format!("auto_pad {other}"), "SAME_UPPER"),
    }
    let pads = ints(node, "pads").unwrap_or(&[0, 0, 0, 0]);
    match pads {
        [a, b, c, d] if a == b && b == c && c == d => u64::try_from(*a).ok(),
        _ => None,
    }
    .map_or_else(|| refuse(format!("pads {pads:?}"), "the same on all four sides"), Ok)
}

fn refuse_attributes(node: &Node, known: &[&str]) -> Result<()> {
    match node.attributes.keys().find(|name| !known.contains(&name.as_str())) {
        Some(name) => Err(unsayable(&node.name, &format!("{} with attribute '{name}'", node.op), "none")),
        None => Ok(()),
    }
}

fn ints<'a>(node: &'a Node, name: &str) -> Option<&'a [i64]> {
    match node.attributes.get(name)? {
        Attribute::Ints(values) => Some(values),
        _ => Some(&[]),
    }
}

fn text<'a>(node: &'a Node, name: &str) -> Option<&'a str> {
    match node.attributes.get(name)? {
        Attribute::Text(text) => Some(text),
        _ => Some("of another type"),
    }
}

fn float(node: &Node, name: &str) -> Option<f64> {
    match node.attributes.get(name)? {
        Attribute::Float(value) => Some(*value),
        Attribute::Int(value) => Some(*value as f64),
        _ => None,
    }
}
