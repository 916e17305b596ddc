//! TensorFlow checkpoints: index and data in one input (see `ckpt_fuzz::bundle`), and the bytes as a state file.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let codec = &ckpt_tf2::Tf2;
    let options = ckpt_fuzz::options(codec, &[]);
    ckpt_fuzz::read(codec, &ckpt_fuzz::bundle(data), &options);
    ckpt_fuzz::read(codec, &ckpt_fuzz::single("checkpoint", data), &options);
});
