//! Kernels: loops over the elements of one buffer, which know neither files nor tensors.

mod arithmetic;
mod buffer;
mod cast;
mod extremes;
mod moments;
mod numbers;
mod pack;
mod packed;
mod permute;
mod product;
mod quantize;
mod simd;
mod sparse;
mod swap;

pub(crate) use arithmetic::{
    Arithmetic, affine_each, count_below, each_number, exp, log, look_up, with_blocks, with_each, with_runs,
};
pub(crate) use buffer::Buffer;
pub use cast::power;
pub use cast::{cast, castable, exact, for_each_number, restorable};
pub(crate) use extremes::{Extremes, affine};
pub use moments::Moments;
pub use numbers::each_block;
pub use pack::{pack, unpack};
pub(crate) use packed::{extend_signs, increment_words, look_up_pairs, pack_row, unpack_row, unpack_words};
pub use permute::permute;
pub(crate) use permute::{permute_into, strides};
pub(crate) use product::{LANES, Product, SquareSum, add_product};
pub use quantize::{dequantize, quantizable, quantize};
pub(crate) use sparse::{Consensus, keep};
pub(crate) use swap::swap_bytes;
