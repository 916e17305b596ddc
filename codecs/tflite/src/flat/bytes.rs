//! The bytes of a file that is a FlatBuffer, and how many of them may be read.

use super::pages::Pages;
use ckpt_api::{Error, File, Result};
use std::cell::{Cell, RefCell};

/// Bytes that may be read of a file, for each of its bytes, and beside that.
const PER_BYTE: u64 = 16;
const FREE: u64 = 1 << 20;

/// The bytes of a FlatBuffer.
pub(crate) struct Flat<'a> {
    pub(crate) file: &'a File,
    pages: RefCell<Pages>,
    /// Bytes that may still be read.
    left: Cell<u64>,
}

impl<'a> Flat<'a> {
    pub(crate) fn new(file: &'a File) -> Self {
        let left = file.len().saturating_mul(PER_BYTE).saturating_add(FREE);
        Flat { file, pages: RefCell::default(), left: Cell::new(left) }
    }

    /// Returns the bytes at an offset.
    pub(crate) fn read<const N: usize>(&self, at: u64) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        self.fill(at, &mut bytes)?;
        Ok(bytes)
    }

    pub(crate) fn u16(&self, at: u64) -> Result<u16> {
        self.read(at).map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&self, at: u64) -> Result<u32> {
        self.read(at).map(u32::from_le_bytes)
    }

    /// Returns `len` bytes from an offset.
    pub(crate) fn bytes(&self, at: u64, len: u64) -> Result<Vec<u8>> {
        self.check_range(at, len)?;
        let mut bytes = vec![0; usize::try_from(len).unwrap_or_default()];
        self.fill(at, &mut bytes)?;
        Ok(bytes)
    }

    /// Checks that the file has so many bytes from an offset.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Corrupt`].
    pub(crate) fn check_range(&self, at: u64, len: u64) -> Result<()> {
        match at.checked_add(len).is_some_and(|end| end <= self.file.len()) {
            true => Ok(()),
            false => Err(Error::corrupt("the file ends before what an offset leads to")
                .offset(at)
                .found(format!("a file of {}", ckpt_api::count(self.file.len(), "byte")))
                .expected(format!("{} there", ckpt_api::count(len, "byte")))
                .help("the file is cut short or damaged: copy it again")),
        }
    }

    fn fill(&self, at: u64, bytes: &mut [u8]) -> Result<()> {
        let len = bytes.len() as u64;
        self.check_range(at, len)?;
        let left = self.left.get().checked_sub(len).ok_or_else(|| {
            Error::unsupported("the tables of the file lead to the same bytes again and again")
                .offset(at)
                .found(format!("more than {PER_BYTE} times the file's bytes"))
                .expected("tables of their own")
        })?;
        self.left.set(left);
        self.pages.borrow_mut().fill(self.file, at, bytes)
    }
}
