//! Mapping files: parsing, applying to a few names, inverting, writing back.
#![no_main]

use ckpt::mapping::Mapping;

const NAMES: [&str; 4] = ["model/h0/attn/c_attn/w", "model/h11/mlp/b", "dense/kernel", ""];

libfuzzer_sys::fuzz_target!(|text: &str| {
    let Ok(mapping) = Mapping::from_toml(text, "mapping.toml") else { return };
    let _ = mapping.apply(&NAMES, &ckpt_api::Limits::default());
    if let Ok(inverse) = mapping.inverse() {
        let _ = inverse.apply(&NAMES, &ckpt_api::Limits::default());
    }
    Mapping::from_toml(&mapping.to_toml(), "again.toml").expect("what was written can be read");
});
