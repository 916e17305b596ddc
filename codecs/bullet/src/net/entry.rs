//! The items of a file: how quantised.bin or an engine file stores a weight, and bytes that are always the same.

use super::bytes::HexBytes;
use ckpt_api::{DType, Rounding, Scaling};
use serde::{Deserialize, Serialize};
use std::num::NonZeroU32;

/// One item of a list of entries: a weight, or bytes that are always the same.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "WrittenItem", into = "WrittenItem")]
pub(crate) enum Item {
    Weight(Entry),
    Bytes(HexBytes),
}

/// One entry of raw.bin and quantised.bin, or one member of an engine file: how it stores a weight.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    /// The id of the weight.
    pub(crate) id: String,
    /// The type of the stored elements; raw.bin stores f32 for every entry.
    pub(crate) kind: EntryType,
    /// Integer units per 1.0.
    pub(crate) scale: Option<NonZeroU32>,
    /// Whether values are rounded to the nearest integer; if not, they are truncated.
    pub(crate) round: bool,
    /// Whether quantised.bin stores the matrix row by row; if not, it stores columns, as raw.bin does.
    pub(crate) transpose: bool,
    /// The id of a weight that is added to this one in quantised.bin.
    pub(crate) merge: Option<String>,
    /// Whether each term of the sum is rounded: `round(a·s) + round(f·s)`; if not, the sum is: `round((a+f)·s)`.
    pub(crate) round_terms: bool,
    /// The engine's order; see [`super::layout::Layout`].
    pub(crate) layout: Vec<String>,
    /// Values outside ±clip are stored as ±clip.
    pub(crate) clip: Option<f64>,
    /// Whether raw.bin has the entry, too; not if bullet makes it with `SavedFormat::empty()`.
    pub(crate) is_raw: bool,
}

/// An [`Item`] as the architecture file writes it.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenItem {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bytes: Option<HexBytes>,
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<EntryType>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    scale: Option<NonZeroU32>,
    #[serde(default, skip_serializing_if = "is_default")]
    round: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    transpose: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    merge: Option<String>,
    #[serde(default, skip_serializing_if = "is_default")]
    round_terms: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    layout: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    clip: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    raw: Option<bool>,
}

impl TryFrom<WrittenItem> for Item {
    type Error = &'static str;

    fn try_from(written: WrittenItem) -> Result<Self, Self::Error> {
        let WrittenItem { id, bytes, kind, scale, round, transpose, merge, round_terms, layout, clip, raw } =
            written;
        let id = match (id, bytes) {
            (Some(id), None) => id,
            (None, Some(bytes)) => {
                let is_plain = (kind, scale, clip) == (None, None, None) && merge.is_none();
                let has_flag = round || transpose || round_terms || !layout.is_empty() || raw.is_some();
                return match is_plain && !has_flag {
                    true => Ok(Item::Bytes(bytes)),
                    false => Err("expected no other key beside 'bytes'"),
                };
            }
            (None, None) => return Err("expected 'id' for a weight, or 'bytes'"),
            (Some(_), Some(_)) => return Err("expected 'id' for a weight or 'bytes', not both"),
        };
        let kind = kind.unwrap_or_default();
        let is_raw = raw.unwrap_or(true);
        Ok(Item::Weight(Entry {
            id,
            kind,
            scale,
            round,
            transpose,
            merge,
            round_terms,
            layout,
            clip,
            is_raw,
        }))
    }
}

impl From<Item> for WrittenItem {
    fn from(item: Item) -> Self {
        let Entry { id, kind, scale, round, transpose, merge, round_terms, layout, clip, is_raw } = match item
        {
            Item::Weight(entry) => entry,
            Item::Bytes(bytes) => return WrittenItem { bytes: Some(bytes), ..WrittenItem::default() },
        };
        let (id, kind, bytes, raw) = (Some(id), Some(kind), None, (!is_raw).then_some(false));
        WrittenItem { id, bytes, kind, scale, round, transpose, merge, round_terms, layout, clip, raw }
    }
}

impl Item {
    /// The entry, if the item is a weight.
    pub(crate) fn weight(&self) -> Option<&Entry> {
        match self {
            Item::Weight(entry) => Some(entry),
            Item::Bytes(_) => None,
        }
    }
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
            is_raw: true,
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
