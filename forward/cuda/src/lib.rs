#![doc = include_str!("../README.md")]

#[cfg(feature = "cuda")]
mod device;
mod launch;
mod pack;
mod sizes;

#[cfg(feature = "cuda")]
pub use device::Cuda;
pub use launch::{Launch, WORDS};
pub use sizes::{Operand, SLOTS};

/// The kernels as PTX, which every driver since CUDA 12.0 compiles for its GPU: what `kernels/kernels.cu` compiles to.
pub const PTX: &str = include_str!("../kernels/kernels.ptx");
