//! Small integers that are packed into words.

use crate::{Error, Result};
use serde::{Deserialize, Serialize};

/// A matrix of small integers, unsigned unless stated otherwise, that are packed into little-endian words.
///
/// ```
/// use ckpt_api::{Along, FieldOrder, PackedIntegers};
/// // Six columns of 3 bits fill 18 bits, so each of the 4 rows takes one 32-bit word.
/// let packed = PackedIntegers::new(3, [4, 6], Along::Row, FieldOrder::Dense);
/// assert_eq!(packed.stored_words(32)?, 4);
/// # Ok::<(), ckpt_api::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct PackedIntegers {
    /// Bits of an integer, 1 to 8.
    pub bits: u32,
    /// Rows of the matrix.
    pub rows: u64,
    /// Columns of the matrix. The integers are numbered row by row.
    pub columns: u64,
    /// Which integers share a word.
    pub along: Along,
    /// Where an integer is in its words.
    pub order: FieldOrder,
    /// What is added to each word of a row, wrapping, before integers are taken out of it: the first to the first word, and
    /// so on, again and again. Only along rows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub increments: Vec<u32>,
    /// Whether the integers are in two's complement: the highest bit of each is its sign.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_signed: bool,
}

/// Which integers of a matrix share words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Along {
    /// Those of a row: the words are a matrix with the same rows.
    Row,
    /// Those of a column: the words are a matrix with the same columns.
    Column,
}

/// Where the integers of a row, or of a column, are in its words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FieldOrder {
    /// One after the other, from the lowest bits of the first word on; an integer can begin in a word and end in the next.
    Dense,
    /// As many whole integers a word as fit, from its lowest bits on; the bits that are left are not used.
    Whole,
    /// Eight integers of 4 bits in each 32-bit word, the even ones before the odd ones: 0 2 4 6 1 3 5 7.
    EvenOdd,
    /// As many whole integers a word as fit, the first in its highest bits.
    HighestFirst,
    /// The lines are divided into equal runs, and each word has one integer of each run, that of the first run in its
    /// highest bits.
    Runs,
}

impl PackedIntegers {
    /// Integers of `bits` bits, in a matrix of these rows and columns.
    pub fn new(bits: u32, [rows, columns]: [u64; 2], along: Along, order: FieldOrder) -> Self {
        PackedIntegers { bits, rows, columns, along, order, increments: Vec::new(), is_signed: false }
    }

    /// The same with these increments of words.
    #[must_use]
    pub fn with_increments(mut self, increments: impl Into<Vec<u32>>) -> Self {
        self.increments = increments.into();
        self
    }

    /// The same with signs.
    #[must_use]
    pub fn signed(mut self) -> Self {
        self.is_signed = true;
        self
    }

    /// The number of integers; `None` if it is too large.
    pub fn elements(&self) -> Option<u64> {
        self.rows.checked_mul(self.columns)
    }

    /// Integers of a row or of a column that share words.
    pub fn line(&self) -> u64 {
        match self.along {
            Along::Row => self.columns,
            Along::Column => self.rows,
        }
    }

    /// Words of `word` bits that one row, or one column, takes.
    ///
    /// # Errors
    /// [`crate::Kind::Unsupported`] for integers that cannot be packed so.
    pub fn line_words(&self, word: u32) -> Result<u64> {
        // A word of 16 bits is one integer.
        let is_word = word == 16 && self.bits == 16 && self.order == FieldOrder::Dense;
        let fits = is_word || (matches!(word, 8 | 32) && (1..=8).contains(&self.bits));
        let is_known = match self.order {
            FieldOrder::EvenOdd => self.along == Along::Row && self.bits == 4 && word == 32,
            FieldOrder::Runs => self.along == Along::Column,
            FieldOrder::HighestFirst => self.along == Along::Row,
            FieldOrder::Dense | FieldOrder::Whole => true,
        };
        let is_known = is_known && (self.increments.is_empty() || (self.along == Along::Row && word == 32));
        if !fits || !is_known {
            return Err(Error::unsupported("integers are packed in a way that is not known").found(format!(
                "{} bits in words of {word}, {:?} along a {:?}",
                self.bits, self.order, self.along
            )));
        }
        match self.order {
            FieldOrder::Dense => {
                let bits = self.line().checked_mul(u64::from(self.bits));
                bits.map(|bits| bits.div_ceil(u64::from(word)))
                    .ok_or_else(|| Error::corrupt("packed integers are too many"))
            }
            _ => Ok(self.line().div_ceil(u64::from(word / self.bits))),
        }
    }

    /// The number, in a row, of the first integer of which a word has bits: word number `index` of the row, of `word` bits.
    pub fn first_in(&self, word: u32, index: u64) -> u64 {
        let bits = u64::from(self.bits.max(1));
        match self.order {
            FieldOrder::Dense => (index.saturating_mul(u64::from(word)) / bits).min(self.line()),
            _ => index.saturating_mul(u64::from(word) / bits).min(self.line()),
        }
    }

    /// The number, in a row, of the first integer of which neither a word nor those before it have bits.
    pub fn first_after(&self, word: u32, index: u64) -> u64 {
        let (bits, next) = (u64::from(self.bits.max(1)), index.saturating_add(1));
        match self.order {
            FieldOrder::Dense => next.saturating_mul(u64::from(word)).div_ceil(bits).min(self.line()),
            _ => next.saturating_mul(u64::from(word) / bits).min(self.line()),
        }
    }

    /// Words of `word` bits that the integers take.
    ///
    /// # Errors
    /// As [`PackedIntegers::line_words`]; [`crate::Kind::Corrupt`] if they are too many.
    pub fn stored_words(&self, word: u32) -> Result<u64> {
        let lines = match self.along {
            Along::Row => self.rows,
            Along::Column => self.columns,
        };
        let words = self.line_words(word)?.checked_mul(lines).filter(|_| self.elements().is_some());
        words.ok_or_else(|| Error::corrupt("packed integers are too many"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_takes_whole_words() {
        let words =
            |bits, along, order| PackedIntegers::new(bits, [10, 11], along, order).stored_words(32).unwrap();
        assert_eq!(words(3, Along::Row, FieldOrder::Dense), 10 * 2);
        assert_eq!(words(3, Along::Column, FieldOrder::Dense), 11);
        assert_eq!(words(3, Along::Row, FieldOrder::Whole), 10 * 2);
        assert_eq!(words(4, Along::Row, FieldOrder::EvenOdd), 10 * 2);
        assert_eq!(words(3, Along::Column, FieldOrder::Runs), 11);
    }

    #[test]
    fn what_no_word_holds_is_refused() {
        let refused = |packed: PackedIntegers, word| packed.stored_words(word).is_err();
        let packed = |bits, along, order| PackedIntegers::new(bits, [8, 8], along, order);
        assert!(refused(packed(0, Along::Row, FieldOrder::Whole), 32));
        assert!(refused(packed(9, Along::Row, FieldOrder::Dense), 32));
        assert!(refused(packed(4, Along::Row, FieldOrder::Dense), 16));
        assert!(refused(packed(8, Along::Row, FieldOrder::EvenOdd), 32));
        assert!(refused(packed(4, Along::Column, FieldOrder::Dense).with_increments([1]), 32));
        assert!(refused(PackedIntegers::new(4, [u64::MAX, 2], Along::Row, FieldOrder::Dense), 32));
    }
}
