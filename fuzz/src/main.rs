//! Runs the target that the environment variable `FUZZ_TARGET` names under libFuzzer.
#![no_main]

use ckpt_fuzz_targets::{TARGETS, Target};
use std::sync::LazyLock;

static TARGET: LazyLock<&Target> = LazyLock::new(chosen);

libfuzzer_sys::fuzz_target!(init: LazyLock::force(&TARGET), |data: &[u8]| (TARGET.run)(data));

/// The target; without one, says which there are and ends the process.
fn chosen() -> &'static Target {
    let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
    Target::named(&name).unwrap_or_else(|| {
        let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
        eprintln!("error: FUZZ_TARGET names no target");
        eprintln!("  found     '{name}'");
        eprintln!("  expected  one of {}", names.join(", "));
        eprintln!("  help      FUZZ_TARGET=nn_read cargo +nightly fuzz run fuzz");
        std::process::exit(2);
    })
}
