//! ONNX models, with and without `lenient`.

use crate::{check, inputs};

pub(super) fn fuzz(data: &[u8]) {
    let codec = &ckpt_onnx::Onnx;
    let (strict, lenient) = (check::options(codec, &[]), check::options(codec, &[("lenient", "true")]));
    check::read(codec, &inputs::single("m.onnx", data), &strict);
    check::read(codec, &inputs::single("m.onnx", data), &lenient);
}
