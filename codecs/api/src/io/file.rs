//! Open files.

use super::read_at::{ReadAt, read_exact_at};
use crate::{Error, Result};
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// One open file; reading is positioned, so that several threads can share it.
#[derive(Clone, Debug)]
pub struct File {
    name: Arc<str>,
    len: u64,
    handle: Arc<dyn ReadAt>,
}

impl File {
    /// A file of these bytes, which errors call `name`.
    ///
    /// # Errors
    /// [`crate::Kind::Io`] if its size is unknown.
    pub fn new(handle: Arc<dyn ReadAt>, name: &str) -> Result<Self> {
        let size = handle.size();
        let len = size.map_err(|error| Error::io("cannot open the file", error).file(name))?;
        Ok(File { name: name.into(), len, handle })
    }

    /// What reads its bytes.
    pub(super) fn handle(&self) -> Arc<dyn ReadAt> {
        self.handle.clone()
    }

    /// Path as people should see it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Bytes when it was opened.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Identifies the file's present content, as [`ReadAt::identity`] does.
    pub fn identity(&self) -> Option<String> {
        self.handle.identity()
    }

    /// Announces which bytes will be read, as [`ReadAt::will_read`] does.
    pub fn will_read(&self, ranges: &[Range<u64>]) {
        self.handle.will_read(ranges);
    }

    /// The file of this machine that holds the bytes, as [`ReadAt::as_file`] gives it.
    pub fn as_file(&self) -> Option<&std::fs::File> {
        self.handle.as_file()
    }

    /// Fills `buffer` from `offset`.
    ///
    /// # Errors
    /// [`crate::Kind::Corrupt`] if the file ends before, [`crate::Kind::Io`].
    pub fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let end = offset.checked_add(buffer.len() as u64);
        if end.is_none_or(|end| end > self.len) {
            return Err(self.cut_short(offset, buffer.len() as u64));
        }
        read_exact_at(&*self.handle, offset, buffer).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => self.cut_short(offset, buffer.len() as u64),
            // What decompresses knows more of its errors.
            _ => error.downcast::<Error>().unwrap_or_else(|error| {
                Error::io("cannot read the file", error).file(self.name()).offset(offset)
            }),
        })
    }

    /// `len` bytes from `offset`; nothing is allocated for bytes that the file has not.
    ///
    /// # Errors
    /// As [`File::read_at`]; [`crate::Kind::Io`] if the system has no memory for them.
    pub fn bytes(&self, offset: u64, len: u64) -> Result<Vec<u8>> {
        let inside = offset.checked_add(len).is_some_and(|end| end <= self.len);
        let size = usize::try_from(len).ok().filter(|_| inside);
        let size = size.ok_or_else(|| self.cut_short(offset, len))?;
        let mut buffer = Vec::new();
        buffer.try_reserve_exact(size).map_err(|_| self.no_memory(offset, len))?;
        buffer.resize(size, 0);
        self.read_at(offset, &mut buffer)?;
        Ok(buffer)
    }

    fn no_memory(&self, offset: u64, wanted: u64) -> Error {
        Error::io("there is not enough memory to read the file", io::ErrorKind::OutOfMemory.into())
            .file(self.name())
            .offset(offset)
            .expected(format!("room for {wanted} bytes"))
            .help("raise the limit on the process's memory, such as that of `ulimit -v`")
    }

    fn cut_short(&self, offset: u64, wanted: u64) -> Error {
        Error::corrupt("the file is cut short")
            .file(self.name())
            .offset(offset)
            .found(crate::count(self.len.saturating_sub(offset), "byte"))
            .expected(crate::count(wanted, "byte"))
    }
}

/// The error for a file that ends before the `what` that it should contain, `len` bytes from `offset`.
pub(crate) fn ends_before(what: &str, file: &str, file_len: u64, offset: u64, len: u64) -> Error {
    Error::corrupt(format!("the file ends before the {what} does"))
        .file(file)
        .offset(offset)
        .found(format!("a file of {file_len} bytes"))
        .expected(format!("{len} bytes from offset {offset}"))
        .help("the file is cut short or belongs to another checkpoint: copy it again")
}
