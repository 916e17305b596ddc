//! ONNX models, with and without `lenient`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let codec = &ckpt_onnx::Onnx;
    let (strict, lenient) =
        (ckpt_fuzz::options(codec, &[]), ckpt_fuzz::options(codec, &[("lenient", "true")]));
    ckpt_fuzz::read(codec, &ckpt_fuzz::single("m.onnx", data), &strict);
    ckpt_fuzz::read(codec, &ckpt_fuzz::single("m.onnx", data), &lenient);
});
