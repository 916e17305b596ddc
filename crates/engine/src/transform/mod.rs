//! Kernels: loops over the elements of one buffer, which know neither files nor tensors.

mod arithmetic;
mod buffer;
mod cast;
mod moments;
mod numbers;
mod pack;
mod permute;
mod quantize;
mod simd;
mod swap;

pub(crate) use arithmetic::{each_number, exp, log, multiply_blocks};
pub(crate) use buffer::Buffer;
pub use cast::power;
pub use cast::{cast, castable, exact, for_each_number, restorable};
pub use moments::Moments;
pub use numbers::each_block;
pub use pack::{pack, unpack};
pub use permute::permute;
pub(crate) use permute::{permute_into, strides};
pub use quantize::{dequantize, quantizable, quantize};
pub(crate) use swap::swap_bytes;
