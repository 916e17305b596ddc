//! Checksums over what is stored.

use super::power::{multiply, power_of_x};
use crc_fast::{CrcAlgorithm, Digest};
use serde::{Deserialize, Serialize};

/// A checksum over an extent's bytes as stored.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Checksum {
    /// Which checksum.
    pub algorithm: ChecksumAlgorithm,
    /// The plain (unmasked) checksum of what counts as lying before the extent's first byte; 0 for nothing.
    pub seed: u32,
    /// The stored value; `None` when writing.
    pub value: Option<u32>,
}

/// Which checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ChecksumAlgorithm {
    /// CRC-32 (IEEE 802.3), as zip archives store it.
    Crc32,
    /// CRC-32C (Castagnoli).
    Crc32c,
    /// CRC-32C rotated right by 15 bits plus `0xa282ead8`, as LevelDB and TensorFlow store it.
    MaskedCrc32c,
}

impl ChecksumAlgorithm {
    /// The plain (unmasked) checksum of what has the plain checksum `crc`, 0 for nothing, followed by these bytes.
    pub fn append(self, crc: u32, bytes: &[u8]) -> u32 {
        let algorithm = match self {
            ChecksumAlgorithm::Crc32 => CrcAlgorithm::Crc32IsoHdlc,
            ChecksumAlgorithm::Crc32c | ChecksumAlgorithm::MaskedCrc32c => CrcAlgorithm::Crc32Iscsi,
        };
        // The state that a checksum begins and goes on with has inverted bits.
        let mut digest = Digest::new_with_init_state(algorithm, u64::from(!crc));
        digest.update(bytes);
        // These are of 32 bits, whatever the digest can hold.
        digest.finalize() as u32
    }

    /// The plain checksum of two runs of bytes, one after the other, from that of each and the second one's length.
    pub fn combine(self, first: u32, second: u32, second_len: u64) -> u32 {
        // The bits that a checksum inverts at either end cancel out.
        let polynomial = self.polynomial();
        multiply(polynomial, power_of_x(polynomial, second_len), first) ^ second
    }

    /// The polynomial without its leading term.
    pub(crate) fn polynomial(self) -> u32 {
        match self {
            ChecksumAlgorithm::Crc32 => 0xedb8_8320,
            ChecksumAlgorithm::Crc32c | ChecksumAlgorithm::MaskedCrc32c => 0x82f6_3b78,
        }
    }
}

impl Checksum {
    /// Begins the computation.
    pub fn start(&self) -> RunningChecksum {
        RunningChecksum { algorithm: self.algorithm, crc: self.seed }
    }
}

/// A checksum being computed.
#[derive(Clone, Debug)]
pub struct RunningChecksum {
    pub(crate) algorithm: ChecksumAlgorithm,
    pub(crate) crc: u32,
}

impl RunningChecksum {
    /// Adds the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.crc = self.algorithm.append(self.crc, bytes);
    }

    /// The value as the format would store it.
    pub fn finish(&self) -> u32 {
        match self.algorithm {
            ChecksumAlgorithm::Crc32 | ChecksumAlgorithm::Crc32c => self.crc,
            ChecksumAlgorithm::MaskedCrc32c => self.crc.rotate_right(15).wrapping_add(0xa282_ead8),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(algorithm: ChecksumAlgorithm, seed: u32, bytes: &[u8]) -> u32 {
        let mut running = Checksum { algorithm, seed, value: None }.start();
        running.update(bytes);
        running.finish()
    }

    #[test]
    fn checksums_have_the_published_values() {
        let published = [
            (ChecksumAlgorithm::Crc32, 0xcbf4_3926, 0),
            (ChecksumAlgorithm::Crc32c, 0xe306_9283, 0),
            (ChecksumAlgorithm::MaskedCrc32c, 0xc78a_b0e5, 0xa282_ead8),
        ];
        for (algorithm, of_digits, of_nothing) in published {
            assert_eq!(sum(algorithm, 0, b"123456789"), of_digits, "{algorithm:?}");
            assert_eq!(sum(algorithm, 0, b""), of_nothing, "{algorithm:?}");
        }
    }

    #[test]
    fn a_seed_stands_for_the_bytes_before() {
        for algorithm in [ChecksumAlgorithm::Crc32, ChecksumAlgorithm::Crc32c] {
            let seed = sum(algorithm, 0, b"1234");
            assert_eq!(sum(algorithm, seed, b"56789"), sum(algorithm, 0, b"123456789"), "{algorithm:?}");
        }
    }

    #[test]
    fn runs_of_bytes_are_combined_from_the_checksum_of_each() {
        let len = if cfg!(miri) { 500u32 } else { 10_000 };
        let bytes: Vec<u8> = (0..len).map(|number| ((number * number) >> 7) as u8).collect();
        for algorithm in
            [ChecksumAlgorithm::Crc32, ChecksumAlgorithm::Crc32c, ChecksumAlgorithm::MaskedCrc32c]
        {
            for middle in [0, 1, 7, bytes.len().min(4096), bytes.len()] {
                let (first, second) = bytes.split_at(middle);
                let sums = (algorithm.append(0, first), algorithm.append(0, second));
                let combined = algorithm.combine(sums.0, sums.1, second.len() as u64);
                assert_eq!(combined, algorithm.append(0, &bytes), "{algorithm:?} {middle}");
            }
        }
    }

    #[test]
    fn other_implementations_compute_the_same() {
        let bytes: Vec<u8> = (0..5_000u32).map(|number| ((number * number) >> 5) as u8).collect();
        for seed in [0, 1, 0xdead_beef, u32::MAX] {
            let lens = [0, 1, 15, 64, 127, 128, 1000, 4999].into_iter();
            for len in lens.take(if cfg!(miri) { 6 } else { 8 }) {
                for start in 0..4.min(bytes.len() - len) {
                    let bytes = &bytes[start..start + len];
                    let mut crc32 = crc32fast::Hasher::new_with_initial(seed);
                    crc32.update(bytes);
                    assert_eq!(
                        ChecksumAlgorithm::Crc32.append(seed, bytes),
                        crc32.finalize(),
                        "{seed} {len}"
                    );
                    let crc32c = crc32c::crc32c_append(seed, bytes);
                    assert_eq!(ChecksumAlgorithm::Crc32c.append(seed, bytes), crc32c, "{seed} {len}");
                }
            }
        }
    }
}
