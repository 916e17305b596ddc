//! Pseudorandom numbers, the same on every machine.

/// A generator of pseudorandom numbers (SplitMix64).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Creates a generator from a seed.
    pub fn new(seed: u64) -> Self {
        Random(seed)
    }

    /// Returns 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns an integer in `low..=high`.
    #[expect(clippy::cast_possible_truncation, reason = "the remainder is below a usize")]
    pub fn between(&mut self, low: usize, high: usize) -> usize {
        low + (self.bits() % (high - low + 1) as u64) as usize
    }

    /// Returns `true` with probability 1 / `one_in`.
    pub fn chance(&mut self, one_in: usize) -> bool {
        self.between(1, one_in) == 1
    }

    /// Returns a number in −1..1 that binary32 holds.
    #[expect(clippy::cast_precision_loss, reason = "24 bits fit")]
    pub fn real(&mut self) -> f64 {
        (self.bits() >> 40) as f64 / f64::from(1u32 << 23) - 1.0
    }

    /// Returns a shape with lengths from 1 to 7, and rarely 0.
    pub fn shape(&mut self, rank: usize) -> Vec<usize> {
        (0..rank).map(|_| if self.chance(24) { 0 } else { self.between(1, 7) }).collect()
    }

    /// Returns a permutation of `0..len`.
    pub fn order(&mut self, len: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..len).collect();
        for i in (1..len).rev() {
            order.swap(i, self.between(0, i));
        }
        order
    }
}
