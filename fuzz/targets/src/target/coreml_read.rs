//! Core ML models of one file.

use crate::{check, inputs};

pub(super) fn fuzz(data: &[u8]) {
    let codec = &ckpt_coreml::CoreMl;
    check::read(codec, &inputs::single("m.mlmodel", data), &check::options(codec, &[]));
}
