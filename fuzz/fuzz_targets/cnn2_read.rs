//! CNN2 files, with and without `lenient`, and with what a file does not state.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let input = ckpt_fuzz::single("cnn.bin", data);
    let codec = &ckpt_cnn2::Cnn2;
    for options in [
        &[][..],
        &[("lenient", "true")],
        &[("activation", "clamp"), ("border", "clamp")],
        &[("lenient", "true"), ("activation", "none,tanh"), ("border", "zero")],
    ] {
        ckpt_fuzz::read(codec, &input, &ckpt_fuzz::options(codec, options));
    }
});
