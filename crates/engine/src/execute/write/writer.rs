//! Small writes that follow each other, put together.

use crate::ranges::missing;
use crate::store::WriteAt;
use ckpt_api::Result;
use std::ops::Range;

/// Writes to a file. What is small waits for what follows it: a system call for every tensor of a kilobyte costs more
/// than its bytes do. The caller flushes at the end.
pub(crate) struct Writer<'a> {
    file: &'a dyn WriteAt,
    waiting: Vec<u8>,
    offset: u64,
    /// Bytes that the file has already, in their order.
    kept: Vec<Range<u64>>,
}

/// Bytes that are worth a system call.
const SMALL: usize = 64 << 10;

impl<'a> Writer<'a> {
    pub(crate) fn new(file: &'a dyn WriteAt) -> Self {
        Writer { file, waiting: Vec::new(), offset: 0, kept: Vec::new() }
    }

    /// A writer to a file that has some of the bytes: it leaves these ranges alone.
    pub fn leaving(file: &'a dyn WriteAt, mut kept: Vec<Range<u64>>) -> Self {
        kept.sort_unstable_by_key(|range| range.start);
        Writer { kept, ..Writer::new(file) }
    }

    /// The parts of a range that the file does not have yet.
    pub(crate) fn missing(&self, range: Range<u64>) -> Vec<Range<u64>> {
        missing(&self.kept, range)
    }

    /// Writes bytes at a place, now or before the next [`Writer::flush`] returns.
    pub(crate) fn write_at(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        if self.kept.is_empty() {
            return self.put(offset, bytes);
        }
        for part in self.missing(offset..offset.saturating_add(bytes.len() as u64)) {
            let within = |at: u64| usize::try_from(at - offset).unwrap_or(usize::MAX);
            let bytes = bytes.get(within(part.start)..within(part.end));
            self.put(part.start, bytes.unwrap_or_default())?;
        }
        Ok(())
    }

    fn put(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        let follows = self.offset + self.waiting.len() as u64 == offset;
        if !follows || self.waiting.len() + bytes.len() > SMALL {
            self.flush()?;
        }
        if bytes.len() > SMALL {
            return self.file.write_at(offset, bytes);
        }
        if self.waiting.is_empty() {
            self.offset = offset;
        }
        self.waiting.extend_from_slice(bytes);
        Ok(())
    }

    /// Writes what waits.
    pub(crate) fn flush(&mut self) -> Result<()> {
        if !self.waiting.is_empty() {
            self.file.write_at(self.offset, &self.waiting)?;
            self.waiting.clear();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{MemoryStore, StageRequest, Store};
    use ckpt_api::{FileId, OutputFile};
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn bytes_lie_where_they_were_written_whatever_waited(
            pieces in prop::collection::vec((prop_oneof![0usize..100, SMALL - 50..SMALL + 50], 0usize..3), 0..12),
        ) {
            let files = [OutputFile::new("o", 0)];
            let stage = MemoryStore::new().stage(&StageRequest::new("o", &files)).unwrap();
            let file = stage.file(FileId(0)).unwrap();
            let mut writer = Writer::new(&*file);
            let mut expected: Vec<u8> = Vec::new();
            for (number, (len, gap)) in pieces.into_iter().enumerate() {
                expected.resize(expected.len() + gap, 0);
                let bytes = vec![number as u8 + 1; len];
                writer.write_at(expected.len() as u64, &bytes).unwrap();
                expected.extend(bytes);
            }
            writer.flush().unwrap();
            let found = stage.open(FileId(0)).unwrap();
            let mut bytes = vec![0; found.size().unwrap() as usize];
            found.read_at(0, &mut bytes).unwrap();
            bytes.resize(expected.len(), 0);
            prop_assert!(bytes == expected);
        }
    }
}
