//! CNN2 files, with and without `lenient`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let input = ckpt_fuzz::single("cnn.bin", data);
    ckpt_fuzz::read(&ckpt_cnn2::Cnn2, &input, &[]);
    ckpt_fuzz::read(&ckpt_cnn2::Cnn2, &input, &[("lenient".to_owned(), "true".to_owned())]);
});
