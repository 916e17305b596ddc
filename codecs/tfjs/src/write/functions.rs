//! The graph of a model as a graph model: nodes of TensorFlow, and the weights that its constants name.

use super::operators::{Nodes, dtype_name, kind, node};
use ckpt_api::{Checkpoint, DType, Error, Result};
use ckpt_graph::Names;
use ckpt_tf_operators::{Content, Model, ModelTensor, Program, model_of};
use serde_json::{Map, Value, json};
use std::collections::HashMap;

/// A graph model, but for its manifest.
pub(super) struct Functions {
    /// The value of `modelTopology`.
    pub(super) topology: Value,
    /// The value of `signature`, as text: its inputs and outputs are in the order of the graph.
    pub(super) signature: String,
    /// The constants of the graph, in the order in which nodes take them.
    pub(super) weights: Vec<Constant>,
}

/// A constant of the graph.
pub(super) struct Constant {
    pub(super) name: String,
    pub(super) shape: Vec<u64>,
    pub(super) dtype: DType,
    pub(super) content: Content,
}

/// Makes nodes of the checkpoint's graph.
///
/// # Errors
/// [`ckpt_api::Kind::Unsupported`], with the node, for what TensorFlow.js does not have.
pub(super) fn describe(checkpoint: &Checkpoint) -> Result<Functions> {
    let graph = checkpoint.graph.as_ref();
    let graph = graph.ok_or_else(|| Error::unsupported("the source has no graph"))?;
    let model = model_of(checkpoint, graph, Program::JavaScript)?;
    let mut namer = Namer::default();
    let references = namer.all(&model);
    let mut nodes: Vec<Value> = Vec::new();
    let mut weights = Vec::new();
    for (tensor, name) in model.tensors.iter().zip(&references) {
        if tensor.content != Content::Made {
            nodes.push(constant_node(name, tensor.dtype, &tensor.shape));
            weights.push(Constant {
                name: name.clone(),
                shape: tensor.shape.iter().map(|len| u64::try_from(*len).unwrap_or(0)).collect(),
                dtype: tensor.dtype,
                content: tensor.content.clone(),
            });
        }
    }
    for input in &model.inputs {
        let (Some(tensor), Some(name)) = (model.tensors.get(*input), references.get(*input)) else {
            continue;
        };
        let mut attributes = Map::new();
        attributes.insert("dtype".to_owned(), kind(tensor.dtype));
        attributes.insert("shape".to_owned(), json!({ "shape": shape(lens(tensor)) }));
        nodes.push(node("Placeholder", name, &[], attributes));
    }
    let mut numbers = Numbers::default();
    let mut made = Vec::new();
    for step in &model.steps {
        let name = step.outputs.first().and_then(|output| references.get(*output));
        let name = name.ok_or_else(|| Error::defect("a step makes nothing"))?;
        let (names, numbers) = (&mut namer.names, &mut numbers);
        // Both add names.
        let names = std::cell::RefCell::new(names);
        let mut step_nodes = Nodes {
            tensors: &model.tensors,
            references: &references,
            constant: &mut |number| numbers.name(number, &mut names.borrow_mut()),
            name: &mut |wanted| names.borrow_mut().numbered(wanted, '_'),
            made: Vec::new(),
        };
        step_nodes.add(step, name).map_err(|error| error.field(name.clone()))?;
        made.extend(step_nodes.made);
    }
    for (number, name) in numbers.in_order {
        nodes.push(constant_node(&name, DType::I32, &[]));
        let content = Content::Bytes(number.to_le_bytes().to_vec());
        weights.push(Constant { name, shape: Vec::new(), dtype: DType::I32, content });
    }
    nodes.extend(made);
    let topology = json!({ "node": nodes, "versions": { "producer": PRODUCER, "minConsumer": 12 } });
    Ok(Functions { topology, signature: signature(&model, &references)?, weights })
}

/// The version of GraphDef whose operators these are: that of TensorFlow 2.
const PRODUCER: u32 = 1087;

/// Names of nodes.
#[derive(Default)]
struct Namer {
    names: Names,
}

