//! Tests of the codec and of Keras's configurations.

mod codec;
mod config;
