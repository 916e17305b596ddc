//! Tests of the codec, on files that Keras and h5py wrote and on ones made byte by byte.

mod cases;
mod changed;
mod given;
mod kit;
mod order;
mod probe;
