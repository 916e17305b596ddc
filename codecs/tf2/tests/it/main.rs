//! Tests of the codec.

mod codec;
mod tf1;
