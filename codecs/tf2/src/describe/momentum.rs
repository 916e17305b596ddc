//! The momentum of batch normalizations, which no operation of a SavedModel's graph states.
//!
//! A model computes without it, but continues to train with it: formats that store layers store it, and each has another
//! default.

use super::keras_metadata;
use super::objects::Objects;
use crate::proto::{SavedMetadata, saved_metadata::SavedObject};
use ckpt_api::{Attribute, Graph, Op};
use prost::Message;
use std::collections::HashMap;

/// Keras's default. A SavedModel of Keras 3 does not record the momentum, and few models state another one.
///
/// Without it, a target would take the default of ONNX, 0.9, which is PyTorch's 0.1. Keras's is PyTorch's 0.01.
const DEFAULT: f64 = 0.99;

/// States the momentum of each batch normalization that does not: the one that Keras 2 recorded in `keras_metadata.pb`, or
/// Keras's default.
pub(super) fn state(graph: &mut Graph, objects: Option<&Objects>, keras_metadata: Option<&[u8]>) {
    let mut of_layers: Option<HashMap<String, f64>> = None;
    graph.each_node_mut(|node| {
        if node.op != Op::BatchNormalization || node.attributes.contains_key("momentum") {
            return;
        }
        let of_layers = of_layers.get_or_insert_with(|| {
            let recorded = objects.zip(keras_metadata).and_then(|(objects, bytes)| recorded(bytes, objects));
            recorded.unwrap_or_default()
        });
        let own = node.parameters.get("mean").and_then(|key| of_layers.get(key.as_str()));
        let momentum = Attribute::Float(own.copied().unwrap_or(DEFAULT));
        node.attributes.insert("momentum".into(), momentum);
    });
}

/// Returns the momentum of each layer that records one, by the key of its mean. The size of the bytes was checked before.
fn recorded(bytes: &[u8], objects: &Objects) -> Option<HashMap<String, f64>> {
    let metadata = SavedMetadata::decode(bytes).ok()?;
    let of_layer = |node: &SavedObject| {
        let layer = keras_metadata::object(&node.node_path, objects)?;
        let mean = objects.variable(objects.child(layer, "moving_mean")?)?;
        let momentum = keras_metadata::parse(&node.metadata).ok()?["config"]["momentum"].as_f64()?;
        Some((mean.key.clone(), momentum))
    };
    Some(metadata.nodes.iter().filter_map(of_layer).collect())
}
