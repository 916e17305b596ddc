//! Tables of tensors.

use super::columns::{Column, Kinds, Texts, index, malformed};
use super::document::Document;
use ckpt_api::{Axis, DType, Limit, Limits, Result, Role, Shape, Tensor};
use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The form of a list of tensors: a map for each for people, columns in binary messages.
#[derive(Clone, Debug)]
pub struct TensorsForm(Table);

#[derive(Clone, Debug)]
enum Table {
    Rows(Vec<Tensor>),
    Columns(Columns),
}

/// The columns of a table of tensors.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Columns {
    names: Texts,
    /// What many tensors have in common, and which of them each tensor has.
    kinds: Vec<Document<Kind>>,
    kind: Column<u32>,
    /// Axes of each tensor, and the lengths of all.
    ranks: Column<u32>,
    dims: Column<u64>,
    /// The tensors that have more than the columns say, by their places: these stand in the columns without a name.
    others: Vec<(u32, Document<Tensor>)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Kind {
    dtype: DType,
    role: Role,
    axes: Option<Box<[Axis]>>,
}

impl Default for TensorsForm {
    fn default() -> Self {
        TensorsForm(Table::Rows(Vec::new()))
    }
}

impl From<Vec<Tensor>> for TensorsForm {
    fn from(tensors: Vec<Tensor>) -> Self {
        TensorsForm(Table::Rows(tensors))
    }
}

impl TensorsForm {
    /// The tensors.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Limit`] for more tensors than [`Limit::Tensors`]; [`ckpt_api::Kind::Unsupported`] for columns that
    /// contradict each other; [`ckpt_api::Kind::Corrupt`] for a shape with too many elements.
    pub fn into_tensors(self, limits: &Limits) -> Result<Vec<Tensor>> {
        match self.0 {
            Table::Rows(tensors) => {
                limits.check(Limit::Tensors, tensors.len() as u64)?;
                Ok(tensors)
            }
            Table::Columns(columns) => columns.into_tensors(limits),
        }
    }
}

impl Columns {
    fn of(tensors: &[Tensor]) -> Result<Self> {
        let (mut columns, mut kinds) = (Columns::default(), Kinds::new());
        for (place, tensor) in tensors.iter().enumerate() {
            let is_plain = is_plain(tensor);
            columns.names.push(if is_plain { &tensor.name } else { "" })?;
            let rank = if is_plain { tensor.shape.rank() } else { 0 };
            columns.ranks.0.push(index(rank)?);
            columns.dims.0.extend(tensor.shape.iter().take(rank));
            if is_plain {
                let kind = Kind { dtype: tensor.dtype, role: tensor.role, axes: tensor.axes.clone() };
                columns.kind.0.push(kinds.number(&kind)?);
            } else {
                columns.kind.0.push(0);
                columns.others.push((index(place)?, Document(tensor.clone())));
            }
        }
        columns.kinds = kinds.into_kinds().into_iter().map(Document).collect();
        Ok(columns)
    }

    fn into_tensors(self, limits: &Limits) -> Result<Vec<Tensor>> {
        let Columns { names, kinds, kind, ranks, dims, others } = self;
        limits.check(Limit::Tensors, names.len() as u64)?;
        if kind.0.len() != names.len() || ranks.0.len() != names.len() {
            return Err(malformed("the columns of tensors have different lengths"));
        }
        let mut others = others.into_iter().peekable();
        let (mut dims, mut tensors) = (&dims.0[..], Vec::with_capacity(names.len()));
        for (place, (name, (kind, rank))) in names.iter().zip(kind.0.iter().zip(&ranks.0)).enumerate() {
            let rank = usize::try_from(*rank).unwrap_or(usize::MAX);
            let (own, rest) =
                dims.split_at_checked(rank).ok_or_else(|| malformed("a tensor's axes are missing"))?;
            dims = rest;
            if let Some((_, other)) = others.next_if(|(other, _)| usize::try_from(*other) == Ok(place)) {
                tensors.push(other.0);
                continue;
            }
            let kind = usize::try_from(*kind).ok().and_then(|kind| kinds.get(kind));
            let Document(kind) = kind.ok_or_else(|| malformed("a tensor's kind is missing"))?;
            let mut tensor = Tensor::new(name?, kind.dtype, Shape::new(own)?).with_role(kind.role);
            tensor.axes.clone_from(&kind.axes);
            tensors.push(tensor);
        }
        match dims.is_empty() && others.peek().is_none() {
            true => Ok(tensors),
            false => Err(malformed("axes or tensors are left over")),
        }
    }
}

/// Whether the columns say all of a tensor.
fn is_plain(tensor: &Tensor) -> bool {
    tensor.lengths.is_none()
        && tensor.quantization.is_none()
        && tensor.blocks.is_none()
        && tensor.slot.is_none()
        && tensor.metadata.is_empty()
}

impl Serialize for TensorsForm {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match (&self.0, serializer.is_human_readable()) {
            (Table::Rows(tensors), true) => tensors.serialize(serializer),
            (Table::Rows(tensors), false) => {
                Columns::of(tensors).map_err(S::Error::custom)?.serialize(serializer)
            }
            (Table::Columns(columns), true) => {
                let tensors = columns.clone().into_tensors(&Limits::default());
                tensors.map_err(S::Error::custom)?.serialize(serializer)
            }
            (Table::Columns(columns), false) => columns.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for TensorsForm {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(TensorsForm(match deserializer.is_human_readable() {
            true => Table::Rows(Vec::deserialize(deserializer)?),
            false => {
                let columns = Columns::deserialize(deserializer)?;
                let is_sorted = columns.others.is_sorted_by(|(one, _), (next, _)| one < next);
                if !is_sorted {
                    return Err(D::Error::custom("tensors are not in the order of their places"));
                }
                Table::Columns(columns)
            }
        }))
    }
}
