//! Tests of the codec, on files built here.

mod build;
mod conformance;
mod graphs;
mod properties;
mod reading;
mod rules;
mod writing;
