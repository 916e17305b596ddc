//! Frozen graphs and V1 checkpoints, on files built here and (with `CKPT_CASES`) on files that TensorFlow wrote.

mod build;
mod cases;
mod conformance;
mod meta;
mod rules;
