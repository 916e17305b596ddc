//! Every operator of [`ckpt_forward::Program`], compared with independent loops.

mod anything;
mod elementwise;
mod errors;
mod integer;
mod linear;
mod magnitude;
mod moves;
mod normalization;
mod reduce;
mod registered;
mod running;
mod shapes;
mod support;
mod window;
