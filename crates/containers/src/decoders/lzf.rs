//! Decompresses LZF, as HDF5's filter of `h5py` stores it.

use ckpt_api::{DecodeStream, Decoder};
use std::io::{self, BufReader, Read};

/// LZF, as HDF5's filter of `h5py` stores it.
pub const LZF: &Decoder = &Decoder::stream(
    "lzf",
    // 264 bytes for three.
    |stored, _| stored.saturating_mul(88),
    |stored, _, _| Ok(Box::new(LzfDecoder::new(stored))),
);

/// How far back bytes are copied from.
const WINDOW: usize = 1 << 13;
/// Bytes that are read at once.
const BUFFER: usize = 16 << 10;

/// The decompressed bytes of a source.
struct LzfDecoder<R> {
    source: BufReader<R>,
    /// Bytes of the source that were decompressed.
    used: u64,
    /// The last decompressed bytes, in a circle.
    window: Vec<u8>,
    /// Decompressed bytes so far.
    written: usize,
    step: Step,
}

/// What the next bytes are.
enum Step {
    /// So many of the source's.
    Literals(usize),
    /// So many from as far back.
    Copy { len: usize, distance: usize },
}

impl<R: Read> LzfDecoder<R> {
    fn new(source: R) -> Self {
        let source = BufReader::with_capacity(BUFFER, source);
        LzfDecoder { source, used: 0, window: vec![0; WINDOW], written: 0, step: Step::Literals(0) }
    }

    fn byte(&mut self) -> io::Result<Option<u8>> {
        let mut byte = [0];
        let read = self.source.read(&mut byte)?;
        self.used = self.used.saturating_add(read as u64);
        Ok((read > 0).then_some(byte[0]))
    }

    fn required(&mut self) -> io::Result<u8> {
        self.byte()?.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    /// Reads what comes next; `None` at the end.
    fn next_step(&mut self) -> io::Result<Option<Step>> {
        let Some(control) = self.byte()? else { return Ok(None) };
        let control = usize::from(control);
        if control < 32 {
            return Ok(Some(Step::Literals(control + 1)));
        }
        let mut len = control >> 5;
        if len == 7 {
            len += usize::from(self.required()?);
        }
        let distance = ((control & 0x1f) << 8 | usize::from(self.required()?)) + 1;
        if distance > self.written {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "bytes are copied from before the beginning",
            ));
        }
        Ok(Some(Step::Copy { len: len + 2, distance }))
    }

    /// Decompresses one byte; `None` at the end.
    fn next_byte(&mut self) -> io::Result<Option<u8>> {
        if matches!(self.step, Step::Literals(0) | Step::Copy { len: 0, .. }) {
            match self.next_step()? {
                Some(step) => self.step = step,
                None => return Ok(None),
            }
        }
        let byte = match &mut self.step {
            Step::Literals(left) => {
                *left -= 1;
                self.required()?
            }
            Step::Copy { len, distance } => {
                *len -= 1;
                let from = self.written.wrapping_sub(*distance) % WINDOW;
                self.window.get(from).copied().unwrap_or(0)
            }
        };
        if let Some(to) = self.window.get_mut(self.written % WINDOW) {
            *to = byte;
        }
        self.written += 1;
        Ok(Some(byte))
    }
}

impl<R: Read> Read for LzfDecoder<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let mut read = 0;
        for to in out {
            let Some(byte) = self.next_byte()? else { break };
            *to = byte;
            read += 1;
        }
        Ok(read)
    }
}

impl<R: Read + Send> DecodeStream for LzfDecoder<R> {
    fn finish(&mut self) -> io::Result<Option<u64>> {
        Ok(Some(self.used))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decompressed(bytes: &[u8]) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        LzfDecoder::new(bytes).read_to_end(&mut out)?;
        Ok(out)
    }

    #[test]
    fn literals_and_copies_are_decompressed() {
        assert_eq!(decompressed(b"\x02abc").unwrap(), b"abc");
        // Three bytes from three back, which are repeated while they are copied; then a long copy of one byte.
        assert_eq!(decompressed(b"\x02abc\x80\x02").unwrap(), b"abcabcabc");
        assert_eq!(decompressed(b"\x00a\xe0\x03\x00").unwrap(), [b'a'; 13]);
    }

    #[test]
    fn what_is_cut_short_or_copies_from_before_the_beginning_is_an_error() {
        for bytes in [&b"\x02ab"[..], b"\x00a\xe0", b"\x00a\xe0\x03", b"\x00a\x20\x01", b"\x20\x00"] {
            assert!(decompressed(bytes).is_err(), "{bytes:?}");
        }
    }
}
