//! PyTorch checkpoints, with and without `lenient`, and the same bytes as the pickle of an archive without checksums.

use crate::{check, inputs};
use ckpt_api::Writer;

pub(super) fn fuzz(data: &[u8]) {
    let codec = &ckpt_torch::Torch;
    let (strict, lenient) = (check::options(codec, &[]), check::options(codec, &[("lenient", "true")]));
    check::read(codec, &inputs::single("m.pt", data), &strict);
    check::read(codec, &inputs::single("m.pt", data), &lenient);
    check::read(codec, &inputs::single("m.pt", &archive(data)), &lenient);
}

/// An archive with this pickle and one storage.
fn archive(pickle: &[u8]) -> Vec<u8> {
    let members = [("a/data.pkl", pickle), ("a/data/0", &[7; 24]), ("a/version", b"3\n")];
    let (mut out, mut directory) = (Writer::new(), Writer::new());
    for (name, data) in members {
        let len = data.len() as u32;
        let mut fields = Writer::new();
        fields.numbers(&[0u16; 5]).numbers(&[0, len, len]).numbers(&[name.len() as u16, 0]);
        let fields = fields.into_bytes();
        directory.bytes(b"PK\x01\x02\0\0").bytes(&fields).numbers(&[0u16; 5]);
        directory.number(out.len() as u32).bytes(name.as_bytes());
        out.bytes(b"PK\x03\x04").bytes(&fields).bytes(name.as_bytes()).bytes(data);
    }
    let (at, directory) = (out.len() as u32, directory.into_bytes());
    out.bytes(&directory).bytes(b"PK\x05\x06").numbers(&[0u16, 0, 3, 3]);
    out.numbers(&[directory.len() as u32, at]).number(0u16);
    out.into_bytes()
}
