//! TensorFlow checkpoints: index and data in one input (see `inputs::bundle`), and the bytes as a state file.

use crate::{check, inputs};

pub(super) fn fuzz(data: &[u8]) {
    let codec = &ckpt_tf2::Tf2;
    let options = check::options(codec, &[]);
    check::read(codec, &inputs::bundle(data), &options);
    check::read(codec, &inputs::single("checkpoint", data), &options);
}
