//! Meanings of axes, from the names that TensorFlow's layers give their variables.

use super::catalog::{Catalog, TensorInfo, last, path};
use super::objects::Objects;
use ckpt_api::{Axis, Slot};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Adds the axes that names of variables show to `axes`, which has those of the graph. A slot has the axes of its
/// variable.
pub(super) fn label(
    tensors: &[TensorInfo],
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
    let by_full_name: HashMap<&str, &str> = full_names.iter().map(|(key, name)| (*name, *key)).collect();
    // Collected first: building a map of sorted keys is several times faster than inserting them one by one.
    let mut by_key = Vec::with_capacity(tensors.len());
    for tensor in tensors.iter().filter(|tensor| tensor.dtype.is_float()) {
        let name = full_names.get(tensor.key).copied().unwrap_or(path(tensor.key));
        let is_convolution =
            tensor.shape.rank() == 4 && kernels.is_convolution(tensor.key, name, objects.is_none());
        let Some(named) = by_name(last(name), tensor.shape.rank(), is_convolution) else { continue };
        let bias = kernels.bias(tensor.key, name, &by_full_name, catalog);
        if !contradicts(tensor, bias) {
            by_key.push((tensor.key.to_owned(), named));
        }
    }
    let of_graph = std::mem::replace(axes, by_key.into_iter().collect());
    axes.extend(of_graph);
    for (key, slot) in slots {
        let shape = |key: &str| catalog.get(key).map(|tensor| tensor.shape);
        let same = shape(key) == shape(&slot.variable);
        if let Some(named) = axes.get(slot.variable.as_str()).filter(|_| same).cloned() {
            axes.insert(key.clone(), named);
        }
    }
}

/// Keys of kernels and biases, from the objects of their layers.
#[derive(Default)]
struct Kernels<'a> {
    /// Variables named `_kernel`, as in Keras 3's dense and convolutional layers.
    convolutions: HashSet<&'a str>,
    /// Variables named `kernel`.
    others: HashSet<&'a str>,
    /// The bias of each kernel's layer.
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

    /// Whether a kernel of rank 4 is that of an ordinary convolution. Only dense and convolutional layers of Keras 3
    /// name their kernel `_kernel`; elsewhere the layer's name decides. `is_bare` means that there is no object graph.
    /// Nor does the one of an export show kernels: it has lists of variables, and no layers.
    fn is_convolution(&self, key: &str, name: &str, is_bare: bool) -> bool {
        let layer = name.rsplit('/').nth(1).unwrap_or_default();
        let is_ordinary = !["transpose", "depthwise", "einsum"].iter().any(|kind| layer.contains(kind))
            && layer.split('_').all(|word| word != "dw");
        let has_no_layers = is_bare || self.others.is_empty();
        let by_name =
            self.convolutions.is_empty() && is_ordinary && (has_no_layers || self.others.contains(key));
        self.convolutions.contains(key) || by_name
    }

    /// The bias of a kernel's layer: by its object, beside it, or by the names that the variables had in the program.
    fn bias<'t>(
        &self,
        key: &str,
        name: &str,
        by_full_name: &HashMap<&str, &str>,
        catalog: &Catalog<'t>,
    ) -> Option<TensorInfo<'t>> {
        let beside = |name: &str| name.strip_suffix("kernel").map(|layer| format!("{layer}bias"));
        if let Some(bias) = self.biases.get(key) {
            return catalog.get(bias).copied();
        }
        let named = || by_full_name.get(beside(name)?.as_str()).and_then(|bias| catalog.get(bias));
        beside(key).and_then(|bias| catalog.get(bias.as_str())).or_else(named).copied()
    }
}

/// Whether the length of the layer's bias shows that the last axis of a kernel is not the output. Without a bias, a
/// last axis of length 1 may be the multiplier of a depthwise convolution.
fn contradicts(kernel: &TensorInfo, bias: Option<TensorInfo>) -> bool {
    match bias {
        Some(bias) => bias.shape.last() != kernel.shape.last(),
        None => kernel.shape.rank() == 4 && kernel.shape.last() == Some(&1),
    }
}

fn by_name(name: &str, rank: usize, is_convolution: bool) -> Option<Vec<Axis>> {
    Some(match (name.trim_start_matches('_'), rank) {
        ("kernel" | "recurrent_kernel", 2) => vec![Axis::In, Axis::Out],
        ("kernel", 4) if is_convolution => vec![Axis::KernelY, Axis::KernelX, Axis::In, Axis::Out],
        ("depthwise_kernel", 4) => vec![Axis::KernelY, Axis::KernelX, Axis::In, Axis::Multiplier],
        ("pointwise_kernel", 4) => vec![Axis::KernelY, Axis::KernelX, Axis::In, Axis::Out],
        ("bias" | "beta" | "gamma" | "moving_mean" | "moving_variance", 1) => vec![Axis::Out],
        ("embeddings", 2) => vec![Axis::Feature, Axis::Out],
        _ => return None,
    })
}
