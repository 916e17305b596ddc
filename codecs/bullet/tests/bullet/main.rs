//! Tests of the codec, on files built here and, with `CKPT_CASES`, on files that bullet wrote.

mod architectures;
mod build;
mod cases;
mod conformance;
mod engine;
mod entries;
mod layouts;
mod list;
mod nets;
mod properties;
mod reading;
mod writing;
