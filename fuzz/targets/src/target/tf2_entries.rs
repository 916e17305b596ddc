//! Entries of TensorFlow checkpoints behind right checksums (see `inputs::entries`), by name and by key.

use crate::{check, inputs};

pub(super) fn fuzz(data: &[u8]) {
    let (codec, input) = (&ckpt_tf2::Tf2, inputs::entries(data));
    check::read(codec, &input, &check::options(codec, &[]));
    check::read(codec, &input, &check::options(codec, &[("keys", "true")]));
}
