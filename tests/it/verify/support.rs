//! Networks for the tests.

use ckpt::api::{
    Attribute, Axis, Checkpoint, DType, Graph, Input, Node, Op, Quantization, Shape, Tensor, Value,
};
use ckpt::verify::{Layer, Options, Report, verify};
use ckpt::{OpenOptions, Registry, Source};
use std::num::NonZeroU32;

/// A checkpoint in memory.
#[derive(Clone)]
pub struct Net {
    pub checkpoint: Checkpoint,
    pub values: Vec<Vec<f32>>,
}

impl Net {
    pub fn new(graph: Graph, tensors: &[(&str, &[(Axis, u64)])]) -> Self {
        let mut net =
            Net { checkpoint: Checkpoint { graph: Some(graph), ..Checkpoint::default() }, values: vec![] };
        for (seed, (name, axes)) in tensors.iter().enumerate() {
            let shape = Shape::new(axes.iter().map(|(_, len)| *len).collect::<Vec<_>>()).unwrap();
            let elements = shape.elements();
            let axes: Vec<Axis> = axes.iter().map(|(axis, _)| *axis).collect();
            net.checkpoint.tensors.push(Tensor::new(*name, DType::F32, shape).with_axes(axes));
            net.values.push((0..elements).map(|k| number(seed as u64 * 1000 + k)).collect());
        }
        net
    }

    pub fn graph(&mut self) -> &mut Graph {
        self.checkpoint.graph.as_mut().unwrap()
    }

    pub fn node(&mut self, name: &str) -> &mut Node {
        self.graph().nodes.iter_mut().find(|node| node.name == name).unwrap()
    }

    pub fn index(&self, tensor: &str) -> usize {
        self.checkpoint.tensors.iter().position(|found| found.name == tensor).unwrap()
    }

    pub fn tensor(&mut self, name: &str) -> &mut Vec<f32> {
        let index = self.index(name);
        &mut self.values[index]
    }

    /// Opens the checkpoint with every tensor stored as `dtype`.
    pub fn stored_as(&self, dtype: DType) -> Source {
        let mut other = self.checkpoint.clone();
        let mut values = Vec::new();
        for (tensor, numbers) in other.tensors.iter_mut().zip(&self.values) {
            tensor.dtype = dtype;
            let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
            let mut stored = Vec::new();
            ckpt::transform::cast(DType::F32, dtype, 0, &bytes, &mut stored).unwrap();
            values.push(stored);
        }
        opened(&other, &values)
    }

    /// Opens the checkpoint with every number times 256 as an integer, and a scale that the file states.
    pub fn in_integers(&self, stated: Option<u32>) -> Source {
        let mut other = self.checkpoint.clone();
        for tensor in &mut other.tensors {
            let scale = stated.and_then(NonZeroU32::new);
            *tensor = tensor
                .clone()
                .with_dtype(DType::I16)
                .with_quantization(scale.map(|scale| Quantization::Units { scale }));
        }
        let integer = |number: &f32| ((number * 256.0).round() as i16).to_le_bytes();
        let values: Vec<Vec<u8>> =
            self.values.iter().map(|numbers| numbers.iter().flat_map(integer).collect()).collect();
        opened(&other, &values)
    }

    pub fn source(&self) -> Source {
        self.stored_as(DType::F32)
    }

    /// Stores a matrix transposed, with its axes named accordingly.
    pub fn turned(&self, tensor: &str) -> Net {
        let (mut net, index) = (self.clone(), self.index(tensor));
        let shape = self.checkpoint.tensors[index].shape.to_vec();
        let [rows, columns] = [shape[0] as usize, shape[1] as usize];
        net.values[index] = transposed(&self.values[index], rows, columns);
        let found = &mut net.checkpoint.tensors[index];
        found.shape = Shape::new([shape[1], shape[0]]).unwrap();
        found.axes.as_mut().unwrap().reverse();
        net
    }

    /// Renames all tensors.
    pub fn renamed(&self, rename: impl Fn(&str) -> String) -> Net {
        let mut net = self.clone();
        let names =
            self.checkpoint.tensors.iter().map(|tensor| (tensor.name.to_string(), rename(&tensor.name)));
        net.checkpoint.rename(&names.collect()).unwrap();
        net
    }
}

fn opened(checkpoint: &Checkpoint, values: &[Vec<u8>]) -> Source {
    let registry = Registry::builtin();
    let codec = registry.writer("safetensors").unwrap();
    let files = ckpt_conformance::write(&*codec, checkpoint, values, "net.safetensors", &[]).unwrap();
    let input = Input::memory("net.safetensors", files);
    Source::open(&registry, input, &OpenOptions::default()).unwrap()
}

pub fn transposed(values: &[f32], rows: usize, columns: usize) -> Vec<f32> {
    (0..columns * rows).map(|at| values[at % rows * columns + at / rows]).collect()
}

/// A pseudorandom number in −0.5..0.5.
fn number(seed: u64) -> f32 {
    let mut bits = seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 31)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (bits >> 40) as f32 / (1u32 << 24) as f32 - 0.5
}

pub fn check(a: &Source, b: &Source, options: &Options) -> Report {
    verify(&Registry::builtin(), a, b, options).unwrap()
}

