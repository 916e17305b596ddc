//! Tests of the codec, on files made byte by byte.

mod build;
mod cases;
mod conformance;
mod graphs;
mod rules;
