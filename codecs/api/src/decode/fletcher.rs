//! The Fletcher-32 checksum, as HDF5's filter computes it.

/// A checksum being computed, over pairs of bytes of which the first is the high one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Fletcher32 {
    sums: [u64; 2],
    /// The first byte of a pair whose second one is not there yet.
    high: Option<u8>,
}

/// Pairs after which the sums are reduced: far fewer than overflow.
const BLOCK: usize = 1 << 12;

impl Fletcher32 {
    /// Adds the next bytes.
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        let mut bytes = bytes;
        if let Some(high) = self.high
            && let Some((low, rest)) = bytes.split_first()
        {
            self.high = None;
            self.add(u16::from_be_bytes([high, *low]));
            self.reduce();
            bytes = rest;
        }
        let (pairs, rest) = bytes.as_chunks::<2>();
        for block in pairs.chunks(BLOCK) {
            block.iter().for_each(|pair| self.add(u16::from_be_bytes(*pair)));
            self.reduce();
        }
        if let [high] = rest {
            self.high = Some(*high);
        }
    }

    /// Returns the checksum; a last byte without a second one is followed by a zero.
    pub(crate) fn finish(mut self) -> u32 {
        if let Some(high) = self.high.take() {
            self.add(u16::from_be_bytes([high, 0]));
            self.reduce();
        }
        let [first, second] = self.sums;
        (second as u32) << 16 | first as u32
    }

    fn add(&mut self, pair: u16) {
        let [first, second] = &mut self.sums;
        *first += u64::from(pair);
        *second += *first;
    }

    /// Reduces the sums modulo 65,535 to numbers of 16 bits; only a sum of zeros becomes 0.
    fn reduce(&mut self) {
        for sum in &mut self.sums {
            while *sum > 0xffff {
                *sum = (*sum & 0xffff) + (*sum >> 16);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(bytes: &[u8]) -> u32 {
        let mut sum = Fletcher32::default();
        sum.update(bytes);
        sum.finish()
    }

    #[test]
    fn checksums_are_those_of_hdf5() {
        // Computed by HDF5 1.14.
        let cases: [(&[u8], u32); 4] =
            [(b"", 0), (b"\0\0\0\0", 0), (b"abcde", 0x4ff0_29c7), (&[0xff; 8], 0xffff_ffff)];
        for (bytes, expected) in cases {
            assert_eq!(sum(bytes), expected, "{bytes:?}");
        }
    }

    #[test]
    fn bytes_may_come_in_pieces() {
        let bytes: Vec<u8> = (0..20_001u32).map(|at| ((at * at) >> 3) as u8).collect();
        for middle in [0, 1, 7, 20_001, 8192].into_iter().skip(if cfg!(miri) { 4 } else { 0 }) {
            let mut pieces = Fletcher32::default();
            pieces.update(&bytes[..middle]);
            pieces.update(&bytes[middle..]);
            assert_eq!(pieces.finish(), sum(&bytes), "{middle}");
        }
    }
}
