//! Every operator of [`ckpt_forward::Program`], compared with independent loops.

mod anything;
mod elementwise;
mod errors;
mod integer;
mod linear;
mod magnitude;
mod moves;
mod normalization;
mod registered;
mod running;
mod support;
mod window;
