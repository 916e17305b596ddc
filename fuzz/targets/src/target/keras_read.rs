//! HDF5 files and archives of Keras, with and without `lenient`.

use crate::{check, inputs};

pub(super) fn fuzz(data: &[u8]) {
    let codec = &ckpt_keras::Keras;
    let (strict, lenient) = (check::options(codec, &[]), check::options(codec, &[("lenient", "true")]));
    for name in ["m.weights.h5", "m.weights.json"] {
        check::read(codec, &inputs::single(name, data), &strict);
    }
    check::read(codec, &inputs::single("m.keras", data), &lenient);
}
