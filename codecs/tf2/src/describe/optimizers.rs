//! Optimizer state: slots for each trained variable, and numbers such as the learning rate.

use super::catalog::{Catalog, TensorInfo, last, path};
use super::objects::Objects;
use super::roles;
use ckpt_api::{Limit, Limits, Result, Slot};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Limit on the optimizers that are read, far above what models have; it bounds the work.
const MAX_OPTIMIZERS: usize = 16;

/// Returns the slots by key, each with the key of its variable.
///
/// # Errors
/// [`ckpt_api::Kind::Limit`].
pub(super) fn slots(
    tensors: &[TensorInfo],
    catalog: &Catalog,
    objects: Option<&Objects>,
    names: &BTreeMap<String, String>,
    limits: &Limits,
) -> Result<BTreeMap<String, Slot>> {
    let mut found = Slots { catalog, names, limits, bytes: 0, found: BTreeMap::new() };
    for tensor in tensors {
        if let Some(variable) = roles::slot_of(tensor, catalog) {
            found.add(tensor.key, variable, &tf1_name(last(tensor.key)))?;
        }
    }
    let Some(objects) = objects else { return Ok(found.found) };
    for slot in objects.nodes.iter().flat_map(|node| &node.slots) {
        if let (Some(stored), Some(original)) = (objects.variable(slot.slot), objects.variable(slot.original))
        {
            found.add(&stored.key, &original.key, &slot.name)?;
        }
    }
    let named = variables_by_name(objects);
    for (list, name, trained) in lists(objects) {
        let items = objects.numbered(list, "");
        let trained = trained.map(|trained| objects.numbered(trained, ""));
        if trained.as_ref().is_some_and(|trained| trained.len() != items.len()) {
            continue;
        }
        for (place, item) in items.into_iter().enumerate() {
            let Some(stored) = objects.variable(item) else { continue };
            let original = match &trained {
                Some(trained) => {
                    trained.get(place).and_then(|id| objects.variable(*id)).map(|v| v.key.as_str())
                }
                None => trained_by_name(&stored.full_name, &named),
            };
            if let Some(original) = original {
                found.add(&stored.key, original, &name)?;
            }
        }
    }
    Ok(found.found)
}

/// Returns the names of optimizers' numbers by key: `iteration`, `learning_rate`, `beta_1`, …
pub(super) fn numbers(
    tensors: &[TensorInfo],
    catalog: &Catalog,
    objects: Option<&Objects>,
) -> BTreeMap<String, &'static str> {
    let mut found = BTreeMap::new();
    for tensor in tensors.iter().filter(|tensor| tensor.shape.rank() == 0) {
        let name = last(path(tensor.key));
        if let Some(known) =
            ["beta1_power", "beta2_power", "global_step"].iter().find(|known| **known == name)
        {
            found.insert(tensor.key.to_owned(), *known);
        }
    }
    let Some(objects) = objects else { return found };
    for (id, _) in roles::optimizers(objects).iter().enumerate().filter(|(_, optimizer)| **optimizer) {
        for (edge, child) in objects.children(id) {
            let Some(known) = number(edge) else { continue };
            let key = objects.variable(child).map(|value| value.key.as_str());
            let scalar = key.and_then(|key| catalog.get(key)).filter(|tensor| tensor.shape.rank() == 0);
            if let Some(scalar) = scalar {
                found.insert(scalar.key.to_owned(), known);
            }
        }
    }
    found
}

fn number(edge: &str) -> Option<&'static str> {
    Some(match edge {
        "_iterations" | "iterations" | "iter" => "iteration",
        "_learning_rate" | "learning_rate" => "learning_rate",
        "beta_1" => "beta_1",
        "beta_2" => "beta_2",
        "decay" => "decay",
        "momentum" => "momentum",
        "rho" => "rho",
        "epsilon" => "epsilon",
        _ => return None,
    })
}

struct Slots<'a> {
    catalog: &'a Catalog<'a>,
    names: &'a BTreeMap<String, String>,
    limits: &'a Limits,
    bytes: u64,
    found: BTreeMap<String, Slot>,
}

