//! What the layers compute, as a graph.

use crate::format::{ACTIVATIONS, Border, LayerShape, STATIC, Wiring, layer_name, weight_name};
use ckpt_api::{Attribute, Error, Graph, Node, Op, Options, Result, Value, nearest};

/// The graph's inputs.
const STATIC_FEATURES: &str = "static_features";
const FEATURES: &str = "features";

/// What the file does not state and the user may.
pub(crate) struct Stated {
    /// One for all layers, or one for each; `None` where they are not stated.
    activations: Option<Vec<Option<Op>>>,
    border: Border,
}

impl Stated {
    /// Parses `activation` and `border` for so many layers.
    pub(crate) fn parse(options: &Options, layers: usize) -> Result<Self> {
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
        Ok(Stated { activations, border: Border::from_name(options.text("border")) })
    }

    /// What the user should know.
    pub(crate) fn note(&self) -> Option<String> {
        let unstated = match (self.activations.is_none(), self.border == Border::Unspecified) {
            (true, true) => "activations and border",
            (true, false) => "activations",
            (false, true) => "border",
            (false, false) => return None,
        };
        Some(format!("a CNN2 file does not state {unstated}: options activation and border do"))
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

/// The graph of layers whose wiring is known; `None` where one layer's is not.
pub(crate) fn build(layers: &[LayerShape], stated: &Stated) -> Option<Graph> {
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
    /// What was made last.
    last: String,
}

impl Builder {
    fn layer(&mut self, index: usize, layer: &LayerShape, wiring: Wiring, stated: &Stated) -> Option<()> {
        let name = layer_name(index);
        let fixed = STATIC_FEATURES.to_owned();
        match wiring {
            Wiring::Static { extra } => {
                self.graph.inputs.push(image(STATIC_FEATURES, STATIC));
                self.last.clone_from(&fixed);
                if extra > 0 {
                    self.graph.inputs.push(image(FEATURES, extra));
                    self.join(&name, vec![fixed, FEATURES.to_owned()]);
                }
            }
            Wiring::Previous => {}
            Wiring::PreviousAndStatic => self.join(&name, vec![self.last.clone(), fixed]),
        }
        let mut node = Node::new(name.as_str(), Op::Conv).parameter("weight", weight_name(index));
        let pad = i64::try_from(layer.kernel / 2).ok()?;
        if pad > 0 && stated.border == Border::Zero {
            node = node.attribute("pads", Attribute::Ints(vec![pad; 4]));
        } else if pad > 0 {
            let mode = if stated.border == Border::Clamp { "edge" } else { "unspecified" };
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

    fn join(&mut self, layer: &str, inputs: Vec<String>) {
        self.push(Node::new(format!("{layer}/input"), Op::Concat).attribute("axis", Attribute::Int(1)));
        if let Some(node) = self.graph.nodes.last_mut() {
            node.inputs = inputs;
        }
    }

    /// Wires the node to what was made last.
    fn push(&mut self, mut node: Node) {
        node.inputs = vec![std::mem::replace(&mut self.last, node.name.clone())];
        node.outputs = vec![node.name.clone()];
        self.graph.nodes.push(node);
    }
}

/// `[N, channels, H, W]`.
fn image(name: &str, channels: u64) -> Value {
    Value { name: name.to_owned(), shape: vec![None, Some(channels), None, None] }
}
