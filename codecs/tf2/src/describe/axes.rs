//! What axes mean, by the names that TensorFlow's layers give their variables.

use super::objects::Objects;
use super::{Catalog, Entry, last, path};
use ckpt_api::{Axis, Slot};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Adds to `axes`, which holds what the graph says, what variables' names say; a slot has its variable's axes.
pub(super) fn label(
    entries: &[Entry],
    catalog: &Catalog,
    objects: Option<&Objects>,
    slots: &BTreeMap<String, Slot>,
    axes: &mut BTreeMap<String, Vec<Axis>>,
) {
    let kernels = objects.map(Kernels::find).unwrap_or_default();
    let full_names: HashMap<&str, &str> = objects
        .into_iter()
        .flat_map(Objects::values)
        .map(|(_, value)| (value.key.as_str(), value.full_name.as_str()))
        .filter(|(_, name)| !name.is_empty())
        .collect();
    for entry in entries.iter().filter(|entry| entry.dtype.is_float()) {
        let name = full_names.get(entry.key).copied().unwrap_or(path(entry.key));
        let convolution =
            entry.shape.rank() == 4 && kernels.is_convolution(entry.key, name, objects.is_none());
        let Some(named) = by_name(last(name), entry.shape.rank(), convolution) else { continue };
        if !kernels.contradicts(entry, catalog) {
            axes.entry(entry.key.to_owned()).or_insert(named);
        }
    }
    for (key, slot) in slots {
        let shape = |key: &String| catalog.get(key.as_str()).map(|entry| entry.shape);
        let same = shape(key) == shape(&slot.variable);
        if let Some(named) = axes.get(&slot.variable).filter(|_| same).cloned() {
            axes.insert(key.clone(), named);
        }
    }
}

/// What the objects of layers say about their kernels.
#[derive(Default)]
struct Kernels<'a> {
    /// What Keras 3's convolutions and dense layers hold as `_kernel`.
    convolutions: HashSet<&'a str>,
    /// What layers hold as `kernel`.
    others: HashSet<&'a str>,
    /// The bias that a layer holds beside its kernel.
    biases: HashMap<&'a str, &'a str>,
}

impl<'a> Kernels<'a> {
    fn find(objects: &'a Objects) -> Self {
        let mut kernels = Kernels::default();
        let key = |id: usize| objects.variable(id).map(|value| value.key.as_str());
        for id in 0..objects.nodes.len() {
            for (name, set) in [("_kernel", &mut kernels.convolutions), ("kernel", &mut kernels.others)] {
                let Some(kernel) = objects.child(id, name).and_then(key) else { continue };
                set.insert(kernel);
                if let Some(bias) = objects.child(id, "bias").and_then(key) {
                    kernels.biases.insert(kernel, bias);
                }
            }
        }
        kernels
    }

    /// Whether a kernel of rank 4 is an ordinary convolution's: Keras 3 holds that of no other layer but a dense one as
    /// `_kernel`; else as far as names say. In a `bare` checkpoint names are all there is.
    fn is_convolution(&self, key: &str, name: &str, bare: bool) -> bool {
        let layer = name.rsplit('/').nth(1).unwrap_or_default();
        let plain = !layer.contains("transpose") && !layer.contains("depthwise");
        let named = self.convolutions.is_empty() && plain && (bare || self.others.contains(key));
        self.convolutions.contains(key) || named
    }

    /// Whether the layer's bias says that the last axis is not the one produced.
    fn contradicts(&self, kernel: &Entry, catalog: &Catalog) -> bool {
        let beside = || kernel.key.strip_suffix("kernel").map(|layer| format!("{layer}bias"));
        let bias = match self.biases.get(kernel.key) {
            Some(bias) => catalog.get(bias),
            None => beside().and_then(|bias| catalog.get(bias.as_str())),
        };
        bias.is_some_and(|bias| bias.shape.last() != kernel.shape.last())
    }
}

fn by_name(name: &str, rank: usize, convolution: bool) -> Option<Vec<Axis>> {
    Some(match (name.trim_start_matches('_'), rank) {
        ("kernel" | "recurrent_kernel", 2) => vec![Axis::In, Axis::Out],
        ("kernel", 4) if convolution => vec![Axis::KernelY, Axis::KernelX, Axis::In, Axis::Out],
        ("depthwise_kernel", 4) => vec![Axis::KernelY, Axis::KernelX, Axis::In, Axis::Multiplier],
        ("pointwise_kernel", 4) => vec![Axis::KernelY, Axis::KernelX, Axis::In, Axis::Out],
        ("bias" | "beta" | "gamma" | "moving_mean" | "moving_variance", 1) => vec![Axis::Out],
        ("embeddings", 2) => vec![Axis::Feature, Axis::Out],
        _ => return None,
    })
}
