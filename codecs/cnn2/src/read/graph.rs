//! Builds the graph that the numbers of channels and the options describe.

use crate::format::{ACTIVATIONS, Border, layer_name, weight_name};
use crate::layer::{LayerShape, STATIC, Wiring};
use ckpt_api::{Attribute, Error, Graph, Node, Op, Options, Result, Value, nearest};

/// The graph's inputs.
const STATIC_FEATURES: &str = "static_features";
const FEATURES: &str = "features";

/// What the file does not store and the options state.
pub(super) struct Stated {
    /// One for all layers, or one for each; `None` if they are not stated.
    activations: Option<Vec<Option<Op>>>,
    border: Option<Border>,
}

impl Stated {
    /// Parses `activation` and `border` for this number of layers.
    pub(super) fn parse(options: &Options, layers: usize) -> Result<Self> {
        let activations = match options.list("activation") {
            None => None,
            Some(names) => Some(names.into_iter().map(activation).collect::<Result<Vec<_>>>()?),
        };
        if let Some(given) = activations.as_ref().filter(|given| given.len() != 1 && given.len() != layers) {
            return Err(Error::usage("the number of activations does not fit the layers")
                .field("activation")
                .found(given.len().to_string())
                .expected(format!("1 for all layers, or {layers}, one for each")));
        }
        Ok(Stated { activations, border: options.text("border").and_then(Border::from_name) })
    }

    /// A note about what remains unstated.
    pub(super) fn note(&self) -> Option<String> {
        let note = match (&self.activations, self.border) {
            (None, None) => "activations and border: set them with the options activation and border",
            (None, Some(_)) => "activations: set them with the option activation",
            (Some(_), None) => "the border: set it with the option border",
            (Some(_), Some(_)) => return None,
        };
        Some(format!("a CNN2 file does not store {note}"))
    }

    fn activation(&self, index: usize, layer: &str) -> Option<Node> {
        let Some(given) = &self.activations else { return Some(Node::unspecified(layer)) };
        let op = given.get(index).or(given.first()).cloned().flatten()?;
        let node = Node::new(format!("{layer}/activation"), op.clone());
        Some(match op {
            Op::Clip => node.attribute("min", Attribute::Float(0.0)).attribute("max", Attribute::Float(1.0)),
            _ => node,
        })
    }
}

fn activation(name: &str) -> Result<Option<Op>> {
    let found = ACTIVATIONS.iter().find(|(known, _)| *known == name);
    found.map(|(_, op)| op.clone()).ok_or_else(|| {
        Error::usage("unknown activation")
            .field("activation")
            .found(format!("'{name}'"))
            .help(nearest(name, ACTIVATIONS.iter().map(|(known, _)| *known)))
    })
}

/// Builds the graph; `None` if the wiring of a layer is unknown.
pub(super) fn build(layers: &[LayerShape], stated: &Stated) -> Option<Graph> {
    let mut builder = Builder { graph: Graph::default(), last: String::new() };
    let mut previous = None;
    for (index, layer) in layers.iter().enumerate() {
        let wiring = layer.wiring(previous).filter(|_| !layer.kernel.is_multiple_of(2))?;
        builder.layer(index, layer, wiring, stated)?;
        previous = Some(layer.outputs);
    }
    let Builder { mut graph, last } = builder;
    graph.outputs.push(image(&last, previous?));
    Some(graph)
}

struct Builder {
    graph: Graph,
    /// The output of the last node.
    last: String,
}

impl Builder {
    fn layer(&mut self, index: usize, layer: &LayerShape, wiring: Wiring, stated: &Stated) -> Option<()> {
        let name = layer_name(index);
        self.inputs(&name, wiring);
        let mut node = Node::new(name.as_str(), Op::Conv).parameter("weight", weight_name(index));
        let pad = i64::try_from(layer.kernel / 2).ok()?;
        if pad > 0 && stated.border == Some(Border::Zero) {
            node = node.attribute("pads", Attribute::Ints(vec![pad; 4]));
        } else if pad > 0 {
            let mode = if stated.border.is_some() { "edge" } else { "unspecified" };
            let pads = Attribute::Ints(vec![0, 0, pad, pad, 0, 0, pad, pad]);
            let border = Node::new(format!("{name}/pad"), Op::Pad).attribute("pads", pads);
            self.push(border.attribute("mode", Attribute::Text(mode.to_owned())));
        }
        self.push(node);
        if let Some(activation) = stated.activation(index, &name) {
            self.push(activation);
        }
        Some(())
    }

    /// Makes the layer's input the last value.
    fn inputs(&mut self, layer: &str, wiring: Wiring) {
        let static_features = STATIC_FEATURES.to_owned();
        match wiring {
            Wiring::Static { extra } => {
                self.graph.inputs.push(image(STATIC_FEATURES, STATIC));
                self.last.clone_from(&static_features);
                if extra > 0 {
                    self.graph.inputs.push(image(FEATURES, extra));
                    self.concat(layer, vec![static_features, FEATURES.to_owned()]);
                }
            }
            Wiring::Previous => {}
            Wiring::PreviousAndStatic => self.concat(layer, vec![self.last.clone(), static_features]),
        }
    }

    fn concat(&mut self, layer: &str, inputs: Vec<String>) {
        self.push(Node::new(format!("{layer}/input"), Op::Concat).attribute("axis", Attribute::Int(1)));
        if let Some(node) = self.graph.nodes.last_mut() {
            node.inputs = inputs;
        }
    }

    /// Adds a node that takes the last value.
    fn push(&mut self, mut node: Node) {
        node.inputs = vec![std::mem::replace(&mut self.last, node.name.clone())];
        node.outputs = vec![node.name.clone()];
        self.graph.nodes.push(node);
    }
}

/// A value of shape `[N, channels, H, W]`.
fn image(name: &str, channels: u64) -> Value {
    Value::new(name, vec![None, Some(channels), None, None])
}
