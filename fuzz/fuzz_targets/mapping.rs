//! Mapping files: parsing, applying to a few names, inverting, explaining, writing back.
#![no_main]

use ckpt::mapping::Mapping;

const NAMES: [&str; 4] = ["model/h0/attn/c_attn/w", "model/h11/mlp/b", "dense/kernel", ""];

libfuzzer_sys::fuzz_target!(|text: &str| {
    let Ok(mapping) = Mapping::from_toml(text, "mapping.toml") else { return };
    let limits = ckpt_api::Limits::default();
    if let Ok(applied) = mapping.apply(&NAMES, &limits) {
        let targets: Vec<&str> = applied.targets.iter().map(|target| target.name.as_str()).collect();
        let tables = [applied.inverse_table(), applied.inverse].into_iter().flatten();
        for inverse in tables {
            let back = inverse.apply(&targets, &limits).expect("an inverse takes the targets");
            let sources = back.targets.len() + applied.dropped.len();
            assert_eq!(sources, NAMES.len(), "an inverse makes the sources again");
        }
    }
    for name in NAMES {
        let _ = mapping.explain(name, &limits);
    }
    let _ = mapping.rules();
    if let Ok(inverse) = mapping.inverse() {
        let _ = inverse.apply(&NAMES, &limits);
    }
    Mapping::from_toml(&mapping.to_toml(), "again.toml").expect("what was written can be read");
});
