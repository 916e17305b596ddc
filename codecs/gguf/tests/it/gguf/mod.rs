//! The codec's promises, on files built here and (with `CKPT_CASES`) on files by other programs.

mod build;
mod cases;
mod conformance;
mod quantizing;
mod reading;
mod writing;
