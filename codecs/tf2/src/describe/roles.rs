//! Roles of tensors: weights, optimizer state, counters, bookkeeping, duplicates.

use super::catalog::{Catalog, TensorInfo, last, path};
use super::objects::Objects;
use crate::format::OBJECT_GRAPH;
use ckpt_api::{DType, Role};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Returns the roles other than [`Role::Weight`], by key.
pub(super) fn roles(
    tensors: &[TensorInfo],
    catalog: &Catalog,
    objects: Option<&Objects>,
) -> BTreeMap<String, Role> {
    let mut roles = BTreeMap::new();
    let mut known = HashSet::new();
    if let Some(objects) = objects {
        for (key, role) in by_object(objects, catalog) {
            if role != Role::Weight {
                roles.insert(key.to_owned(), role);
            }
            known.insert(key);
        }
        for key in duplicates(objects, catalog) {
            roles.insert(key.to_owned(), Role::Duplicate);
        }
    }
    for tensor in tensors.iter().filter(|tensor| !known.contains(tensor.key)) {
        if let Some(role) = by_name(tensor, catalog) {
            roles.insert(tensor.key.to_owned(), role);
        }
    }
    roles
}

/// Returns for each object whether it is an optimizer. The object graph has no types: its children and its name within
/// its parent tell.
pub(crate) fn optimizers(objects: &Objects) -> Vec<bool> {
    let mut found: Vec<bool> = (0..objects.nodes.len()).map(|id| looks_like_optimizer(objects, id)).collect();
    for id in 0..objects.nodes.len() {
        for (name, child) in objects.children(id) {
            let plain = objects.nodes[child].values.is_empty();
            found[child] |= plain && matches!(name, "optimizer" | "_optimizer");
        }
    }
    if let Some(root) = found.first_mut() {
        *root = false;
    }
    found
}

fn looks_like_optimizer(objects: &Objects, id: usize) -> bool {
    let any = |wanted: &[&str]| wanted.iter().any(|name| objects.child(id, name).is_some());
    !objects.nodes[id].slots.is_empty()
        || any(&["_trainable_variables_indices"])
        || any(&["_iterations", "iterations", "iter"]) && any(&["_learning_rate", "learning_rate"])
}

fn by_object<'a>(objects: &'a Objects, catalog: &Catalog) -> Vec<(&'a str, Role)> {
    let optimizer = optimizers(objects);
    let metric = |name: &str| matches!(name, "metrics" | "_metrics" | "_compile_metrics" | "_loss_tracker");
    // A Keras 3 optimizer lists the model's own variables in `_trainable_variables`, and may be saved without the
    // model.
    let trained: HashSet<usize> = (0..objects.nodes.len())
        .filter(|id| optimizer[*id])
        .filter_map(|id| objects.child(id, "_trainable_variables"))
        .collect();
    let trained = trained.iter().flat_map(|list| objects.children(*list).map(|(_, id)| id));
    let model =
        objects.reach([0].into_iter().chain(trained), |_, name, child| !optimizer[child] && !metric(name));
    let optimizers = (0..objects.nodes.len()).filter(|id| optimizer[*id]);
    let training = objects.reach(optimizers, |_, name, _| name != "_trainable_variables");
    let any = objects.reach([0], |_, _, _| true);
    let slots: HashSet<usize> =
        objects.nodes.iter().flat_map(|node| &node.slots).map(|slot| slot.slot).collect();
    let mut edges: HashMap<usize, HashSet<&str>> = HashMap::new();
    for id in 0..objects.nodes.len() {
        for (name, child) in objects.children(id).filter(|(name, _)| COUNTERS.contains(name)) {
            edges.entry(child).or_default().insert(name);
        }
    }
    let stored = objects.values().filter_map(|(id, value)| {
        let tensor = catalog.get(value.key.as_str())?;
        let counter = edges.contains_key(&id) || COUNTERS.contains(&last(&value.full_name));
        let role = if is_random_state(&value.full_name) || counter && is_count(tensor) {
            Role::Counter
        } else if slots.contains(&id) || !model[id] && training[id] {
            Role::Optimizer
        } else if !model[id] && any[id] {
            Role::Counter
        } else {
            Role::Weight
        };
        Some((value.key.as_str(), role))
    });
    stored.collect()
}

