//! TensorFlow checkpoints of any files, named in any way, read with any options (see `ckpt_fuzz::files`).
#![no_main]

/// What the bits of the first byte switch on.
const OPTIONS: [(&str, &str); 3] = [("keys", "true"), ("lenient", "true"), ("activations", "relu")];

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let codec = &ckpt_tf2::Tf2;
    let (first, rest) = data.split_first().unwrap_or((&0, data));
    let chosen: Vec<_> =
        (0..).zip(OPTIONS).filter(|(bit, _)| first >> bit & 1 == 1).map(|(_, option)| option).collect();
    ckpt_fuzz::read(codec, &ckpt_fuzz::files(rest), &ckpt_fuzz::options(codec, &chosen));
});
