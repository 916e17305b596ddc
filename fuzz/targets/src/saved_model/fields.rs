//! What all parts of a SavedModel are made of: the variables, and fields of protocol buffers.

use crate::table;
use arbitrary::{Result, Unstructured};

/// Key and shape of each variable.
pub(super) const VARIABLES: [(&str, &[u64]); 9] = [
    ("dense", &[6, 4]),
    ("next", &[4, 4]),
    ("conv", &[3, 3, 2, 4]),
    ("bias", &[4]),
    ("gamma", &[4]),
    ("beta", &[4]),
    ("moving_mean", &[4]),
    ("moving_variance", &[4]),
    ("iterations", &[]),
];

/// A field that is a number.
pub(super) fn number(tag: usize, value: u64) -> Vec<u8> {
    [table::varint(tag << 3), table::varint(value as usize)].concat()
}

/// A field that has a length.
pub(super) fn message(tag: usize, value: &[u8]) -> Vec<u8> {
    [table::varint(tag << 3 | 2), table::varint(value.len()), value.to_vec()].concat()
}

/// A field that is a float.
pub(super) fn float(tag: usize, value: f32) -> Vec<u8> {
    [table::varint(tag << 3 | 5), value.to_le_bytes().to_vec()].concat()
}

/// True once in `of`, and never if the input has ended.
pub(super) fn rarely(u: &mut Unstructured, of: u16) -> Result<bool> {
    Ok(u.int_in_range(0..=of - 1)? == of - 1)
}
