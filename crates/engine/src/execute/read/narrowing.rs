//! Computed numbers that become a smaller dtype: each piece is rounded while it is in the cache, before anything moves it.

use super::computing::Computing;
use super::files::ComputedNumbers;
use crate::layout::{Part, Step, Transfer};
use ckpt_api::{DType, Result};
use std::sync::Arc;

/// The same transfer, of numbers that are computed in the dtype that its cast gives, and that dtype; `None` for others.
pub(super) fn narrowed<'a>(transfer: &Transfer<'a>) -> Option<(Transfer<'a>, DType)> {
    let [extent] = &transfer.source.extents[..] else { return None };
    let is_whole = extent.is_computed() && extent.checksum.is_none() && transfer.source.window().is_none();
    let is_cast = |step: &Step| matches!(step, Step::Cast { from: DType::F32, .. });
    let at = transfer.steps.iter().position(is_cast).filter(|_| is_whole && transfer.addends.is_empty())?;
    let dtype = match transfer.steps.get(at) {
        Some(Step::Cast { to: to @ (DType::F16 | DType::Bf16), .. }) => *to,
        _ => return None,
    };
    let moves =
        |step: &Step| matches!(step, Step::Compute { .. } | Step::Permute { .. } | Step::Reshape { .. });
    if transfer.source.encoding.dtype != DType::F32 || !transfer.steps.iter().take(at).all(moves) {
        return None;
    }
    let mut narrow = transfer.clone();
    let source = narrow.source.to_mut();
    source.encoding.dtype = dtype;
    source.extents.iter_mut().for_each(|extent| extent.len /= 2);
    narrow.steps.to_mut().remove(at);
    Some((narrow, dtype))
}

/// A part of numbers that have four bytes each, if they have two.
pub(super) fn half(part: &Part) -> Part {
    match part {
        Part::Sequence { extents, bytes } => {
            Part::Sequence { extents: *extents, bytes: bytes.start / 2..bytes.end / 2 }
        }
        Part::Box(region) => Part::Box(region.clone()),
    }
}

/// Computed numbers as a smaller dtype.
#[derive(Debug)]
pub(super) struct Narrowed<'a>(pub(super) Arc<Computing<'a>>, pub(super) DType);

impl ComputedNumbers for Narrowed<'_> {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        self.0.read_narrowed(self.1, offset, out)
    }
}
