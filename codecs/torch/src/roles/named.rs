//! Roles by names: `optimizer.state.NAME.exp_avg` is the state of an optimizer.

use super::slot_name;
use ckpt_api::{Role, Slot, Tensor, TensorId};
use std::collections::{BTreeSet, HashMap};

const STATE: &str = "state.";
const GROUPS: &str = "param_groups.";

/// Sets the roles of tensors. An optimizer's names have `state.` and `param_groups.` behind a common beginning; `values`
/// has the names of values that are no tensors.
pub(crate) fn assign(tensors: &mut [Tensor], values: &[String]) {
    let names = tensors.iter().map(|tensor| tensor.name.as_str()).chain(values.iter().map(String::as_str));
    let prefixes: BTreeSet<String> = names.filter_map(|name| prefix(name, GROUPS)).collect();
    if prefixes.is_empty() {
        return;
    }
    let mut slots = Vec::new();
    for (index, tensor) in tensors.iter_mut().enumerate() {
        if prefix(&tensor.name, GROUPS).is_some() {
            tensor.role = Role::Optimizer;
        }
        let Some(prefix) = prefix(&tensor.name, STATE).filter(|prefix| prefixes.contains(prefix)) else {
            continue;
        };
        let rest = tensor.name.get(prefix.len() + STATE.len()..).unwrap_or_default();
        let Some((variable, slot)) = rest.rsplit_once('.') else { continue };
        tensor.role = if slot == "step" { Role::Counter } else { Role::Optimizer };
        if tensor.role == Role::Optimizer {
            slots.push((index, variable.to_owned(), slot_name(slot).to_owned()));
        }
    }
    let weights = weights(tensors);
    for (index, variable, name) in slots {
        let weight = weights.get(last(&variable)).into_iter().flatten();
        let fits = |id: &&TensorId| {
            let (weight, slot) = (tensors.get(id.0), tensors.get(index));
            let same = weight.zip(slot).is_some_and(|(weight, slot)| weight.shape == slot.shape);
            same && weight.is_some_and(|weight| is_named(&weight.name, &variable))
        };
        let mut fitting = weight.filter(fits);
        let Some(id) = fitting.next().filter(|_| fitting.next().is_none()) else { continue };
        let variable = tensors.get(id.0).map(|weight| weight.name.clone());
        if let (Some(tensor), Some(variable)) = (tensors.get_mut(index), variable) {
            *tensor = tensor.clone().with_slot(Slot { variable, name });
        }
    }
}

/// What a name has before `part`, up to a dot.
fn prefix(name: &str, part: &str) -> Option<String> {
    let at = name.find(part)?;
    let prefix = name.get(..at)?;
    (prefix.is_empty() || prefix.ends_with('.')).then(|| prefix.to_owned())
}

/// Weights by the last part of their names.
fn weights(tensors: &[Tensor]) -> HashMap<String, Vec<TensorId>> {
    let mut weights: HashMap<String, Vec<TensorId>> = HashMap::new();
    for (id, tensor) in tensors.iter().enumerate().filter(|(_, tensor)| tensor.role == Role::Weight) {
        weights.entry(last(&tensor.name).to_owned()).or_default().push(TensorId(id));
    }
    weights
}

fn last(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

/// Whether a weight has the name that the optimizer knows it by, perhaps within a branch.
fn is_named(weight: &str, variable: &str) -> bool {
    let branch = weight.strip_suffix(variable);
    branch.is_some_and(|branch| branch.is_empty() || branch.ends_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ckpt_api::{DType, Shape};

    #[test]
    fn state_of_an_optimizer_has_its_role_and_its_weight() {
        let names = [
            "model.a.w",
            "model.w",
            "optim.state.w.exp_avg",
            "optim.state.w.step",
            "optim.state.a.w.exp_avg_sq",
            "state.w.exp_avg",
        ];
        let shape = |name: &str| Shape::new([if name.contains("a.w") { 2 } else { 3 }]).unwrap();
        let mut tensors: Vec<Tensor> =
            names.iter().map(|name| Tensor::new(*name, DType::F32, shape(name))).collect();
        assign(&mut tensors, &["optim.param_groups.0.lr".to_owned()]);
        let found: Vec<(Role, Option<(&str, &str)>)> = tensors
            .iter()
            .map(|tensor| {
                let slot = tensor.slot.as_ref().map(|slot| (slot.variable.as_str(), slot.name.as_str()));
                (tensor.role, slot)
            })
            .collect();
        let expected = [
            (Role::Weight, None),
            (Role::Weight, None),
            (Role::Optimizer, Some(("model.w", "m"))),
            (Role::Counter, None),
            (Role::Optimizer, Some(("model.a.w", "v"))),
            (Role::Weight, None),
        ];
        assert_eq!(found, expected);
    }
}