/// Returns the first layer that diverges.
pub fn diverging(report: &Report) -> &Layer {
    let run = &report.runs[0];
    &run.layers[run.first_divergence.expect("a layer that diverges")]
}

fn dense(name: &str) -> Node {
    Node::new(name, Op::Gemm)
        .parameter("weight", format!("{name}/kernel"))
        .parameter("bias", format!("{name}/bias"))
}

/// 6 → 6 (relu) → 6 (tanh) → 3 (softmax).
pub fn dense_net() -> Net {
    let nodes = vec![
        dense("one"),
        Node::new("one/relu", Op::Relu),
        dense("two"),
        Node::new("two/tanh", Op::Tanh),
        dense("three"),
        Node::new("three/softmax", Op::Softmax),
    ];
    let graph = Graph::sequential("dense", vec![None, Some(6)], vec![None, Some(3)], nodes);
    let (input, six, three) = ((Axis::In, 6), (Axis::Out, 6), (Axis::Out, 3));
    Net::new(
        graph,
        &[
            ("one/kernel", &[input, six]),
            ("one/bias", &[six]),
            ("two/kernel", &[input, six]),
            ("two/bias", &[six]),
            ("three/kernel", &[input, three]),
            ("three/bias", &[three]),
        ],
    )
}

/// (12 features in 2 buckets, with a factoriser → 4) × 2 → clip → 3 buckets of 2.
pub fn sparse_net() -> Net {
    let wire = |mut node: Node, inputs: &[&str]| {
        node.inputs = inputs.iter().map(|name| (*name).to_owned()).collect();
        node.outputs = vec![node.name.clone()];
        node
    };
    let first = |side: &str| {
        let node = Node::new(format!("l0/{side}"), Op::custom("ckpt.FeatureTransformer"))
            .parameter("weight", "l0w")
            .parameter("factoriser", "l0f")
            .parameter("bias", "l0b")
            .attribute("features", Attribute::Int(12));
        wire(node, &[side])
    };
    let clip = Node::new("clip", Op::Clip)
        .attribute("min", Attribute::Float(0.0))
        .attribute("max", Attribute::Float(1.0));
    let last =
        Node::new("l1", Op::custom("ckpt.BucketedGemm")).parameter("weight", "l1w").parameter("bias", "l1b");
    let concat = Node::new("l0", Op::Concat).attribute("axis", Attribute::Int(1));
    let value = |name: &str, shape: &[Option<u64>]| Value::new(name, shape.to_vec());
    let graph = Graph {
        name: "sparse".into(),
        inputs: vec![value("stm", &[None, None]), value("ntm", &[None, None]), value("bucket", &[None])],
        outputs: vec![value("l1", &[None, Some(2)])],
        nodes: vec![
            first("stm"),
            first("ntm"),
            wire(concat, &["l0/stm", "l0/ntm"]),
            wire(clip, &["l0"]),
            wire(last, &["clip", "bucket"]),
        ],
    };
    let (feature, out) = ((Axis::Feature, 12), (Axis::Out, 4));
    Net::new(
        graph,
        &[
            ("l0w", &[(Axis::Bucket, 2), feature, out]),
            ("l0f", &[feature, out]),
            ("l0b", &[out]),
            ("l1w", &[(Axis::Bucket, 3), (Axis::Out, 2), (Axis::In, 8)]),
            ("l1b", &[(Axis::Bucket, 3), (Axis::Out, 2)]),
        ],
    )
}

/// Writes a safetensors file of one array.
pub fn archive(path: &std::path::Path, name: &str, shape: &[usize], values: &[f32]) {
    let header = serde_json::json!({
        name: { "dtype": "F32", "shape": shape, "data_offsets": [0, values.len() * 4] },
    });
    let mut header = header.to_string().into_bytes();
    header.resize(header.len().next_multiple_of(8), b' ');
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header);
    file.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    std::fs::write(path, file).unwrap();
}

pub fn relative_l2(found: &[f64], expected: &[f32]) -> f64 {
    assert_eq!(found.len(), expected.len());
    let pairs = || found.iter().zip(expected.iter().map(|value| f64::from(*value)));
    let error: f64 = pairs().map(|(found, expected)| (found - expected).powi(2)).sum();
    let size: f64 = pairs().map(|(_, expected)| expected.powi(2)).sum();
    (error / size).sqrt()
}

/// Images of 2 channels, a convolution of 3 × 3 to 3 channels (relu), and their means.
pub fn image_net() -> Net {
    let conv = Node::new("conv", Op::Conv)
        .parameter("weight", "conv/kernel")
        .parameter("bias", "conv/bias")
        .attribute("pads", Attribute::Ints(vec![1; 4]));
    let nodes = vec![conv, Node::new("conv/relu", Op::Relu), Node::new("mean", Op::GlobalAveragePool)];
    let input = vec![None, Some(2), Some(5), Some(4)];
    let graph = Graph::sequential("image", input, vec![None, Some(3), Some(1), Some(1)], nodes);
    let kernel = [(Axis::Out, 3), (Axis::In, 2), (Axis::KernelY, 3), (Axis::KernelX, 3)];
    Net::new(graph, &[("conv/kernel", &kernel), ("conv/bias", &[(Axis::Out, 3)])])
}
