//! Files of Flax, and the same bytes as the old tree of an Orbax checkpoint.

use crate::{check, inputs};
use ckpt_api::Input;

pub(super) fn fuzz(data: &[u8]) {
    let codec = &ckpt_orbax::Flax;
    check::read(codec, &inputs::single("m.msgpack", data), &check::options(codec, &[]));
    let codec = &ckpt_orbax::Orbax;
    let input = Input::memory("", [("checkpoint".to_owned(), data.to_vec())].into());
    check::read(codec, &input, &check::options(codec, &[]));
}
