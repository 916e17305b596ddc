//! Reads the chain of a bare Keras checkpoint from its object graph: the dense layers of a Sequential model, in order.
//!
//! A checkpoint stores no layer types. A layer with a matrix `kernel` and at most a `bias` beside it is assumed to be
//! dense, and a note states that. A layer without variables could be anything (an activation, dropout, flattening), and
//! the strides and padding of a convolution are not stored: there is no chain then. A functional model has none either,
//! since a sum, a second head or a second use of a layer leaves no trace.

use super::chain::{Chain, Context, LocatedStep, MAX_STEPS, Step};
use super::no_chain::NoChain;
use super::objects::Objects;
use super::roles;
use ckpt_api::{Limit, Limits, Op, Result, Setting, first_few, text};

/// Returns the chain, or `None` if no object looks like a Keras model.
///
/// With `assume_chain`, the layers of a functional model are assumed to form a chain, and a note states that.
pub(super) fn chain(
    objects: &Objects,
    context: &Context,
    assume_chain: bool,
    limits: &Limits,
) -> Result<Option<Chain>, NoChain> {
    let Some(Layers { layers, is_nested }) = layers(objects, assume_chain, limits)? else {
        return if has_layers(objects) { Err(NoChain::unstated(UNORDERED)) } else { Ok(None) };
    };
    let optimizers = roles::optimizers(objects);
    let mut budget = limits.get(Limit::GraphNodes).min(MAX_FOLLOWED);
    let (mut steps, mut is_assumed) = (Vec::new(), false);
    for layer in &layers {
        let variables = layer_variables(objects, layer.id, &optimizers, &mut budget)?;
        if layer.may_be_input && variables.is_empty() {
            is_assumed |= layer.is_assumed;
            continue;
        }
        for step in [dense(objects, context, layer, &variables)?, Step::UnspecifiedActivation] {
            steps.push(LocatedStep { step, place: format!("layer {}", layer.name) });
        }
    }
    let mut chain = Chain::build("", None, steps, context)?;
    chain.is_nested = is_nested;
    chain.notes.push(assumed_dense(&chain));
    chain.notes.extend(is_assumed.then(|| ASSUMED.to_owned()));
    Ok(Some(chain))
}

/// Limit on the references that are followed: far above what a chain has, and low enough to stop in a circle soon.
const MAX_FOLLOWED: u64 = 1 << 18;

/// Limit on the variables of one layer.
const MAX_VARIABLES: usize = 64;

const UNORDERED: &str =
    "the object graph has layers, but not the order in which they run (a subclassed model)";

/// Whether any object looks like a layer.
fn has_layers(objects: &Objects) -> bool {
    let is_layer = |id: usize| ["kernel", "_kernel"].iter().any(|name| objects.child(id, name).is_some());
    (0..objects.nodes.len()).any(is_layer)
}

/// The reason why the layers of a functional model are no chain.
fn functional() -> NoChain {
    NoChain::unstated(text![
        "the checkpoint of a functional model does not store how its layers are connected (if they are all \
         dense and form a chain, give their activations with ",
        Setting::READ_OPTION.of("activations=…"),
        ")",
    ])
}

const ASSUMED: &str = "the checkpoint of a functional model does not store how its layers are connected: since \
     activations are given, they are assumed to form a chain";

/// The note on layers that are dense only by the names and shapes of their variables: a layer that multiplies by the
/// transposed kernel, such as Keras's `EinsumDense` with `ab,cb->ac`, has the same ones.
fn assumed_dense(chain: &Chain) -> String {
    const SHOWN: usize = 8;
    let dense = chain.graph.nodes.iter().filter(|node| node.op == Op::Gemm);
    let names: Vec<&str> = dense.map(|node| node.name.as_str()).collect();
    format!(
        "the checkpoint does not store what its layers are; assumed to be dense, in the precision of their weights: {}",
        first_few(names, SHOWN)
    )
}

/// A layer of a model.
struct Layer {
    id: usize,
    /// Whether this may be the model's input layer.
    may_be_input: bool,
    /// If this is the input layer: whether the model is functional, so that the chain is an assumption.
    is_assumed: bool,
    /// Position in the model, for messages.
    name: String,
}

/// The layers of a model, in order.
struct Layers {
    layers: Vec<Layer>,
    /// Whether some are layers of a model within the model.
    is_nested: bool,
}

/// Returns the layers of the first Keras model in the object graph, and of the models within it.
fn layers(objects: &Objects, assume_chain: bool, limits: &Limits) -> Result<Option<Layers>, NoChain> {
    let optimizers = roles::optimizers(objects);
    let near = objects.reach([0], |_, _, child| !optimizers[child]);
    let Some(first) = (0..objects.nodes.len()).find(|id| near[*id] && layer_list(objects, *id).is_some())
    else {
        return Ok(None);
    };
    let mut budget = limits.get(Limit::GraphNodes).min(MAX_FOLLOWED);
    let mut open: Vec<Layer> = model_layers(objects, first, assume_chain, &mut budget)?;
    open.reverse();
    let (mut found, mut is_nested) = (Vec::new(), false);
    while let Some(layer) = open.pop() {
        let inner = model_layers(objects, layer.id, assume_chain, &mut budget)?;
        if inner.is_empty() {
            found.push(layer);
        } else {
            is_nested = true;
            open.extend(inner.into_iter().rev());
        }
        // Models that contain each other twice would double until the budget is used up.
        if found.len() + open.len() > MAX_STEPS {
            return Err(NoChain::unsupported(format!("there are more than {MAX_STEPS} layers")));
        }
    }
    Ok(Some(Layers { layers: found, is_nested }))
}

