//! Tests of the codec.

mod cases;
mod conformance;
mod graphs;
mod rules;
