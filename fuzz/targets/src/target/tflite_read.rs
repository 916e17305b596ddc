//! TensorFlow Lite models.

use crate::{check, inputs};

pub(super) fn fuzz(data: &[u8]) {
    let codec = &ckpt_tflite::Tflite;
    check::read(codec, &inputs::single("m.tflite", data), &check::options(codec, &[]));
}
