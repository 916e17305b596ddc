#![doc = include_str!("../README.md")]

mod array;
mod backend;
#[cfg(feature = "conformance")]
pub mod conformance;
mod cpu;
pub mod kernel;

pub use array::{Array, Element};
pub use backend::{Arithmetic, Backend, BufferId, DeviceInfo, MathMode};
pub use cpu::Cpu;
pub use kernel::Kernel;
