//! CNN2 files, with and without `lenient`, and with what a file does not state.

use crate::{check, inputs};

pub(super) fn fuzz(data: &[u8]) {
    let input = inputs::single("cnn.bin", data);
    let codec = &ckpt_cnn2::Cnn2;
    for options in [
        &[][..],
        &[("lenient", "true")],
        &[("activation", "clamp"), ("border", "clamp")],
        &[("lenient", "true"), ("activation", "none,tanh"), ("border", "zero")],
    ] {
        check::read(codec, &input, &check::options(codec, options));
    }
}
