//! TensorFlow's protobuf messages, generated from `schemas/*.proto`.
//!
//! The generated code is checked in, so that building the crate compiles no protobuf compiler. The test `generated`
//! compares it with the schemas; `CKPT_PROTO=write cargo test -p ckpt-tf-graph --test it generated` rewrites it.

#![allow(missing_docs)]

include!("proto/generated.rs");
