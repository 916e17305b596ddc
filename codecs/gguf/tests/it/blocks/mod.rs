//! The numbers of blocks, and the blocks of numbers: both have the bits that `gguf-py` gives.

mod cases;
mod decoding;
mod encoding;
mod numbers;
mod properties;
mod types;
