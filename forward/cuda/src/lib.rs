#![doc = include_str!("../README.md")]

#[cfg(feature = "cuda")]
mod device;
mod launch;
mod pack;
#[cfg(feature = "cuda")]
mod ptx;
mod sizes;

#[cfg(feature = "cuda")]
pub use device::Cuda;
pub use launch::{Launch, WORDS};
#[cfg(feature = "cuda")]
pub use ptx::ptx;
pub use sizes::{Operand, SLOTS};
