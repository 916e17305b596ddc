//! Texts, each after its length.

use super::shards::{Shards, too_large};
use ckpt_api::{Error, Extent, Literal, Result, Tensor};

/// Texts of a tensor, at most: each takes an extent and a length of its own.
const MOST: u64 = 1 << 20;

/// Places the elements of a tensor of texts, and the lengths before them.
///
/// # Errors
/// [`ckpt_api::Kind::Unsupported`] for too many texts, and for one that is too long.
pub(super) fn place(
    tensor: &Tensor,
    shards: &mut Shards,
    literals: &mut Vec<Literal>,
) -> Result<Vec<Extent>> {
    let lengths = tensor.lengths.as_deref().unwrap_or_default();
    if lengths.len() as u64 > MOST {
        return Err(Error::unsupported("the tensor has too many texts for TensorFlow.js")
            .found(lengths.len().to_string())
            .expected(format!("at most {MOST}")));
    }
    let mut extents = Vec::with_capacity(lengths.len());
    for length in lengths {
        let stored = u32::try_from(*length).map_err(|_| {
            Error::unsupported("a text is too long for TensorFlow.js").found(ckpt_api::count(*length, "byte"))
        })?;
        let whole = shards.next(length.checked_add(4).ok_or_else(too_large)?)?;
        let bytes = stored.to_le_bytes().to_vec();
        literals.push(Literal { file: whole.file, offset: whole.offset, bytes });
        extents.push(Extent::new(whole.file, whole.offset.saturating_add(4), *length));
    }
    Ok(extents)
}
