//! A few bytes of a file around an offset, for the person who reads an error.

use std::fmt::Write;
use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

/// Bytes that are shown.
const SHOWN: u64 = 16;
/// Of those, before the offset.
const BEFORE: u64 = 4;

/// Some bytes of a file, and which of them is meant.
#[derive(Debug, PartialEq)]
pub(super) struct Excerpt {
    start: u64,
    bytes: Vec<u8>,
    /// Index of the byte that is meant; as many as there are bytes where the file ends there.
    at: usize,
}

impl Excerpt {
    /// Reads them; `None` if `path` is no file that has them. What cannot be read is left out: the error that it
    /// belongs to is reported all the same.
    pub(super) fn read(path: &Path, offset: u64) -> Option<Self> {
        // Opening a pipe would wait for a writer.
        let len = fs::metadata(path).ok().filter(fs::Metadata::is_file)?.len();
        if offset > len || len == 0 {
            return None;
        }
        let end = offset.saturating_sub(BEFORE).saturating_add(SHOWN).min(len);
        let start = end.saturating_sub(SHOWN);
        let mut file = fs::File::open(path).ok()?;
        file.seek(SeekFrom::Start(start)).ok()?;
        let mut bytes = Vec::new();
        file.take(end - start).read_to_end(&mut bytes).ok()?;
        let at = usize::try_from(offset - start).ok().filter(|at| *at <= bytes.len())?;
        Some(Excerpt { start, bytes, at })
    }

    /// The bytes with the offset of the first and as text, and below them a mark under the one that is meant.
    pub(super) fn lines(&self) -> (String, String) {
        let mut line = format!("{:08x} ", self.start);
        let indent = line.len() + 3 * self.at + 1;
        for byte in &self.bytes {
            let _ = write!(line, " {byte:02x}");
        }
        let printable = |byte: &u8| if matches!(byte, b' '..=b'~') { char::from(*byte) } else { '.' };
        let text: String = self.bytes.iter().map(printable).collect();
        let _ = write!(line, "  |{text}|");
        let mark = if self.at < self.bytes.len() { "^^" } else { "^ the file ends here" };
        (line, format!("{}{mark}", " ".repeat(indent)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn excerpt(len: u8, offset: u64) -> Option<(String, String)> {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), (0..len).map(|k| k + 0x3a).collect::<Vec<u8>>()).unwrap();
        Excerpt::read(file.path(), offset).map(|excerpt| excerpt.lines())
    }

    #[test]
    fn the_mark_is_under_the_first_byte_at_the_offset() {
        let (line, mark) = excerpt(100, 20).unwrap();
        assert_eq!(line, "00000010  4a 4b 4c 4d 4e 4f 50 51 52 53 54 55 56 57 58 59  |JKLMNOPQRSTUVWXY|");
        assert_eq!(mark, format!("{}^^", " ".repeat(line.find("4e").unwrap())));
    }

    #[test]
    fn an_offset_at_the_end_shows_what_is_before_it() {
        let (line, mark) = excerpt(20, 20).unwrap();
        assert!(line.starts_with("00000004  3e"), "{line}");
        assert_eq!(mark.find('^'), Some("00000000  ".len() + 16 * 3));
        assert!(mark.ends_with("the file ends here"), "{mark}");
    }

    #[test]
    fn a_short_file_is_shown_whole() {
        assert_eq!(excerpt(3, 1).unwrap().0, "00000000  3a 3b 3c  |:;<|");
    }

    #[test]
    fn an_offset_beyond_the_end_an_empty_file_and_what_is_no_file_show_nothing() {
        assert_eq!(excerpt(3, 4), None);
        assert_eq!(excerpt(0, 0), None);
        assert_eq!(excerpt(3, u64::MAX), None);
        assert_eq!(Excerpt::read(Path::new("/"), 0), None);
        assert_eq!(Excerpt::read(Path::new("no such file"), 0), None);
    }
}
