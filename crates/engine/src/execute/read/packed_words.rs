//! The words that hold packed integers, read as they are needed.

use super::files::Handle;
use super::memory::to_usize;
use crate::transform::{increment_words, unpack_row, unpack_words};
use ckpt_api::{Along, Error, FieldOrder, PackedIntegers, Result};

/// What happens to integers once they are read.
pub(super) type Then<'t> = &'t mut dyn FnMut(u64, &mut [[u8; 4]]) -> Result<bool>;

/// Words that were read last.
#[derive(Default)]
pub(super) struct PackedWords {
    bytes: Vec<u8>,
    /// Of integers along columns: runs of neighboring words, of which each holds some rows of integers.
    runs: [Run; 2],
}

/// Words of neighboring columns.
#[derive(Default)]
struct Run {
    /// The row of words and its first column; `None` if nothing was read.
    place: Option<(u64, u64)>,
    bytes: Vec<u8>,
}

impl PackedWords {
    /// Replaces `numbers` by the integers from number `first` on, and calls `then` with those of each row, while they are in the
    /// cache, and the number of the first; returns whether it was true for one. The words have `word` bits and begin at an offset of a
    /// file.
    pub(super) fn read(
        &mut self,
        packed: &PackedIntegers,
        word: u32,
        (file, start): (&Handle<'_>, u64),
        (first, numbers): (u64, &mut [[u8; 4]]),
        then: Then<'_>,
    ) -> Result<bool> {
        let words = Words { packed, word, file, start };
        let (mut at, mut rest, mut found) = (first, numbers, false);
        if packed.along == Along::Row {
            return self.read_rows(&words, first, rest, then);
        }
        while !rest.is_empty() {
            let (row, column) = (at / packed.columns, at % packed.columns);
            let take = (packed.columns - column).min(rest.len() as u64);
            let (now, later) = rest.split_at_mut(to_usize(take)?);
            self.read_columns(&words, row, column, now)?;
            found |= then(at, now)?;
            (at, rest) = (at + take, later);
        }
        Ok(found)
    }

    /// Reads integers whose rows have words of their own.
    fn read_rows(
        &mut self,
        words: &Words<'_>,
        first: u64,
        numbers: &mut [[u8; 4]],
        then: Then<'_>,
    ) -> Result<bool> {
        let Words { packed, word, .. } = *words;
        let Some(last) = (first + numbers.len() as u64).checked_sub(1) else { return Ok(false) };
        let in_row = packed.line_words(word)?;
        let place = |number: u64| (number / packed.columns, number % packed.columns);
        let ((first_row, first_column), (last_row, last_column)) = (place(first), place(last));
        let begin = first_row * in_row + words.of(first_column);
        let end = last_row * in_row + words.last_of(last_column) + 1;
        self.bytes.resize(to_usize(end.saturating_sub(begin) * words.size())?, 0);
        words.fill(begin, &mut self.bytes)?;
        let (mut at, mut rest, mut found) = (first, numbers, false);
        while !rest.is_empty() {
            let (row, column) = place(at);
            let take = (packed.columns - column).min(rest.len() as u64);
            let (now, later) = rest.split_at_mut(to_usize(take)?);
            let own = words.of(column);
            let from = to_usize((row * in_row + own - begin) * words.size())?;
            let to = to_usize((row * in_row + words.last_of(column + take - 1) + 1 - begin) * words.size())?;
            let own_words = self.bytes.get_mut(from..to);
            let own_words =
                own_words.ok_or_else(|| Error::defect("words of packed integers were not read"))?;
            increment_words(own_words, own, &packed.increments);
            unpack_row(packed, word, own_words, column, now);
            found |= then(at, now)?;
            (at, rest) = (at + take, later);
        }
        Ok(found)
    }

    /// Reads neighboring integers of one row, whose words hold integers of other rows, too.
    fn read_columns(
        &mut self,
        words: &Words<'_>,
        row: u64,
        column: u64,
        numbers: &mut [[u8; 4]],
    ) -> Result<()> {
        let Words { packed, word, .. } = *words;
        let bits = u64::from(packed.bits);
        let (of_row, shift) = match packed.order {
            FieldOrder::Dense => (row * bits / u64::from(word), row * bits % u64::from(word)),
            FieldOrder::Runs => {
                let rows = packed.line_words(word)?.max(1);
                let place = (row / rows).min(u64::from(word / packed.bits) - 1);
                (row % rows, bits * (u64::from(word / packed.bits) - 1 - place))
            }
            _ => {
                let in_word = u64::from(word) / bits;
                (row / in_word, row % in_word * bits)
            }
        };
        let crosses = shift + bits > u64::from(word);
        // The row that was the next one of earlier integers is the first one of later ones.
        if self.runs[1].is_at(of_row, column, numbers.len(), words) {
            self.runs.swap(0, 1);
        }
        self.runs[0].read(words, of_row, column, numbers.len())?;
        if crosses {
            self.runs[1].read(words, of_row + 1, column, numbers.len())?;
        }
        let next = if crosses { &self.runs[1].bytes[..] } else { &[] };
        unpack_words(packed.bits, word, shift as u32, (&self.runs[0].bytes, next), numbers);
        Ok(())
    }
}

impl Run {
    fn is_at(&self, row: u64, column: u64, count: usize, words: &Words<'_>) -> bool {
        self.place == Some((row, column)) && self.bytes.len() as u64 == count as u64 * words.size()
    }

    fn read(&mut self, words: &Words<'_>, row: u64, column: u64, count: usize) -> Result<()> {
        if self.is_at(row, column, count, words) {
            return Ok(());
        }
        self.place = None;
        self.bytes.resize(to_usize(count as u64 * words.size())?, 0);
        words.fill(row * words.packed.columns + column, &mut self.bytes)?;
        self.place = Some((row, column));
        Ok(())
    }
}

/// Words in a file.
#[derive(Clone, Copy)]
struct Words<'w> {
    packed: &'w PackedIntegers,
    /// Bits of one.
    word: u32,
    file: &'w Handle<'w>,
    start: u64,
}

impl Words<'_> {
    /// Bytes of one.
    fn size(&self) -> u64 {
        u64::from(self.word / 8)
    }

    /// Reads words from number `first` on.
    fn fill(&self, first: u64, bytes: &mut [u8]) -> Result<()> {
        self.file.read_at(self.start + first * self.size(), bytes)
    }

    /// The word of a row in which an integer begins.
    fn of(&self, column: u64) -> u64 {
        match self.packed.order {
            FieldOrder::Dense => column * u64::from(self.packed.bits) / u64::from(self.word),
            _ => column / u64::from(self.word / self.packed.bits),
        }
    }

    /// The word of a row in which an integer ends.
    fn last_of(&self, column: u64) -> u64 {
        match self.packed.order {
            FieldOrder::Dense => ((column + 1) * u64::from(self.packed.bits) - 1) / u64::from(self.word),
            _ => self.of(column),
        }
    }
}
