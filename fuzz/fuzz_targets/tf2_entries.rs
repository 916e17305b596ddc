//! Entries of TensorFlow checkpoints behind right checksums (see `ckpt_fuzz::entries`), by name and by key.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let input = ckpt_fuzz::entries(data);
    ckpt_fuzz::read(&ckpt_tf2::Tf2, &input, &[]);
    ckpt_fuzz::read(&ckpt_tf2::Tf2, &input, &[("keys".to_owned(), "true".to_owned())]);
});
