//! Which tensors are the variables of a model.

use super::{Files, Part};
use crate::config::{Variable, Variables};
use crate::format::{LAYER_NAMES, MODEL_WEIGHTS, WEIGHT_NAMES};
use ckpt_api::{Tensor, TensorId};
use ckpt_hdf5::{Attribute, AttributeValue, attribute};
use std::collections::{BTreeMap, HashMap, HashSet};

/// The variables of a model, and the tensors of those that the files have, by the variables' names.
pub(super) struct Bound {
    pub(super) variables: Variables,
    pub(super) ids: HashMap<String, TensorId>,
}

impl Bound {
    /// Returns a tensor that is stored among the variables of a layer, and is none that the configuration shows: the
    /// layer computes with it, and nobody knows what. Layers within an attention can be quantized, for instance.
    pub(super) fn unshown<'t>(&self, tensors: &'t [Tensor]) -> Option<&'t str> {
        let shown: HashSet<TensorId> = self.ids.values().copied().collect();
        let groups: HashSet<&str> = self.variables.list.iter().filter_map(|own| parent(&own.path)).collect();
        let mut all = tensors.iter().enumerate();
        let is_unshown = |(id, tensor): &(usize, &Tensor)| {
            parent(&tensor.name).is_some_and(|group| groups.contains(group))
                && !shown.contains(&TensorId(*id))
        };
        all.find(is_unshown).map(|(_, tensor)| tensor.name.as_str())
    }
}

/// The group of a dataset.
pub(crate) fn parent(path: &str) -> Option<&str> {
    path.rsplit_once('/').map(|(group, _)| group)
}

/// Returns the tensor of each variable: by its path or, in `.h5` files, by its position in its layer's list. A list in
/// another order than the configuration's is not used: those of quantized layers and of layers with LoRA are.
pub(super) fn find(
    files: &Files,
    variables: &[Variable],
    tensors: &HashMap<&str, TensorId>,
) -> Vec<Option<TensorId>> {
    let mut lists = files.parts.first().map(weight_lists).unwrap_or_default();
    let mut groups: HashMap<&str, Vec<&Variable>> = HashMap::new();
    let mut ordered: Vec<&str> = Vec::new();
    for variable in variables {
        let own = groups.entry(&variable.group).or_default();
        if own.is_empty() {
            ordered.push(&variable.group);
        }
        own.push(variable);
    }
    lists.by_order(&ordered, &groups, files.joins_by_order);
    lists.0.retain(|group, list| groups.get(group).is_none_or(|own| is_in_order(own, list)));
    let lists = lists.0;
    let of = |variable: &Variable| {
        if let Some(id) = tensors.get(variable.path.as_str()) {
            return Some(*id);
        }
        let path = lists.get(variable.group.as_str())?.get(variable.position)?;
        tensors.get(path.as_str()).copied()
    };
    variables.iter().map(of).collect()
}

/// Whether a layer's list names its variables in their order, or has other names than Keras 2 and 3 give.
fn is_in_order(variables: &[&Variable], list: &[String]) -> bool {
    let role = |path: &String| {
        let last = path.rsplit('/').next().unwrap_or_default();
        last.split_once(':').map_or(last, |(role, _)| role).to_owned()
    };
    let listed: Vec<String> = list.iter().map(role).collect();
    let is_named = variables.iter().any(|own| listed.iter().any(|role| role == own.role));
    !is_named || variables.iter().all(|own| listed.get(own.position).is_some_and(|role| role == own.role))
}

/// The paths of the weights that an `.h5` file lists for each layer, and the layers in their order.
#[derive(Default)]
pub(super) struct Lists<'p>(BTreeMap<&'p str, Vec<String>>, Vec<String>);

impl<'p> Lists<'p> {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Gives the lists the names of the model's layers. Keras takes the lists in their order, whatever the layers are called:
    /// names of layers without one count up in each program. Lists of these names keep them unless `replaces_names`.
    fn by_order(
        &mut self,
        layers: &[&'p str],
        variables: &HashMap<&'p str, Vec<&Variable>>,
        replaces_names: bool,
    ) {
        let Lists(lists, names) = self;
        let mut listed: Vec<Vec<String>> = Vec::new();
        for name in names.iter() {
            listed.extend(lists.get(name.as_str()).filter(|list| !list.is_empty()).cloned());
        }
        let is_named = !replaces_names && layers.iter().all(|layer| lists.contains_key(layer));
        let pairs = || layers.iter().zip(&listed);
        let fits = |(layer, list): (&&str, &Vec<String>)| {
            variables.get(*layer).is_some_and(|own| own.len() == list.len())
        };
        if !is_named && listed.len() == layers.len() && pairs().all(fits) {
            *lists = layers.iter().copied().zip(listed).collect();
        }
    }
}

/// Returns the lists of an `.h5` file: of a whole model, or of its weights alone.
pub(super) fn weight_lists(part: &Part) -> Lists<'_> {
    let groups = &part.tree.groups;
    let is_whole = groups.iter().any(|group| group.path == MODEL_WEIGHTS);
    let root = if is_whole { MODEL_WEIGHTS } else { "" };
    let order = groups.iter().find(|group| group.path == root);
    let order = order.and_then(|group| names(&group.attributes, LAYER_NAMES)).unwrap_or_default();
    if !is_whole && order.is_empty() {
        return Lists::default();
    }
    let list = groups.iter().filter_map(|group| {
        let layer = match is_whole {
            true => group.path.strip_prefix(MODEL_WEIGHTS)?.strip_prefix('/')?,
            false => group.path.as_str(),
        };
        let names = names(&group.attributes, WEIGHT_NAMES)?;
        Some((layer, names.into_iter().map(|name| format!("{}/{name}", group.path)).collect()))
    });
    Lists(list.collect(), order)
}

/// Returns a list of names, which Keras splits into several attributes if it is long.
pub(super) fn names(attributes: &[Attribute], name: &str) -> Option<Vec<String>> {
    let texts = |name: &str| match attribute(attributes, name) {
        Some(AttributeValue::Texts(texts)) => {
            Some(texts.iter().map(|text| String::from_utf8_lossy(text).into_owned()).collect::<Vec<_>>())
        }
        _ => None,
    };
    if let Some(names) = texts(name) {
        return Some(names);
    }
    let parts = (0..attributes.len()).map_while(|number| texts(&format!("{name}{number}")));
    Some(parts.flatten().collect::<Vec<_>>()).filter(|names: &Vec<String>| !names.is_empty())
}
