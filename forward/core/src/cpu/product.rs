//! Tiles of matrix products, in which every sum is computed in its stated order.

use super::number::{Number, Stored};
use multiversion::multiversion;

/// Rows of a tile.
pub(super) const ROWS: usize = 6;

/// A type in which products are summed.
pub(super) trait Product: Number {
    /// Runs `job` with the tiles that this processor is fastest with. All tiles give the same bits.
    fn dispatch(job: impl Job<Self>) -> Option<()>;
}

/// A task that multiplies in tiles.
pub(super) trait Job<A> {
    fn run<const COLUMNS: usize>(self) -> Option<()>
    where
        A: Tile<COLUMNS>;
}

/// A tile of [`ROWS`] by `COLUMNS` sums, which stay in registers.
pub(super) trait Tile<const COLUMNS: usize>: Product {
    /// Returns `Σ a[k][r]·b[k][c]` for each `r` and each `c` below `used`: from 0, for ascending `k`, each product and
    /// each sum rounded.
    fn tile(a: &[[Self; ROWS]], b: &[[Self; COLUMNS]], used: usize) -> [[Self; COLUMNS]; ROWS];
}

/// The sums of the first `USED` columns; those of the others are 0.
#[inline(always)]
fn sums<A: Number, const COLUMNS: usize, const USED: usize>(
    a: &[[A; ROWS]],
    b: &[[A; COLUMNS]],
) -> [[A; COLUMNS]; ROWS] {
    let mut sums = [[A::ZERO; USED]; ROWS];
    for (a, b) in a.iter().zip(b) {
        for (sums, a) in sums.iter_mut().zip(a) {
            for (sum, b) in sums.iter_mut().zip(b) {
                *sum = sum.add(a.mul(*b));
            }
        }
    }
    let mut all = [[A::ZERO; COLUMNS]; ROWS];
    all.iter_mut().zip(&sums).for_each(|(all, sums)| all[..USED].copy_from_slice(sums));
    all
}

macro_rules! tile {
    ($t:ty, $columns:literal, [$($fewer:literal),*], $targets:literal) => {
        impl Tile<$columns> for $t {
            fn tile(a: &[[$t; ROWS]], b: &[[$t; $columns]], used: usize) -> [[$t; $columns]; ROWS] {
                #[multiversion(targets($targets))]
                fn vectorized<const USED: usize>(a: &[[$t; ROWS]], b: &[[$t; $columns]]) -> [[$t; $columns]; ROWS] {
                    sums::<$t, $columns, USED>(a, b)
                }
                $(if used <= $fewer {
                    return vectorized::<$fewer>(a, b);
                })*
                vectorized::<$columns>(a, b)
            }
        }
    };
}

tile!(f32, 16, [8], "x86_64+avx+avx2");
// Of 16 or 32 columns, LLVM scatters the sums of a row to vectors across rows, which takes longer than all 64 columns.
tile!(f32, 64, [48], "x86_64+avx+avx2+avx512f+avx512vl");
tile!(f64, 8, [4], "x86_64+avx+avx2");
tile!(i64, 8, [4], "x86_64+avx+avx2");

impl Product for f32 {
    fn dispatch(job: impl Job<Self>) -> Option<()> {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx512f") && std::arch::is_x86_feature_detected!("avx512vl") {
            return job.run::<64>();
        }
        job.run::<16>()
    }
}

impl Product for f64 {
    fn dispatch(job: impl Job<Self>) -> Option<()> {
        job.run::<8>()
    }
}

impl Product for i64 {
    fn dispatch(job: impl Job<Self>) -> Option<()> {
        job.run::<8>()
    }
}

/// Rows of a panel that are filled at a time, so that they stay in the L1 cache.
const BLOCK: usize = 16;

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
        for l in 0..N {
            for (row, step) in rows.iter_mut().zip(steps) {
                row[l] = match l < count {
                    true => from[lanes.first + l * lanes.lane + step].widen(),
                    false => A::ZERO,
                };
            }
        }
    }
}
