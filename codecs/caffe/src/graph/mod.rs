//! The layers of a `.prototxt` as a graph of the contract: both have the channels of images first.

mod arithmetic;
mod builder;
mod layers;
mod moves;
mod net;
mod norms;
mod windows;

use crate::read::Model;
use builder::Builder;
use ckpt_api::{File, Graph, Value};
use ckpt_containers::protobuf::Text;
use ckpt_graph::{GraphResult, Length, results};
use net::Net;
use std::collections::HashMap;

/// Layers that no graph has: what they make is computed of their inputs outside of it, with all that takes nothing else.
const LEFT_OUT: [&str; 5] = ["Accuracy", "DetectionOutput", "HDF5Output", "PriorBox", "Silence"];

/// A graph and what it does not show; or why there is none.
pub(crate) type Built = Result<(Graph, Vec<String>), String>;

/// Builds the graph of a text with the blobs of a model, whose `file` has the numbers that decide how layers are built.
pub(crate) fn build(text: &Text, model: &Model, file: &File) -> Built {
    let net = Net::of(text)?;
    let mut builder = Builder::new(model, file);
    let mut inputs = Vec::new();
    for (name, dims) in &net.inputs {
        let shape: Vec<Option<u64>> =
            [None].into_iter().chain(dims.iter().skip(1).copied().map(Some)).collect();
        inputs.push(Value::new(builder.input(name, dims.clone()), shape));
    }
    let (mut left_out, mut makers) = (Vec::new(), HashMap::new());
    for layer in &net.layers {
        let shown = format!("layer '{}' ({})", layer.name.escape_debug(), layer.kind);
        let maker = |bottom: &&&str| !builder.has(bottom) && makers.contains_key(**bottom);
        let missing: Vec<&&str> = layer.bottoms.iter().filter(maker).collect();
        let is_of_others = !missing.is_empty() && missing.len() == layer.bottoms.len();
        if LEFT_OUT.contains(&layer.kind) || layer.kind.ends_with("Loss") || is_of_others {
            makers.extend(layer.tops.iter().map(|top| (*top, left_out.len())));
            left_out.push(shown);
            continue;
        }
        if let Some(maker) = missing.first().and_then(|bottom| left_out.get(*makers.get(**bottom)?)) {
            return Err(format!("{shown} takes the result of {maker}, which no graph has"));
        }
        builder.begin(layer);
        layers::add(&mut builder, layer).map_err(|why| format!("{shown} {why}"))?;
    }
    let outputs: Vec<GraphResult> = (builder.results().into_iter())
        .map(|(name, val)| {
            let dims = val.dims.iter().enumerate().map(|(axis, len)| match axis {
                0 => Length::Unknown,
                _ => Length::from(*len),
            });
            GraphResult { value: val.name, dims: dims.collect(), name }
        })
        .collect();
    if outputs.is_empty() {
        return Err("no layer makes a result".to_owned());
    }
    let mut graph = Graph { name: net.name, inputs, nodes: builder.nodes.list, outputs: Vec::new() };
    results::finish_named(&mut graph, outputs);
    let notes = match left_out.is_empty() {
        true => Vec::new(),
        false => vec![format!("{} not in the graph, whose outputs are what they take", are(&left_out))],
    };
    Ok((graph, notes))
}

fn are(left_out: &[String]) -> String {
    format!("{} {}", ckpt_api::first_few(left_out, 6), if left_out.len() == 1 { "is" } else { "are" })
}
