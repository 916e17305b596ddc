//! Tests of the codec, and of its generated code.

mod codec;
mod generated;
mod tf1;
