//! safetensors files, and the same bytes as the index of a set.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let codec = &ckpt_safetensors::Safetensors;
    let options = ckpt_fuzz::options(codec, &[]);
    for name in ["model.safetensors", "model.safetensors.index.json"] {
        ckpt_fuzz::read(codec, &ckpt_fuzz::single(name, data), &options);
    }
});
