//! Frozen graphs and V1 checkpoints of TensorFlow 1, also as the graph beside a checkpoint.

use crate::{check, inputs};

pub(super) fn fuzz(data: &[u8]) {
    let codec = &ckpt_tf2::Tf1;
    let input = inputs::single("x.pb", data);
    for options in [&[][..], &[("constants", "true")]] {
        check::read(codec, &input, &check::options(codec, options));
    }
}
