//! Tests of the codec, on checkpoints that PyTorch wrote and on ones made byte by byte.

mod cases;
mod conformance;
mod kit;
