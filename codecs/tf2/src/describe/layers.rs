//! The chain of a bare Keras checkpoint: a Sequential model's layers in order, dense layers by the shape of their kernels.
//!
//! A checkpoint holds no layer types. A layer with a matrix `kernel` and nothing else but a `bias` is dense; what has
//! no variable could be anything (an activation, dropout, flattening), and a convolution's strides and padding are
//! not stored: such a chain is not claimed. Nor is that of a functional model: a sum, a second head or a second use of
//! a layer leaves no trace.

use super::chain::{Chain, Context, MOST_STEPS, Step, Why};
use super::objects::Objects;
use super::roles;
use ckpt_api::{Limit, Limits, Result};

/// The chain; `None` where nothing looks like a Keras model.
///
/// With `chained`, the layers of a functional model are taken to follow one another, and a note says so.
pub(super) fn chain(
    objects: &Objects,
    context: &Context,
    chained: bool,
    limits: &Limits,
) -> Result<Option<Chain>, Why> {
    let Some(layers) = layers(objects, chained, limits)? else {
        return if holds_layers(objects) { Err(Why(UNORDERED.into())) } else { Ok(None) };
    };
    let optimizers = roles::optimizers(objects);
    let mut budget = limits.get(Limit::GraphNodes).min(MOST_FOLLOWED);
    let (mut steps, mut assumed) = (Vec::new(), false);
    for layer in &layers {
        let held = held(objects, layer.id, &optimizers, &mut budget)?;
        if layer.input && held.is_empty() {
            assumed |= layer.assumed;
            continue;
        }
        steps.push(dense(objects, context, layer, &held)?);
        steps.push(Step::Unstated);
    }
    let mut chain = Chain::build("", None, steps, context)?;
    chain.notes.extend(assumed.then(|| ASSUMED.to_owned()));
    Ok(Some(chain))
}

/// References followed: far more than a chain needs, few enough that objects that hold each other end soon.
const MOST_FOLLOWED: u64 = 1 << 18;

const UNORDERED: &str =
    "the object graph holds layers but not the order in which they run (a subclassed model)";

fn holds_layers(objects: &Objects) -> bool {
    let held = |id: usize| ["kernel", "_kernel"].iter().any(|name| objects.child(id, name).is_some());
    (0..objects.nodes.len()).any(held)
}

const FUNCTIONAL: &str = "the checkpoint of a functional model does not say how its layers are connected (if they \
     are all dense and follow one another, say so with --set activations=…)";

const ASSUMED: &str = "the checkpoint of a functional model does not say how its layers are connected: as activations \
     are given, they are taken to follow one another";

struct Layer {
    id: usize,
    /// Where the model may have its input layer.
    input: bool,
    /// If it is the input layer, that the others follow one another is not stated.
    assumed: bool,
    /// How the model calls it, for messages.
    name: String,
}

/// The layers of the first Keras model of the object graph, models within it opened.
fn layers(objects: &Objects, chained: bool, limits: &Limits) -> Result<Option<Vec<Layer>>, Why> {
    let optimizers = roles::optimizers(objects);
    let near = objects.reach([0], |_, _, child| !optimizers[child]);
    let Some(first) = (0..objects.nodes.len()).find(|id| near[*id] && model(objects, *id).is_some()) else {
        return Ok(None);
    };
    let mut budget = limits.get(Limit::GraphNodes).min(MOST_FOLLOWED);
    let mut open: Vec<Layer> = parts(objects, first, chained, &mut budget)?;
    open.reverse();
    let mut found = Vec::new();
    while let Some(layer) = open.pop() {
        let inner = parts(objects, layer.id, chained, &mut budget)?;
        if inner.is_empty() {
            found.push(layer);
        } else {
            open.extend(inner.into_iter().rev());
        }
        // Models that hold each other twice would double for as long as the budget lasts.
        if found.len() + open.len() > MOST_STEPS {
            return Err(Why(format!("there are more than {MOST_STEPS} layers")));
        }
    }
    Ok(Some(found))
}

/// How a model holds its layers.
enum Held {
    /// Keras 3's Sequential: the functional model within it, which begins with an input layer, lists them.
    List(usize),
    /// Keras 2's Sequential or functional model: numbered children; only a functional one has an input layer, first.
    Numbered,
    /// Keras 3's functional model.
    Functional(usize),
}

/// How the model `id` holds its layers; `None` for what is no model. What is written here holds them in both of Keras
/// 3's ways, and only writes chains.
fn model(objects: &Objects, id: usize) -> Option<Held> {
    let functional = objects.child(id, "_functional");
    let list = functional.and_then(|functional| objects.child(functional, "_operations")).map(Held::List);
    let list = list.or_else(|| objects.child(id, "_operations").map(Held::Functional));
    list.or_else(|| objects.child(id, "layer_with_weights-0").map(|_| Held::Numbered))
}

/// The layers of a model, in order; empty for what is no model.
fn parts(objects: &Objects, id: usize, chained: bool, budget: &mut u64) -> Result<Vec<Layer>, Why> {
    let (list, prefix, input, assumed) = match model(objects, id) {
        None => return Ok(Vec::new()),
        Some(Held::Functional(_)) if !chained => return Err(Why(FUNCTIONAL.into())),
        Some(Held::Functional(list)) => (list, "", true, true),
        Some(Held::List(list)) => (list, "", true, false),
        Some(Held::Numbered) => (id, "layer-", chained, true),
    };
    let cost = u64::try_from(objects.children(list).count()).unwrap_or(u64::MAX).saturating_add(1);
    *budget = budget.checked_sub(cost).ok_or_else(endless)?;
    let layers = objects.numbered(list, prefix).into_iter().enumerate();
    let layer = |(place, id): (usize, usize)| Layer {
        id,
        input: input && place == 0,
        assumed,
        name: place.to_string(),
    };
    Ok(layers.map(layer).collect())
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
