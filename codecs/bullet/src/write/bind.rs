//! Binds the tensors of a checkpoint to the weights of the net.

use crate::format::{ID, KEY_ID, KEY_INEXACT, KEY_NUMBER, KEY_QUANTISED, KEY_ROWS, SLOTS, StateFile};
use crate::net::architecture::Architecture;
use crate::net::entry::Entry;
use crate::net::layout::Layout;
use crate::net::parameter::Parameter;
use ckpt_api::{
    AddedAxis, Axis, Checkpoint, DType, Encoding, Error, Loss, LossKind, MetadataValue, Result, Role,
    Setting, Tensor, TensorId, text,
};
use std::collections::HashMap;
use std::num::NonZeroU32;

/// A tensor that is a weight of the net, or a slot of one.
#[derive(Clone, Debug)]
pub(super) struct Binding<'a> {
    pub(super) tensor: TensorId,
    pub(super) source: &'a Tensor,
    /// The id of the weight.
    pub(super) id: &'a str,
    /// The slot; `None` for the weight itself.
    pub(super) slot: Option<StateFile>,
    /// The parameter with this id, if there is an architecture.
    pub(super) parameter: Option<&'a Parameter>,
    /// For each axis of the parameter, the tensor's axis; `None` for a flat list in stored order.
    axes: Option<Vec<usize>>,
}

/// All bound tensors of a checkpoint, in its order.
#[derive(Debug, Default)]
pub(super) struct Bindings<'a> {
    all: Vec<Binding<'a>>,
    /// Index of a binding by the name of the slot's file, and id.
    index: HashMap<(Option<&'static str>, &'a str), usize>,
    /// What a file stored besides the weights, in the checkpoint's order.
    copies: Vec<Binding<'a>>,
    /// Index of a copy by the id of its weight and the number of the entry.
    copy_index: HashMap<(&'a str, u64), usize>,
}

impl<'a> Bindings<'a> {
    /// Binds every tensor that bullet can store; one that the architecture lacks is a loss.
    pub(super) fn new(
        checkpoint: &'a Checkpoint,
        architecture: Option<&'a Architecture>,
        losses: &mut Vec<Loss>,
    ) -> Result<Self> {
        let resolver = Resolver { checkpoint, by_name: checkpoint.by_name(), architecture };
        let mut bindings = Bindings::default();
        for (index, source) in checkpoint.tensors.iter().enumerate() {
            if let Some((key, parameter)) = resolver.copied(source) {
                let axes = match_axes(source, parameter)?;
                let (tensor, parameter) = (TensorId(index), Some(parameter));
                bindings.copy_index.insert(key, bindings.copies.len());
                bindings.copies.push(Binding { tensor, source, id: key.0, slot: None, parameter, axes });
                continue;
            }
            let (slot, id) = resolver.slot_and_id(source);
            let parameter = resolver.parameter(id);
            let is_storable = slot.is_some() || (source.role == Role::Weight && source.slot.is_none());
            if !is_storable {
                continue;
            }
            if architecture.is_some() && parameter.is_none() {
                let why = "the architecture has no such weight";
                losses.push(Loss::new(LossKind::of_dropping(source.role), &source.name, why));
                continue;
            }
            check_id(id).map_err(|error| error.tensor(&source.name))?;
            let axes = match parameter {
                Some(parameter) => match_axes(source, parameter)?,
                None => None,
            };
            bindings.add(Binding { tensor: TensorId(index), source, id, slot, parameter, axes })?;
        }
        Ok(bindings)
    }

    fn add(&mut self, binding: Binding<'a>) -> Result<()> {
        let key = (binding.slot.map(|slot| slot.name), binding.id);
        if let Some(other) = self.index.insert(key, self.all.len()).and_then(|other| self.all.get(other)) {
            return Err(Error::mapping("two tensors would be stored under the same id")
                .tensor(&binding.source.name)
                .found(format!("'{}', the id of '{}'", binding.id, other.source.name))
                .help("rename one of them, or leave it out"));
        }
        self.all.push(binding);
        Ok(())
    }

