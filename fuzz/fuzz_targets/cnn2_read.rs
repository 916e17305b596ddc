//! CNN2 files, with and without `lenient`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let input = ckpt_fuzz::single("cnn.bin", data);
    let codec = &ckpt_cnn2::Cnn2;
    ckpt_fuzz::read(codec, &input, &ckpt_fuzz::options(codec, &[]));
    ckpt_fuzz::read(codec, &input, &ckpt_fuzz::options(codec, &[("lenient", "true")]));
});