const COUNTERS: &[&str] = &[
    "save_counter",
    "global_step",
    "step",
    "epoch",
    "iter",
    "iteration",
    "iterations",
    "_iteration",
    "_iterations",
];

fn is_count(tensor: &TensorInfo) -> bool {
    let integer = matches!(tensor.dtype, DType::I64 | DType::I32 | DType::U64 | DType::U32);
    integer && tensor.shape.rank() == 0
}

/// Whether this is the state of dropout's random generator. Like a counter, it does not take part in inference.
fn is_random_state(full_name: &str) -> bool {
    last(full_name) == "seed_generator_state"
}

/// Returns the keys of second copies: Keras 3's export stores each variable under `variables`, and again under
/// `_all_variables`, in another order.
fn duplicates<'a>(objects: &'a Objects, catalog: &Catalog) -> Vec<&'a str> {
    let list = |name: &str| -> Vec<usize> {
        let list = objects.child(0, name);
        list.into_iter().flat_map(|list| objects.numbered(list, "")).collect()
    };
    let (first, second) = (list("variables"), list("_all_variables"));
    let originals: HashSet<usize> = first.iter().copied().collect();
    let kind = |id: usize| {
        let value = objects.variable(id)?;
        let tensor = catalog.get(value.key.as_str())?;
        Some((value.full_name.as_str(), tensor.dtype, tensor.shape))
    };
    let mut groups: HashMap<_, (usize, Vec<usize>)> = HashMap::new();
    for id in first {
        if let Some(kind) = kind(id) {
            groups.entry(kind).or_default().0 += 1;
        }
    }
    for id in second.into_iter().filter(|id| !originals.contains(id)) {
        if let Some(kind) = kind(id) {
            groups.entry(kind).or_default().1.push(id);
        }
    }
    let copies = groups.into_values().filter(|(originals, copies)| copies.len() <= *originals);
    copies.flat_map(|(_, ids)| ids).filter_map(|id| Some(objects.variable(id)?.key.as_str())).collect()
}

/// Returns the role that a key shows without an object graph, as in TensorFlow 1.
fn by_name(tensor: &TensorInfo, catalog: &Catalog) -> Option<Role> {
    let name = path(tensor.key);
    if tensor.key == OBJECT_GRAPH {
        return Some(Role::Bookkeeping);
    }
    if is_count(tensor) && COUNTERS.contains(&last(name)) {
        return Some(Role::Counter);
    }
    let power = tensor.shape.rank() == 0 && matches!(last(name), "beta1_power" | "beta2_power");
    if power || tensor.key.contains("/.OPTIMIZER_SLOT/") || slot_of(tensor, catalog).is_some() {
        return Some(Role::Optimizer);
    }
    None
}

/// Returns the variable that a TensorFlow 1 slot (`dense/kernel/Adam_1`) belongs to.
pub(super) fn slot_of<'a>(tensor: &TensorInfo<'a>, catalog: &Catalog) -> Option<&'a str> {
    const SLOTS: &[&str] =
        &["Adam", "Momentum", "RMSProp", "Adagrad", "Adadelta", "Ftrl", "AdaMax", "Nadam", "LAMB"];
    let slot = last(tensor.key);
    let number = SLOTS.iter().find_map(|name| slot.strip_prefix(name))?;
    let known = number.is_empty() || number.strip_prefix('_')?.parse::<u8>().is_ok();
    let variable = tensor.key.strip_suffix(slot)?.strip_suffix('/')?;
    // The lookup comes last because most keys are not those of slots.
    (known && catalog.get(variable)?.shape == tensor.shape).then_some(variable)
}
