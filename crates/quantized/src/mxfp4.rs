//! MXFP4 of gpt-oss: blocks of 32 elements of 4 bits, with a power of two for each block.

use crate::numbers::{Blocks, Weight, numbers_as};
use crate::parts::Parts;
use ckpt_api::{DType, Encoding, Error, Operation, Packing, Result, Shape};
use ckpt_engine::formats::Group;

/// Elements of a block.
pub(crate) const BLOCK: u64 = 32;

/// The parameter whose blocks and scales have names that begin with `stem`; `None` if the tensors are none.
///
/// # Errors
/// [`ckpt_api::Kind::Corrupt`] for parts that do not fit each other.
pub(crate) fn weight(stem: &str, parts: &Parts<'_>) -> Result<Option<Group>> {
    let (blocks, scales) = (parts.need(stem, "_blocks", "_scales")?, parts.need(stem, "_scales", "_blocks")?);
    blocks.is_of(&[DType::U8])?;
    scales.is_of(&[DType::U8, DType::F8E8m0])?;
    let [experts, outputs, in_row, bytes] = blocks.shape()[..] else {
        return Err(Error::unsupported("blocks of MXFP4 have axes that are not known")
            .tensor(&blocks.tensor.name)
            .found(blocks.shape().to_string())
            .expected("[experts, out, blocks, 16]"));
    };
    blocks.has_shape(&[experts, outputs, in_row, BLOCK / 2], "16 bytes a block")?;
    scales.has_shape(&[experts, outputs, in_row], "an exponent for each block")?;
    let shape = Shape::new([experts, outputs, in_row.saturating_mul(2).saturating_mul(bytes)])?;
    let exponents = numbers_as(&scales, Encoding::new(DType::F8E8m0, vec![0]));
    let of_scales = Blocks::new(&shape, [1, 1, BLOCK]).of(&scales, exponents);
    let elements = Encoding::new(DType::F4E2m1, vec![0]).with_packing(Packing::Bits);
    let computed = numbers_as(&blocks, elements).with_operations(vec![Operation::MultiplyBlocks(of_scales)]);
    let mut weight = Weight::new(stem, shape.clone(), computed, "mxfp4");
    // The parameter is [experts, in, out].
    weight.axes = Some(vec![0, 2, 1]);
    weight.of([&blocks, &scales]).map(Some)
}
