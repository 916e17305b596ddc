//! Tests of the block types and of the codec.

mod blocks;
mod gguf;
