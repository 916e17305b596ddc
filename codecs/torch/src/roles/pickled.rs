//! Roles by what a pickle states: the state dicts of optimizers, and the numbers of their parameters.

use super::slot_name;
use ckpt_api::{Name, Role, Slot, Tensor};
use ckpt_containers::pickle::{Id, Tree, Value};
use std::collections::HashMap;

/// Buffers that layers of PyTorch update without an optimizer.
const BUFFERS: [&str; 3] = ["running_mean", "running_var", "num_batches_tracked"];

/// Sets the roles of the tensors of these optimizers, and, if it is certain, which weights they are slots of.
pub(crate) fn assign(tree: &Tree, optimizers: &[(String, Id)], tensors: &mut [Tensor]) {
    let mut slots = Vec::new();
    for (prefix, id) in optimizers {
        let own: Vec<(usize, String)> = tensors
            .iter()
            .enumerate()
            .filter_map(|(index, tensor)| {
                Some((index, tensor.name.strip_prefix(prefix.as_str())?.to_owned()))
            })
            .collect();
        let mut entries = Vec::new();
        for (index, name) in own {
            // A checkpoint that is an optimizer's state has nothing else.
            let parts = name.strip_prefix("state.").and_then(|name| name.split_once('.'));
            let is_counter = parts.is_some_and(|(_, name)| name == "step");
            if let Some(tensor) = tensors.get_mut(index) {
                tensor.role = if is_counter { Role::Counter } else { Role::Optimizer };
            }
            if let Some((parameter, name)) = parts.filter(|_| !is_counter) {
                entries.push((index, parameter.to_owned(), slot_name(name).to_owned()));
            }
        }
        slots.push((parameters(tree, *id, tensors.len()), entries));
    }
    for (parameters, entries) in slots {
        let Some(variables) = weights(tensors, &parameters, &entries) else { continue };
        for (index, parameter, name) in entries {
            let variable = variables.get(&parameter).cloned();
            if let (Some(tensor), Some(variable)) = (tensors.get_mut(index), variable) {
                *tensor = tensor.clone().with_slot(Slot { variable, name });
            }
        }
    }
}

/// The numbers of an optimizer's parameters, in the order in which it was given them.
fn parameters(tree: &Tree, optimizer: Id, tensors: usize) -> Vec<String> {
    let groups = tree.entry(optimizer, "param_groups");
    let Some(Value::List(groups)) = groups.map(|groups| tree.value(groups)) else { return Vec::new() };
    let lists = tree.items(groups).filter_map(|group| match tree.value(tree.entry(group, "params")?) {
        Value::List(list) => Some(list),
        _ => None,
    });
    lists
        .flat_map(|list| tree.items(list))
        .filter_map(|id| tree.int(id))
        // More than there are tensors fit none.
        .take(tensors.saturating_add(1))
        .map(|number| number.to_string())
        .collect()
}

/// The weight that each number stands for: those of the one state dict that has as many weights, all of the shapes of
/// their slots. `None` if none or several have.
fn weights(
    tensors: &[Tensor],
    parameters: &[String],
    entries: &[(usize, String, String)],
) -> Option<HashMap<String, Name>> {
    let mut groups: HashMap<&str, Vec<&Tensor>> = HashMap::new();
    for tensor in tensors.iter().filter(|tensor| tensor.role == Role::Weight) {
        let last = tensor.name.rsplit('.').next().unwrap_or_default();
        if !BUFFERS.contains(&last) {
            let group = tensor.name.split('.').next().unwrap_or_default();
            groups.entry(group).or_default().push(tensor);
        }
    }
    let numbers: HashMap<&str, usize> =
        parameters.iter().enumerate().map(|(place, number)| (number.as_str(), place)).collect();
    let fits = |group: &&Vec<&Tensor>| {
        group.len() == parameters.len()
            && entries.iter().all(|(slot, number, _)| {
                let weight = numbers.get(number.as_str()).and_then(|place| group.get(*place));
                let slot = tensors.get(*slot);
                weight
                    .zip(slot)
                    .is_some_and(|(weight, slot)| slot.shape.rank() == 0 || slot.shape == weight.shape)
            })
    };
    let mut fitting = groups.values().filter(fits);
    let group = fitting.next().filter(|_| fitting.next().is_none() && !entries.is_empty())?;
    let named = parameters.iter().zip(group).map(|(number, weight)| (number.clone(), weight.name.clone()));
    Some(named.collect())
}
