//! The numbers of blocks, and the blocks of numbers: both have the bits that `gguf-py` gives.

mod decoding;
mod encoding;
mod properties;
mod types;
