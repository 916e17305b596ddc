//! Steps that give the flattened images of one checkpoint the order that another graph takes them in.

use super::images::{Flattened, flattened, images};
use super::lengths::input_len;
use super::steps::step_to;
use crate::recipe::{AxisStep, Join, Recipe, Target};
use ckpt_api::{Contents, Graph, Result, Tensor};
use std::collections::HashMap;

/// Returns recipes for all tensors, which reorder those that take flattened images so that the order is that of another
/// graph. `None` if it is already, or if the graphs do not show the images.
///
/// # Errors
/// [`ckpt_api::Kind::Mapping`] for numbers that no step takes.
pub(in crate::map) fn steps_to_order_of(other: &Graph, contents: &Contents) -> Result<Option<Vec<Target>>> {
    let Some(graph) = &contents.checkpoint.graph else { return Ok(None) };
    let (own, others) = (flattened(graph), flattened(other));
    let is_alike = |(own, other): (&Flattened, &Flattened)| {
        own.tensors.len() == other.tensors.len() && own.others.is_empty()
    };
    let differ = || own.iter().zip(&others).filter(|(own, other)| own.channels() != other.channels());
    if own.len() != others.len() || !own.iter().zip(&others).all(is_alike) || differ().next().is_none() {
        return Ok(None);
    }
    let tensors: HashMap<&str, &Tensor> =
        contents.checkpoint.tensors.iter().map(|tensor| (tensor.name.as_str(), tensor)).collect();
    let images = images(graph, &tensors);
    let mut steps: HashMap<&str, AxisStep> = HashMap::new();
    for (own, other) in differ() {
        let Some(image) = images.get(&own.node) else { return Ok(None) };
        for name in &own.tensors {
            let inputs = tensors.get(name.as_str()).and_then(|tensor| input_len(tensor));
            let pixels = inputs.and_then(|inputs| inputs.checked_div(image.channels));
            let Some(pixels) = pixels.filter(|pixels| *pixels > 0) else { return Ok(None) };
            let step = format!("{} {pixels} {}", step_to(other.channels()), image.channels);
            steps.insert(name, AxisStep::parse(&step)?);
        }
    }
    let targets = contents.checkpoint.tensors.iter().map(|tensor| {
        let steps = steps.get(tensor.name.as_str()).cloned().into_iter().collect();
        let (name, sources) = (tensor.name.to_string(), vec![tensor.name.to_string()]);
        Target { name, sources, recipe: Recipe { join: Join::One, steps, ..Recipe::default() } }
    });
    Ok(Some(targets.collect()))
}
