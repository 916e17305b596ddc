//! Groups the nodes of a graph into Keras's layers.

use super::style::Activations;
use ckpt_api::{
    Attribute, Axis, Checkpoint, Error, Graph, Node, Op, Result, Setting, Tensor, TensorId, text,
};
use std::collections::{HashMap, HashSet};

/// A chain of Keras's layers.
#[derive(Debug)]
pub(super) struct Model {
    /// Name of the model; may be empty.
    pub name: String,
    /// The layers, first to last, without an input layer.
    pub layers: Vec<Layer>,
}

/// A layer.
#[derive(Debug)]
pub(super) struct Layer {
    /// Unique in the model.
    pub name: String,
    pub kind: Kind,
    pub variables: Vec<Variable>,
    /// Its number in each model that contains it, outermost first. Numbers start at 1, after the input layer. Empty if
    /// it is unknown, which only a layer without variables may be.
    pub place: Vec<u64>,
}

/// A variable of a layer.
#[derive(Debug)]
pub(super) struct Variable {
    pub tensor: TensorId,
    /// `kernel`, `bias`, `gamma`, …
    pub name: &'static str,
    /// Stored axis order: stored axis `k` is logical axis `order[k]`.
    pub order: Vec<usize>,
}

/// A class of layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Dense,
    Conv2D,
    DepthwiseConv2D,
    BatchNormalization,
    /// A layer without variables (activation, pooling, flattening, dropout), by its default name.
    Weightless(&'static str),
}

impl Kind {
    /// Returns the name that Keras gives the first layer of the class.
    fn default_name(self) -> &'static str {
        match self {
            Kind::Dense => "dense",
            Kind::Conv2D => "conv2d",
            Kind::DepthwiseConv2D => "depthwise_conv2d",
            Kind::BatchNormalization => "batch_normalization",
            Kind::Weightless(name) => name,
        }
    }

    /// Returns the layer's variables: role in the graph, Keras's name, and whether the variable is optional.
    fn variables(self) -> &'static [(&'static str, &'static str, bool)] {
        match self {
            Kind::Dense | Kind::Conv2D | Kind::DepthwiseConv2D => {
                &[("weight", "kernel", false), ("bias", "bias", true)]
            }
            Kind::BatchNormalization => &[
                ("scale", "gamma", true),
                ("bias", "beta", true),
                ("mean", "moving_mean", false),
                ("variance", "moving_variance", false),
            ],
            Kind::Weightless(_) => &[],
        }
    }
}

/// Returns the layers of the checkpoint's graph.
///
/// # Errors
/// As [`super::naming`].
pub(super) fn read(checkpoint: &Checkpoint, activations: Activations) -> Result<Model> {
    let Some(graph) = &checkpoint.graph else {
        return Err(Error::usage("these names need the model's layers, which the source does not describe")
            .help(text![
                "describe them in an architecture file, given with ",
                Setting::ARCHITECTURE,
                ", or use ",
                Setting::WRITE_OPTION.of("names=plain")
            ]));
    };
    let index = checkpoint.by_name();
    let mut used = HashSet::new();
    let mut reader =
        Reader { activations, layers: Vec::new(), takes_activation: false, image: Image::ChannelsLast };
    for node in graph.chain_of_joined()? {
        let Some(kind) = reader.kind(node)? else { continue };
        let variables = variables(checkpoint, &index, node, kind)?;
        if let Some(shared) = variables.iter().find(|variable| !used.insert(variable.tensor)) {
            return Err(Error::unsupported("two layers share a tensor")
                .field(&node.name)
                .tensor(checkpoint.tensors.get(shared.tensor.0).map_or("", |tensor| &tensor.name)));
        }
        let kind = match kind {
            Kind::Conv2D if is_depthwise(checkpoint, node, &variables) => Kind::DepthwiseConv2D,
            kind => kind,
        };
        reader.layers.push(Layer { name: node.name.clone(), kind, variables, place: Vec::new() });
    }
    let name = model_name(graph, checkpoint, &reader.layers);
    name_layers(&name, &mut reader.layers);
    Ok(Model { name, layers: reader.layers })
}

/// The layout of the current value in the ONNX graph. In Keras, images have their channels last.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Image {
    ChannelsFirst,
    /// Channels last, or not an image.
    ChannelsLast,
    /// The result of global pooling: an image of one pixel in ONNX, without these axes in Keras.
    Pixel,
}

/// Reads the nodes in order.
struct Reader {
    activations: Activations,
    layers: Vec<Layer>,
    /// Whether the next activation can be an argument of the last layer.
    takes_activation: bool,
    image: Image,
}

