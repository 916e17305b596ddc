//! The graph of what the net computes.

use crate::format::{ID, KEY_QUANTISED};
use crate::net::architecture::Architecture;
use crate::net::description::{Activation, Layer, OutputBucketKind};
use crate::net::parameter::{FACTORISER, FEATURE_WEIGHTS, PSQT, PSQT_FACTORISER};
use crate::ops::{BUCKETED_GEMM, FEATURE_TRANSFORMER};
use ckpt_api::{Attribute, Checkpoint, Graph, Node, Op, Value};

/// The graph's input that selects the output bucket.
const BUCKET: &str = "bucket";

/// Builds the graph over the checkpoint's tensors, or returns a note that says why there is none.
pub(crate) fn build(architecture: &Architecture, checkpoint: &Checkpoint) -> Result<Graph, String> {
    if !architecture.net.tensors.is_empty() {
        return Err("the architecture has tensors that no layer explains".to_owned());
    }
    let names = checkpoint.by_name();
    let exists = |id: &str| names.contains_key(id);
    let is_merged = |id: &str| {
        let mut into = architecture.merging(id);
        into.any(|entry| {
            let weight = names.get(entry.id.as_str()).and_then(|id| checkpoint.tensors.get(id.0));
            weight.is_some_and(|tensor| tensor.metadata.value(ID, KEY_QUANTISED).is_some())
        })
    };
    let is_missing = |id: &str| !exists(id) && !is_merged(id);
    if let Some(missing) = architecture.parameters.iter().find(|parameter| is_missing(&parameter.id)) {
        return Err(format!("the source has no tensor '{}'", missing.id));
    }
    let builder = Builder {
        architecture,
        factoriser: Some(FACTORISER).filter(|id| exists(id)),
        psqt_factoriser: Some(PSQT_FACTORISER).filter(|id| exists(id)),
        nodes: Vec::new(),
    };
    Ok(builder.build())
}

struct Builder<'a> {
    architecture: &'a Architecture,
    /// The weights that all input buckets of the first layer share, if the checkpoint has them.
    factoriser: Option<&'static str>,
    /// The same for the weights from the inputs to the output.
    psqt_factoriser: Option<&'static str>,
    nodes: Vec<Node>,
}

