//! Tests of the codec, on checkpoints that PyTorch wrote and on ones made byte by byte.

mod attributes;
mod build;
mod byte_order;
mod cases;
mod conformance;
mod devices;
mod differences;
mod distributed;
mod kit;
mod metadata;
mod modules;
mod names;
mod numpy;
mod parts;
mod unsupported;
mod views;
mod zero;