    /// All bindings, in the checkpoint's order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Binding<'a>> {
        self.all.iter()
    }

    /// The weights, or one slot of them, in the checkpoint's order.
    pub(super) fn of(&self, state: StateFile) -> impl Iterator<Item = &Binding<'a>> {
        self.all.iter().filter(move |binding| binding.slot.map(|slot| slot.name) == key(state))
    }

    /// The weight with this id, or one slot of it.
    pub(super) fn get(&self, state: StateFile, id: &str) -> Option<&Binding<'a>> {
        self.index.get(&(key(state), id)).and_then(|index| self.all.get(*index))
    }

    /// What was read from the entry with this number of a weight, if the weight itself was read from another.
    pub(super) fn copy(&self, id: &str, number: u64) -> Option<&Binding<'a>> {
        self.copy_index.get(&(id, number)).and_then(|index| self.copies.get(*index))
    }

    /// All copies, in the checkpoint's order.
    pub(super) fn copies(&self) -> impl Iterator<Item = &Binding<'a>> {
        self.copies.iter()
    }

    /// Refuses a weight whose name would be read as that of a slot.
    pub(super) fn check_names(&self, state: StateFile) -> Result<()> {
        let is_ambiguous = |binding: &&Binding<'_>| {
            let id = binding.id.strip_prefix(state.prefix);
            binding.slot.is_none() && id.is_some_and(|id| self.index.contains_key(&(None, id)))
        };
        match self.all.iter().find(is_ambiguous) {
            Some(binding) => {
                Err(Error::mapping("a weight has the name of an optimizer's slot of another weight")
                    .tensor(&binding.source.name)
                    .help("rename one of them, or leave it out"))
            }
            None => Ok(()),
        }
    }
}

/// The name of the slot's file, as bindings are indexed; `None` for a file of weights.
fn key(state: StateFile) -> Option<&'static str> {
    state.slot.map(|_| state.name)
}

/// Finds the id and the slot of a tensor.
struct Resolver<'a> {
    checkpoint: &'a Checkpoint,
    by_name: HashMap<&'a str, TensorId>,
    architecture: Option<&'a Architecture>,
}

impl<'a> Resolver<'a> {
    fn parameter(&self, id: &str) -> Option<&'a Parameter> {
        self.architecture.and_then(|architecture| architecture.parameter(id).ok())
    }

    /// Returns the id and the number of the entry that a copy was read from, and its parameter; `None` for other
    /// tensors.
    fn copied(&self, source: &'a Tensor) -> Option<((&'a str, u64), &'a Parameter)> {
        let number =
            source.metadata.value(ID, KEY_NUMBER)?.as_u64().filter(|_| source.role == Role::Duplicate)?;
        let id = source.metadata.text(ID, KEY_ID)?;
        Some(((id, number), self.parameter(id)?))
    }

    /// Returns the slot that the tensor states, or the one that its name stands for, and the weight's id.
    fn slot_and_id(&self, source: &'a Tensor) -> (Option<StateFile>, &'a str) {
        let found = match &source.slot {
            Some(slot) => {
                SLOTS.into_iter().find(|state| state.slot == Some(slot.name.as_str())).map(|state| {
                    let variable = self.by_name.get(slot.variable.as_str());
                    let variable = variable.and_then(|id| self.checkpoint.tensors.get(id.0));
                    (state, variable.map_or(slot.variable.as_str(), |tensor| self.id(tensor)))
                })
            }
            // The name that reading gives to a slot, if the net has such a weight.
            None => SLOTS
                .into_iter()
                .filter_map(|state| Some((state, source.name.strip_prefix(state.prefix)?)))
                .find(|(_, id)| self.parameter(id).is_some() && self.parameter(&source.name).is_none()),
        };
        match found {
            Some((state, id)) => (Some(state), id),
            None => (None, self.id(source)),
        }
    }

    /// Returns the tensor's name if that is an id of the net's, or else the id under which it was read.
    fn id(&self, tensor: &'a Tensor) -> &'a str {
        let original = tensor.metadata.text(ID, KEY_ID).filter(|_| self.parameter(&tensor.name).is_none());
        original.unwrap_or(&tensor.name)
    }
}

fn check_id(id: &str) -> Result<()> {
    if !id.is_empty() && id.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        return Ok(());
    }
    Err(Error::unsupported("bullet's ids are printable ASCII")
        .found(format!("'{}'", id.escape_debug()))
        .help("give the tensor another name with a mapping"))
}

/// Finds the tensor's axis for each axis of the parameter; `None` for a flat list.
fn match_axes(tensor: &Tensor, parameter: &Parameter) -> Result<Option<Vec<usize>>> {
    if let (Some(own), Some(wanted)) = (&tensor.axes, parameter.axes()) {
        let find = |axis: &Axis| {
            let same = own.iter().position(|other| other == axis);
            // The inputs of a dense layer are what a sparse one calls features.
            same.or_else(|| own.iter().position(|other| *axis == Axis::Feature && *other == Axis::In))
        };
        let found = wanted.iter().map(find).collect::<Option<Vec<usize>>>();
        let fits =
            |order: &Vec<usize>| order.len() == own.len() && tensor.shape.permuted(order) == parameter.shape;
        if let Some(order) = found.filter(fits) {
            return Ok(Some(order));
        }
    } else if tensor.shape == parameter.shape {
        return Ok(Some((0..parameter.shape.rank()).collect()));
    } else if tensor.shape.rank() == 1 && tensor.shape.elements() == parameter.elements() {
        return Ok(None);
    }
    let mut found = format!("shape {}", tensor.shape);
    if let Some(axes) = &tensor.axes {
        let names: Vec<&str> = axes.iter().map(|axis| axis.name()).collect();
        found += &format!(", axes {}", names.join(" "));
    }
    Err(Error::usage("the tensor does not fit the architecture")
        .tensor(&tensor.name)
        .found(found)
        .expected(parameter.describe())
        .help("correct the architecture, or the tensor's axes with a mapping"))
}

