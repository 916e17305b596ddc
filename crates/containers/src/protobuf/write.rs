//! Writes fields of messages.

use prost::encoding::encode_varint;

/// Appends a varint.
pub fn put_varint(bytes: &mut Vec<u8>, value: u64) {
    encode_varint(value, bytes);
}

/// Appends an integer field.
pub fn put_int(bytes: &mut Vec<u8>, number: u64, value: i64) {
    encode_varint(number << 3, bytes);
    encode_varint(value as u64, bytes);
}

/// Appends the tag of a field of bytes, and their number.
pub fn put_len(bytes: &mut Vec<u8>, number: u64, len: u64) {
    encode_varint(number << 3 | 2, bytes);
    encode_varint(len, bytes);
}

/// Appends a field of bytes.
pub fn put_bytes(bytes: &mut Vec<u8>, number: u64, value: &[u8]) {
    put_len(bytes, number, value.len() as u64);
    bytes.extend_from_slice(value);
}
