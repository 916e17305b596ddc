//! Which tensor of a checkpoint is which of the net's.

use crate::architecture::{Architecture, Entry};
use crate::format::{ID, KEY_ID, KEY_QUANTISED, KEY_ROWS, SLOTS, State};
use crate::layout::Layout;
use crate::parameter::Parameter;
use ckpt_api::{
    AddedAxis, Axis, Checkpoint, DType, Encoding, Error, Loss, LossKind, Result, Role, Tensor, TensorId,
};
use std::collections::HashMap;

/// A tensor that has a place.
#[derive(Clone, Debug)]
pub(crate) struct Bound<'a> {
    pub(crate) tensor: TensorId,
    pub(crate) source: &'a Tensor,
    /// Under which bullet knows it.
    pub(crate) id: String,
    /// What it is kept for; `None` for the weight itself.
    pub(crate) slot: Option<State>,
    pub(crate) parameter: Option<&'a Parameter>,
    /// For each axis of the parameter the tensor's axis; `None` for a tensor that is a list in stored order.
    axes: Option<Vec<usize>>,
}

/// Every tensor of a checkpoint that has a place.
#[derive(Debug)]
pub(crate) struct Bindings<'a> {
    pub(crate) all: Vec<Bound<'a>>,
}

impl<'a> Bindings<'a> {
    /// Finds the place of every tensor; one that has none is a loss.
    pub(crate) fn new(
        checkpoint: &'a Checkpoint,
        architecture: Option<&'a Architecture>,
        losses: &mut Vec<Loss>,
    ) -> Result<Self> {
        let by_name = checkpoint.by_name();
        let mut all: Vec<Bound<'_>> = Vec::new();
        let mut seen = HashMap::new();
        for (index, source) in checkpoint.tensors.iter().enumerate() {
            let slot = slot_of(source, checkpoint, &by_name, architecture);
            let (slot, id) = match slot {
                Some((state, id)) => (Some(state), id),
                None => (None, own_id(source, architecture)),
            };
            let parameter = architecture.and_then(|architecture| architecture.parameter(id).ok());
            let has_place = slot.is_some() || (source.role == Role::Weight && source.slot.is_none());
            if !has_place || (architecture.is_some() && parameter.is_none()) {
                let why = if has_place {
                    "the architecture has no such weight"
                } else {
                    "bullet has no place for it"
                };
                losses.push(Loss::new(LossKind::of_dropping(source.role), &source.name, why));
                continue;
            }
            if let Some(other) = seen.insert((slot.map(|slot| slot.file), id), &source.name) {
                return Err(Error::mapping("two tensors would be stored under one id")
                    .tensor(&source.name)
                    .found(format!("'{other}', too, is '{id}'"))
                    .help("rename one of them, or leave it out"));
            }
            check_id(id).map_err(|error| error.tensor(&source.name))?;
            let axes = match parameter {
                Some(parameter) => axes(source, parameter)?,
                None => None,
            };
            all.push(Bound { tensor: TensorId(index), source, id: id.to_owned(), slot, parameter, axes });
        }
        Ok(Bindings { all })
    }

    /// The weight with this id.
    pub(crate) fn weight(&self, id: &str) -> Option<&Bound<'a>> {
        self.all.iter().find(|bound| bound.slot.is_none() && bound.id == id)
    }

    /// Refuses a weight that has the name under which what a directory keeps for another is read.
    pub(crate) fn check_names(&self, state: State) -> Result<()> {
        let is_kept = |bound: &&Bound<'_>| {
            let id = bound.id.strip_prefix(state.prefix);
            bound.slot.is_none() && id.is_some_and(|id| self.weight(id).is_some())
        };
        match self.all.iter().find(is_kept) {
            Some(bound) => {
                Err(Error::mapping("a weight has the name of what the optimizer keeps for another")
                    .tensor(&bound.source.name)
                    .help("rename one of them, or leave it out"))
            }
            None => Ok(()),
        }
    }

    /// Weights, or what is kept for them, in the checkpoint's order.
    pub(crate) fn of(&self, state: State) -> impl Iterator<Item = &Bound<'a>> {
        self.all
            .iter()
            .filter(move |bound| bound.slot.map(|slot| slot.file) == state.slot.map(|_| state.file))
    }
}

/// What a tensor is kept for, and for which weight: as it says itself, or by the name that reading gives it, where the net
/// has that weight.
fn slot_of<'a>(
    source: &'a Tensor,
    checkpoint: &'a Checkpoint,
    by_name: &HashMap<&str, TensorId>,
    architecture: Option<&Architecture>,
) -> Option<(State, &'a str)> {
    if let Some(slot) = &source.slot {
        let state = SLOTS.into_iter().find(|state| state.slot == Some(slot.name.as_str()))?;
        let variable = by_name.get(slot.variable.as_str()).and_then(|id| checkpoint.tensors.get(id.0));
        return Some((state, variable.map_or(&slot.variable, |tensor| own_id(tensor, architecture))));
    }
    let is_id = |id: &str| architecture.is_some_and(|architecture| architecture.parameter(id).is_ok());
    let named = SLOTS.into_iter().filter_map(|state| Some((state, source.name.strip_prefix(state.prefix)?)));
    let mut named = named.filter(|(_, id)| is_id(id) && !is_id(&source.name));
    named.next()
}

