//! Streams of integers of few bits.

/// Integers of 1 to 8 bits, one after the other.
pub(crate) struct Bits<'a> {
    bytes: std::slice::Iter<'a, u8>,
    held: u32,
    count: u32,
    width: u32,
    is_high_first: bool,
}

impl<'a> Bits<'a> {
    /// The integers of `width` bits that begin at a bit; those of a byte from its low bits on, or from its high ones.
    pub(crate) fn new(bytes: &'a [u8], first: u64, width: u32, is_high_first: bool) -> Self {
        let whole = usize::try_from(first / 8).unwrap_or(usize::MAX);
        let mut bits = Bits {
            bytes: bytes.get(whole..).unwrap_or_default().iter(),
            held: 0,
            count: 0,
            width: width.clamp(1, 8),
            is_high_first,
        };
        let skipped = u32::try_from(first % 8).unwrap_or(0);
        if skipped > 0 && bits.load() {
            bits.next_of(skipped);
        }
        bits
    }

    /// Takes the next byte; `false` at the end.
    fn load(&mut self) -> bool {
        let Some(byte) = self.bytes.next() else { return false };
        let byte = u32::from(*byte);
        self.held = if self.is_high_first { self.held << 8 | byte } else { self.held | byte << self.count };
        self.count += 8;
        true
    }

    /// Takes so many of the bits that are held, which are at most 15.
    fn next_of(&mut self, width: u32) -> u8 {
        let mask = (1 << width) - 1;
        self.count -= width;
        let value = match self.is_high_first {
            true => {
                let value = self.held >> self.count;
                self.held &= (1 << self.count) - 1;
                value
            }
            false => {
                let value = self.held & mask;
                self.held >>= width;
                value
            }
        };
        (value & mask) as u8
    }
}

impl Iterator for Bits<'_> {
    type Item = u8;

    fn next(&mut self) -> Option<u8> {
        if self.count < self.width && !self.load() {
            return None;
        }
        Some(self.next_of(self.width))
    }
}

/// The integer that the low bits of a byte are in two's complement.
pub(crate) fn signed(value: u8, width: u32) -> i8 {
    let unused = 8 - width.clamp(1, 8);
    (value << unused).cast_signed() >> unused
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn low_bits_come_first_in_blob_files() {
        // As coremltools writes 1 0 1 1 0 as UINT3.
        assert_eq!(Bits::new(&[0x41, 0x02], 0, 3, false).collect::<Vec<_>>(), [1, 0, 1, 1, 0]);
        assert_eq!(Bits::new(&[0x41, 0x02], 6, 3, false).collect::<Vec<_>>(), [1, 1, 0]);
        assert_eq!(Bits::new(&[0x21], 4, 4, false).collect::<Vec<_>>(), [2]);
    }

    #[test]
    fn high_bits_come_first_in_networks() {
        assert_eq!(Bits::new(&[0b1010_0111, 0b1000_0000], 0, 3, true).take(3).collect::<Vec<_>>(), [5, 1, 7]);
        assert_eq!(Bits::new(&[0x12, 0x34], 4, 4, true).collect::<Vec<_>>(), [2, 3, 4]);
    }

    #[test]
    fn a_sign_is_the_highest_of_few_bits() {
        assert_eq!([signed(15, 4), signed(7, 4), signed(8, 4), signed(255, 8)], [-1, 7, -8, -1]);
    }
}
