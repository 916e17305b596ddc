//! Tests of the codec, on files written by hand and beside the `safetensors` crate.

mod common;
mod conformance;
mod parts;
mod peer;
mod reject;
mod write;
