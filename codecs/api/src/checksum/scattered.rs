//! A checksum of bytes that come in any order.

use super::power::{multiply, power_of_x};
use crate::{Checksum, ChecksumAlgorithm, RunningChecksum};

/// A checksum being computed over pieces that come in any order, each byte once. In order it costs what
/// [`RunningChecksum`](crate::RunningChecksum) costs.
///
/// A CRC is linear: that of the whole is the sum of what each piece, with zeros around it, gives. Zeros before a piece
/// give nothing; those behind it multiply its remainder by a power of x.
#[derive(Clone, Debug)]
pub struct ScatteredChecksum {
    algorithm: ChecksumAlgorithm,
    seed: u32,
    len: u64,
    /// Bytes seen.
    covered: u64,
    /// The remainder of an ascending row of pieces, and where the last one ended.
    row: u32,
    end: u64,
    /// The remainder of the rows before, with the zeros behind them.
    sum: u32,
    /// Powers that were needed lately: pieces mostly are at equal distances.
    shifts: Vec<Shift>,
}

impl Checksum {
    /// Begins the computation over `len` bytes that come in any order.
    pub fn start_scattered(&self, len: u64) -> ScatteredChecksum {
        ScatteredChecksum {
            algorithm: self.algorithm,
            seed: self.seed,
            len,
            covered: 0,
            row: 0,
            end: 0,
            sum: 0,
            shifts: Vec::new(),
        }
    }

    /// The checksum of `len` bytes, as the format would store it, from the [`ScatteredChecksum::remainder`] of each of
    /// the pieces that cover them.
    ///
    /// ```
    /// use ckpt_api::{Checksum, ChecksumAlgorithm};
    /// let checksum = Checksum { algorithm: ChecksumAlgorithm::Crc32c, seed: 0, value: None };
    /// let (mut first, mut second, mut whole) =
    ///     (checksum.start_scattered(5), checksum.start_scattered(5), checksum.start());
    /// first.update(0, b"ab");
    /// second.update(2, b"cde");
    /// whole.update(b"abcde");
    /// assert_eq!(checksum.assemble(5, [second.remainder(), first.remainder()]), whole.finish());
    /// ```
    pub fn assemble(&self, len: u64, remainders: impl IntoIterator<Item = u32>) -> u32 {
        let sum = remainders.into_iter().fold(0, |sum, remainder| sum ^ remainder);
        let remainder = if len == 0 { !self.seed } else { sum };
        RunningChecksum { algorithm: self.algorithm, crc: !remainder }.finish()
    }
}

impl ScatteredChecksum {
    /// Adds the bytes that are at `offset`, which are within the length and were not added before.
    pub fn update(&mut self, offset: u64, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        if offset < self.end {
            self.close_row();
        }
        self.row = match offset {
            // The seed stands before the first byte.
            0 => !self.seed,
            _ => self.shifted(self.row, offset - self.end),
        };
        // A checksum begins and ends with inverted bits; a remainder has neither.
        let mut running = RunningChecksum { algorithm: self.algorithm, crc: !self.row };
        running.update(bytes);
        self.row = !running.crc;
        self.end = offset.saturating_add(bytes.len() as u64);
        self.covered = self.covered.saturating_add(bytes.len() as u64);
    }

    /// The value as the format would store it; `None` if bytes are missing.
    pub fn finish(mut self) -> Option<u32> {
        self.close_row();
        let remainder = if self.len == 0 { !self.seed } else { self.sum };
        let whole = RunningChecksum { algorithm: self.algorithm, crc: !remainder };
        (self.covered == self.len).then(|| whole.finish())
    }

    /// Bytes added so far.
    pub fn covered(&self) -> u64 {
        self.covered
    }

    /// What the bytes added so far contribute to the checksum of the whole: pieces that cover all of it between them,
    /// each byte once, are put together by [`Checksum::assemble`].
    pub fn remainder(mut self) -> u32 {
        self.close_row();
        self.sum
    }

