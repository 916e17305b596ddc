//! Tests of the codec, on the corpus and on files made byte by byte.

mod build;
mod conformance;
mod graphs;
mod rules;
