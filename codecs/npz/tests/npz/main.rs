//! The codec's promises, on files built here.

mod build;
mod conformance;
mod properties;
mod reading;
mod rules;
mod writing;
