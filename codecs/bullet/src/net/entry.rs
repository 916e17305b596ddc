//! An entry: how one weight is stored in quantised.bin or in an engine file.

use ckpt_api::{DType, Rounding, Scaling};
use serde::{Deserialize, Serialize};
use std::num::NonZeroU32;

/// One entry of raw.bin and quantised.bin, or one member of an engine file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Entry {
    /// The id of the weight.
    pub(crate) id: String,
    /// The type of the stored elements; raw.bin stores f32 for every entry.
    #[serde(default, rename = "type")]
    pub(crate) kind: EntryType,
    /// Integer units per 1.0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) scale: Option<NonZeroU32>,
    /// Whether values are rounded to the nearest integer; if not, they are truncated.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) round: bool,
    /// Whether quantised.bin stores the matrix row by row; if not, it stores columns, as raw.bin does.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) transpose: bool,
    /// The id of a weight that is added to this one in quantised.bin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) merge: Option<String>,
    /// Whether each term of the sum is rounded: `round(a·s) + round(f·s)`; if not, the sum is: `round((a+f)·s)`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) round_terms: bool,
    /// The engine's order; see [`super::layout::Layout`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) layout: Vec<String>,
    /// Values outside ±clip are stored as ±clip.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) clip: Option<f64>,
}

/// The type of an entry's elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum EntryType {
    #[default]
    F32,
    I8,
    I16,
    I32,
}

impl EntryType {
    pub(crate) fn dtype(self) -> DType {
        match self {
            EntryType::F32 => DType::F32,
            EntryType::I8 => DType::I8,
            EntryType::I16 => DType::I16,
            EntryType::I32 => DType::I32,
        }
    }
}

impl Entry {
    /// An entry that stores 32-bit floats column by column.
    pub(crate) fn floats(id: String) -> Self {
        Entry {
            id,
            kind: EntryType::F32,
            scale: None,
            round: false,
            transpose: false,
            merge: None,
            round_terms: false,
            layout: Vec::new(),
            clip: None,
        }
    }

    /// How values become integers; `None` if the entry stores floats.
    pub(crate) fn scaling(&self) -> Option<Scaling> {
        let rounding = if self.round { Rounding::Nearest } else { Rounding::Truncate };
        let scaling = |scale| Scaling { scale, rounding, limit: self.limit(), each_term: self.round_terms };
        self.scale.map(scaling)
    }

    /// The clip bound in integer units; `None` if there is none or it is invalid.
    pub(crate) fn limit(&self) -> Option<NonZeroU32> {
        // bullet clips before it scales. Clipping the units is the same: scaling and rounding are monotonic.
        let units = self.clip? * f64::from(self.scale?.get());
        let units = if self.round { units.round() } else { units.trunc() };
        // The cast is exact: a whole number within the range.
        (units >= 1.0 && units <= f64::from(u32::MAX)).then_some(units as u32).and_then(NonZeroU32::new)
    }
}

pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
