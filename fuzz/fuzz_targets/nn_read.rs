//! `.nn` files, with and without `lenient`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let input = ckpt_fuzz::single("model.nn", data);
    let codec = &ckpt_nn::Nn;
    ckpt_fuzz::read(codec, &input, &ckpt_fuzz::options(codec, &[]));
    ckpt_fuzz::read(codec, &input, &ckpt_fuzz::options(codec, &[("lenient", "true")]));
});
