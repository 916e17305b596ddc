//! NumPy archives and arrays, with and without `lenient`, and with checksums as they must be.

use crate::{check, inputs};

pub(super) fn fuzz(data: &[u8]) {
    let codec = &ckpt_npz::Npz;
    let (strict, lenient) = (check::options(codec, &[]), check::options(codec, &[("lenient", "true")]));
    // Under the name of a single array, an archive would be written as one and lose its member's name.
    let names: &[&str] = if data.starts_with(b"PK") { &["m.npz"] } else { &["m.npz", "m.npy"] };
    for name in names {
        check::read(codec, &inputs::single(name, data), &strict);
        check::read(codec, &inputs::single(name, data), &lenient);
    }
    // Whatever the bytes are, as the data of a member.
    check::read(codec, &inputs::single("m.npz", &inputs::archive(data)), &lenient);
}
