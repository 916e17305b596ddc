//! The chain of a bare Keras checkpoint: layers in order, dense layers by the shape of their kernels.
//!
//! A checkpoint holds no layer types. A layer with a matrix `kernel` and nothing else but a `bias` is dense; what has
//! no variable could be anything (an activation, dropout, flattening), and a convolution's strides and padding are
//! not stored: such a chain is not claimed.

use super::chain::{Chain, Context, Step, Why};
use super::objects::Objects;
use super::roles;
use ckpt_api::{Limits, Result};

/// The chain; `None` where nothing looks like a Keras model.
pub(super) fn chain(objects: &Objects, context: &Context, limits: &Limits) -> Result<Option<Chain>, Why> {
    let Some(layers) = layers(objects, limits)? else {
        return if holds_layers(objects) { Err(Why(UNORDERED.into())) } else { Ok(None) };
    };
    let optimizers = roles::optimizers(objects);
    let mut budget = limits.graph_nodes;
    let (mut steps, mut notes) = (Vec::new(), Vec::new());
    for (place, layer) in layers.iter().enumerate() {
        let held = held(objects, layer.id, &optimizers, &mut budget)?;
        if held.is_empty() && layer.first && layer.keras2 && place == 0 {
            notes
                .push("the model's first layer has no variables and is taken for its input layer".to_owned());
        }
        if held.is_empty() && layer.first {
            continue;
        }
        steps.push(dense(objects, context, layer, &held)?);
        steps.push(Step::Unstated);
    }
    let mut chain = Chain::build("", None, steps, context)?;
    chain.notes = notes;
    Ok(Some(chain))
}

const UNORDERED: &str =
    "the object graph holds layers but not the order in which they run (a subclassed model)";

fn holds_layers(objects: &Objects) -> bool {
    let held = |id: usize| ["kernel", "_kernel"].iter().any(|name| objects.child(id, name).is_some());
    (0..objects.nodes.len()).any(held)
}

struct Layer {
    id: usize,
    /// The first of its model: an input layer where it has no variables.
    first: bool,
    keras2: bool,
    /// How the model calls it, for messages.
    name: String,
}

/// The layers of the first Keras model of the object graph, models within it opened.
fn layers(objects: &Objects, limits: &Limits) -> Result<Option<Vec<Layer>>, Why> {
    let optimizers = roles::optimizers(objects);
    let near = objects.reach([0], |_, _, child| !optimizers[child]);
    let Some(model) = (0..objects.nodes.len()).find(|id| near[*id] && list(objects, *id).is_some()) else {
        return Ok(None);
    };
    let mut budget = limits.graph_nodes;
    let mut open: Vec<Layer> = parts(objects, model, &mut budget)?;
    open.reverse();
    let mut found = Vec::new();
    while let Some(layer) = open.pop() {
        let inner = parts(objects, layer.id, &mut budget)?;
        if inner.is_empty() {
            found.push(layer);
        } else {
            open.extend(inner.into_iter().rev());
        }
    }
    Ok(Some(found))
}

/// The object that lists a model's layers, how it numbers them, and whether Keras 2 wrote it; `None` for what is no model.
fn list(objects: &Objects, id: usize) -> Option<(usize, &'static str, bool)> {
    let functional = objects.child(id, "_functional").unwrap_or(id);
    let keras3 = objects.child(functional, "_operations").map(|list| (list, "", false));
    keras3.or_else(|| objects.child(id, "layer_with_weights-0").map(|_| (id, "layer-", true)))
}

/// The layers of a model, in order; empty for what is no model.
fn parts(objects: &Objects, id: usize, budget: &mut u64) -> Result<Vec<Layer>, Why> {
    let Some((list, prefix, keras2)) = list(objects, id) else { return Ok(Vec::new()) };
    let cost = u64::try_from(objects.children(list).count()).unwrap_or(u64::MAX).saturating_add(1);
    *budget = budget.checked_sub(cost).ok_or_else(endless)?;
    let layers = objects.numbered(list, prefix).into_iter().enumerate();
    Ok(layers.map(|(place, id)| Layer { id, first: place == 0, keras2, name: place.to_string() }).collect())
}

/// The variables of a layer: its own, by name, and those of the objects within it.
fn held<'a>(
    objects: &'a Objects,
    layer: usize,
    optimizers: &[bool],
    budget: &mut u64,
) -> Result<Vec<(Option<&'a str>, usize)>, Why> {
    let mut found: Vec<(Option<&str>, usize)> = Vec::new();
    let mut seen = std::collections::HashSet::from([layer]);
    let mut open = vec![layer];
    while let Some(id) = open.pop() {
        for (name, child) in objects.children(id) {
            *budget = budget.checked_sub(1).ok_or_else(endless)?;
            if optimizers[child] {
                continue;
            }
            if objects.variable(child).is_some() {
                let own = (id == layer).then_some(name);
                match found.iter_mut().find(|(_, variable)| *variable == child) {
                    Some(known) => known.0 = known.0.or(own),
                    None => found.push((own, child)),
                }
                if found.len() > 64 {
                    return Err(Why(format!("layer '{name}' has very many variables")));
                }
            } else if seen.insert(child) {
                open.push(child);
            }
        }
    }
    Ok(found)
}

fn endless() -> Why {
    Why("the object graph's layers hold each other".into())
}

fn dense(
    objects: &Objects,
    context: &Context,
    layer: &Layer,
    held: &[(Option<&str>, usize)],
) -> Result<Step, Why> {
    let key = |wanted: &[&str]| {
        let own = held.iter().find(|(name, _)| name.is_some_and(|name| wanted.contains(&name)));
        own.and_then(|(_, id)| objects.variable(*id)).map(|value| value.key.clone())
    };
    let (weight, bias) = (key(&["_kernel", "kernel"]), key(&["bias"]));
    let place = &layer.name;
    let Some(weight) = weight else {
        return Err(Why(match held.first() {
            None => format!("layer {place} has no variables, and the checkpoint does not say what it does"),
            Some((_, id)) => {
                let name = objects.variable(*id).map_or("", |value| value.full_name.as_str());
                format!("layer {place} (with '{name}') is not a dense layer")
            }
        }));
    };
    if held.len() != 1 + usize::from(bias.is_some()) {
        return Err(Why(format!("layer {place} (with '{weight}') has more than a kernel and a bias")));
    }
    match context.catalog.get(weight.as_str()).map(|entry| entry.shape.rank()) {
        Some(2) => Ok(Step::Dense { name: None, weight, bias, transposed: false }),
        Some(_) => Err(Why(format!(
            "layer {place} (with '{weight}') looks like a convolution, whose strides and padding a checkpoint does not store"
        ))),
        None => Err(Why(format!("the checkpoint lacks '{weight}'"))),
    }
}
