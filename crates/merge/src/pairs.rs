//! Reads two tensors side by side.

use ckpt_api::Result;
use ckpt_engine::source::TensorRef;

/// Hands out the elements of both tensors, one pair after the other, with their numbers.
///
/// # Errors
/// Whatever keeps the tensors from being read.
pub(crate) fn each_pair(
    first: &TensorRef<'_>,
    second: &TensorRef<'_>,
    mut each: impl FnMut(u64, f32, f32),
) -> Result<()> {
    let (mut a, mut b) = (first.chunks::<f32>()?, second.chunks::<f32>()?);
    let (mut own, mut other): (Vec<f32>, Vec<f32>) = (Vec::new(), Vec::new());
    let (mut at_own, mut at_other, mut element) = (0, 0, 0);
    loop {
        // Chunks need not be cut alike.
        if at_own == own.len() {
            (own, at_own) = (a.next().transpose()?.unwrap_or_default(), 0);
        }
        if at_other == other.len() {
            (other, at_other) = (b.next().transpose()?.unwrap_or_default(), 0);
        }
        let len = (own.len() - at_own).min(other.len() - at_other);
        if len == 0 {
            return Ok(());
        }
        for (x, y) in own[at_own..at_own + len].iter().zip(&other[at_other..at_other + len]) {
            each(element, *x, *y);
            element += 1;
        }
        (at_own, at_other) = (at_own + len, at_other + len);
    }
}