impl Reader {
    /// Returns the class of a node's layer, or `None` for a node that belongs to another's layer.
    fn kind(&mut self, node: &Node) -> Result<Option<Kind>> {
        let took_activation = std::mem::replace(&mut self.takes_activation, false);
        let weightless = |name| Ok(Some(Kind::Weightless(name)));
        match &node.op {
            Op::Gemm => {
                self.takes_activation = self.activations == Activations::Arguments;
                self.image = Image::ChannelsLast;
                Ok(Some(Kind::Dense))
            }
            Op::Conv => {
                self.takes_activation = self.activations == Activations::Arguments;
                self.image = Image::ChannelsFirst;
                Ok(Some(Kind::Conv2D))
            }
            // Keras's batch normalization has no argument for an activation.
            Op::BatchNormalization => Ok(Some(Kind::BatchNormalization)),
            // An activation that is given by its name cannot have a slope.
            Op::LeakyRelu => weightless("leaky_re_lu"),
            op if op.is_activation() || *op == Op::Unspecified => {
                if took_activation {
                    return Ok(None);
                }
                weightless("activation")
            }
            Op::Identity => weightless("dropout"),
            Op::MaxPool => self.pool("max_pooling2d"),
            Op::AveragePool => self.pool("average_pooling2d"),
            Op::GlobalAveragePool => {
                self.image = Image::Pixel;
                weightless("global_average_pooling2d")
            }
            Op::Flatten => self.flatten(node),
            Op::Transpose => {
                self.takes_activation = took_activation;
                self.transpose(node)
            }
            Op::Pad if matches!(node.attributes.get("mode"), Some(Attribute::Text(mode)) if mode == "unspecified") => {
                Err(Error::usage("the source does not state how its images are padded")
                    .field(&node.name)
                    .help(text![
                        "Keras pads with zeros: if this model does too, read it with ",
                        Setting::READ_OPTION.of("border=zero")
                    ]))
            }
            op => Err(Error::unsupported("Keras has no layer for this operator")
                .field(&node.name)
                .found(op.name())),
        }
    }

    fn pool(&mut self, name: &'static str) -> Result<Option<Kind>> {
        self.image = Image::ChannelsFirst;
        Ok(Some(Kind::Weightless(name)))
    }

    fn flatten(&mut self, node: &Node) -> Result<Option<Kind>> {
        match std::mem::replace(&mut self.image, Image::ChannelsLast) {
            Image::ChannelsLast => Ok(Some(Kind::Weightless("flatten"))),
            Image::Pixel => Ok(None),
            Image::ChannelsFirst => Err(Error::unsupported(
                "Keras flattens images with their channels last, but the graph with their channels first",
            )
            .field(&node.name)),
        }
    }

    /// Transposing channels is not a layer: images always have their channels last in Keras.
    fn transpose(&mut self, node: &Node) -> Result<Option<Kind>> {
        let to = match node.attributes.get("perm") {
            Some(Attribute::Ints(perm)) if perm[..] == [0, 3, 1, 2] => Image::ChannelsFirst,
            Some(Attribute::Ints(perm)) if perm[..] == [0, 2, 3, 1] => Image::ChannelsLast,
            _ => {
                return Err(Error::unsupported(
                    "Keras has no layer for a transpose that does not move the channels",
                )
                .field(&node.name));
            }
        };
        if self.image != Image::Pixel {
            self.image = to;
        }
        Ok(None)
    }
}

fn variables(
    checkpoint: &Checkpoint,
    index: &HashMap<&str, TensorId>,
    node: &Node,
    kind: Kind,
) -> Result<Vec<Variable>> {
    let known = kind.variables();
    if let Some(role) = node.parameters.keys().find(|role| known.iter().all(|(known, ..)| known != role)) {
        return Err(Error::unsupported("Keras's layer has no variable for this parameter")
            .field(&node.name)
            .found(role));
    }
    let mut found = Vec::with_capacity(known.len());
    for (role, name, optional) in known {
        let Some(tensor) = node.parameters.get(*role) else {
            if *optional {
                continue;
            }
            return Err(Error::usage("a layer of the graph lacks a parameter")
                .field(&node.name)
                .expected(*role));
        };
        let id = index.get(tensor.as_str()).copied();
        let held = id.and_then(|id| Some((id, checkpoint.tensors.get(id.0)?)));
        let Some((id, held)) = held else {
            return Err(Error::usage("the graph refers to a tensor that the checkpoint does not have")
                .field(&node.name)
                .tensor(tensor));
        };
        let order = order(held, node, kind, name).map_err(|error| error.field(&node.name).tensor(tensor))?;
        found.push(Variable { tensor: id, name, order });
    }
    Ok(found)
}

const DENSE: &[Axis] = &[Axis::In, Axis::Out];
const CONV: &[Axis] = &[Axis::KernelY, Axis::KernelX, Axis::In, Axis::Out];
const DEPTHWISE: &[Axis] = &[Axis::KernelY, Axis::KernelX, Axis::In, Axis::Multiplier];
/// ONNX's depthwise kernel with one output per input: its outputs are Keras's inputs.
const DEPTHWISE_GROUPS: &[Axis] = &[Axis::KernelY, Axis::KernelX, Axis::Out, Axis::In];