impl Namer {
    /// What refers to each tensor of a model. Inputs, outputs and weights keep their names, as far as they are possible.
    fn all(&mut self, model: &Model) -> Vec<String> {
        let mut references = vec![String::new(); model.tensors.len()];
        // A part of a value is a numbered result of the node that has the first one's name.
        let mut parts = HashMap::new();
        for step in &model.steps {
            let first = step.outputs.first().copied().unwrap_or_default();
            parts.extend(step.outputs.iter().enumerate().skip(1).map(|(at, output)| (*output, (first, at))));
        }
        let is_weight = |tensor: &ModelTensor| matches!(tensor.content, Content::Tensor { .. });
        let weights = model.tensors.iter().enumerate().filter(|(_, own)| is_weight(own)).map(|(id, _)| id);
        let first = model.inputs.iter().chain(&model.outputs).copied().chain(weights);
        let order: Vec<usize> = first.chain(0..model.tensors.len()).collect();
        for id in order {
            let (Some(reference), Some(tensor)) = (references.get_mut(id), model.tensors.get(id)) else {
                continue;
            };
            if reference.is_empty() && !parts.contains_key(&id) {
                *reference = self.names.numbered(&possible(&tensor.name), '_');
            }
        }
        for (id, (first, at)) in parts {
            let name = references.get(first).cloned().unwrap_or_default();
            if let Some(reference) = references.get_mut(id) {
                *reference = format!("{name}:{at}");
            }
        }
        references
    }
}

/// A name that a node can have: references have a colon before the number of a result, and a caret before what only runs earlier.
pub(super) fn possible(name: &str) -> String {
    let is_inner = |character: char| character.is_ascii_alphanumeric() || "_.-/>".contains(character);
    let name: String = name.chars().map(|own| if is_inner(own) { own } else { '_' }).collect();
    match name.chars().next() {
        Some(first) if first.is_ascii_alphanumeric() || first == '.' => name,
        _ => format!("node{name}"),
    }
}

/// Numbers that nodes take, each as one constant.
#[derive(Default)]
struct Numbers {
    known: HashMap<i32, String>,
    in_order: Vec<(i32, String)>,
}

impl Numbers {
    fn name(&mut self, number: i32, names: &mut Names) -> String {
        if let Some(name) = self.known.get(&number) {
            return name.clone();
        }
        let name = names.numbered(&format!("number/{number}").replace('-', "minus"), '_');
        self.known.insert(number, name.clone());
        self.in_order.push((number, name.clone()));
        name
    }
}

/// A constant whose value is in the manifest.
fn constant_node(name: &str, dtype: DType, lens: &[i32]) -> Value {
    let dtype = if dtype == DType::F16 { DType::F32 } else { dtype };
    let mut attributes = Map::new();
    attributes.insert("dtype".to_owned(), kind(dtype));
    let tensor = json!({ "dtype": dtype_name(dtype), "tensorShape": shape(lens) });
    attributes.insert("value".to_owned(), json!({ "tensor": tensor }));
    node("Const", name, &[], attributes)
}

/// Lengths as a tensor has them; −1 for a free one.
fn lens(tensor: &ModelTensor) -> &[i32] {
    tensor.signature.as_deref().unwrap_or(&tensor.shape)
}

fn shape(lens: &[i32]) -> Value {
    let dims: Vec<Value> = lens.iter().map(|len| json!({ "size": len.to_string() })).collect();
    if dims.is_empty() { json!({}) } else { json!({ "dim": dims }) }
}

/// The inputs and outputs, in their order: what a caller gives and gets is listed in it.
fn signature(model: &Model, references: &[String]) -> Result<String> {
    let ends = |ids: &[usize]| -> Result<String> {
        let mut listed = Vec::with_capacity(ids.len());
        for id in ids {
            let both = model.tensors.get(*id).zip(references.get(*id));
            let (tensor, reference) = both.ok_or_else(|| Error::defect("an output does not exist"))?;
            let (key, name) = match reference.split_once(':') {
                Some((node, at)) => (format!("{node}_{at}"), reference.clone()),
                None => (reference.clone(), format!("{reference}:0")),
            };
            let info = json!({ "name": name, "dtype": dtype_name(tensor.dtype), "tensorShape": shape(lens(tensor)) });
            listed.push(format!("{}:{info}", Value::from(key)));
        }
        Ok(listed.join(","))
    };
    Ok(format!(r#"{{"inputs":{{{}}},"outputs":{{{}}}}}"#, ends(&model.inputs)?, ends(&model.outputs)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_a_node_has_no_character_that_references_have() {
        assert_eq!(possible("fc/kernel:0"), "fc/kernel_0");
        assert_eq!((possible("^x"), possible("")), ("node_x".to_owned(), "node".to_owned()));
        assert_eq!(possible("a-b.c>d/é"), "a-b.c>d/_");
    }
}
