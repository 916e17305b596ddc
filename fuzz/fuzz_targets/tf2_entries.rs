//! Entries of TensorFlow checkpoints behind right checksums (see `ckpt_fuzz::entries`), by name and by key.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let (codec, input) = (&ckpt_tf2::Tf2, ckpt_fuzz::entries(data));
    ckpt_fuzz::read(codec, &input, &ckpt_fuzz::options(codec, &[]));
    ckpt_fuzz::read(codec, &input, &ckpt_fuzz::options(codec, &[("keys", "true")]));
});
