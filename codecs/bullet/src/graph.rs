//! What the net computes.

use crate::architecture::{Activation, Architecture, Layer, OutputBucketKind};
use crate::format::{ID, KEY_QUANTISED};
use crate::parameter::{FACTORISER, PSQT, PSQT_FACTORISER};
use ckpt_api::{Attribute, Checkpoint, Graph, Node, Op, Value};

/// The graph over the checkpoint's tensors, or why there is none.
pub(crate) fn build(architecture: &Architecture, checkpoint: &Checkpoint) -> Result<Graph, String> {
    let net = &architecture.net;
    if !net.tensors.is_empty() {
        return Err(
            "the architecture has tensors that no layer explains: it does not say what the net computes"
                .into(),
        );
    }
    let merged = |id: &str| {
        let mut into = architecture.merging(id);
        into.any(|entry| {
            let weight = checkpoint.tensor(&entry.id);
            weight.is_some_and(|(_, tensor)| tensor.metadata.value(ID, KEY_QUANTISED).is_some())
        })
    };
    for parameter in &architecture.parameters {
        if checkpoint.tensor(&parameter.id).is_none() && !merged(&parameter.id) {
            return Err(format!(
                "'{}' is not among the tensors that were read, so that what the net computes is not known",
                parameter.id
            ));
        }
    }
    let there = |id: &'static str| checkpoint.tensor(id).map(|_| id);
    let factorisers = [there(FACTORISER), there(PSQT_FACTORISER)];
    Ok(Builder { architecture, factorisers, nodes: Vec::new() }.build())
}

struct Builder<'a> {
    architecture: &'a Architecture,
    /// The weights that every input bucket shares, of the first layer and of the way around the layers.
    factorisers: [Option<&'static str>; 2],
    nodes: Vec<Node>,
}

impl Builder<'_> {
    fn build(mut self) -> Graph {
        let net = &self.architecture.net;
        let sides = if net.input.perspectives == 2 { vec!["stm", "ntm"] } else { vec!["stm"] };
        let mut inputs: Vec<Value> =
            sides.iter().map(|side| Value { name: (*side).to_owned(), shape: vec![None, None] }).collect();
        if net.output_buckets.is_some() {
            inputs.push(Value { name: "bucket".into(), shape: vec![None] });
        }
        let mut value = String::new();
        let mut size = 0;
        for (index, layer) in net.layers.iter().enumerate() {
            value = match index {
                0 => self.first(layer, &sides),
                _ => {
                    let made = self.affine(index, layer, value);
                    self.activate(&format!("l{index}"), layer, made)
                }
            };
            size = layer.size;
        }
        if net.psqt {
            let made = self.transform(PSQT, "stm", PSQT, None);
            value = self.add("output", Op::Add, &[&value, &made]);
        }
        let outputs = vec![Value { name: value, shape: vec![None, Some(size)] }];
        Graph { name: net.name.clone(), inputs, outputs, nodes: self.nodes }
    }

    /// The accumulators of both sides, one behind the other.
    fn first(&mut self, layer: &Layer, sides: &[&str]) -> String {
        let mut made = Vec::new();
        for side in sides {
            let value = self.transform(&format!("l0/{side}"), side, "l0w", Some(layer));
            // Both halves of a product are of one perspective; x and x² are of both.
            made.push(if layer.dual { value } else { self.activate(&format!("l0/{side}"), layer, value) });
        }
        let value = match &made[..] {
            [value] => value.clone(),
            _ => self.concat("l0", &made.iter().map(String::as_str).collect::<Vec<_>>()),
        };
        if layer.dual { self.activate("l0", layer, value) } else { value }
    }

    fn transform(&mut self, name: &str, side: &str, weight: &str, layer: Option<&Layer>) -> String {
        let net = &self.architecture.net;
        let mut node = Node::new(name, Op::FeatureTransformer).parameter("weight", weight);
        let int = |value: u64| Attribute::Int(i64::try_from(value).unwrap_or(i64::MAX));
        node = node.attribute("features", int(net.input.features));
        if let Some(buckets) = &net.input.buckets {
            node = node.attribute("mirrored", int(buckets.mirrored.into()));
            if !buckets.layout.is_empty() {
                let layout = buckets.layout.iter().map(|bucket| i64::try_from(*bucket).unwrap_or(i64::MAX));
                node = node.attribute("layout", Attribute::Ints(layout.collect()));
            }
        }
        let mut inputs = vec![side.to_owned()];
        if let Some(layer) = layer {
            node = node.parameter("bias", "l0b");
            if layer.bucketed == Some(true) {
                inputs.push("bucket".into());
            }
        }
        let [first, around] = self.factorisers;
        if let Some(factoriser) = if layer.is_some() { first } else { around } {
            node = node.parameter("factoriser", factoriser);
        }
        node.inputs = inputs;
        self.push(node)
    }

    fn affine(&mut self, index: usize, layer: &Layer, value: String) -> String {
        let buckets =
            self.architecture.net.output_buckets.as_ref().filter(|_| layer.bucketed.unwrap_or(true));
        let op = if buckets.is_some() { Op::BucketedGemm } else { Op::Gemm };
        let mut node = Node::new(format!("l{index}"), op)
            .parameter("weight", format!("l{index}w"))
            .parameter("bias", format!("l{index}b"));
        node.inputs = vec![value];
        if let Some(buckets) = buckets {
            node.inputs.push("bucket".into());
            let kind = match buckets.kind {
                OutputBucketKind::MaterialCount => "material_count",
                OutputBucketKind::Other => "other",
            };
            node = node.attribute("kind", Attribute::Text(kind.into()));
        }
        self.push(node)
    }

    /// The activation, and the product of the halves.
    fn activate(&mut self, name: &str, layer: &Layer, mut value: String) -> String {
        if layer.dual {
            let square = self.add(&format!("{name}/square"), Op::Mul, &[&value, &value]);
            value = self.concat(&format!("{name}/dual"), &[&value, &square]);
        }
        let activated = format!("{name}/activation");
        value = match layer.activation {
            Activation::Identity => value,
            Activation::Relu => self.add(&activated, Op::Relu, &[&value]),
            Activation::Crelu => self.clip(&activated, &value),
            Activation::Screlu => {
                let clipped = self.clip(&format!("{name}/clip"), &value);
                self.add(&activated, Op::Mul, &[&clipped, &clipped])
            }
            Activation::Sqrrelu => {
                let positive = self.add(&format!("{name}/relu"), Op::Relu, &[&value]);
                self.add(&activated, Op::Mul, &[&positive, &positive])
            }
        };
        if !layer.pairwise {
            return value;
        }
        let halves = ["first", "second"].map(|half| format!("{name}/{half}"));
        let mut node = Node::new(format!("{name}/halves"), Op::Split).attribute("axis", Attribute::Int(1));
        node.inputs = vec![value];
        node.outputs = halves.to_vec();
        self.nodes.push(node);
        self.add(&format!("{name}/pairwise"), Op::Mul, &[&halves[0], &halves[1]])
    }

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

    fn add(&mut self, name: &str, op: Op, values: &[&str]) -> String {
        let mut node = Node::new(name, op);
        node.inputs = values.iter().map(|value| (*value).to_owned()).collect();
        self.push(node)
    }

    /// A node with one output of its own name.
    fn push(&mut self, mut node: Node) -> String {
        let name = node.name.clone();
        node.outputs = vec![name.clone()];
        self.nodes.push(node);
        name
    }
}
