//! Runs the graph of a configuration: `run_config FOLDER…`.
//!
//! Each folder has `config.json`, `weights.safetensors`, whose tensors have the paths of `.weights.h5` as names, and
//! `inputs.safetensors`, with a tensor for each input. The results are written as `outputs.safetensors`, and the
//! variables as `variables.json` and `optimizer.json`. The graph is described as a configuration again. A folder without a graph gets `reason.txt` in place of the results.

use ckpt_api::{Checkpoint, DType, Error, Graph, Limits, Result, Shape, Tensor};
use ckpt_forward::{Arithmetic, Array, Cpu, Parameters, Program, Value};
use ckpt_keras::config::{DescribedVariable, Model, OptimizerVariable, Variable};
use std::collections::BTreeMap;
use std::path::Path;

type Values = BTreeMap<String, Value>;

/// The variables of a model, with their values.
struct Stored(BTreeMap<String, (Tensor, Array)>);

impl Parameters for Stored {
    fn tensor(&self, name: &str) -> Option<&Tensor> {
        self.0.get(name).map(|(tensor, _)| tensor)
    }

    fn load(&self, name: &str) -> Result<Array> {
        self.0
            .get(name)
            .map(|(_, array)| array.clone())
            .ok_or_else(|| Error::usage("no such tensor").tensor(name))
    }
}

fn main() -> Result<()> {
    for folder in std::env::args().skip(1) {
        run(Path::new(&folder)).map_err(|error| error.file(&folder))?;
    }
    Ok(())
}

fn run(folder: &Path) -> Result<()> {
    let text = std::fs::read_to_string(folder.join("config.json")).map_err(io)?;
    let model = Model::parse(&text, None, &Limits::default())?;
    let variables = model.variables().list;
    write(folder, "variables.json", describe(&variables).as_bytes())?;
    let tensors = read(&folder.join("weights.safetensors"))?;
    if let Some(optimizer) = &model.optimizer {
        let trained: Vec<&Variable> = variables.iter().filter(|variable| variable.is_trained).collect();
        let rank = |variable: &Variable| tensors.get(&variable.path).map(|value| value.shape.len());
        let slots = optimizer.variables(&trained, rank).unwrap_or_default();
        write(folder, "optimizer.json", describe_slots(&slots).as_bytes())?;
    }
    let graph = match model.graph() {
        Ok(graph) => graph,
        Err(missing) => return write(folder, "reason.txt", missing.reason.as_bytes()),
    };
    graph.check()?;
    let inputs = read(&folder.join("inputs.safetensors"))?;
    let stored = Stored(bind(&variables, &tensors)?);
    let shapes = inputs.iter().map(|(name, value)| (name.clone(), value.shape.clone())).collect();
    let program = Program::new(&graph, &stored, &shapes)?;
    let outputs = program.run(&mut Cpu::new(Arithmetic::F64), &inputs, &mut ())?;
    describe_again(folder, &model, &graph, &stored)?;
    let ordered: Vec<&Value> = graph.outputs.iter().filter_map(|output| outputs.get(&output.name)).collect();
    write(folder, "outputs.safetensors", &safetensors(&ordered)?)
}

/// Gives each variable the tensor of its path.
fn bind(variables: &[Variable], tensors: &Values) -> Result<BTreeMap<String, (Tensor, Array)>> {
    let bound = variables.iter().map(|variable| {
        let value = tensors
            .get(&variable.path)
            .ok_or_else(|| Error::usage("a variable is missing").tensor(&variable.path))?;
        let shape = Shape::new(value.shape.iter().map(|len| *len as u64).collect::<Vec<_>>())?;
        let dtype = if matches!(value.array, Array::I32(_)) { DType::I32 } else { DType::F64 };
        let mut tensor = Tensor::new(&variable.name, dtype, shape).with_role(variable.tensor_role);
        tensor.axes.clone_from(&variable.axes);
        Ok((variable.name.clone(), (tensor, value.array.clone())))
    });
    bound.collect()
}

fn describe(variables: &[Variable]) -> String {
    let entry = |variable: &Variable| {
        serde_json::json!({
            "name": variable.name, "path": variable.path, "group": variable.group, "position": variable.position,
            "role": variable.role, "trained": variable.is_trained,
        })
    };
    serde_json::Value::Array(variables.iter().map(entry).collect()).to_string()
}