/// A tensor's name, where that is an id of the net's; else the id that it was read under.
fn own_id<'a>(tensor: &'a Tensor, architecture: Option<&Architecture>) -> &'a str {
    let known = architecture.is_some_and(|architecture| architecture.parameter(&tensor.name).is_ok());
    let kept = tensor.metadata.text(ID, KEY_ID).filter(|_| !known);
    kept.unwrap_or(&tensor.name)
}

fn check_id(id: &str) -> Result<()> {
    if !id.is_empty() && id.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        return Ok(());
    }
    Err(Error::unsupported("bullet's ids are printable ASCII")
        .found(format!("'{}'", id.escape_debug()))
        .help("give the tensor another name with a mapping"))
}

/// Columns one behind the other, by what the axes mean; where they do not say it, rows come first.
fn by_columns(tensor: &Tensor) -> Vec<usize> {
    let axes = tensor.axes.as_deref().unwrap_or_default();
    let sparse = axes.contains(&Axis::Feature);
    let rank = |axis: &Axis| match axis {
        Axis::Bucket if sparse => Some(0),
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

fn axes(tensor: &Tensor, parameter: &Parameter) -> Result<Option<Vec<usize>>> {
    let elements = tensor.shape.elements() == parameter.elements();
    if let (Some(own), Some(wanted)) = (&tensor.axes, parameter.axes()) {
        let find = |axis: &Axis| {
            let same = own.iter().position(|other| other == axis);
            // A dense layer sums over what a sparse one looks up.
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
    } else if tensor.shape.rank() == 1 && elements {
        return Ok(None);
    }
    let axes = tensor.axes.iter().flatten().map(|axis| axis.name()).collect::<Vec<_>>().join(" ");
    Err(Error::usage("the tensor does not fit the architecture")
        .tensor(&tensor.name)
        .found(format!(
            "shape {}{}",
            tensor.shape,
            if axes.is_empty() { axes } else { format!(", axes {axes}") }
        ))
        .expected(parameter.describe())
        .help("correct the architecture, or the tensor's axes with a mapping"))
}

impl Bound<'_> {
    /// The stored axis order, as the tensor's own axes.
    pub(crate) fn order(&self, transposed: bool) -> Result<Vec<usize>> {
        match (self.parameter, &self.axes) {
            (Some(parameter), Some(axes)) => Ok(parameter
                .order(transposed)
                .into_iter()
                .filter_map(|axis| axes.get(axis).copied())
                .collect()),
            _ if transposed => Err(self.is_a_list("transposed")),
            _ => Ok(by_columns(self.source)),
        }
    }

    /// An encoding in an engine's order.
    pub(crate) fn lay_out(&self, encoding: Encoding, layout: &Layout) -> Result<Encoding> {
        match &self.axes {
            Some(axes) => Ok(layout.apply(encoding, axes)),
            None => Err(self.is_a_list("laid out for an engine")),
        }
    }

    /// Where the values of `other` go when they are added to these.
    pub(crate) fn along(&self, other: &Bound<'_>) -> Result<Vec<AddedAxis>> {
        let (Some(own), Some(theirs)) = (&self.axes, &other.axes) else {
            return Err(self.is_a_list("merged"));
        };
        let places = self.parameter.zip(other.parameter).and_then(|(own, other)| own.along(other));
        let mut along = vec![AddedAxis::Every; own.len()];
        for (place, axis) in places.unwrap_or_default().into_iter().zip(own) {
            if let (AddedAxis::Along(k), Some(slot)) = (place, along.get_mut(*axis)) {
                *slot = theirs.get(k).map_or(AddedAxis::Every, |axis| AddedAxis::Along(*axis));
            }
        }
        Ok(along)
    }

    fn is_a_list(&self, what: &str) -> Error {
        Error::usage(format!("the tensor has no axes, and is to be {what}"))
            .tensor(&self.source.name)
            .found(format!("shape {}", self.source.shape))
            .help("read the source with the architecture, too")
    }

    /// Refuses what is no 32-bit float.
    pub(crate) fn require_f32(&self) -> Result<()> {
        match self.source.dtype {
            DType::F32 => Ok(()),
            other => Err(Error::unsupported("bullet stores 32-bit floats here")
                .tensor(&self.source.name)
                .found(other.name())
                .help(match self.source.quantization {
                    Some(_) => "read the source without integers=true",
                    None => "convert with --dtype f32",
                })),
        }
    }

    /// Whether its values were read from integers of the entry's scale: then every one is a whole multiple.
    pub(crate) fn is_quantized_as(&self, entry: &Entry) -> bool {
        let scale = entry.scale.map_or(0, std::num::NonZeroU32::get);
        self.quantized() == Some(u64::from(scale))
    }

    /// The scale of the integers that its values were read from, 0 for none; `None` where they come from elsewhere.
    pub(crate) fn quantized(&self) -> Option<u64> {
        self.source.metadata.value(ID, KEY_QUANTISED)?.as_u64()
    }

    /// The rows that an old record states.
    pub(crate) fn kept_rows(&self) -> Option<u64> {
        self.source.metadata.value(ID, KEY_ROWS)?.as_u64()
    }
}
