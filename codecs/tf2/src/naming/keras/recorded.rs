//! An optimizer of any kind, as the object graph of the source has it.
//!
//! An optimizer finds its variables by the names of its attributes and by their places in its lists, which hold a slot
//! of each trained variable in the model's order. Stored under the same names and places, they are found again,
//! whatever they mean.

use super::builder::{Builder, key};
use super::layers::{Model, Variable};
use super::objects::{Id, Objects as NewObjects, StoredVariables};
use super::optimizer::order;
use super::style::Style;
use crate::describe::objects::Objects;
use crate::describe::roles::optimizers;
use crate::key::Key;
use crate::naming::per_tensor::key as original_key;
use ckpt_api::{Checkpoint, Result, Role, TensorId};
use std::collections::{HashMap, HashSet, VecDeque};

/// The list in which an optimizer of Keras 3 has the model's trained variables.
const TRAINED: &str = "_trainable_variables";
/// The list of all variables of an optimizer.
const ALL: &str = "_variables";

/// The objects of an optimizer.
#[derive(Debug)]
pub(super) struct Recorded {
    /// The objects; the first one is the optimizer.
    objects: Vec<RecordedObject>,
    /// Slots that are no attributes of the optimizer: trained variable, name, number of the slot's object.
    slots: Vec<(TensorId, String, usize)>,
}

/// An object of an optimizer.
#[derive(Debug, Default)]
struct RecordedObject {
    /// Names and numbers of its children.
    children: Vec<(String, usize)>,
    /// The tensor that it stores, with its full name and stored axis order.
    value: Option<(TensorId, String, Vec<usize>)>,
}

impl Recorded {
    /// Returns the only optimizer of the source, if `style` names the generation of Keras that it is of, and its slots
    /// are in the order of the model's variables.
    pub fn find(checkpoint: &Checkpoint, model: &Model, style: Style, objects: &Objects) -> Option<Self> {
        let root = only_optimizer(objects)?;
        let is_keras3 = objects.child(root, TRAINED).is_some();
        if is_keras3 != (style == Style::Keras3) {
            return None;
        }
        let tensors = checkpoint.tensors.iter().enumerate();
        let source = Source {
            checkpoint,
            objects,
            tensors: tensors.map(|(id, tensor)| (original_key(tensor), TensorId(id))).collect(),
            by_name: variables(checkpoint, model)
                .map(|(place, (name, variable))| (name, (place, variable)))
                .collect(),
        };
        source.lists_agree(root).then(|| source.copy(root)).flatten()
    }

    /// Returns all tensors of the state.
    pub fn tensors(&self) -> impl Iterator<Item = TensorId> {
        self.objects.iter().filter_map(|object| Some(object.value.as_ref()?.0))
    }

    /// Assigns keys to the state of the optimizer, which is the object `id`.
    pub fn add(
        &self,
        builder: &mut Builder,
        objects: &mut NewObjects,
        id: Id,
        variables: &StoredVariables,
    ) -> Result<()> {
        let mut new = vec![None; self.objects.len()];
        let mut open = VecDeque::from([(0, "optimizer".to_owned(), Some(id))]);
        for (variable, name, slot) in &self.slots {
            if let Some((_, path)) = variables.get(variable) {
                let path = format!("{path}/.OPTIMIZER_SLOT/optimizer/{}", escaped(name));
                open.push_back((*slot, path, None));
            }
        }
        while let Some((number, path, id)) = open.pop_front() {
            let (Some(object), Some(place)) = (self.objects.get(number), new.get_mut(number)) else {
                continue;
            };
            if place.is_some() {
                continue;
            }
            let id = match (&object.value, id) {
                (_, Some(id)) => id,
                (None, None) => objects.add()?,
                (Some((tensor, full_name, order)), None) => {
                    let key = key(&path);
                    builder.store(*tensor, order, &key);
                    objects.stored(full_name, &key)?
                }
            };
            *place = Some(id);
            for (name, child) in &object.children {
                open.push_back((*child, format!("{path}/{}", escaped(name)), None));
            }
        }
        self.link(objects, &new, variables);
        Ok(())
    }

    /// Links the new objects as those of the source are.
    fn link(&self, objects: &mut NewObjects, new: &[Option<Id>], variables: &StoredVariables) {
        let id = |number: usize| new.get(number).copied().flatten();
        for (number, object) in self.objects.iter().enumerate() {
            for (name, child) in &object.children {
                if let (Some(parent), Some(child)) = (id(number), id(*child)) {
                    objects.link(parent, name, child);
                }
            }
        }
        for (variable, name, slot) in &self.slots {
            if let (Some(optimizer), Some((variable, _)), Some(slot)) =
                (id(0), variables.get(variable), id(*slot))
            {
                objects.slot(optimizer, *variable, name, slot);
            }
        }
    }
}

/// Returns the optimizer that no other optimizer contains, if there is one such.
fn only_optimizer(objects: &Objects) -> Option<usize> {
    let found = optimizers(objects);
    let all = || (0..objects.nodes.len()).filter(|id| found.get(*id) == Some(&true));
    let inner = all().flat_map(|id| objects.children(id).map(|(_, child)| child));
    let inner = objects.reach(inner, |_, name, _| name != TRAINED);
    let mut outer = all().filter(|id| inner.get(*id) == Some(&false));
    outer.next().filter(|_| outer.next().is_none())
}

