//! One small graph for each rule.

mod layers;
mod networks;

use super::{TorchNames, Translation, translate};
use ckpt_api::{Graph, Role, Tensor};
use serde_json::{Value, json};

/// A graph of these nodes, between `x` of this shape and what the last node makes.
fn graph(shape: Value, nodes: Value) -> Graph {
    let last = nodes.as_array().unwrap().last().unwrap()["outputs"][0].clone();
    let document = json!({
        "name": "my_model",
        "inputs": [{ "name": "x", "shape": shape }],
        "outputs": [{ "name": last, "shape": [] }],
        "nodes": nodes,
    });
    let graph: Graph = serde_json::from_value(document).unwrap();
    graph.check().unwrap();
    graph
}

/// Tensors of 32-bit floats: name, shape and axes.
fn tensors(described: &[(&str, Value, Value)]) -> Vec<Tensor> {
    let tensor = |(name, shape, axes): &(&str, Value, Value)| {
        let document = json!({ "name": name, "dtype": "f32", "shape": shape, "axes": axes });
        serde_json::from_value(document).unwrap()
    };
    described.iter().map(tensor).collect()
}

fn node(name: &str, op: &str, inputs: &[&str], more: Value) -> Value {
    let mut node = json!({ "name": name, "op": op, "inputs": inputs, "outputs": [name] });
    for (key, value) in more.as_object().unwrap() {
        node[key] = value.clone();
    }
    node
}

fn translated(graph: &Graph, tensors: &[Tensor]) -> Translation {
    translate(graph, tensors, TorchNames::Layers).unwrap()
}

/// What the mapping makes: each target with its sources and its recipe.
fn made(translation: &Translation, tensors: &[Tensor]) -> Vec<String> {
    let applied = translation.mapping.apply_to(tensors, &ckpt_api::Limits::default()).unwrap();
    assert!(applied.inverse.is_ok(), "{:?}", applied.inverse.err());
    let line = |target: &ckpt_engine::recipe::Target| {
        format!("{} <- {}: {}", target.name, target.sources.join(" + "), target.recipe.describe())
    };
    applied.targets.iter().map(line).collect()
}

/// The lines of `__init__` and `forward`, without indentation.
fn lines(translation: &Translation) -> Vec<&str> {
    let code = translation.code.as_ref().unwrap();
    let body = code.lines().skip_while(|line| !line.starts_with("class"));
    body.map(str::trim)
        .filter(|line| line.starts_with("self.") || line.contains(" = ") || line.starts_with("return"))
        .collect()
}

fn dense(name: &str, input: &str) -> Value {
    let parameters = json!({ "weight": format!("{name}/kernel"), "bias": format!("{name}/bias") });
    node(name, "Gemm", &[input], json!({ "parameters": parameters }))
}

fn of_role(mut tensor: Tensor, role: Role) -> Tensor {
    tensor.role = role;
    tensor
}
