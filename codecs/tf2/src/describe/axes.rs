//! What axes mean, by the names that TensorFlow's layers give their variables.

use super::objects::Objects;
use super::{Catalog, Entry, last, path, roles};
use ckpt_api::Axis;
use std::collections::{BTreeMap, HashSet};

/// Adds to `axes`, which holds what the graph says, what variables' names say; a slot has its variable's axes.
pub(super) fn label(
    entries: &[Entry],
    catalog: &Catalog,
    objects: Option<&Objects>,
    axes: &mut BTreeMap<String, Vec<Axis>>,
) {
    let (mut full_names, mut convolutions) = (BTreeMap::new(), HashSet::new());
    let mut others = HashSet::new();
    if let Some(objects) = objects {
        full_names.extend(objects.values().map(|(_, value)| (value.key.as_str(), value.full_name.as_str())));
        for id in 0..objects.nodes.len() {
            // Keras 3 calls the kernel of a convolution or dense layer `_kernel`, and that of all other layers `kernel`.
            let keras3 = objects.child(id, "_kernel").is_some();
            for (name, child) in
                objects.children(id).filter(|(name, _)| matches!(*name, "kernel" | "_kernel"))
            {
                if let Some(value) = objects.variable(child) {
                    let set = if keras3 && name == "_kernel" { &mut convolutions } else { &mut others };
                    set.insert(value.key.as_str());
                }
            }
        }
    }
    let keras2 = convolutions.is_empty();
    for entry in entries.iter().filter(|entry| entry.dtype.is_float()) {
        let own =
            full_names.get(entry.key).copied().filter(|name| !name.is_empty()).unwrap_or(path(entry.key));
        let image =
            convolutions.contains(entry.key) || keras2 && plain_convolution(own, others.contains(entry.key));
        if let Some(named) = by_name(last(own), entry.shape.rank(), image) {
            axes.entry(entry.key.to_owned()).or_insert(named);
        }
    }
    for (slot, variable) in slots(entries, catalog, objects) {
        let same =
            catalog.get(slot).map(|entry| entry.shape) == catalog.get(variable).map(|entry| entry.shape);
        if let Some(named) = axes.get(variable).filter(|_| same).cloned() {
            axes.insert(slot.to_owned(), named);
        }
    }
}

/// Whether a kernel of rank 4, held as `kernel` by its layer, is an ordinary convolution's, as far as names say.
fn plain_convolution(name: &str, held: bool) -> bool {
    let layer = name.rsplit('/').nth(1).unwrap_or_default();
    held && !layer.contains("transpose") && !layer.contains("depthwise")
}

fn by_name(name: &str, rank: usize, convolution: bool) -> Option<Vec<Axis>> {
    Some(match (name.trim_start_matches('_'), rank) {
        ("kernel" | "recurrent_kernel", 2) => vec![Axis::In, Axis::Out],
        ("kernel", 4) if convolution => vec![Axis::KernelY, Axis::KernelX, Axis::In, Axis::Out],
        ("depthwise_kernel", 4) => vec![Axis::KernelY, Axis::KernelX, Axis::In, Axis::Multiplier],
        ("pointwise_kernel", 4) => vec![Axis::KernelY, Axis::KernelX, Axis::In, Axis::Out],
        ("bias", 1) => vec![Axis::Out],
        ("embeddings", 2) => vec![Axis::Feature, Axis::Out],
        _ => return None,
    })
}

/// Optimisers of one checkpoint whose variables are labelled: a bound on work, far above what models have.
const MOST_OPTIMIZERS: usize = 16;

/// Keys of optimisers' variables with the key of the variable that each trains.
fn slots<'a>(
    entries: &[Entry<'a>],
    catalog: &Catalog,
    objects: Option<&'a Objects>,
) -> Vec<(&'a str, &'a str)> {
    let mut found: Vec<(&str, &str)> =
        entries.iter().filter_map(|entry| Some((entry.key, roles::slot_of(entry, catalog)?))).collect();
    let Some(objects) = objects else { return found };
    let key = |id: usize| objects.variable(id).map(|value| value.key.as_str());
    for slot in objects.nodes.iter().flat_map(|node| &node.slots) {
        found.extend(key(slot.slot).zip(key(slot.original)));
    }
    // Keras 3: the optimiser's lists run beside the list of what it trains.
    let mut seen = HashSet::new();
    let optimizers = roles::optimizers(objects).into_iter().enumerate().filter(|(_, optimizer)| *optimizer);
    for (id, _) in optimizers.take(MOST_OPTIMIZERS) {
        let Some(trained) = objects.child(id, "_trainable_variables") else { continue };
        let trained = objects.numbered(trained, "");
        let lists =
            objects.children(id).filter(|(name, _)| name.starts_with('_') && !name.ends_with("variables"));
        for (_, list) in lists.filter(|(_, list)| seen.insert(*list)) {
            let items = objects.numbered(list, "");
            if items.len() == trained.len() {
                found.extend(
                    items
                        .into_iter()
                        .zip(&trained)
                        .filter_map(|(slot, variable)| key(slot).zip(key(*variable))),
                );
            }
        }
    }
    found
}
