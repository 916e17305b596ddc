//! What the source says of an optimizer, whatever its naming.

use super::layers::{Model, Variable, permutation};
use crate::describe::OPTIMIZER_NUMBER;
use ckpt_api::{Checkpoint, Role, Tensor, TensorId};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// An optimizer's state.
#[derive(Debug)]
pub(super) struct Optimizer {
    pub kind: Kind,
    /// The canonical names of the slots that each trained variable has.
    pub slots: &'static [&'static str],
    /// What is kept for each trained variable.
    trained: HashMap<TensorId, Vec<Kept>>,
    /// Its numbers by name: `iteration`, `learning_rate`, …
    numbers: BTreeMap<String, TensorId>,
}

/// An optimizer that all three namings have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Adam,
    /// Gradient descent, with momentum where there are slots.
    Sgd,
}

/// One slot of one variable.
#[derive(Debug)]
pub(super) struct Kept {
    /// Its canonical name.
    pub name: &'static str,
    pub tensor: TensorId,
    /// Its stored axis order.
    pub order: Vec<usize>,
}

impl Optimizer {
    /// What is kept for a variable, in the order of `slots`; nothing for one that is not trained.
    pub fn kept(&self, variable: &Variable) -> &[Kept] {
        self.trained.get(&variable.tensor).map_or(&[], Vec::as_slice)
    }

    /// The first of these numbers that the source has.
    pub fn number(&self, names: &[&str]) -> Option<TensorId> {
        names.iter().find_map(|name| self.numbers.get(*name).copied())
    }
}

/// The optimizer; `None` where the source has none, or one of another kind.
pub(super) fn find(checkpoint: &Checkpoint, model: &Model) -> Option<Optimizer> {
    let mut kept: HashMap<&str, BTreeMap<&str, TensorId>> = HashMap::new();
    let mut numbers = BTreeMap::new();
    for (id, tensor) in checkpoint.tensors.iter().enumerate() {
        if let Some(slot) = tensor.slot.as_ref().filter(|_| tensor.role == Role::Optimizer) {
            kept.entry(&slot.variable).or_default().entry(&slot.name).or_insert(TensorId(id));
        }
        if let Some(number) =
            tensor.metadata.text("tf2", OPTIMIZER_NUMBER).filter(|_| tensor.shape.rank() == 0)
        {
            numbers.entry(number.to_owned()).or_insert(TensorId(id));
        }
    }
    let (kind, slots) = kind(&kept.values().flat_map(BTreeMap::keys).copied().collect())?;
    if slots.is_empty() && numbers.keys().all(|name| name == "global_step") {
        return None;
    }
    let mut trained = HashMap::new();
    for variable in model.layers.iter().flat_map(|layer| &layer.variables) {
        let Some(tensor) = checkpoint.tensors.get(variable.tensor.0) else { continue };
        let Some(kept) = kept.get(tensor.name.as_str()).filter(|_| !slots.is_empty()) else { continue };
        let all = slots.iter().map(|name| {
            let id = *kept.get(name)?;
            let order = order(checkpoint.tensors.get(id.0)?, tensor, variable)?;
            Some(Kept { name, tensor: id, order })
        });
        if let Some(all) = all.collect::<Option<Vec<Kept>>>() {
            trained.insert(variable.tensor, all);
        }
    }
    Some(Optimizer { kind, slots, trained, numbers })
}

/// The optimizer that keeps these slots.
fn kind(names: &BTreeSet<&str>) -> Option<(Kind, &'static [&'static str])> {
    const KINDS: [(Kind, &[&str]); 4] = [
        (Kind::Sgd, &[]),
        (Kind::Sgd, &["momentum"]),
        (Kind::Adam, &["m", "v"]),
        (Kind::Adam, &["m", "v", "vhat"]),
    ];
    KINDS.into_iter().find(|(_, slots)| names.iter().eq(slots.iter()))
}

/// The order that gives a slot the stored axes of its variable; `None` where it does not fit.
fn order(slot: &Tensor, tensor: &Tensor, variable: &Variable) -> Option<Vec<usize>> {
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
