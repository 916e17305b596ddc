//! HDF5 files and archives of Keras, with and without `lenient`.

use crate::{check, inputs};

/// The group of an HDF5 file that has a whole model.
const MODEL: &[u8] = b"model_weights";

pub(super) fn fuzz(data: &[u8]) {
    let codec = &ckpt_keras::Keras;
    let (strict, lenient) = (check::options(codec, &[]), check::options(codec, &[("lenient", "true")]));
    // In another container, the weights of a whole model would have other names.
    let is_model = data.windows(MODEL.len()).any(|bytes| bytes == MODEL);
    let name = |of_weights: &'static str| if is_model { "m.h5" } else { of_weights };
    for name in [name("m.weights.h5"), "m.weights.json"] {
        check::read(codec, &inputs::single(name, data), &strict);
    }
    check::read(codec, &inputs::single(name("m.keras"), data), &lenient);
}
