//! What an optimizer keeps: its counters, its hyper-parameters, and the slots of the tensors that it trains.

use super::Files;
use super::describe::names;
use crate::format::{OPTIMIZER_WEIGHTS, WEIGHT_NAMES};
use ckpt_api::{Role, Slot, Tensor, TensorId};
use std::collections::HashMap;

/// Where `.weights.h5` files store it.
const GROUP: &str = "optimizer/";
/// The optimizer that one of scaled losses has.
const INNER: &str = "optimizer/inner_optimizer/";

/// Gives the tensors of an optimizer their roles, and the slots of those that it trains.
pub(super) fn assign(files: &Files, trained: &[TensorId], tensors: &mut [Tensor]) {
    let optimizer = Optimizer::of(files);
    for prefix in [GROUP, INNER] {
        assign_by_number(optimizer.as_ref(), &format!("{prefix}vars/"), trained, tensors);
    }
    assign_by_name(files, tensors);
    for tensor in tensors.iter_mut() {
        let is_own = tensor.name.starts_with(GROUP) || tensor.name.starts_with(OPTIMIZER_WEIGHTS);
        if is_own && tensor.role == Role::Weight {
            tensor.role = Role::Optimizer;
        }
    }
}

/// An optimizer by its class: the names of its slots, and whether those of one tensor lie together.
struct Optimizer {
    slots: &'static [&'static str],
}

impl Optimizer {
    /// Finds the optimizer in the configuration.
    fn of(files: &Files) -> Option<Self> {
        let parsed = |text: &String| serde_json::from_str::<serde_json::Value>(text).ok();
        let compiled = files.config.as_ref().and_then(parsed);
        let compiled = compiled.as_ref().and_then(|config| config.get("compile_config")).cloned();
        let config = compiled.or_else(|| files.training.as_ref().and_then(parsed))?;
        let optimizer = config.get("optimizer").or_else(|| config.get("optimizer_config"))?;
        let inner = optimizer.get("config").and_then(|config| config.get("inner_optimizer"));
        let optimizer = inner.unwrap_or(optimizer);
        let flag = |key: &str| {
            let value = optimizer.get("config").and_then(|config| config.get(key));
            value.is_some_and(|value| {
                value.as_bool() == Some(true) || value.as_f64().is_some_and(|n| n != 0.0)
            })
        };
        let class = optimizer.get("class_name").and_then(|class| class.as_str())?;
        let slots: &'static [&'static str] = match class.rsplit('>').next().unwrap_or(class) {
            "Adam" | "AdamW" | "Nadam" | "Lamb" if !flag("amsgrad") => &["m", "v"],
            "Adamax" => &["m", "u"],
            "SGD" if flag("momentum") => &["momentum"],
            "Lion" => &["m"],
            "Adagrad" => &["accumulator"],
            "RMSprop" if !flag("momentum") && !flag("centered") => &["rms"],
            _ => return None,
        };
        Some(Optimizer { slots })
    }
}

/// Variables by number: the step, in Keras 3 the learning rate, and the slots of each trained tensor.
fn assign_by_number(
    optimizer: Option<&Optimizer>,
    prefix: &str,
    trained: &[TensorId],
    tensors: &mut [Tensor],
) {
    let numbered = |tensor: &Tensor| tensor.name.strip_prefix(prefix)?.parse::<usize>().ok();
    let by_number: HashMap<usize, usize> =
        tensors.iter().enumerate().filter_map(|(id, tensor)| Some((numbered(tensor)?, id))).collect();
    let Some(first) = by_number.get(&0).and_then(|id| tensors.get_mut(*id)) else { return };
    if first.shape.rank() == 0 && !first.dtype.is_float() {
        first.role = Role::Counter;
    }
    let Some(optimizer) = optimizer else { return };
    let slots = trained.len() * optimizer.slots.len();
    // Momentums of some versions follow the step at once.
    let Some(before) = by_number.len().checked_sub(slots).filter(|before| (1..=2).contains(before)) else {
        return;
    };
    for (number, variable) in trained.iter().enumerate() {
        for (own, name) in optimizer.slots.iter().enumerate() {
            let at = before + number * optimizer.slots.len() + own;
            set_slot(tensors, by_number.get(&at).copied(), *variable, name);
        }
    }
}

