//! The layers as a graph of the contract: both have the channels of images first.

mod activation;
mod builder;
mod detection;
mod layers;
mod returned;

use crate::format::{Kind, Layer, Network};
use builder::{Builder, INPUT, shape};
use ckpt_api::{Graph, Value};

pub(crate) use returned::Returned;

/// What a graph of the layers does not show.
pub(crate) fn notes(network: &Network) -> Vec<String> {
    let thresholds = network.layers.iter().filter_map(|layer| match &layer.kind {
        Kind::Detection(detection) if detection.obstacle.is_none() => Some(detection.threshold),
        _ => None,
    });
    let least = thresholds.reduce(f64::max);
    let note = |least| {
        format!(
            "scores of boxes of at most {least} are 0, as in OpenCV, and boxes that overlap are all returned"
        )
    };
    least.map(note).into_iter().collect()
}

/// Builds the graph; `Err` says why there is none. Its outputs are the results that no other layer takes, under the names
/// that OpenCV gives them.
pub(crate) fn build(network: &Network, returned: Returned) -> Result<Graph, String> {
    let mut builder = Builder::new(network.input);
    for (index, layer) in network.layers.iter().enumerate() {
        let place = format!("{index:03}.{}", layer.section);
        if let Some(obstacle) = &layer.obstacle {
            return Err(format!("{place}: {obstacle}"));
        }
        builder.begin(place.clone());
        layers::add(&mut builder, index, layer, returned).map_err(|why| format!("{place} {why}"))?;
    }
    let names: Vec<(usize, String)> = (network.layers.iter().enumerate())
        .filter(|(index, _)| !builder.is_taken(*index))
        .map(|(index, layer)| (index, output_name(index, layer)))
        .collect();
    let input = shape(network.input);
    Ok(builder.finish(Value::new(INPUT, input), &names))
}

/// What OpenCV calls the result of a layer.
fn output_name(index: usize, layer: &Layer) -> String {
    let (kind, activation, has_norm) = match &layer.kind {
        Kind::Convolution { activation, has_norm, .. } => ("conv", Some(activation), *has_norm),
        Kind::Connected { activation, has_norm } => ("fullyConnected", Some(activation), *has_norm),
        Kind::Pool(_) => ("pool", None, false),
        Kind::GlobalMean => ("avgpool", None, false),
        Kind::Route { from, groups: 1, .. } if from.len() == 1 => ("identity", None, false),
        Kind::Route { from, .. } if from.len() == 1 => ("slice", None, false),
        Kind::Route { .. } => ("concat", None, false),
        Kind::Shortcut { activation, .. } => ("shortcut", Some(activation), false),
        Kind::Upsample { .. } => ("upsample", None, false),
        Kind::Reorg { .. } => ("reorg", None, false),
        Kind::Softmax { .. } => ("softmax", None, false),
        Kind::Identity => ("identity", None, false),
        Kind::Detection(detection) if detection.is_yolo => ("yolo", None, false),
        Kind::Detection(_) => return "detection_out".to_owned(),
    };
    match activation {
        Some(activation) if !activation.is_linear() => format!("{}_{}", activation.0, index + 1),
        _ if has_norm => format!("bn_{index}"),
        _ => format!("{kind}_{index}"),
    }
}
