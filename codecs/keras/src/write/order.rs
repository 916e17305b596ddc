//! Whether the numbers of a model's layers follow from its graph.

use ckpt_api::{Graph, Loss, LossKind, Node};
use std::collections::{BTreeMap, HashMap, HashSet};

/// The tensors of the layers of one class, with the numbers of the layers.
type Numbered<'a> = HashMap<&'a str, usize>;

/// The losses of weights without a configuration, whose layers a graph numbers: Keras finds them by the order of the
/// layers of their class in the model, which is the graph's only if each layer needs what the one before it made.
/// Each variable is given by its path and its tensor.
pub(crate) fn losses<'a>(graph: &Graph, variables: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<Loss> {
    let mut classes: BTreeMap<&str, Numbered<'_>> = BTreeMap::new();
    for (path, tensor) in variables {
        let Some(layer) = path.split('/').nth(1) else { continue };
        let (class, number) = numbered(layer);
        classes.entry(class).or_default().entry(tensor).or_insert(number);
    }
    let loss = |(class, tensors): (&str, &Numbered<'_>)| {
        let number = first_in_doubt(graph, tensors)?;
        let detail = format!(
            "the graph does not show which of two layers comes first in the model, 'layers/{class}' or one like it: \
             Keras would load the weights of one into the other; write .keras or .h5, or convert with --arch and the \
             .keras file of the model"
        );
        let layer = format!("layers/{class}_{number}");
        Some(Loss::new(LossKind::Convention, &layer, detail))
    };
    classes.iter().filter_map(|(class, tensors)| loss((class, tensors))).collect()
}

/// Whether the order of layers follows from the graph: each needs what the one before it made. Each tensor is given with the
/// number of its layer.
pub(crate) fn is_certain<'a>(graph: &Graph, tensors: impl Iterator<Item = (&'a str, usize)>) -> bool {
    first_in_doubt(graph, &tensors.collect()).is_none()
}

/// The class and the number of a layer: `dense_1` is number 1.
fn numbered(layer: &str) -> (&str, usize) {
    let parts = layer.rsplit_once('_');
    let parts = parts.and_then(|(class, number)| Some((class, number.parse().ok()?)));
    parts.unwrap_or((layer, 0))
}

/// The number of the first layer that does not need what the layer of the number before it made.
fn first_in_doubt(graph: &Graph, tensors: &Numbered<'_>) -> Option<usize> {
    // Of each value, the highest number of a layer that it was made with.
    let mut highest: HashMap<&str, usize> = HashMap::new();
    let mut follows: HashSet<usize> = HashSet::new();
    let own = |node: &Node| -> Vec<usize> {
        node.parameters.values().filter_map(|tensor| tensors.get(tensor.as_str()).copied()).collect()
    };
    for node in &graph.nodes {
        let before = node.inputs.iter().filter_map(|input| highest.get(input.as_str()).copied()).max();
        let own = own(node);
        follows.extend(own.iter().copied().filter(|number| number.checked_sub(1) == before));
        let after = own.into_iter().max().max(before);
        if let Some(after) = after {
            highest.extend(node.outputs.iter().map(|output| (output.as_str(), after)));
        }
    }
    let mut numbers: Vec<usize> = tensors.values().copied().filter(|number| *number > 0).collect();
    numbers.sort_unstable();
    numbers.into_iter().find(|number| !follows.contains(number))
}
