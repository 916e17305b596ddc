//! Files of Torch7.

use crate::{check, inputs};

pub(super) fn fuzz(data: &[u8]) {
    let codec = &ckpt_torch7::Torch7;
    check::read(codec, &inputs::single("m.t7", data), &check::options(codec, &[]));
}