/// Returns the stored axis order of a variable in Keras.
fn order(tensor: &Tensor, node: &Node, kind: Kind, name: &str) -> Result<Vec<usize>> {
    if name != "kernel" {
        return match tensor.shape.rank() {
            1 => Ok(vec![0]),
            _ => Err(Error::unsupported("Keras's variable has one number per output")
                .found(tensor.shape.to_string())
                .expected("one axis")),
        };
    }
    let Some(axes) = &tensor.axes else {
        return Err(Error::usage("the meanings of this weight's axes are unknown")
            .found(tensor.shape.to_string())
            .help(text![
                "state them in an architecture file, given with ",
                Setting::ARCHITECTURE,
                ": \"weight_axes\": [\"in\", \"out\"] (TensorFlow, Keras) or [\"out\", \"in\"] (PyTorch)"
            ]));
    };
    let wanted = match kind {
        Kind::Dense => DENSE,
        _ if axes.contains(&Axis::Multiplier) => DEPTHWISE,
        _ if groups_are_inputs(tensor, node) => DEPTHWISE_GROUPS,
        _ => CONV,
    };
    permutation(axes, wanted).filter(|order| order.len() == tensor.shape.rank()).ok_or_else(|| {
        let names = |axes: &[Axis]| axes.iter().map(|axis| axis.name()).collect::<Vec<_>>().join(", ");
        Error::unsupported("the axes of this weight are not those of Keras's layer")
            .found(names(axes))
            .expected(format!("{}, in any order", names(wanted)))
    })
}

/// Returns the order such that `wanted[k]` is `axes[order[k]]`.
pub(super) fn permutation(axes: &[Axis], wanted: &[Axis]) -> Option<Vec<usize>> {
    if axes.len() != wanted.len() {
        return None;
    }
    wanted.iter().map(|wanted| axes.iter().position(|axis| axis == wanted)).collect()
}

/// Whether each input channel is a group with one output. With several outputs, Keras has these axes only in
/// `Conv2D(groups=…)`.
fn groups_are_inputs(tensor: &Tensor, node: &Node) -> bool {
    let group = match node.attributes.get("group") {
        Some(Attribute::Int(group)) => u64::try_from(*group).unwrap_or(0),
        _ => 1,
    };
    let len = |axis| tensor.axis(axis).and_then(|axis| tensor.shape.get(axis).copied());
    group > 1 && len(Axis::In) == Some(1) && len(Axis::Out) == Some(group)
}

fn is_depthwise(checkpoint: &Checkpoint, node: &Node, variables: &[Variable]) -> bool {
    let kernel = variables.first().and_then(|kernel| checkpoint.tensors.get(kernel.tensor.0));
    kernel.is_some_and(|kernel| kernel.axis(Axis::Multiplier).is_some() || groups_are_inputs(kernel, node))
}

/// Returns the graph's name, or what precedes `LAYER/VARIABLE` in the names of all tensors.
fn model_name(graph: &Graph, checkpoint: &Checkpoint, layers: &[Layer]) -> String {
    if is_name(&graph.name) {
        return graph.name.clone();
    }
    let mut prefixes = layers.iter().flat_map(|layer| {
        layer.variables.iter().map(|variable| {
            let name = &checkpoint.tensors.get(variable.tensor.0)?.name;
            let scope = name.strip_suffix(variable.name)?.strip_suffix('/')?;
            scope.strip_suffix(layer.name.as_str())?.strip_suffix('/')
        })
    });
    let first = prefixes.next().flatten().filter(|prefix| is_name(prefix));
    first.filter(|first| prefixes.all(|prefix| prefix == Some(*first))).unwrap_or_default().to_owned()
}

/// Gives each layer a name that Keras and TensorFlow 1 accept: its own without the model's, if it is valid and unique,
/// or a numbered one as Keras makes them.
fn name_layers(model: &str, layers: &mut [Layer]) {
    let mut taken = HashSet::new();
    for layer in layers.iter_mut() {
        let short = layer.name.strip_prefix(model).and_then(|rest| rest.strip_prefix('/'));
        let name = short.unwrap_or(&layer.name).to_owned();
        layer.name = if is_name(&name) && taken.insert(name.clone()) { name } else { String::new() };
    }
    let mut numbers: HashMap<&str, u64> = HashMap::new();
    for layer in layers.iter_mut().filter(|layer| layer.name.is_empty()) {
        let base = layer.kind.default_name();
        let number = numbers.entry(base).or_default();
        while layer.name.is_empty() {
            let name = if *number == 0 { base.to_owned() } else { format!("{base}_{number}") };
            *number += 1;
            if taken.insert(name.clone()) {
                layer.name = name;
            }
        }
    }
}

/// Whether the name is valid for a scope in TensorFlow 1.
fn is_name(name: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || "_.-/".contains(c);
    let first = name.chars().next().is_some_and(|c| c.is_ascii_alphanumeric() || c == '.');
    first && name.chars().all(inner) && name.split('/').all(|part| !part.is_empty())
}
