//! How bytes of a target correspond to bytes of its source, if both are in sequence.

use super::sizes::{Stored, lcm};
use ckpt_api::{Encoding, Error, Result};

/// Elements of a piece are a multiple of this, so that it begins at a page where its extent does.
const ELEMENTS: u64 = 4096;

/// How bytes of the target correspond to bytes of the source.
#[derive(Clone, Copy)]
pub(super) enum Units {
    /// The same bytes.
    Bytes,
    /// Elements, or blocks of them.
    Elements { source: Stored, target: Stored },
}

impl Units {
    pub(super) fn new(source: &Encoding, target: &Encoding, same: bool) -> Result<Self> {
        match (same, Stored::of(source), Stored::of(target)) {
            (true, ..) => Ok(Units::Bytes),
            (false, Some(source), Some(target)) => Ok(Units::Elements { source, target }),
            _ => Err(misplaced()),
        }
    }

    /// Bytes of a piece of about `size` bytes; `None` if no piece can be so large.
    pub(super) fn piece(self, size: u64) -> Option<u64> {
        const BYTE: Stored = Stored { elements: 1, bits: 8 };
        let (source, target) = match self {
            Units::Bytes => (BYTE, BYTE),
            Units::Elements { source, target } => (source, target),
        };
        let unit = lcm(ELEMENTS, lcm(source.elements, target.elements));
        let elements = (size.checked_mul(8)? / target.bits).checked_mul(target.elements)?;
        let elements = elements.max(1).checked_next_multiple_of(unit)?;
        Some((elements / target.elements).checked_mul(target.bits)? / 8)
    }

    /// The byte of the source that a byte of the target begins with.
    pub(super) fn source(self, byte: u64) -> Result<u64> {
        let Units::Elements { source, target } = self else { return Ok(byte) };
        // Whole `from` become as many whole `to`.
        let converted = |number: u64, from: u64, to: u64| match number.is_multiple_of(from) {
            true => (number / from).checked_mul(to),
            false => None,
        };
        let elements = byte.checked_mul(8).and_then(|bits| converted(bits, target.bits, target.elements));
        let bits = elements.and_then(|elements| converted(elements, source.elements, source.bits));
        bits.and_then(|bits| converted(bits, 8, 1)).ok_or_else(misplaced)
    }
}

impl Units {
    /// The byte of the source after those that the bytes of the target before `byte` are made of. `whole` gives the length of the
    /// source, whose last byte need not be full.
    pub(super) fn source_end(self, byte: u64, whole: impl FnOnce() -> u64) -> Result<u64> {
        let is_small = |stored: Stored| stored.elements == 1 && stored.bits < 8;
        let Units::Elements { source, target } = self else { return Ok(byte) };
        if !is_small(source) && !is_small(target) {
            return self.source(byte);
        }
        let bits = byte.checked_mul(8).and_then(|bits| (bits / target.bits.max(1)).checked_mul(source.bits));
        let (end, whole) = (bits.ok_or_else(misplaced)?.div_ceil(8), whole());
        if end >= whole { Ok(whole) } else { self.source(byte) }
    }
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
        let plain = |bits| Stored { elements: 1, bits };
        let blocks = |elements, bytes: u64| Stored { elements, bits: 8 * bytes };
        let all = [
            (Units::Bytes, 4096),
            (Units::Elements { source: plain(32), target: plain(16) }, 2 * 4096),
            (Units::Elements { source: plain(8), target: plain(4) }, 2048),
            (Units::Elements { source: blocks(12, 7), target: plain(32) }, 4 * 3 * 4096),
            (Units::Elements { source: plain(32), target: blocks(32, 18) }, 4096 / 32 * 18),
            (Units::Elements { source: blocks(12, 7), target: blocks(32, 18) }, 3 * 4096 / 32 * 18),
        ];
        for (units, least) in all {
            assert_eq!(units.piece(1), Some(least));
            assert_eq!(units.piece(least), Some(least));
            assert_eq!(units.piece(u64::MAX), None);
        }
    }

    #[test]
    fn only_the_last_byte_of_packed_elements_may_be_filled_in_part() {
        let plain = |bits| Stored { elements: 1, bits };
        // 19 elements of 4 bits.
        let unpacked = Units::Elements { source: plain(4), target: plain(8) };
        assert_eq!(unpacked.source_end(18, || 10).unwrap(), 9);
        assert_eq!(unpacked.source_end(19, || 10).unwrap(), 10);
        assert!(unpacked.source_end(17, || 10).is_err());
        let packed = Units::Elements { source: plain(8), target: plain(4) };
        assert_eq!(packed.source_end(9, || 19).unwrap(), 18);
        assert_eq!(packed.source_end(10, || 19).unwrap(), 19);
        let whole = Units::Elements { source: plain(16), target: plain(32) };
        assert!(whole.source_end(6, || 3).is_err());
    }

    #[test]
    fn a_byte_of_a_block_has_a_place_in_the_source_if_it_is_the_first() {
        let (plain, q8) = (Stored { elements: 1, bits: 16 }, Stored { elements: 32, bits: 8 * 34 });
        let encoded = Units::Elements { source: plain, target: q8 };
        assert_eq!(encoded.source(3 * 34).unwrap(), 3 * 64);
        assert!(encoded.source(3 * 34 + 1).is_err());
        let decoded = Units::Elements { source: q8, target: plain };
        assert_eq!(decoded.source(3 * 64).unwrap(), 3 * 34);
        assert!(decoded.source(3 * 64 + 2).is_err());
    }
}
