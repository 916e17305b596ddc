//! Every operator, through [`ckpt_forward::Program`], against loops that are written here independently.

mod integer;
mod linear;
mod support;