    fn close_row(&mut self) {
        self.sum ^= self.shifted(self.row, self.len.saturating_sub(self.end));
        (self.row, self.end) = (0, 0);
    }

    /// The remainder of what has `remainder`, followed by so many zeros.
    fn shifted(&mut self, remainder: u32, zeros: u64) -> u32 {
        const KEPT: usize = 8;
        if zeros == 0 || remainder == 0 {
            return remainder;
        }
        if let Some(shift) = self.shifts.iter().find(|shift| shift.zeros == zeros) {
            return shift.apply(remainder);
        }
        let shift = Shift::new(self.algorithm.polynomial(), zeros);
        let shifted = shift.apply(remainder);
        if self.shifts.len() == KEPT {
            self.shifts.remove(0);
        }
        self.shifts.push(shift);
        shifted
    }
}

/// Multiplication by a power of x modulo the polynomial: what zeros behind a remainder do to it.
#[derive(Clone, Debug)]
struct Shift {
    zeros: u64,
    /// The products of each byte of a remainder, which add up.
    bytes: Box<[[u32; 256]; 4]>,
}

impl Shift {
    fn new(polynomial: u32, zeros: u64) -> Self {
        let power = power_of_x(polynomial, zeros);
        let mut bytes = Box::new([[0; 256]; 4]);
        for (products, place) in bytes.iter_mut().zip([0, 8, 16, 24]) {
            for (product, byte) in products.iter_mut().zip(0u32..) {
                *product = multiply(polynomial, power, byte << place);
            }
        }
        Shift { zeros, bytes }
    }

    fn apply(&self, remainder: u32) -> u32 {
        let products = self.bytes.iter().zip(remainder.to_le_bytes());
        products.fold(0, |sum, (products, byte)| sum ^ products[usize::from(byte)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        #[cfg_attr(miri, ignore = "many cases")]
        fn pieces_in_any_order_give_what_the_bytes_in_order_give(
            bytes in prop::collection::vec(any::<u8>(), 0..600), seed: u32, algorithm in 0usize..3,
            order in Just((0..9usize).collect::<Vec<_>>()).prop_shuffle(),
            mut cuts in prop::collection::vec(any::<prop::sample::Index>(), 8),
        ) {
            let algorithms =
                [ChecksumAlgorithm::Crc32, ChecksumAlgorithm::Crc32c, ChecksumAlgorithm::MaskedCrc32c];
            let algorithm = algorithms[algorithm];
            let checksum = Checksum { algorithm, seed, value: None };
            let mut running = checksum.start();
            running.update(&bytes);
            let mut edges: Vec<usize> = cuts.drain(..).map(|cut| cut.index(bytes.len() + 1)).collect();
            edges.extend([0, bytes.len()]);
            edges.sort_unstable();
            let mut scattered = checksum.start_scattered(bytes.len() as u64);
            for piece in order {
                scattered.update(edges[piece] as u64, &bytes[edges[piece]..edges[piece + 1]]);
            }
            prop_assert_eq!(scattered.finish(), Some(running.finish()));
        }
    }

    #[test]
    fn pieces_in_order_cost_no_powers() {
        let checksum = Checksum { algorithm: ChecksumAlgorithm::Crc32c, seed: 7, value: None };
        let mut scattered = checksum.start_scattered(6);
        for (offset, piece) in [(0, b"ab"), (2, b"cd"), (4, b"ef")] {
            scattered.update(offset, piece);
        }
        assert!(scattered.shifts.is_empty());
        assert_eq!(scattered.finish(), Some(crc32c::crc32c_append(7, b"abcdef")));
    }

    #[test]
    fn missing_bytes_leave_no_checksum() {
        let checksum = Checksum { algorithm: ChecksumAlgorithm::Crc32c, seed: 0, value: None };
        let mut scattered = checksum.start_scattered(3);
        scattered.update(2, b"c");
        assert_eq!(scattered.clone().finish(), None);
        scattered.update(0, b"ab");
        assert_eq!(scattered.finish(), Some(crc32c::crc32c(b"abc")));
    }
}
