//! Byte order.

use super::simd;

/// Reverses the bytes of every component.
pub(crate) fn swap_bytes(bytes: &mut [u8], component: usize) {
    match component {
        2 => swap::<2>(bytes),
        4 => swap::<4>(bytes),
        8 => swap::<8>(bytes),
        _ => {}
    }
}

fn swap<const N: usize>(bytes: &mut [u8]) {
    simd::vectorized(
        #[inline(always)]
        || bytes.as_chunks_mut::<N>().0.iter_mut().for_each(|chunk| chunk.reverse()),
    );
}
