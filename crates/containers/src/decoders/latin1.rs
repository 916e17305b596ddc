//! Decodes bytes that are stored as UTF-8 text, one character for each byte, as pickles of protocol 2 store them.

use ckpt_api::{DecodeStream, Decoder};
use std::io::{self, Read};

/// UTF-8 text with a character for each byte, U+0000 to U+00FF, as pickles of protocol 2 store bytes.
pub const LATIN1: &Decoder = &Decoder::stream(
    "latin1",
    |stored, _| stored,
    |stored, _, _| Ok(Box::new(Latin1Decoder { source: stored, first: None })),
);

/// Bytes that are read at once.
const BUFFER: usize = 16 << 10;

/// Bytes, one after the other, from the characters U+0000 to U+00FF of a text.
struct Latin1Decoder<R> {
    source: R,
    /// The upper bits of a character of two bytes whose second byte was not read yet.
    first: Option<u8>,
}

impl<R: Read> Read for Latin1Decoder<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let invalid = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
        let mut buffer = [0; BUFFER];
        // No character has fewer bytes than one.
        let room = out.len().min(BUFFER);
        let mut written = 0;
        while written == 0 && room > 0 {
            let read = self.source.read(buffer.get_mut(..room).unwrap_or_default())?;
            if read == 0 {
                return if self.first.is_none() { Ok(0) } else { Err(invalid("a character is cut")) };
            }
            for byte in buffer.get(..read).unwrap_or_default() {
                let decoded = match (self.first.take(), *byte) {
                    (None, 0..0x80) => *byte,
                    // U+0080 to U+00FF: 110000xx 10xxxxxx.
                    (None, 0xc2 | 0xc3) => {
                        self.first = Some(byte << 6);
                        continue;
                    }
                    (Some(upper), 0x80..0xc0) => upper | (byte & 0x3f),
                    _ => return Err(invalid("a character stands for no byte")),
                };
                if let Some(to) = out.get_mut(written) {
                    *to = decoded;
                }
                written += 1;
            }
        }
        Ok(written)
    }
}

impl<R: Read + Send> DecodeStream for Latin1Decoder<R> {}
