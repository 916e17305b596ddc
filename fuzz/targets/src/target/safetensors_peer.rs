//! safetensors files against the crate of that name: both refuse a file, or find the same tensors in it. The bytes are a file;
//! and a header to the last brace, and data.

#[path = "../../../../codecs/safetensors/tests/it/peer/agree.rs"]
mod agree;

pub(super) fn fuzz(data: &[u8]) {
    agree::agree(data);
    let header = data.iter().rposition(|byte| *byte == b'}').map_or(0, |last| last + 1);
    agree::agree(&[&(header as u64).to_le_bytes()[..], data].concat());
}
