//! TensorFlow checkpoints: index and data in one input (see `ckpt_fuzz::bundle`), and the bytes as a state file.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let input = ckpt_fuzz::bundle(data);
    ckpt_fuzz::read(&ckpt_tf2::Tf2, &input, &[]);
    ckpt_fuzz::read(&ckpt_tf2::Tf2, &ckpt_fuzz::single("checkpoint", data), &[]);
});