/// How a model lists its layers.
enum LayerList {
    /// Keras 3, Sequential: the operations of the functional model within it, which start with the input layer.
    Sequential(usize),
    /// Keras 2, Sequential or functional: numbered children. Those of a functional model start with the input layer.
    Numbered,
    /// Keras 3, functional: its operations.
    Functional(usize),
}

/// Returns how an object lists its layers, or `None` if it is not a model. A model that this codec wrote has both of
/// Keras 3's lists, and is a chain.
fn layer_list(objects: &Objects, id: usize) -> Option<LayerList> {
    let functional = objects.child(id, "_functional");
    let list = functional.and_then(|functional| objects.child(functional, "_operations"));
    let list = list.map(LayerList::Sequential);
    let list = list.or_else(|| objects.child(id, "_operations").map(LayerList::Functional));
    list.or_else(|| objects.child(id, "layer_with_weights-0").map(|_| LayerList::Numbered))
}

/// Returns the layers of a model, in order, or none for an object that is not a model.
fn model_layers(
    objects: &Objects,
    id: usize,
    assume_chain: bool,
    budget: &mut u64,
) -> Result<Vec<Layer>, NoChain> {
    let (list, prefix, has_input, is_assumed) = match layer_list(objects, id) {
        None => return Ok(Vec::new()),
        Some(LayerList::Functional(_)) if !assume_chain => return Err(functional()),
        Some(LayerList::Functional(list)) => (list, "", true, true),
        Some(LayerList::Sequential(list)) => (list, "", true, false),
        Some(LayerList::Numbered) => (id, "layer-", assume_chain, true),
    };
    let cost = u64::try_from(objects.children(list).count()).unwrap_or(u64::MAX).saturating_add(1);
    *budget = budget.checked_sub(cost).ok_or_else(circle)?;
    let layers = objects.numbered(list, prefix).into_iter().enumerate();
    let layer = |(place, id): (usize, usize)| Layer {
        id,
        may_be_input: has_input && place == 0,
        is_assumed,
        name: place.to_string(),
    };
    Ok(layers.map(layer).collect())
}

/// Returns the variables of a layer with their names, and those of objects within it without names.
fn layer_variables<'a>(
    objects: &'a Objects,
    layer: usize,
    optimizers: &[bool],
    budget: &mut u64,
) -> Result<Vec<(Option<&'a str>, usize)>, NoChain> {
    let mut found: Vec<(Option<&str>, usize)> = Vec::new();
    let mut seen = std::collections::HashSet::from([layer]);
    let mut open = vec![layer];
    while let Some(id) = open.pop() {
        for (name, child) in objects.children(id) {
            *budget = budget.checked_sub(1).ok_or_else(circle)?;
            if optimizers[child] {
                continue;
            }
            if objects.variable(child).is_some() {
                let own = (id == layer).then_some(name);
                match found.iter_mut().find(|(_, variable)| *variable == child) {
                    Some(known) => known.0 = known.0.or(own),
                    None => found.push((own, child)),
                }
                if found.len() > MAX_VARIABLES {
                    return Err(NoChain::unsupported(format!(
                        "layer '{name}' has more than {MAX_VARIABLES} variables"
                    )));
                }
            } else if seen.insert(child) {
                open.push(child);
            }
        }
    }
    Ok(found)
}

fn circle() -> NoChain {
    NoChain::unsupported("the layers of the object graph contain each other")
}

/// Reads a dense layer.
fn dense(
    objects: &Objects,
    context: &Context,
    layer: &Layer,
    variables: &[(Option<&str>, usize)],
) -> Result<Step, NoChain> {
    let key = |wanted: &[&str]| {
        let own = variables.iter().find(|(name, _)| name.is_some_and(|name| wanted.contains(&name)));
        own.and_then(|(_, id)| objects.variable(*id)).map(|value| value.key.clone())
    };
    let (weight, bias) = (key(&["_kernel", "kernel"]), key(&["bias"]));
    let place = &layer.name;
    let Some(weight) = weight else {
        return Err(NoChain::unstated(match variables.first() {
            None => {
                format!(
                    "layer {place} has no variables, and a checkpoint does not store what such a layer computes"
                )
            }
            Some((_, id)) => {
                let name = objects.variable(*id).map_or("", |value| context.shown(&value.key));
                format!("layer {place} (with '{name}') is not a dense layer")
            }
        }));
    };
    if variables.len() != 1 + usize::from(bias.is_some()) {
        return Err(NoChain::unsupported(format!(
            "layer {place} (with '{}') has more than a kernel and a bias",
            context.shown(&weight)
        )));
    }
    match context.catalog.get(weight.as_str()).map(|entry| entry.shape.rank()) {
        Some(2) => Ok(Step::Dense { name: None, weight, bias, is_transposed: false }),
        Some(_) => Err(NoChain::unstated(format!(
            "layer {place} (with '{}') looks like a convolution, and a checkpoint does not store its strides and padding",
            context.shown(&weight)
        ))),
        None => Err(NoChain::unsupported(format!("the checkpoint lacks '{}'", context.shown(&weight)))),
    }
}
