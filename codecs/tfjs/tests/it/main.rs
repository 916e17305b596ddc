//! Tests of the codec, on models that TensorFlow.js and its converter wrote, and on ones made byte by byte.

mod cases;
mod conformance;
