//! Every operator, through [`ckpt_forward::Program`], against loops that are written here independently.

mod anything;
mod elementwise;
mod errors;
mod integer;
mod linear;
mod magnitude;
mod moves;
mod normalization;
mod running;
mod support;
mod window;
