//! What an optimizer keeps: its counters, its hyper-parameters, and the slots of the tensors that it trains.

use super::Files;
use super::variables::{Bound, names};
use crate::config::{Model, Optimizer};
use crate::format::{OPTIMIZER_WEIGHTS, WEIGHT_NAMES};
use ckpt_api::{Name, Role, Slot, Tensor, TensorId};
use std::collections::HashMap;

/// Where `.weights.h5` files store it.
const GROUP: &str = "optimizer/";
/// Last names of a counter in `.h5` files.
const COUNTERS: [&str; 4] = ["iteration", "iteration:0", "iter:0", "iterations:0"];

/// Gives the tensors of an optimizer their roles, and the slots of those that it trains.
pub(super) fn assign(files: &Files, model: Option<(&Model, &Bound)>, tensors: &mut [Tensor]) {
    for tensor in tensors.iter_mut() {
        let Some(rest) = [GROUP, OPTIMIZER_WEIGHTS].iter().find_map(|group| tensor.name.strip_prefix(group))
        else {
            continue;
        };
        let is_counter =
            rest == "vars/0" || rest.rsplit('/').next().is_some_and(|last| COUNTERS.contains(&last));
        let is_count = tensor.shape.rank() == 0 && !tensor.dtype.is_float();
        tensor.role = if is_counter && is_count { Role::Counter } else { Role::Optimizer };
    }
    if let Some((model, bound)) = model {
        assign_slots(files, model, bound, tensors);
    }
}

fn assign_slots(files: &Files, model: &Model, bound: &Bound, tensors: &mut [Tensor]) {
    let of_training = || Optimizer::from_training_config(files.training.as_deref()?, model.generation);
    let Some(optimizer) = model.optimizer.clone().or_else(of_training) else { return };
    let trained: Vec<_> = bound.variables.trained().collect();
    let rank = |id: TensorId| tensors.get(id.0).map(|tensor| tensor.shape.rank());
    let ranks: HashMap<&str, usize> =
        bound.ids.iter().filter_map(|(name, id)| Some((name.as_str(), rank(*id)?))).collect();
    let listed = optimizer.variables(&trained, |variable| ranks.get(variable.name.as_str()).copied());
    let Some(listed) = listed else { return };
    let own: HashMap<Name, usize> =
        tensors.iter().enumerate().map(|(id, tensor)| (tensor.name.clone(), id)).collect();
    let names = files.parts.first().and_then(|part| {
        let group = part.tree.groups.iter().find(|group| group.path == OPTIMIZER_WEIGHTS)?;
        names(&group.attributes, WEIGHT_NAMES)
    });
    for variable in listed {
        let named = || Some(format!("{OPTIMIZER_WEIGHTS}/{}", names.as_ref()?.get(variable.position)?));
        let id = own.get(variable.path.as_str()).copied().or_else(|| own.get(named()?.as_str()).copied());
        let Some(slot) = variable.slot else { continue };
        let trained = bound.ids.get(slot.variable.as_str()).and_then(|id| tensors.get(id.0));
        let Some((name, shape)) = trained.map(|own| (own.name.clone(), own.shape.clone())) else { continue };
        // Of an optimizer that is read wrongly, shapes would differ. A factored slot lacks an axis.
        let is_factor = matches!(slot.name.as_str(), "r" | "c");
        let tensor = id.and_then(|id| tensors.get_mut(id));
        if let Some(tensor) = tensor.filter(|tensor| tensor.shape == shape || is_factor) {
            tensor.role = variable.tensor_role;
            tensor.slot = Some(Box::new(Slot { variable: name, name: slot.name }));
        }
    }
}
