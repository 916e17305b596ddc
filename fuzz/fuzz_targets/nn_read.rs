//! `.nn` files, with and without `lenient`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let input = ckpt_fuzz::single("model.nn", data);
    ckpt_fuzz::read(&ckpt_nn::Nn, &input, &[]);
    ckpt_fuzz::read(&ckpt_nn::Nn, &input, &[("lenient".to_owned(), "true".to_owned())]);
});
