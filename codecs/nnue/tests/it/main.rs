//! Tests of the codec, on files made byte by byte.

mod build;
mod conformance;
mod rules;
