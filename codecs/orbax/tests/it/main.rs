//! Tests of the codecs, on checkpoints that JAX's programs wrote and on ones made byte by byte.

mod cases;
mod conformance;
mod keys;
