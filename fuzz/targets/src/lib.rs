//! The fuzz targets of ckpt: functions that take any bytes, and panic where something that must hold does not.
//!
//! The program in `fuzz/` runs one of them under libFuzzer and AddressSanitizer. `cargo test` runs all of them without
//! either, over the [seeds] and a few mutations of these.

mod check;
mod files;
mod generate;
mod inputs;
mod loose;
mod naive;
mod round_trip;
mod saved_model;
pub mod seeds;
mod table;
mod target;

pub use target::TARGETS;

/// A function that takes any bytes.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// What `FUZZ_TARGET` names, and the folder of its corpus.
    pub name: &'static str,
    /// Panics if something that must hold does not.
    pub run: fn(&[u8]),
}

impl Target {
    /// Returns the target with this name.
    pub fn named(name: &str) -> Option<&'static Target> {
        TARGETS.iter().find(|target| target.name == name)
    }
}
