//! The codec's promises, on files built here and (with `CKPT_CASES`) on bullet's own.

mod architectures;
mod build;
mod cases;
mod conformance;
mod engine;
mod layouts;
mod list;
mod nets;
mod properties;
mod reading;
mod writing;
