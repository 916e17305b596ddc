//! Tiles of products of 32-bit floats, in vectors.

use fearless_simd::prelude::*;
use fearless_simd::{Level, Simd, dispatch, f32x16};
use std::array::from_fn;
use std::sync::OnceLock;

/// Rows of a tile.
pub(super) const ROWS: usize = 6;

/// The sums of a tile.
pub(super) type Sums<A, const COLUMNS: usize> = [[A; COLUMNS]; ROWS];

/// How many rows and columns of a tile are used, or more.
#[derive(Clone, Copy)]
pub(super) struct Used {
    pub(super) rows: usize,
    pub(super) columns: usize,
    /// Whether a product of 32-bit floats is rounded together with the sum that it is added to.
    pub(super) is_fused: bool,
}

/// Lanes of a vector. Shorter ones of a processor are joined to it.
const LANES: usize = 16;

/// The instructions of this processor. Asking takes as long as a small tile.
fn level() -> Level {
    static LEVEL: OnceLock<Level> = OnceLock::new();
    *LEVEL.get_or_init(Level::new)
}

/// Whether a vector is one register, so that tiles of 64 columns are in registers.
pub(super) fn are_wide() -> bool {
    #[cfg(target_arch = "x86_64")]
    return matches!(level(), Level::Avx512(_));
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// Whether a product and a sum are one instruction. Other processors compute it in many.
pub(super) fn can_fuse() -> bool {
    #[cfg(target_arch = "x86_64")]
    return matches!(level(), Level::Avx512(_) | Level::Avx2(_));
    #[cfg(not(target_arch = "x86_64"))]
    cfg!(target_arch = "aarch64")
}

/// As [`super::product::Tile::tile`].
pub(super) fn tile<const COLUMNS: usize>(
    a: &[[f32; ROWS]],
    b: &[[f32; COLUMNS]],
    used: Used,
    sums: &mut Sums<f32, COLUMNS>,
) {
    // Vectors that are not used are not computed, if there are several rows.
    macro_rules! of {
        ($rows:expr, $vectors:literal) => {
            match used.is_fused {
                true => dispatch!(level(), simd => add::<_, COLUMNS, $vectors, $rows, true>(simd, a, b, sums)),
                false => dispatch!(level(), simd => add::<_, COLUMNS, $vectors, $rows, false>(simd, a, b, sums)),
            }
        };
    }
    match (used.rows, used.columns.min(COLUMNS).div_ceil(LANES)) {
        (0 | 1, 0 | 1) => of!(1, 1),
        (0 | 1, _) => of!(1, 4),
        (_, 0 | 1) => of!(ROWS, 1),
        (_, 2) => of!(ROWS, 2),
        (_, 3) => of!(ROWS, 3),
        (_, _) => of!(ROWS, 4),
    }
}

/// Adds to the sums of the first `R` rows and `N` vectors of columns.
#[inline(always)]
fn add<S: Simd, const COLUMNS: usize, const N: usize, const R: usize, const FUSED: bool>(
    simd: S,
    a: &[[f32; ROWS]],
    b: &[[f32; COLUMNS]],
    all: &mut Sums<f32, COLUMNS>,
) {
    let vector = |row: &[f32; COLUMNS], n: usize| f32x16::from_slice(simd, &row[n * LANES..][..LANES]);
    // Of their own, so that they are in registers.
    let mut sums: [[f32x16<S>; N]; R] = from_fn(|r| from_fn(|n| vector(&all[r], n)));
    for (a, b) in a.iter().zip(b) {
        let b: [f32x16<S>; N] = from_fn(|n| vector(b, n));
        for r in 0..R {
            let a = f32x16::splat(simd, a[r]);
            for n in 0..N {
                sums[r][n] = if FUSED { a.mul_add(b[n], sums[r][n]) } else { sums[r][n] + a * b[n] };
            }
        }
    }
    for r in 0..R {
        for n in 0..N {
            sums[r][n].store_slice(&mut all[r][n * LANES..][..LANES]);
        }
    }
}
