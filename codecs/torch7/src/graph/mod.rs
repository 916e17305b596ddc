//! The layers of a network as a graph of the contract: both have the channels of images first.

mod builder;
mod containers;
mod layers;
mod shapes;
mod windows;

use crate::format::layer;
use crate::read::Named;
use builder::{Builder, Val};
use ckpt_api::Graph;
use ckpt_graph::{GraphResult, Length, results};
use ckpt_torch7_objects::{Id, Objects, Value};

/// What a graph assumes.
pub(crate) const NOTE: &str = "the graph takes a batch of inputs, whose rows and columns the file does not state, and computes what the layers do after training";

/// Builds the graph of the one network of a file; `None` if there is none, and why not if it cannot be built.
pub(crate) fn build(objects: &Objects, named: &Named) -> Option<Result<Graph, String>> {
    let mut networks = networks(objects);
    let network = networks.pop()?;
    if !networks.is_empty() {
        return Some(Err("the file has several networks".to_owned()));
    }
    Some(graph(objects, named, network))
}

/// The first object, if it is a layer, or the layers that it has.
fn networks(objects: &Objects) -> Vec<Id> {
    let is_layer =
        |id: &Id| objects.class(*id).and_then(layer).is_some_and(|kind| !kind.ends_with("Criterion"));
    let Value::Object(root) = objects.root() else { return Vec::new() };
    if is_layer(&root) {
        return vec![root];
    }
    let values = objects.pairs(root).iter().filter_map(|(_, value)| match value {
        Value::Object(id) => Some(*id),
        _ => None,
    });
    let mut found: Vec<Id> = values.filter(is_layer).collect();
    found.sort_unstable();
    found.dedup();
    found
}

fn graph(objects: &Objects, named: &Named, network: Id) -> Result<Graph, String> {
    if objects.class(network) == Some("nn.gModule") {
        return Err("networks of nngraph are not supported".to_owned());
    }
    let mut builder = Builder::new(objects, named);
    let input = builder.input(network)?;
    let inputs = vec![ckpt_api::Value::new(input.name.clone(), input.dims.clone())];
    let made = match containers::run(&mut builder, network, input)? {
        Val::One(value) => vec![("output".to_owned(), value)],
        Val::Table(values) => {
            (1..).zip(values).map(|(number, value): (usize, _)| (format!("output{number}"), value)).collect()
        }
    };
    if made.is_empty() {
        return Err("the network makes no value".to_owned());
    }
    let outputs = made.into_iter().map(|(name, value)| {
        let dims = value.dims.iter().map(|len| len.map_or(Length::Unknown, Length::from)).collect();
        GraphResult { value: value.name, dims, name }
    });
    let outputs = outputs.collect();
    let mut graph = Graph { name: String::new(), inputs, nodes: builder.nodes.list, outputs: Vec::new() };
    results::finish_named(&mut graph, outputs);
    Ok(graph)
}