impl Builder<'_> {
    fn build(mut self) -> Graph {
        let net = &self.architecture.net;
        let sides: &[&str] = if net.input.perspectives == 2 { &["stm", "ntm"] } else { &["stm"] };
        let mut inputs: Vec<Value> = sides.iter().map(|side| Value::new(*side, vec![None, None])).collect();
        if net.output_buckets.is_some() {
            inputs.push(Value::new(BUCKET, vec![None]));
        }
        let mut value = String::new();
        let mut size = 0;
        for (index, layer) in net.layers.iter().enumerate() {
            value = match index {
                0 => self.first_layer(layer, sides),
                _ => {
                    let made = self.affine(index, layer, value);
                    self.activate(&format!("l{index}"), layer, made)
                }
            };
            size = layer.size;
        }
        if net.psqt {
            let transformer = self.transformer(PSQT, "stm", PSQT, self.psqt_factoriser);
            let direct = self.push(transformer);
            value = self.apply("output", Op::Add, &[&value, &direct]);
        }
        let outputs = vec![Value::new(value, vec![None, Some(size)])];
        Graph { name: net.name.clone(), inputs, outputs, nodes: self.nodes }
    }

    /// Concatenates the accumulators of both sides.
    fn first_layer(&mut self, layer: &Layer, sides: &[&str]) -> String {
        let mut values = Vec::new();
        for side in sides {
            let name = format!("l0/{side}");
            let mut node = self.transformer(&name, side, FEATURE_WEIGHTS, self.factoriser);
            node = node.parameter("bias", "l0b");
            if layer.bucketed == Some(true) {
                node.inputs.push(BUCKET.to_owned());
            }
            let value = self.push(node);
            // A pairwise product combines halves of one perspective; a dual activation takes both perspectives.
            values.push(if layer.dual { value } else { self.activate(&name, layer, value) });
        }
        let value = match &values[..] {
            [value] => value.clone(),
            _ => self.concat("l0", &values.iter().map(String::as_str).collect::<Vec<_>>()),
        };
        if layer.dual { self.activate("l0", layer, value) } else { value }
    }

    /// A feature transformer of one side's features.
    fn transformer(&self, name: &str, side: &str, weight: &str, factoriser: Option<&str>) -> Node {
        let int = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        let input = &self.architecture.net.input;
        let mut node = Node::new(name, Op::custom(FEATURE_TRANSFORMER))
            .parameter("weight", weight)
            .attribute("features", Attribute::Int(int(input.features)));
        if let Some(buckets) = &input.buckets {
            node = node.attribute("mirrored", Attribute::Int(buckets.mirrored.into()));
            if !buckets.layout.is_empty() {
                let layout = buckets.layout.iter().map(|bucket| int(*bucket));
                node = node.attribute("layout", Attribute::Ints(layout.collect()));
            }
        }
        if let Some(factoriser) = factoriser {
            node = node.parameter("factoriser", factoriser);
        }
        node.inputs = vec![side.to_owned()];
        node
    }

    fn affine(&mut self, index: usize, layer: &Layer, value: String) -> String {
        let buckets =
            self.architecture.net.output_buckets.as_ref().filter(|_| layer.bucketed.unwrap_or(true));
        let op = if buckets.is_some() { Op::custom(BUCKETED_GEMM) } else { Op::Gemm };
        let mut node = Node::new(format!("l{index}"), op)
            .parameter("weight", format!("l{index}w"))
            .parameter("bias", format!("l{index}b"));
        node.inputs = vec![value];
        if let Some(buckets) = buckets {
            node.inputs.push(BUCKET.to_owned());
            let kind = match buckets.kind {
                OutputBucketKind::MaterialCount => "material_count",
                OutputBucketKind::Other => "other",
            };
            node = node.attribute("kind", Attribute::Text(kind.into()));
        }
        self.push(node)
    }

    /// Applies the activation, and multiplies the halves of a pairwise layer.
    fn activate(&mut self, name: &str, layer: &Layer, mut value: String) -> String {
        if layer.dual {
            let square = self.apply(&format!("{name}/square"), Op::Mul, &[&value, &value]);
            value = self.concat(&format!("{name}/dual"), &[&value, &square]);
        }
        let activated = format!("{name}/activation");
        value = match layer.activation {
            Activation::Identity => value,
            Activation::Relu => self.apply(&activated, Op::Relu, &[&value]),
            Activation::Crelu => self.clip(&activated, &value),
            Activation::Screlu => {
                let clipped = self.clip(&format!("{name}/clip"), &value);
                self.apply(&activated, Op::Mul, &[&clipped, &clipped])
            }
            Activation::Sqrrelu => {
                let positive = self.apply(&format!("{name}/relu"), Op::Relu, &[&value]);
                self.apply(&activated, Op::Mul, &[&positive, &positive])
            }
        };
        if layer.pairwise { self.multiply_halves(name, value) } else { value }
    }

    fn multiply_halves(&mut self, name: &str, value: String) -> String {
        let halves = ["first", "second"].map(|half| format!("{name}/{half}"));
        let mut node = Node::new(format!("{name}/halves"), Op::Split).attribute("axis", Attribute::Int(1));
        node.inputs = vec![value];
        node.outputs = halves.to_vec();
        self.nodes.push(node);
        self.apply(&format!("{name}/pairwise"), Op::Mul, &[&halves[0], &halves[1]])
    }

    /// Clamps to 0…1.
    fn clip(&mut self, name: &str, value: &str) -> String {
        let mut node = Node::new(name, Op::Clip)
            .attribute("min", Attribute::Float(0.0))
            .attribute("max", Attribute::Float(1.0));
        node.inputs = vec![value.to_owned()];
        self.push(node)
    }

    fn concat(&mut self, name: &str, values: &[&str]) -> String {
        let mut node = Node::new(name, Op::Concat).attribute("axis", Attribute::Int(1));
        node.inputs = values.iter().map(|value| (*value).to_owned()).collect();
        self.push(node)
    }

    /// Adds a node without attributes.
    fn apply(&mut self, name: &str, op: Op, values: &[&str]) -> String {
        let mut node = Node::new(name, op);
        node.inputs = values.iter().map(|value| (*value).to_owned()).collect();
        self.push(node)
    }

    /// Adds a node whose only output has the node's name, and returns that name.
    fn push(&mut self, mut node: Node) -> String {
        let name = node.name.clone();
        node.outputs = vec![name.clone()];
        self.nodes.push(node);
        name
    }
}
