//! safetensors files, and the same bytes as the index of a set.

use crate::{check, inputs};

pub(super) fn fuzz(data: &[u8]) {
    let codec = &ckpt_safetensors::Safetensors;
    let options = check::options(codec, &[]);
    for name in ["model.safetensors", "model.safetensors.index.json"] {
        check::read(codec, &inputs::single(name, data), &options);
    }
}
