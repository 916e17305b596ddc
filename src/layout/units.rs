//! How bytes of a target correspond to bytes of its source, where both lie in sequence.

use super::sizes::stored_bits;
use ckpt_api::{Encoding, Error, Result};

/// Elements of a piece are a multiple of this, so that it begins at a page where its extent does.
const ELEMENTS: u64 = 4096;

/// How bytes of the target correspond to bytes of the source.
#[derive(Clone, Copy)]
pub(super) enum Units {
    /// The same bytes.
    Bytes,
    /// Elements of so many bits in the source and in the target.
    Elements { source: u64, target: u64 },
    /// Blocks of so many elements in so many bytes of the source, and elements of so many bits in the target.
    Blocks { elements: u64, bytes: u64, target: u64 },
}

impl Units {
    pub(super) fn new(source: &Encoding, target: &Encoding, same: bool) -> Result<Self> {
        match (same, stored_bits(source), stored_bits(target)) {
            (true, ..) => Ok(Units::Bytes),
            (false, None, Some(target)) if let Some(blocks) = &source.blocks => {
                Ok(Units::Blocks { elements: blocks.elements(), bytes: blocks.bytes(), target })
            }
            (false, Some(source), Some(target)) => Ok(Units::Elements { source, target }),
            _ => Err(misplaced()),
        }
    }

    /// Bytes of a piece of about `size` bytes; `None` where no piece can be so large.
    pub(super) fn piece(self, size: u64) -> Option<u64> {
        let (unit, bits) = match self {
            Units::Bytes => (ELEMENTS, 8),
            Units::Elements { target, .. } => (ELEMENTS, target),
            Units::Blocks { elements, target, .. } => {
                (elements * (ELEMENTS / gcd(elements, ELEMENTS)), target)
            }
        };
        let elements = (size.checked_mul(8)? / bits).max(1).checked_next_multiple_of(unit)?;
        Some(elements.checked_mul(bits)? / 8)
    }

    /// The byte of the source that a byte of the target begins with.
    pub(super) fn source(self, byte: u64) -> Result<u64> {
        match self {
            Units::Bytes => Ok(byte),
            Units::Elements { source, target } => {
                let bits = byte.checked_mul(8).filter(|bits| bits.is_multiple_of(target));
                let bits = bits.and_then(|bits| (bits / target).checked_mul(source));
                bits.filter(|bits| bits.is_multiple_of(8)).map(|bits| bits / 8).ok_or_else(misplaced)
            }
            Units::Blocks { elements, bytes, target } => {
                let unit = elements * target / 8;
                let blocks = Some(byte / unit).filter(|_| byte.is_multiple_of(unit));
                blocks.and_then(|blocks| blocks.checked_mul(bytes)).ok_or_else(misplaced)
            }
        }
    }
}

/// The greatest number that divides both.
fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// The error for an extent that ends within an element.
pub(super) fn misplaced() -> Error {
    Error::defect("an extent of the target ends within an element")
        .help("the target's codec is wrong: please report it")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_is_whole_pages_of_elements_and_none_is_larger_than_a_number() {
        let all = [
            (Units::Bytes, 4096),
            (Units::Elements { source: 32, target: 16 }, 2 * 4096),
            (Units::Elements { source: 8, target: 4 }, 2048),
            (Units::Blocks { elements: 12, bytes: 7, target: 32 }, 4 * 3 * 4096),
        ];
        for (units, least) in all {
            assert_eq!(units.piece(1), Some(least));
            assert_eq!(units.piece(least), Some(least));
            assert_eq!(units.piece(u64::MAX), None);
        }
    }
}
