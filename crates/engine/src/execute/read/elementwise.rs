//! Applies the elementwise steps of a route to a chunk.

use crate::layout::Step;
use crate::transform::{Buffer, cast, dequantize, pack, quantize, swap_bytes, unpack};
use ckpt_api::Result;

/// Applies the elementwise steps of `steps` to a chunk of whole elements, in place of `bytes`; `first` is the position
/// of its first element, for errors. `padding` elements are no elements, but fill up the last byte of packed ones. Returns the largest absolute rounding error of a cast or of
/// blocks.
///
/// # Errors
/// [`ckpt_api::Kind::Unsupported`] from a cast, [`ckpt_api::Kind::Lossy`] for a number that does not fit its new dtype.
pub(super) fn apply_elementwise(
    steps: &[Step],
    first: u64,
    padding: usize,
    bytes: &mut Buffer,
    spare: &mut Buffer,
) -> Result<f64> {
    let mut rounding = 0f64;
    for step in steps {
        match step {
            Step::SwapBytes { component } => swap_bytes(bytes, *component),
            Step::Cast { from, to, .. } => {
                rounding = rounding.max(cast(*from, *to, first, bytes, spare.vec())?);
                std::mem::swap(bytes, spare);
            }
            Step::Unpack { dtype } => {
                unpack(*dtype, bytes, spare.vec());
                let elements = spare.len().saturating_sub(padding);
                spare.vec().truncate(elements);
                std::mem::swap(bytes, spare);
            }
            Step::Pack { dtype } => {
                pack(*dtype, bytes, spare.vec());
                std::mem::swap(bytes, spare);
            }
            Step::Quantize { to, scaling } => {
                quantize(*to, *scaling, first, bytes, spare.vec())?;
                std::mem::swap(bytes, spare);
            }
            Step::Dequantize { from, scaling } => {
                dequantize(*from, *scaling, bytes, spare.vec())?;
                std::mem::swap(bytes, spare);
            }
            Step::DecodeBlocks { blocks } => {
                spare.vec().clear();
                blocks.decode(bytes, spare.vec())?;
                std::mem::swap(bytes, spare);
            }
            Step::EncodeBlocks { blocks } => {
                spare.vec().clear();
                rounding = rounding.max(blocks.encode(first, bytes, spare.vec())?);
                std::mem::swap(bytes, spare);
            }
            // Computed numbers are read as they are.
            Step::Compute { .. }
            | Step::Permute { .. }
            | Step::Assemble { .. }
            | Step::Cut { .. }
            | Step::Add { .. }
            | Step::Reshape { .. } => {}
        }
    }
    Ok(rounding)
}
