//! Tensors: a name, a type of elements, a shape, and what axes and numbers mean.

mod axis;
mod blocks;
mod description;
mod dtype;
mod quantization;
mod scalar;
mod shape;
mod viewed;

pub use axis::Axis;
pub use blocks::{BlockCoder, Blocks, DecodeBlock, EncodeBlocks, Misfit};
pub use description::{Slot, Tensor};
pub use dtype::{DType, Endian};
pub use quantization::{Affine, Quantization};
pub use scalar::Scalar;
pub use shape::Shape;
pub use viewed::Viewed;
