//! Tiles of matrix products, in which every sum is computed in its stated order.

use super::number::{Number, Stored};
use super::taps::Taps;
use super::vectors::{self, ROWS, Sums, Used};
use multiversion::multiversion;

/// A type in which products are summed.
pub(super) trait Product: Number {
    /// Runs `job` with the tiles that this processor is fastest with. All tiles give the same bits.
    fn dispatch(job: impl Job<Self>) -> Option<()>;

    /// Adds what the taps of a kernel cover of a plane ([`Taps::add`]).
    fn add_taps<T: Stored<Self>>(sums: &mut [Self], x: &[T], weight: &[T], taps: &Taps);
}

/// A task that multiplies in tiles.
pub(super) trait Job<A> {
    fn run<const COLUMNS: usize>(self) -> Option<()>
    where
        A: Tile<COLUMNS>;
}

/// A tile of [`ROWS`] by `COLUMNS` sums, which stay in registers.
pub(super) trait Tile<const COLUMNS: usize>: Product {
    /// Adds `Σ a[k][r]·b[k][c]` to the sums, for each `r` and each `c` that is used: for ascending `k`, each product (unless it
    /// is fused) and each sum rounded.
    fn tile(a: &[[Self; ROWS]], b: &[[Self; COLUMNS]], used: Used, sums: &mut Sums<Self, COLUMNS>);
}

/// Summands that are added to all tiles before the next ones, so that they stay in a cache close by.
pub(super) const DEPTH: usize = 256;

/// Adds to the sums of the first `R` rows and `USED` columns.
#[inline(always)]
fn add<A: Number, const COLUMNS: usize, const USED: usize, const R: usize>(
    a: &[[A; ROWS]],
    b: &[[A; COLUMNS]],
    all: &mut Sums<A, COLUMNS>,
) {
    // Of their own, so that they are in registers.
    let mut sums = [[A::ZERO; USED]; R];
    sums.iter_mut().zip(&*all).for_each(|(sums, all)| sums.copy_from_slice(&all[..USED]));
    for (a, b) in a.iter().zip(b) {
        for r in 0..R {
            for c in 0..USED {
                sums[r][c] = sums[r][c].add(a[r].mul(b[c]));
            }
        }
    }
    all.iter_mut().zip(&sums).for_each(|(all, sums)| all[..USED].copy_from_slice(sums));
}

macro_rules! tile {
    ($t:ty, $columns:literal, [$($fewer:literal),*], $targets:literal) => {
        impl Tile<$columns> for $t {
            fn tile(a: &[[$t; ROWS]], b: &[[$t; $columns]], used: Used, sums: &mut Sums<$t, $columns>) {
                #[multiversion(targets($targets))]
                fn vectorized<const USED: usize, const R: usize>(
                    a: &[[$t; ROWS]],
                    b: &[[$t; $columns]],
                    sums: &mut Sums<$t, $columns>,
                ) {
                    add::<$t, $columns, USED, R>(a, b, sums);
                }
                if used.rows <= 1 {
                    return vectorized::<$columns, 1>(a, b, sums);
                }
                $(if used.columns <= $fewer {
                    return vectorized::<$fewer, ROWS>(a, b, sums);
                })*
                vectorized::<$columns, ROWS>(a, b, sums);
            }
        }
    };
}

impl Tile<16> for f32 {
    fn tile(a: &[[f32; ROWS]], b: &[[f32; 16]], used: Used, sums: &mut Sums<f32, 16>) {
        vectors::tile(a, b, used, sums);
    }
}

impl Tile<64> for f32 {
    fn tile(a: &[[f32; ROWS]], b: &[[f32; 64]], used: Used, sums: &mut Sums<f32, 64>) {
        vectors::tile(a, b, used, sums);
    }
}

tile!(f64, 8, [4], "x86_64+avx+avx2");
tile!(i64, 8, [4], "x86_64+avx+avx2");

macro_rules! product {
    ($t:ty, $columns:literal, $of_wide_vectors:literal, $targets:literal) => {
        impl Product for $t {
            fn dispatch(job: impl Job<Self>) -> Option<()> {
                match vectors::are_wide() {
                    true => job.run::<$of_wide_vectors>(),
                    false => job.run::<$columns>(),
                }
            }

            fn add_taps<T: Stored<Self>>(sums: &mut [Self], x: &[T], weight: &[T], taps: &Taps) {
                #[multiversion(targets($targets))]
                fn vectorized<T: Stored<$t>>(sums: &mut [$t], x: &[T], weight: &[T], taps: &Taps) {
                    taps.add(sums, x, weight);
                }
                vectorized(sums, x, weight, taps);
            }
        }
    };
}

product!(f32, 16, 64, "x86_64+avx+avx2");
product!(f64, 8, 8, "x86_64+avx+avx2");
product!(i64, 8, 8, "x86_64+avx+avx2");

/// Rows of a panel that are filled at a time, so that they stay in the L1 cache.
const BLOCK: usize = 64;

/// Where the elements of a panel are: lane `l` of row `k` is element `first + l·lane + steps[k]`.
pub(super) struct Lanes<'a> {
    pub(super) first: usize,
    pub(super) lane: usize,
    pub(super) count: usize,
    pub(super) steps: &'a [usize],
}

/// Copies lanes side by side, `panel[k][l]`, and fills those that are missing with zeros.
pub(super) fn pack<T: Stored<A>, A: Number, const N: usize>(panel: &mut [[A; N]], from: &[T], lanes: &Lanes) {
    let count = lanes.count.min(N);
    for (rows, steps) in panel.chunks_mut(BLOCK).zip(lanes.steps.chunks(BLOCK)) {
        if lanes.lane == 1 {
            for (row, step) in rows.iter_mut().zip(steps) {
                let from = &from[lanes.first + step..][..count];
                row.iter_mut().zip(from).for_each(|(to, from)| *to = from.widen());
                row[count..].fill(A::ZERO);
            }
            continue;
        }
        let is_run = steps.is_sorted_by(|a, b| a + 1 == *b);
        for l in 0..N {
            let lane = lanes.first + l * lanes.lane;
            match steps.first().filter(|_| l < count) {
                None => rows.iter_mut().for_each(|row| row[l] = A::ZERO),
                Some(first) if is_run => {
                    let from = &from[lane + first..][..steps.len()];
                    rows.iter_mut().zip(from).for_each(|(row, from)| row[l] = from.widen());
                }
                Some(_) => {
                    rows.iter_mut().zip(steps).for_each(|(row, step)| row[l] = from[lane + step].widen());
                }
            }
        }
    }
}