/// Describes the graph as a configuration of Keras again: `described.json` has it, and `order.json` its variables.
fn describe_again(folder: &Path, model: &Model, graph: &Graph, stored: &Stored) -> Result<()> {
    let tensors = stored.0.values().map(|(tensor, _)| tensor.clone()).collect();
    let checkpoint = Checkpoint { graph: Some(graph.clone()), tensors, ..Checkpoint::default() };
    let described = match Model::describe(&checkpoint, model.generation) {
        Ok(described) => described,
        Err(error) => return write(folder, "not_described.txt", error.to_string().as_bytes()),
    };
    let entry = |own: &DescribedVariable| {
        let tensor = checkpoint.tensors.get(own.tensor.0).map(|tensor| &tensor.name);
        serde_json::json!({"path": own.variable.path, "tensor": tensor, "order": own.order})
    };
    let order = serde_json::Value::Array(described.variables.iter().map(entry).collect()).to_string();
    write(folder, "order.json", order.as_bytes())?;
    write(folder, "described.json", described.config.as_bytes())
}

fn describe_slots(variables: &[OptimizerVariable]) -> String {
    let entry = |own: &OptimizerVariable| {
        let slot = own.slot.as_ref();
        serde_json::json!({"path": own.path, "name": own.name, "variable": slot.map(|slot| &slot.variable)})
    };
    serde_json::Value::Array(variables.iter().map(entry).collect()).to_string()
}

fn io(error: std::io::Error) -> Error {
    Error::usage("a file cannot be read or written").found(error.to_string())
}

fn write(folder: &Path, name: &str, bytes: &[u8]) -> Result<()> {
    std::fs::write(folder.join(name), bytes).map_err(io)
}

/// Reads tensors of 32-bit numbers.
fn read(path: &Path) -> Result<Values> {
    let bytes = std::fs::read(path).map_err(io)?;
    let invalid = || Error::corrupt("this is no safetensors file").file(path.display().to_string());
    let (len, rest) = bytes.split_first_chunk::<8>().ok_or_else(invalid)?;
    let len = usize::try_from(u64::from_le_bytes(*len)).map_err(|_| invalid())?;
    let (header, data) = rest.split_at_checked(len).ok_or_else(invalid)?;
    let header: BTreeMap<String, serde_json::Value> =
        serde_json::from_slice(header).map_err(|_| invalid())?;
    let mut found = Values::new();
    for (name, entry) in header.into_iter().filter(|(name, _)| name != "__metadata__") {
        let numbers = |key: &str| -> Option<Vec<usize>> {
            entry.get(key)?.as_array()?.iter().map(|n| usize::try_from(n.as_u64()?).ok()).collect()
        };
        let (shape, ends) =
            (numbers("shape").ok_or_else(invalid)?, numbers("data_offsets").ok_or_else(invalid)?);
        let [begin, end] = ends[..] else { return Err(invalid()) };
        let words: Vec<[u8; 4]> = data.get(begin..end).ok_or_else(invalid)?.as_chunks().0.to_vec();
        let array = match entry.get("dtype").and_then(|dtype| dtype.as_str()) {
            Some("F32") => {
                Array::F64(words.into_iter().map(|word| f64::from(f32::from_le_bytes(word))).collect())
            }
            Some("I32") => Array::I32(words.into_iter().map(i32::from_le_bytes).collect()),
            _ => return Err(invalid()),
        };
        found.insert(name, Value::new(shape, array)?);
    }
    Ok(found)
}

/// Writes results of 64-bit numbers, named by their places.
fn safetensors(values: &[&Value]) -> Result<Vec<u8>> {
    let (mut header, mut data) = (serde_json::Map::new(), Vec::new());
    for (at, value) in values.iter().enumerate() {
        let begin = data.len();
        data.extend(value.array.to_f64().into_iter().flat_map(f64::to_le_bytes));
        let entry =
            serde_json::json!({"dtype": "F64", "shape": value.shape, "data_offsets": [begin, data.len()]});
        header.insert(at.to_string(), entry);
    }
    let header = serde_json::Value::Object(header).to_string();
    Ok([&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &data].concat())
}