/// Makes a tensor the slot of another one, if it has its shape.
fn set_slot(tensors: &mut [Tensor], slot: Option<usize>, variable: TensorId, name: &str) {
    let Some(of) = tensors.get(variable.0).map(|own| (own.name.clone(), own.shape.clone())) else { return };
    let (variable, shape) = of;
    if let Some(tensor) = slot.and_then(|slot| tensors.get_mut(slot)).filter(|tensor| tensor.shape == shape) {
        tensor.role = Role::Optimizer;
        tensor.slot = Some(Box::new(Slot { variable, name: name.to_owned() }));
    }
}

/// Variables of `.h5` files by their names, which those of the model are in.
fn assign_by_name(files: &Files, tensors: &mut [Tensor]) {
    let Some(part) = files.parts.first() else { return };
    let group = format!("{OPTIMIZER_WEIGHTS}/");
    let mut variables: HashMap<String, TensorId> = HashMap::new();
    let ids: HashMap<String, usize> =
        tensors.iter().enumerate().map(|(id, tensor)| (tensor.name.clone(), id)).collect();
    for own in &part.tree.groups {
        for name in names(&own.attributes, WEIGHT_NAMES).unwrap_or_default() {
            if let Some(id) =
                ids.get(&format!("{}/{name}", own.path)).filter(|_| !own.path.starts_with(OPTIMIZER_WEIGHTS))
            {
                variables.insert(name.replace('/', "_"), TensorId(*id));
                variables.insert(name, TensorId(*id));
            }
        }
    }
    let own: Vec<(usize, String)> =
        ids.into_iter().filter_map(|(name, id)| Some((id, name.strip_prefix(&group)?.to_owned()))).collect();
    for (id, name) in own {
        if name.rsplit('/').next().is_some_and(|last| ["iteration", "iteration:0", "iter:0"].contains(&last))
        {
            if let Some(tensor) = tensors.get_mut(id) {
                tensor.role = Role::Counter;
            }
        } else if let Some((slot, variable)) = slot_of(&name, &variables) {
            set_slot(tensors, Some(id), variable, slot);
        }
    }
}

/// Returns the slot and the variable that a name is made of: `m/dense/kernel:0`, `Adam/v/dense/kernel:0`,
/// `Adam/dense/kernel/m:0`, or `adam/model_dense_kernel_momentum`.
fn slot_of(name: &str, variables: &HashMap<String, TensorId>) -> Option<(&'static str, TensorId)> {
    const SLOTS: [(&str, &str); 6] = [
        ("m", "m"),
        ("v", "v"),
        ("vhat", "vhat"),
        ("momentum", "momentum"),
        ("velocity", "rms"),
        ("rms", "rms"),
    ];
    let is_adam = name.to_ascii_lowercase().contains("adam");
    let named = |slot: &str| {
        let known = SLOTS.iter().find(|(own, _)| *own == slot).map(|(_, name)| *name);
        match (known, is_adam) {
            (Some("momentum"), true) => Some("m"),
            (Some("rms"), true) => Some("v"),
            (known, _) => known,
        }
    };
    let rest = match name.split_once('/') {
        Some((first, rest)) if named(first).is_none() => rest,
        _ => name,
    };
    if let Some((slot, variable)) = rest.split_once('/')
        && let (Some(slot), Some(id)) = (named(slot), variables.get(variable))
    {
        return Some((slot, *id));
    }
    if let Some((variable, slot)) = rest.rsplit_once('/')
        && let Some(slot) = named(slot.trim_end_matches(":0"))
        && let Some(id) = variables.get(&format!("{variable}:0")).or_else(|| variables.get(variable))
    {
        return Some((slot, *id));
    }
    let (variable, slot) = rest.rsplit_once('_')?;
    Some((named(slot)?, *variables.get(variable)?))
}
