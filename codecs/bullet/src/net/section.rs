//! One entry of raw.bin, quantised.bin or an engine file, and its bytes.

use super::entry::Entry;
use super::parameter::{Parameter, StoredWeight};
use ckpt_api::{DType, Error};

/// One entry of a file, and its bytes.
#[derive(Clone, Debug)]
pub(crate) struct Section<'a> {
    pub(crate) entry: &'a Entry,
    /// The parameters that the entry stores, one after the other.
    pub(crate) stored: StoredWeight<'a>,
    /// The type of the stored elements.
    pub(crate) dtype: DType,
    /// First byte in the file.
    pub(crate) offset: u64,
    /// Bytes.
    pub(crate) len: u64,
    /// Which of the entries with this id it is, from 1.
    pub(crate) number: u64,
    /// Whether raw.bin stores it: by columns, as floats, without what other files merge into it.
    pub(crate) is_raw: bool,
    /// The id of the weight that is added to it.
    pub(crate) merged: Option<&'a str>,
    /// Whether the weight is read from another section: this one stores it a second time.
    pub(crate) is_copy: bool,
}

/// Bytes that the architecture states.
#[derive(Clone, Debug)]
pub(crate) struct Constant<'a> {
    /// Where the architecture states them.
    pub(crate) field: String,
    pub(crate) bytes: &'a [u8],
    /// First byte in the file.
    pub(crate) offset: u64,
}

impl Constant<'_> {
    /// The byte after the last. Adding it to the file checked that it is within 64 bits.
    pub(crate) fn end(&self) -> u64 {
        self.offset.saturating_add(self.bytes.len() as u64)
    }
}

impl<'a> Section<'a> {
    /// The ids of all parameters in its numbers: those that it stores, and that of the merged one.
    pub(super) fn included(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.ids().chain(self.merged)
    }

    /// The ids of the parameters that it stores.
    pub(super) fn ids(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.stored.parts.clone().into_iter().map(|part| part.id.as_str())
    }

    /// The name of a parameter's tensor: its id, and for a copy the entry's number.
    pub(crate) fn tensor_name(&self, parameter: &Parameter) -> String {
        match self.is_copy {
            false => parameter.id.clone(),
            true => format!("{}#{}", parameter.id, self.number),
        }
    }
}

/// The error for a file whose size exceeds 64 bits.
pub(crate) fn too_large(id: &str) -> Error {
    Error::usage("the architecture describes a file that is too large").tensor(id)
}
