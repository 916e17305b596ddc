//! Pickles and records of PaddlePaddle.

use crate::{check, inputs};
use ckpt_api::Codec;

pub(super) fn fuzz(data: &[u8]) {
    let codec = &ckpt_paddle::Paddle;
    check::read(codec, &inputs::single("m.pdparams", data), &check::options(codec, &[]));
    let records = inputs::single("m.pdiparams", data);
    match data.first() {
        // A pickle is read whatever its name; a file of this name is written without those of its tensors.
        Some(0x80) => drop(codec.read(&records, &check::options(codec, &[]), records.limits())),
        _ => drop(check::read(codec, &records, &check::options(codec, &[]))),
    }
}
