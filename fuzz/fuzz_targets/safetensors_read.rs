//! safetensors files, and the same bytes as the index of a set.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    ckpt_fuzz::read(&ckpt_safetensors::Safetensors, &ckpt_fuzz::single("model.safetensors", data), &[]);
    let index = ckpt_fuzz::single("model.safetensors.index.json", data);
    ckpt_fuzz::read(&ckpt_safetensors::Safetensors, &index, &[]);
});
