//! A range of a file that is a file of its own.

use ckpt_api::{Error, File, ReadAt, Result};
use std::io;
use std::sync::Arc;

#[derive(Debug)]
struct Section {
    file: File,
    start: u64,
    len: u64,
}

/// Returns `len` bytes of a file as a file.
///
/// # Errors
/// [`ckpt_api::Kind::Corrupt`] if the file ends before.
pub(crate) fn section(file: &File, start: u64, len: u64) -> Result<File> {
    if start.checked_add(len).is_none_or(|end| end > file.len()) {
        return Err(Error::corrupt("the file ends before a chunk does")
            .file(file.name())
            .offset(start)
            .found(ckpt_api::count(file.len(), "byte"))
            .expected(format!("{} from there", ckpt_api::count(len, "byte")))
            .help("the file is cut short: copy it again"));
    }
    File::new(Arc::new(Section { file: file.clone(), start, len }), file.name())
}

impl ReadAt for Section {
    fn size(&self) -> io::Result<u64> {
        Ok(self.len)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.len.saturating_sub(offset).min(buffer.len() as u64);
        let buffer = buffer.get_mut(..left as usize).unwrap_or_default();
        if !buffer.is_empty() {
            self.file.read_at(self.start.saturating_add(offset), buffer).map_err(io::Error::other)?;
        }
        Ok(buffer.len())
    }
}