/// The axis order of columns, as far as the axes' names tell what a column is; without names, rows come first.
fn column_order(tensor: &Tensor) -> Vec<usize> {
    let axes = tensor.axes.as_deref().unwrap_or_default();
    let is_sparse = axes.contains(&Axis::Feature);
    let rank = |axis: &Axis| match axis {
        Axis::Bucket if is_sparse => Some(0),
        Axis::In | Axis::Feature => Some(1),
        Axis::Bucket => Some(2),
        Axis::Out => Some(3),
        _ => None,
    };
    let mut order: Vec<usize> = (0..tensor.shape.rank()).collect();
    match axes.iter().map(rank).collect::<Option<Vec<i32>>>() {
        Some(ranks) if ranks.len() == order.len() => order.sort_by_key(|axis| ranks.get(*axis)),
        _ => order.reverse(),
    }
    order
}

impl Binding<'_> {
    /// The stored axis order, in terms of the tensor's axes.
    pub(super) fn order(&self, is_transposed: bool) -> Result<Vec<usize>> {
        match (self.parameter, &self.axes) {
            (Some(parameter), Some(axes)) => Ok(parameter
                .order(is_transposed)
                .into_iter()
                .filter_map(|axis| axes.get(axis).copied())
                .collect()),
            _ if is_transposed => Err(self.has_no_axes("transposed")),
            _ => Ok(column_order(self.source)),
        }
    }

    /// Applies an engine's layout to an encoding of the tensor.
    pub(super) fn lay_out(&self, encoding: Encoding, layout: &Layout) -> Result<Encoding> {
        match &self.axes {
            Some(axes) => Ok(layout.apply(encoding, axes)),
            None => Err(self.has_no_axes("laid out for an engine")),
        }
    }

    /// How `other` is broadcast when it is added to this tensor, in terms of the tensors' axes.
    pub(super) fn broadcast(&self, other: &Binding<'_>) -> Result<Vec<AddedAxis>> {
        let (Some(own), Some(theirs)) = (&self.axes, &other.axes) else {
            return Err(self.has_no_axes("merged with another"));
        };
        let broadcast = self.parameter.zip(other.parameter).and_then(|(own, other)| own.broadcast(other));
        let mut added = vec![AddedAxis::Every; own.len()];
        for (axis, position) in broadcast.unwrap_or_default().into_iter().zip(own) {
            if let (AddedAxis::Along(k), Some(slot)) = (axis, added.get_mut(*position)) {
                *slot = theirs.get(k).map_or(AddedAxis::Every, |axis| AddedAxis::Along(*axis));
            }
        }
        Ok(added)
    }

    fn has_no_axes(&self, what: &str) -> Error {
        Error::usage(format!("a tensor without axes cannot be {what}"))
            .tensor(&self.source.name)
            .found(format!("shape {}", self.source.shape))
            .help("read the source with the architecture, too")
    }

    /// Refuses a tensor that does not hold 32-bit floats.
    pub(super) fn require_f32(&self) -> Result<()> {
        match self.source.dtype {
            DType::F32 => Ok(()),
            other => Err(Error::unsupported("bullet stores 32-bit floats here")
                .tensor(&self.source.name)
                .found(other.name())
                .help(match self.source.scale() {
                    Some(_) => text!["read the source without ", Setting::READ_OPTION.of("integers=true")],
                    None => text!["convert with ", Setting::DTYPE.of("f32")],
                })),
        }
    }

    /// Whether the values come from integers with the entry's scale: then each is a whole number of units.
    pub(super) fn is_quantised_as(&self, entry: &Entry) -> bool {
        self.quantised() == Some(u64::from(entry.scale.map_or(0, NonZeroU32::get)))
    }

    /// The scale of the integers that the values come from, or 0 for none; `None` if they do not come from
    /// quantised.bin.
    pub(super) fn quantised(&self) -> Option<u64> {
        self.source.metadata.value(ID, KEY_QUANTISED)?.as_u64()
    }

    /// Whether the values come from integers that 32-bit floats cannot represent, so that some were lost.
    pub(super) fn is_inexact(&self) -> bool {
        self.source.metadata.value(ID, KEY_INEXACT).and_then(MetadataValue::as_bool).unwrap_or(false)
    }

    /// The number of rows that the record of the source stated.
    pub(super) fn stated_rows(&self) -> Option<u64> {
        self.source.metadata.value(ID, KEY_ROWS)?.as_u64()
    }
}
