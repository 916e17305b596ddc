//! The crate's promises, on files built here and (with `CKPT_CASES`) on those of other programs.

mod cases;
mod directory;
mod fixtures;
mod rules;
