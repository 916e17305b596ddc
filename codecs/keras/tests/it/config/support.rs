//! Models as files, with weights of random numbers.

use ckpt_api::{Checkpoint, DType, Error, Graph, Limits, Op, Result, Shape, Tensor};
use ckpt_forward::{Arithmetic, Array, Cpu, Parameters, Program, Random, Value};
use ckpt_keras::config::Model;
use std::collections::BTreeMap;
use std::path::Path;

/// A model as a file.
pub struct Fixture {
    /// The folder and the name.
    pub name: String,
    pub config: String,
    /// The shapes of all datasets under `layers`.
    pub shapes: BTreeMap<String, Vec<u64>>,
}

/// Returns all models.
pub fn fixtures() -> Vec<Fixture> {
    let mut found = Vec::new();
    for folder in ["keras", "tf_keras"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/config/models").join(folder);
        let mut files: Vec<_> = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        for file in files {
            let text = std::fs::read_to_string(&file).unwrap();
            let value: serde_json::Value = serde_json::from_str(&text).unwrap();
            let name = format!("{folder}/{}", file.file_stem().unwrap().to_str().unwrap());
            let shapes = serde_json::from_value(value["shapes"].clone()).unwrap();
            found.push(Fixture { name, config: value["config"].to_string(), shapes });
        }
    }
    found
}

impl Fixture {
    pub fn model(&self) -> Model {
        let version = if self.name.starts_with("tf_") { "2.21.0" } else { "3.15.1" };
        Model::parse(&self.config, Some(version), &Limits::default()).unwrap()
    }

    /// Returns the model's graph with its tensors, without their elements.
    pub fn checkpoint(&self) -> Checkpoint {
        let model = self.model();
        let tensors = model.variables().list.into_iter().map(|variable| {
            let shape = self.shapes.get(&variable.path).unwrap_or_else(|| panic!("{}", variable.path));
            let mut tensor = Tensor::new(variable.name, DType::F64, Shape::new(shape).unwrap());
            tensor.axes = variable.axes;
            tensor
        });
        let graph = model.graph().unwrap_or_else(|missing| panic!("{}: {}", self.name, missing.reason));
        Checkpoint { tensors: tensors.collect(), graph: Some(graph), ..Checkpoint::default() }
    }
}

/// Tensors with their elements.
#[derive(Default)]
pub struct Stored(pub BTreeMap<String, (Tensor, Array)>);

impl Parameters for Stored {
    fn tensor(&self, name: &str) -> Option<&Tensor> {
        self.0.get(name).map(|(tensor, _)| tensor)
    }

    fn load(&self, name: &str) -> Result<Array> {
        self.0.get(name).map(|(_, array)| array.clone()).ok_or_else(|| Error::usage("no such tensor"))
    }
}

/// Returns random numbers for each tensor; those of variances are positive.
pub fn random_weights(checkpoint: &Checkpoint) -> Stored {
    let mut random = Random::new(7);
    let mut stored = Stored::default();
    for tensor in &checkpoint.tensors {
        let is_variance = tensor.name.ends_with("variance");
        let len = usize::try_from(tensor.shape.elements()).unwrap();
        let numbers = (0..len).map(|_| if is_variance { 1.0 + random.real() * 0.5 } else { random.real() });
        stored.0.insert(tensor.name.to_string(), (tensor.clone(), Array::F64(numbers.collect())));
    }
    stored
}

/// Runs a graph with two examples of random numbers, and returns its results in their order.
pub fn run(graph: &Graph, stored: &Stored) -> Vec<Value> {
    let mut random = Random::new(11);
    let (mut inputs, mut shapes) = (BTreeMap::new(), BTreeMap::new());
    for input in &graph.inputs {
        let batch = input.shape.iter().position(Option::is_none);
        let shape: Vec<usize> = input
            .shape
            .iter()
            .enumerate()
            .map(|(axis, len)| match len {
                Some(len) => usize::try_from(*len).unwrap(),
                None if Some(axis) == batch => 2,
                None => 9,
            })
            .collect();
        let len = shape.iter().product();
        let indexes =
            |node: &ckpt_api::Node| node.op == Op::Gather && node.inputs.first() == Some(&input.name);
        let array = match input.dtype.is_some() || graph.nodes.iter().any(indexes) {
            true => Array::I32((0..len).map(|at| i32::try_from(at % 7).unwrap()).collect()),
            false => Array::F64((0..len).map(|_| random.real()).collect()),
        };
        inputs.insert(input.name.clone(), Value::new(shape.clone(), array).unwrap());
        shapes.insert(input.name.clone(), shape);
    }
    let plain = ckpt_forward::specialize(graph, stored, &shapes, &BTreeMap::new()).unwrap();
    let program = Program::new(&plain, stored, &shapes).unwrap();
    let made = program.run(&mut Cpu::new(Arithmetic::F64), &inputs, &mut ()).unwrap();
    graph.outputs.iter().map(|output| made[&output.name].clone()).collect()
}
