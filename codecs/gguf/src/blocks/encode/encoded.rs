//! What a block loses when its numbers are stored.

use half::f16;
use std::ops::AddAssign;

/// Numbers of a block, and of a block of groups.
pub const ELEMENTS: usize = 32;
pub const SUPER: usize = 256;

/// The largest magnitude of blocks of groups: the scales of larger numbers have no 16-bit float, and the sums from which
/// they are computed may be infinite.
const MOST: f32 = 1e9;

/// How many blocks lost their scale, which has 16 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Encoded {
    /// Blocks with an infinite scale or minimum, because a number is too large: they decode to infinities and NaN.
    pub overflowed: u64,
    /// Blocks with the scale 0, because the numbers are too close to each other or to 0: they decode to one number.
    pub underflowed: u64,
}

impl AddAssign for Encoded {
    fn add_assign(&mut self, other: Self) {
        self.overflowed += other.overflowed;
        self.underflowed += other.underflowed;
    }
}

/// Returns what a block of these numbers lost. Its scales are these 16-bit floats, of which the first stands for `scale`.
pub fn count<const N: usize>(numbers: &[f32], scale: f32, stored: [f16; N]) -> Encoded {
    let largest = numbers.iter().fold(0f32, |most, number| most.max(number.abs()));
    let is_too_large = stored.iter().any(|half| !half.is_finite()) || largest > MOST;
    Encoded {
        overflowed: is_too_large.into(),
        underflowed: (scale != 0.0 && stored[0].to_f32() == 0.0).into(),
    }
}
