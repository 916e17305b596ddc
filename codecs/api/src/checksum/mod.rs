//! Checksums over what is stored.

mod crc;
mod power;
mod scattered;

pub use crc::{Checksum, ChecksumAlgorithm, RunningChecksum};
pub use scattered::ScatteredChecksum;
