//! Parameter files of MXNet.

use crate::{check, inputs};

pub(super) fn fuzz(data: &[u8]) {
    let codec = &ckpt_mxnet::Mxnet;
    check::read(codec, &inputs::single("m.params", data), &check::options(codec, &[]));
}
