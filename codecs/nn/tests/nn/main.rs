//! The codec's promises, on files built here and (with `CKPT_CASES`) on real ones.

mod build;
mod cases;
mod conformance;
mod dialects;
mod properties;
mod reading;
mod writing;
