//! TensorFlow's messages, generated from `schemas/*.proto`.
#![allow(missing_docs)]
#![allow(clippy::all)]

include!(concat!(env!("OUT_DIR"), "/tensorflow.rs"));
