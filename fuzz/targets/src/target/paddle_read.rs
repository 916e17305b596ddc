//! Pickles and records of PaddlePaddle.

use crate::{check, inputs};

pub(super) fn fuzz(data: &[u8]) {
    let codec = &ckpt_paddle::Paddle;
    for name in ["m.pdparams", "m.pdiparams"] {
        check::read(codec, &inputs::single(name, data), &check::options(codec, &[]));
    }
}
