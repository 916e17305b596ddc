//! Small writes that follow each other, put together.

use super::output::Output;
use ckpt_api::{FileId, Result};

/// Writes to an output. What is small waits for what follows it in its file: a system call for every tensor of a kilobyte
/// costs more than its bytes do. The caller flushes at the end.
pub(super) struct Writer<'a> {
    output: &'a Output,
    waiting: Vec<u8>,
    file: FileId,
    offset: u64,
}

/// Bytes that are worth a system call.
const SMALL: usize = 64 << 10;

impl<'a> Writer<'a> {
    pub(super) fn new(output: &'a Output) -> Self {
        Writer { output, waiting: Vec::new(), file: FileId(0), offset: 0 }
    }

    /// Writes bytes at a place in a file, now or before the next [`Writer::flush`] returns.
    pub(super) fn write_at(&mut self, file: FileId, offset: u64, bytes: &[u8]) -> Result<()> {
        let follows = file == self.file && self.offset + self.waiting.len() as u64 == offset;
        if !follows || self.waiting.len() + bytes.len() > SMALL {
            self.flush()?;
        }
        if bytes.len() > SMALL {
            return self.output.write_at(file, offset, bytes);
        }
        if self.waiting.is_empty() {
            (self.file, self.offset) = (file, offset);
        }
        self.waiting.extend_from_slice(bytes);
        Ok(())
    }

    /// Writes what waits.
    pub(super) fn flush(&mut self) -> Result<()> {
        if !self.waiting.is_empty() {
            self.output.write_at(self.file, self.offset, &self.waiting)?;
            self.waiting.clear();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::execute::{Disk, Os, Wanted};
    use ckpt_api::OutputFile;
    use proptest::prelude::*;
    use std::sync::Arc;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn bytes_lie_where_they_were_written_whatever_waited(
            pieces in prop::collection::vec((0usize..3, prop_oneof![0usize..100, SMALL - 50..SMALL + 50], 0usize..3), 0..12),
        ) {
            let folder = tempfile::tempdir().unwrap();
            let mut expected = vec![Vec::new(); 3];
            let mut places = Vec::new();
            for (number, (file, len, gap)) in pieces.iter().enumerate() {
                let bytes = &mut expected[*file];
                bytes.resize(bytes.len() + gap, 0);
                places.push((FileId(*file), bytes.len(), vec![number as u8 + 1; *len]));
                bytes.resize(bytes.len() + len, number as u8 + 1);
            }
            let files: Vec<OutputFile> = expected
                .iter()
                .enumerate()
                .map(|(n, bytes)| OutputFile { name: n.to_string(), len: Some(bytes.len() as u64) })
                .collect();
            let disk: Arc<dyn Disk> = Arc::new(Os);
            let wanted = Wanted {
                disk: &disk,
                directory: folder.path(),
                name: "o",
                files: &files,
                overwrite: false,
                fingerprint: None,
                resume: false,
                complete: false,
            };
            let output = Output::create(&wanted, &|| Ok(())).unwrap();
            let mut writer = Writer::new(&output);
            for (file, offset, bytes) in &places {
                writer.write_at(*file, *offset as u64, bytes).unwrap();
            }
            writer.flush().unwrap();
            for (path, bytes) in output.commit(false).unwrap().iter().zip(&expected) {
                prop_assert_eq!(&std::fs::read(path).unwrap(), bytes);
            }
        }
    }
}
