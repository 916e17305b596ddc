//! Bytes that are decoded where they are: any range of them by itself.

use super::section::Section;
use crate::{DecodeInPlace, Parameters, ReadAt};
use std::fmt;
use std::io;

/// A part of a file that is decoded while it is read.
pub(super) struct DecodedInPlace {
    source: Section,
    decode: DecodeInPlace,
    parameters: Parameters,
}

impl DecodedInPlace {
    pub(super) fn new(source: Section, decode: DecodeInPlace, parameters: Parameters) -> Self {
        DecodedInPlace { source, decode, parameters }
    }
}

impl fmt::Debug for DecodedInPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DecodedInPlace").field("source", &self.source).finish_non_exhaustive()
    }
}

impl ReadAt for DecodedInPlace {
    fn size(&self) -> io::Result<u64> {
        self.source.size()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let len = self.source.read_at(offset, buffer)?;
        (self.decode)(offset, &self.parameters, buffer.get_mut(..len).unwrap_or_default());
        Ok(len)
    }
}

#[cfg(test)]
mod tests {
    use crate::{Compression, Extent, FileId, Input, Signs};

    #[test]
    fn signs_are_flipped_whatever_range_is_read() {
        let stored: Vec<u8> = (0..40).collect();
        for (period, at) in [(8, 7), (8, 4), (4, 3), (2, 1), (16, 15), (1, 0), (3, 0)] {
            let expected: Vec<u8> = stored
                .iter()
                .skip(3)
                .enumerate()
                .map(|(index, byte)| if index % period == at { byte ^ 0x80 } else { *byte })
                .collect();
            let file = Input::memory("f", [("f".to_owned(), stored.clone())].into()).main().unwrap();
            let signs = Signs::new(period as u8, at as u8).unwrap();
            let extent = Extent::new(FileId(0), 3, 37);
            let opened = extent.with_compression(Compression::flipping(signs, 37)).open(&file).unwrap();
            for start in 0..37 {
                for end in start..37 {
                    let found = opened.bytes(start as u64, (end - start) as u64).unwrap();
                    assert_eq!(found, expected[start..end], "{period} {at} {start}..{end}");
                }
            }
        }
    }

    #[test]
    fn nothing_but_signs_is_flipped() {
        let file = Input::memory("f", [("f".to_owned(), vec![0; 16])].into()).main().unwrap();
        let flipping = |len| Compression::flipping(Signs::new(4, 3).unwrap(), len);
        let open = |len, compression: Compression| {
            Extent::new(FileId(0), 0, len).with_compression(compression).open(&file).is_ok()
        };
        assert!(open(8, flipping(8)));
        assert!(!open(4, flipping(8)));
        assert!(!open(8, flipping(8).skipping(4)));
        assert!(!open(8, flipping(8).followed_by(4)));
    }
}
