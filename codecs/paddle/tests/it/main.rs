//! Tests of the codec.

mod cases;
mod conformance;
