//! Padding that is not zero: kept, so that a file that was not changed is written again byte for byte.

use crate::format::FILE_NAMESPACE;
use ckpt_api::{File, Metadata, MetadataValue, Result};
use std::ops::Range;

/// Key of the padding, of the file between its header and its data, and of a tensor behind it.
pub(crate) const KEY_PADDING: &str = "padding";
/// The longest padding that is kept: more than any file of llama.cpp has.
const LONGEST: u64 = 4096;
/// Bytes of longer padding that are read at once.
const PIECE: u64 = 64 << 10;

/// Padding of a file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Padding {
    /// Zeros, or nothing.
    Zeros,
    /// Bytes that are kept.
    Kept(Vec<u8>),
    /// So many bytes, not all of them 0, which are not kept.
    TooLong(u64),
}

impl Padding {
    /// Reads the bytes of a range, as far as the file has them.
    pub(crate) fn read(file: &File, range: Range<u64>) -> Result<Self> {
        let end = range.end.min(file.len());
        let len = end.saturating_sub(range.start);
        let mut at = range.start;
        while at < end {
            let piece = file.bytes(at, (end - at).min(PIECE))?;
            let is_zero = piece.iter().all(|byte| *byte == 0);
            at = at.saturating_add(piece.len() as u64);
            match (is_zero, len <= LONGEST) {
                (true, _) => {}
                (false, true) => return Ok(Padding::Kept(piece)),
                (false, false) => return Ok(Padding::TooLong(len)),
            }
        }
        Ok(Padding::Zeros)
    }

    /// Notes the bytes in the metadata of the file or the tensor; returns a note about those that are left out.
    pub(crate) fn note(self, metadata: &mut Metadata, of: &str) -> Option<String> {
        match self {
            Padding::Zeros => None,
            Padding::Kept(bytes) => {
                metadata.insert(FILE_NAMESPACE, KEY_PADDING, MetadataValue::Bytes(bytes));
                None
            }
            Padding::TooLong(len) => {
                Some(format!("the {len} bytes of padding behind {of} are not all zero: they are left out"))
            }
        }
    }
}

/// Returns the padding that was noted, if it has this length.
pub(crate) fn noted(metadata: &Metadata, len: u64) -> Option<&[u8]> {
    let bytes = metadata.value(FILE_NAMESPACE, KEY_PADDING)?.as_bytes()?;
    (bytes.len() as u64 == len).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ckpt_api::Input;
    use std::collections::BTreeMap;

    fn read(bytes: Vec<u8>, range: Range<u64>) -> Padding {
        let input = Input::memory("f", BTreeMap::from([("f".to_owned(), bytes)]));
        Padding::read(&input.main().unwrap(), range).unwrap()
    }

    #[test]
    fn padding_that_is_not_zero_is_kept_as_far_as_the_file_has_it() {
        assert_eq!(read(vec![7, 0, 0, 7], 1..3), Padding::Zeros);
        assert_eq!(read(vec![7, 0, 5, 7], 1..3), Padding::Kept(vec![0, 5]));
        assert_eq!(read(vec![7, 1], 1..9), Padding::Kept(vec![1]));
        assert_eq!(read(vec![7], 5..9), Padding::Zeros);
    }

    #[test]
    #[cfg_attr(miri, ignore = "its long padding takes minutes")]
    fn long_padding_is_not_kept_and_is_reported_unless_it_is_zero() {
        let mut bytes = vec![0; 200_000];
        assert_eq!(read(bytes.clone(), 0..200_000), Padding::Zeros);
        bytes[199_999] = 1;
        let padding = read(bytes, 0..200_000);
        assert_eq!(padding, Padding::TooLong(200_000));
        let mut metadata = Metadata::default();
        assert!(padding.note(&mut metadata, "the header").unwrap().contains("200000 bytes"));
        assert!(metadata.is_empty());
    }
}
