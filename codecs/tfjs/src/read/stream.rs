//! The files of a group, as one run of bytes.

use ckpt_api::{Error, File, FileId, Result};

/// The concatenation of some files, of which ranges are taken from the first byte to the last.
pub(super) struct Stream {
    files: Vec<(FileId, File)>,
    /// The file that has the next byte, and where.
    at: usize,
    offset: u64,
    remaining: u64,
}

/// A range of bytes of one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    /// The number of the file in the group.
    place: usize,
    pub(super) file: FileId,
    pub(super) offset: u64,
    pub(super) len: u64,
}

impl Range {
    /// Takes its first bytes.
    pub(super) fn split(&mut self, len: u64) -> Range {
        let len = len.min(self.len);
        let first = Range { len, ..*self };
        *self = Range { offset: self.offset.saturating_add(len), len: self.len - len, ..*self };
        first
    }
}

impl Stream {
    pub(super) fn new(files: Vec<(FileId, File)>) -> Self {
        let remaining = files.iter().fold(0u64, |sum, (_, file)| sum.saturating_add(file.len()));
        Stream { files, at: 0, offset: 0, remaining }
    }

    /// Bytes that were not taken.
    pub(super) fn remaining(&self) -> u64 {
        self.remaining
    }

    /// Takes the next bytes, which may be in several files.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Corrupt`] if there are fewer.
    pub(super) fn take(&mut self, len: u64) -> Result<Vec<Range>> {
        self.check(len)?;
        let (mut left, mut ranges) = (len, Vec::new());
        while left > 0 {
            let Some(range) = self.next(left) else { break };
            left -= range.len;
            ranges.push(range);
        }
        Ok(ranges)
    }

    /// Takes the next bytes of the file that has the next byte, at most `most`; `None` at the end.
    pub(super) fn next(&mut self, most: u64) -> Option<Range> {
        loop {
            let (id, file) = self.files.get(self.at)?;
            let len = file.len().saturating_sub(self.offset).min(most);
            if len == 0 {
                (self.at, self.offset) = (self.at + 1, 0);
                continue;
            }
            let range = Range { place: self.at, file: *id, offset: self.offset, len };
            self.offset = self.offset.saturating_add(len);
            self.remaining = self.remaining.saturating_sub(len);
            return Some(range);
        }
    }

    /// Reads bytes that were taken.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Io`].
    pub(super) fn read(&self, range: Range) -> Result<Vec<u8>> {
        match self.files.get(range.place) {
            Some((_, file)) => file.bytes(range.offset, range.len),
            None => Err(Error::defect("a range is of no file of its group")),
        }
    }

    /// Fails if there are fewer bytes than that.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Corrupt`].
    pub(super) fn check(&self, len: u64) -> Result<()> {
        if len <= self.remaining {
            return Ok(());
        }
        let error = Error::corrupt("the files of the group end within a weight, or before it")
            .found(format!("{} left", ckpt_api::count(self.remaining, "byte")))
            .expected(ckpt_api::count(len, "byte"))
            .help("a shard is cut short, or lacks in the manifest: copy the model again");
        Err(match self.files.last() {
            Some((_, file)) => error.file(file.name()),
            None => error,
        })
    }
}
