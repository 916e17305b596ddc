//! Loops compiled for several instruction sets, of which the best that the processor has is chosen when they run.

use fearless_simd::{Level, dispatch};

/// Does `work`, whose loops, and those of the `#[inline(always)]` functions in it, are compiled once for each
/// instruction set. The closure has to be `#[inline(always)]`. What it computes does not depend on the choice: nothing
/// is reassociated or fused.
#[inline]
pub(super) fn vectorized<R>(work: impl FnOnce() -> R) -> R {
    dispatch!(Level::new(), _ => work())
}
