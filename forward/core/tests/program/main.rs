//! Every operator, through [`ckpt_forward::Program`], against loops that are written here independently.

mod elementwise;
mod integer;
mod linear;
mod moves;
mod normalisation;
mod support;
mod window;
