//! Where the arrays of a file are.

use crate::format::{MAGIC, MAGIC_BYTES, Part};
use crate::leb128;
use ckpt_api::{Error, File, Result};

/// An array, and where its bytes are.
#[derive(Clone, Debug)]
pub(super) struct Located {
    pub(super) part: Part,
    /// The first byte of its integers, or of their LEB128.
    pub(super) offset: u64,
    /// Bytes of LEB128; `None` if the integers are stored as they are.
    pub(super) compressed: Option<u64>,
}

impl Located {
    /// The byte after the last.
    fn end(&self) -> u64 {
        self.offset.saturating_add(self.compressed.unwrap_or_else(|| self.part.bytes()))
    }
}

/// Finds arrays that follow each other, and the byte after the last.
///
/// # Errors
/// If the file ends before, or if the bytes of a compressed array cannot be those of its integers.
pub(super) fn locate(file: &File, start: u64, parts: Vec<Part>) -> Result<(Vec<Located>, u64)> {
    let (mut at, mut located) = (start, Vec::with_capacity(parts.len()));
    for part in parts {
        let compressed = if part.is_compressible { compressed(file, at)? } else { None };
        let offset = if compressed.is_some() { behind_magic(at) } else { at };
        let array = Located { part, offset, compressed };
        let end = array.end();
        if end > file.len() {
            return Err(Error::corrupt("the file ends before the last byte of an array")
                .offset(offset)
                .tensor(&array.part.name)
                .found(ckpt_api::count(file.len().saturating_sub(offset), "byte"))
                .expected(ckpt_api::count(end.saturating_sub(offset), "byte")));
        }
        check_count(&array)?;
        at = end;
        located.push(array);
    }
    Ok((located, at))
}

/// Bytes of LEB128, if an array that begins here is compressed.
fn compressed(file: &File, at: u64) -> Result<Option<u64>> {
    if file.len().saturating_sub(at) < MAGIC_BYTES {
        return Ok(None);
    }
    let head = file.bytes(at, MAGIC_BYTES)?;
    let count = head.strip_prefix(MAGIC).and_then(|count| count.first_chunk().copied());
    Ok(count.map(|count| u32::from_le_bytes(count).into()))
}

/// Each integer has at least one byte, and few.
fn check_count(array: &Located) -> Result<()> {
    let Some(stored) = array.compressed else { return Ok(()) };
    let integers = array.part.shape.elements();
    let most = integers.saturating_mul(leb128::longest(4));
    if (integers..=most).contains(&stored) {
        return Ok(());
    }
    Err(Error::corrupt("the compressed bytes cannot be those of the array")
        .offset(array.offset.saturating_sub(4))
        .tensor(&array.part.name)
        .found(ckpt_api::count(stored, "byte"))
        .expected(format!("{integers} to {most}, for {}", ckpt_api::count(integers, "integer"))))
}

/// The first byte behind the magic of a compressed array that begins here.
fn behind_magic(offset: u64) -> u64 {
    offset.saturating_add(MAGIC_BYTES)
}
