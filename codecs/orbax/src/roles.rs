//! Which tensors are the state of an optimizer, and of which weights.

use ckpt_api::{Role, Slot, Tensor};
use std::collections::HashMap;

/// Parts of names that say that a tensor is an optimizer's.
const OPTIMIZERS: [&str; 5] = ["opt_state", "optimizer_state", "opt", "optimizer_variables", "param_states"];

/// What optax and T5X call a slot, and what all formats do.
const SLOTS: [(&str, &str); 4] = [("mu", "m"), ("nu", "v"), ("nu_max", "vhat"), ("trace", "momentum")];

/// Numbers that count.
const COUNTERS: [&str; 6] = ["step", "count", "mini_step", "gradient_step", "iterations", "iteration"];

/// The most parts of a weight's name that a slot may leave out.
const MOST_LEFT_OUT: usize = 3;

/// Sets the roles of tensors, by their names.
pub(crate) fn assign(tensors: &mut [Tensor]) {
    let mut slots = Vec::new();
    for (index, tensor) in tensors.iter_mut().enumerate() {
        let name = tensor.name.to_string();
        let parts: Vec<&str> = name.split('.').collect();
        // nnx adds `value` to every name.
        let last = parts.iter().rev().find(|part| **part != "value").copied().unwrap_or_default();
        let is_scalar = tensor.shape.rank() == 0;
        let optimizer = parts.iter().position(|part| OPTIMIZERS.contains(part));
        let slot = parts.iter().position(|part| SLOTS.iter().any(|(own, _)| own == part));
        tensor.role = match (optimizer, slot) {
            _ if is_scalar && COUNTERS.contains(&last) => Role::Counter,
            (None, None) if parts.contains(&"metrics_variables") => Role::Counter,
            // optax is also saved without a name of its own: `1.0.mu.dense.kernel`.
            (None, Some(at)) if parts.iter().take(at).all(|part| part.parse::<u64>().is_ok()) && at > 0 => {
                Role::Optimizer
            }
            (None, _) => Role::Weight,
            (Some(_), _) => Role::Optimizer,
        };
        if let (Role::Optimizer, Some(at)) = (tensor.role, slot)
            && let Some((own, rest)) = parts.get(at..).and_then(<[&str]>::split_first)
            && let Some((_, name)) = SLOTS.iter().find(|(slot, _)| slot == own)
        {
            slots.push((index, rest.join("."), (*name).to_owned()));
        }
    }
    let weights = weights(tensors);
    for (index, rest, name) in slots {
        let Some([Some(weight)]) = weights.get(&rest).map(Vec::as_slice) else { continue };
        let variable = tensors.get(*weight).map(|weight| (weight.name.clone(), weight.shape.clone()));
        if let (Some(tensor), Some((variable, shape))) = (tensors.get_mut(index), variable)
            && tensor.shape == shape
        {
            tensor.slot = Some(Box::new(Slot { variable, name }));
        }
    }
}

/// Weights by their names, and by what is left of these without the first parts.
fn weights(tensors: &[Tensor]) -> HashMap<String, Vec<Option<usize>>> {
    let mut weights: HashMap<String, Vec<Option<usize>>> = HashMap::new();
    for (index, tensor) in tensors.iter().enumerate().filter(|(_, tensor)| tensor.role == Role::Weight) {
        let mut rest = tensor.name.as_str();
        for _ in 0..=MOST_LEFT_OUT {
            weights.entry(rest.to_owned()).or_default().push(Some(index));
            match rest.split_once('.') {
                Some((_, shorter)) => rest = shorter,
                None => break,
            }
        }
    }
    weights
}

#[cfg(test)]
mod tests {
    use super::*;
    use ckpt_api::{DType, Shape};

    fn assigned(names: &[(&str, &[u64])]) -> Vec<(Role, Option<(String, String)>)> {
        let mut tensors: Vec<Tensor> = names
            .iter()
            .map(|(name, dims)| Tensor::new(*name, DType::F32, Shape::new(*dims).unwrap()))
            .collect();
        assign(&mut tensors);
        let slot =
            |tensor: &Tensor| tensor.slot.as_ref().map(|slot| (slot.variable.to_string(), slot.name.clone()));
        tensors.iter().map(|tensor| (tensor.role, slot(tensor))).collect()
    }

    #[test]
    fn state_of_optax_belongs_to_the_weights_of_a_train_state() {
        let found = assigned(&[
            ("step", &[]),
            ("params.Dense_0.kernel", &[2, 3]),
            ("opt_state.0.mu.Dense_0.kernel", &[2, 3]),
            ("opt_state.0.nu.Dense_0.kernel", &[2, 3]),
            ("opt_state.0.count", &[]),
            ("opt_state.1.trace.Dense_0.kernel", &[3]),
            ("opt_state.2.lr", &[]),
        ]);
        let slot = |name: &str| Some(("params.Dense_0.kernel".to_owned(), name.to_owned()));
        let expected = [
            (Role::Counter, None),
            (Role::Weight, None),
            (Role::Optimizer, slot("m")),
            (Role::Optimizer, slot("v")),
            (Role::Counter, None),
            (Role::Optimizer, None),
            (Role::Optimizer, None),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_layer_that_is_called_like_a_slot_is_a_weight() {
        let found = assigned(&[("params.mu.kernel", &[2]), ("1.0.mu.kernel", &[2]), ("vae.mu.kernel", &[2])]);
        assert_eq!(
            found.iter().map(|(role, _)| *role).collect::<Vec<_>>(),
            [Role::Weight, Role::Optimizer, Role::Weight]
        );
    }

    #[test]
    fn a_slot_that_two_weights_could_have_names_none() {
        let found = assigned(&[("a.w", &[2]), ("b.w", &[2]), ("opt_state.0.mu.w", &[2])]);
        assert_eq!(found.last(), Some(&(Role::Optimizer, None)));
    }
}
