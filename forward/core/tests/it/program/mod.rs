//! Every operator of [`ckpt_forward::Program`], compared with independent loops.

mod anything;
mod channels;
mod control;
mod elementwise;
mod errors;
mod integer;
mod linear;
mod magnitude;
mod moves;
mod normalization;
mod operations;
mod order;
mod places;
mod products;
mod recurrent;
mod reduce;
mod registered;
mod resize;
mod running;
mod shapes;
mod specialize;
mod support;
mod window;