/// Returns the model's variables by name, in order.
fn variables<'a>(
    checkpoint: &'a Checkpoint,
    model: &'a Model,
) -> impl Iterator<Item = (usize, (&'a str, &'a Variable))> {
    let all = model.layers.iter().flat_map(|layer| &layer.variables);
    let named =
        all.filter_map(|variable| Some((checkpoint.tensors.get(variable.tensor.0)?.name.as_str(), variable)));
    named.enumerate()
}

/// What a recorded optimizer is made from.
struct Source<'a> {
    checkpoint: &'a Checkpoint,
    objects: &'a Objects,
    /// Tensors by their keys in the source.
    tensors: HashMap<Key, TensorId>,
    /// The model's variables by name, with their places among all.
    by_name: HashMap<&'a str, (usize, &'a Variable)>,
}

impl Source<'_> {
    /// Returns the tensor that an object stores.
    fn tensor(&self, id: usize) -> Option<TensorId> {
        self.tensors.get(self.objects.variable(id)?.key.as_bytes()).copied()
    }

    /// Whether the lists of slots are known to be in the order of the model's variables.
    fn lists_agree(&self, root: usize) -> bool {
        let is_ordered = |list: Vec<Option<usize>>| list.iter().all(Option::is_some) && list.is_sorted();
        let tensor = |id: usize| self.checkpoint.tensors.get(self.tensor(id)?.0);
        let place = |name: &str| self.by_name.get(name).map(|(place, _)| *place);
        let within = self.objects.reach([root], |_, name, _| name != TRAINED);
        let within = || (0..self.objects.nodes.len()).filter(|id| within.get(*id) == Some(&true));
        let mut trained = within().filter_map(|id| self.objects.child(id, TRAINED)).peekable();
        if trained.peek().is_some() {
            return trained.all(|list| {
                let list = self.objects.numbered(list, "");
                is_ordered(list.into_iter().map(|id| place(&tensor(id)?.name)).collect())
            });
        }
        let lists = self.objects.children(root).filter(|(name, _)| *name != ALL);
        lists.map(|(_, list)| self.objects.numbered(list, "")).all(|list| {
            is_ordered(list.into_iter().map(|id| place(&tensor(id)?.slot.as_ref()?.variable)).collect())
        })
    }

    /// Copies the optimizer, or returns `None` if a part of its state is not a tensor of the checkpoint.
    fn copy(&self, root: usize) -> Option<Recorded> {
        let mut recorded = Recorded { objects: Vec::new(), slots: Vec::new() };
        let mut numbers = HashMap::from([(root, 0)]);
        let mut open = VecDeque::from([root]);
        let mut stored = HashSet::new();
        let slots = self.objects.nodes.get(root).map_or(&[][..], |node| &node.slots);
        while let Some(id) = open.pop_front() {
            let mut object = RecordedObject::default();
            if let Some(value) = self.objects.variable(id) {
                let tensor = self.tensor(id)?;
                let order = self.order(tensor)?;
                if !stored.insert(tensor) {
                    return None;
                }
                object.value = Some((tensor, value.full_name.clone(), order));
            }
            let mut number = |child: usize, open: &mut VecDeque<usize>| {
                let next = numbers.len();
                *numbers.entry(child).or_insert_with(|| {
                    open.push_back(child);
                    next
                })
            };
            let mut children: Vec<(&str, usize)> =
                self.objects.children(id).filter(|(name, _)| *name != TRAINED).collect();
            // The list of all variables comes last: an optimizer without a variable for its learning rate numbers them
            // differently, and has found all by then.
            children.sort_by_key(|(name, _)| *name == ALL);
            for (name, child) in children {
                object.children.push((name.to_owned(), number(child, &mut open)));
            }
            if id == root {
                for slot in slots {
                    let variable = self.tensor(slot.original)?;
                    recorded.slots.push((variable, slot.name.clone(), number(slot.slot, &mut open)));
                }
            }
            recorded.objects.push(object);
        }
        let mut named = HashSet::new();
        let is_unique = recorded.slots.iter().all(|(variable, name, _)| named.insert((variable, name)));
        is_unique.then_some(recorded)
    }

    /// Returns the stored axis order of a tensor of the optimizer's state.
    fn order(&self, id: TensorId) -> Option<Vec<usize>> {
        let tensor = self.checkpoint.tensors.get(id.0)?;
        if !matches!(tensor.role, Role::Optimizer | Role::Counter) {
            return None;
        }
        let slot = tensor.slot.as_ref().and_then(|slot| self.by_name.get(slot.variable.as_str()));
        if let Some((_, variable)) = slot {
            let weight = self.checkpoint.tensors.get(variable.tensor.0)?;
            if weight.shape.rank() == tensor.shape.rank() {
                return order(tensor, weight, variable);
            }
        }
        // Axes that moved in the weights may have moved in what belongs to them, too.
        let rank = tensor.shape.rank();
        let moved = self.by_name.values().any(|(_, variable)| !variable.order.is_sorted());
        (rank < 2 || !moved).then(|| (0..rank).collect())
    }
}

/// Returns the name of an attribute as a part of a key.
fn escaped(name: &str) -> String {
    name.replace('.', "..").replace('/', ".S")
}