impl Slots<'_> {
    fn add(&mut self, slot: &str, variable: &str, name: &str) -> Result<()> {
        let stored = self.catalog.contains_key(slot) && self.catalog.contains_key(variable);
        if stored && slot != variable && !self.found.contains_key(slot) {
            // Many slots can belong to a variable with a long name.
            let longest = self.names.get(variable).map_or(0, String::len).max(variable.len());
            self.bytes = self.bytes.saturating_add((longest + name.len()) as u64);
            self.limits.check(Limit::HeaderBytes, self.bytes)?;
            let named = Slot { variable: variable.into(), name: name.to_owned() };
            self.found.insert(slot.to_owned(), named);
        }
        Ok(())
    }
}

/// Returns the canonical name of a TensorFlow 1 slot.
fn tf1_name(slot: &str) -> String {
    match slot {
        "Adam" => "m".to_owned(),
        "Adam_1" => "v".to_owned(),
        _ => slot.to_lowercase(),
    }
}

/// Returns the lists of slots of Keras's optimizers: the list, the slot's name, and the list of trained variables, if
/// any.
fn lists(objects: &Objects) -> Vec<(usize, String, Option<usize>)> {
    let mut seen = HashSet::new();
    let mut found = Vec::new();
    let optimizers = roles::optimizers(objects).into_iter().enumerate().filter(|(_, optimizer)| *optimizer);
    for (id, _) in optimizers.take(MAX_OPTIMIZERS) {
        let trained = objects.child(id, "_trainable_variables");
        for (edge, list) in objects.children(id) {
            let listed = (edge.starts_with('_') || edge == "momentums") && !edge.ends_with("variables");
            if listed && objects.variable(list).is_none() && seen.insert(list) {
                found.push((list, list_name(objects, id, edge), trained));
            }
        }
    }
    found
}

/// Returns the canonical name of a list of slots. Keras 3 calls Adam's moments momentums and velocities, and uses the
/// same words for other slots of RMSprop.
fn list_name(objects: &Objects, optimizer: usize, edge: &str) -> String {
    let has = |name: &str| objects.child(optimizer, name).is_some();
    let rms_prop = has("_average_gradients");
    let name = match edge {
        "_momentums" if has("_velocities") && !rms_prop => "m",
        "_velocities" if rms_prop => "rms",
        "_velocities" if has("_momentums") => "v",
        "_momentums" | "momentums" => "momentum",
        "_velocity_hats" => "vhat",
        "_average_gradients" => "mg",
        _ => edge.trim_start_matches('_'),
    };
    name.to_owned()
}

/// Returns keys by the full names of variables, as they are and with `_` for `/`; `None` for a name that several share.
fn variables_by_name(objects: &Objects) -> HashMap<String, Option<&str>> {
    let mut named = HashMap::new();
    for (_, value) in objects.values().filter(|(_, value)| !value.full_name.is_empty()) {
        let flat = Some(value.full_name.replace('/', "_")).filter(|flat| *flat != value.full_name);
        for name in flat.into_iter().chain([value.full_name.clone()]) {
            let key = named.entry(name).or_insert(Some(value.key.as_str()));
            if *key != Some(value.key.as_str()) {
                *key = None;
            }
        }
    }
    named
}

/// Returns the variable that a slot is named after: `Adam/m/dense/kernel` in Keras 2.11 and later,
/// `adam/dense_kernel_momentum` in Keras 3.
fn trained_by_name<'a>(slot: &str, named: &HashMap<String, Option<&'a str>>) -> Option<&'a str> {
    let (_, rest) = slot.split_once('/')?;
    if let Some((_, variable)) = rest.split_once('/') {
        return named.get(variable).copied().flatten();
    }
    let suffixes = ["_momentum", "_velocity", "_velocity_hat"];
    let variable = suffixes.iter().find_map(|suffix| rest.strip_suffix(suffix))?;
    named.get(variable).copied().flatten()
}
