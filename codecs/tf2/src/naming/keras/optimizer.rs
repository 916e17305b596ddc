//! The optimizer state of the source, independent of its naming.

use super::layers::{Model, Variable, permutation};
use crate::describe::OPTIMIZER_NUMBER;
use ckpt_api::{Checkpoint, Role, Tensor, TensorId};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// The state of an optimizer.
#[derive(Debug)]
pub(super) struct Optimizer {
    pub kind: Kind,
    /// Canonical names of the slots of each trained variable.
    pub slots: &'static [&'static str],
    /// Slots of each trained variable.
    trained: HashMap<TensorId, Vec<SlotTensor>>,
    /// Numbers by name: `iteration`, `learning_rate`, …
    numbers: BTreeMap<String, TensorId>,
}

/// A kind of optimizer that all three styles support.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Adam,
    /// Gradient descent, with momentum if there are slots.
    Sgd,
}

/// A slot of one variable.
#[derive(Debug)]
pub(super) struct SlotTensor {
    /// Canonical name.
    pub name: &'static str,
    pub tensor: TensorId,
    /// Stored axis order.
    pub order: Vec<usize>,
}

impl Optimizer {
    /// Returns the slots of a variable in the order of `slots`; none for one that is not trained.
    pub fn slots_of(&self, variable: &Variable) -> &[SlotTensor] {
        self.trained.get(&variable.tensor).map_or(&[], Vec::as_slice)
    }

    /// Returns all tensors of the state.
    pub fn tensors(&self) -> HashSet<TensorId> {
        let slots = self.trained.values().flatten().map(|slot| slot.tensor);
        slots.chain(self.numbers.values().copied()).collect()
    }

    /// Returns the first of these numbers that the source has.
    pub fn number(&self, names: &[&str]) -> Option<TensorId> {
        names.iter().find_map(|name| self.numbers.get(*name).copied())
    }
}

/// Returns the optimizer, or `None` if the source has none or one of another kind.
pub(super) fn find(checkpoint: &Checkpoint, model: &Model) -> Option<Optimizer> {
    let mut slots_by_variable: HashMap<&str, BTreeMap<&str, TensorId>> = HashMap::new();
    let mut numbers = BTreeMap::new();
    for (id, tensor) in checkpoint.tensors.iter().enumerate() {
        if let Some(slot) = tensor.slot.as_ref().filter(|_| tensor.role == Role::Optimizer) {
            slots_by_variable.entry(&slot.variable).or_default().entry(&slot.name).or_insert(TensorId(id));
        }
        if let Some(number) =
            tensor.metadata.text("tf2", OPTIMIZER_NUMBER).filter(|_| tensor.shape.rank() == 0)
        {
            numbers.entry(number.to_owned()).or_insert(TensorId(id));
        }
    }
    let (kind, slots) = kind(&slots_by_variable.values().flat_map(BTreeMap::keys).copied().collect())?;
    if slots.is_empty() && numbers.keys().all(|name| name == "global_step") {
        return None;
    }
    let mut trained = HashMap::new();
    for variable in model.layers.iter().flat_map(|layer| &layer.variables) {
        let Some(tensor) = checkpoint.tensors.get(variable.tensor.0) else { continue };
        let found = slots_by_variable.get(tensor.name.as_str()).filter(|_| !slots.is_empty());
        let Some(found) = found else { continue };
        let all = slots.iter().map(|name| {
            let id = *found.get(name)?;
            let order = order(checkpoint.tensors.get(id.0)?, tensor, variable)?;
            Some(SlotTensor { name, tensor: id, order })
        });
        if let Some(all) = all.collect::<Option<Vec<SlotTensor>>>() {
            trained.insert(variable.tensor, all);
        }
    }
    Some(Optimizer { kind, slots, trained, numbers })
}

/// Returns the kind of optimizer that has these slots.
fn kind(names: &BTreeSet<&str>) -> Option<(Kind, &'static [&'static str])> {
    const KINDS: [(Kind, &[&str]); 4] = [
        (Kind::Sgd, &[]),
        (Kind::Sgd, &["momentum"]),
        (Kind::Adam, &["m", "v"]),
        (Kind::Adam, &["m", "v", "vhat"]),
    ];
    KINDS.into_iter().find(|(_, slots)| names.iter().eq(slots.iter()))
}

/// Returns the order that gives a slot the stored axes of its variable, or `None` if their shapes differ.
pub(super) fn order(slot: &Tensor, tensor: &Tensor, variable: &Variable) -> Option<Vec<usize>> {
    let order = match (&slot.axes, &tensor.axes) {
        (Some(slot), Some(axes)) if slot != axes => {
            let wanted = variable.order.iter().map(|axis| axes.get(*axis).copied());
            permutation(slot, &wanted.collect::<Option<Vec<_>>>()?)?
        }
        _ => variable.order.clone(),
    };
    let fits = slot.shape.rank() == tensor.shape.rank() && order.len() == slot.shape.rank();
    (fits && slot.shape.permuted(&order) == tensor.shape.permuted(&variable.order)).then_some(order)
}
