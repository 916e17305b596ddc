//! Frames, decoded by the library of Zstandard's authors.

use super::super::Stored;
use super::window::{LARGEST_WINDOW_LOG, too_large_window};
use ckpt_api::DecodeStream;
use std::io::{self, Read};
use zstd::stream::raw::{DParameter, Decoder, InBuffer, Operation, OutBuffer};

/// Stored bytes that are read at once.
const READ: usize = 64 << 10;

/// What the library says of a window that is too large: it has no kinds of errors.
const WINDOW_TOO_LARGE: &str = "Frame requires too much memory for decoding";

/// One frame.
pub(super) struct Frame {
    stored: Stored,
    decoder: Decoder<'static>,
    buffer: Vec<u8>,
    /// The bytes of the buffer that are not decoded yet.
    at: usize,
    end: usize,
    /// Stored bytes that were decoded.
    used: u64,
    is_complete: bool,
}

impl Frame {
    pub(super) fn new(stored: Stored) -> io::Result<Self> {
        let mut decoder = Decoder::new()?;
        decoder.set_parameter(DParameter::WindowLogMax(LARGEST_WINDOW_LOG))?;
        Ok(Frame { stored, decoder, buffer: vec![0; READ], at: 0, end: 0, used: 0, is_complete: false })
    }

    /// Decodes what the buffer holds; returns how many bytes came out, and whether anything went in.
    fn step(&mut self, out: &mut [u8]) -> io::Result<(usize, bool)> {
        let mut input = InBuffer::around(self.buffer.get(self.at..self.end).unwrap_or_default());
        let mut output = OutBuffer::around(out);
        let left = self.decoder.run(&mut input, &mut output).map_err(|error| {
            if error.to_string() == WINDOW_TOO_LARGE { io::Error::other(too_large_window()) } else { error }
        })?;
        let (used, filled) = (input.pos(), output.pos());
        self.at += used;
        self.used += used as u64;
        self.is_complete = left == 0;
        Ok((filled, used > 0))
    }
}

impl Read for Frame {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while !self.is_complete && !out.is_empty() {
            // The decoder may hold decoded bytes even if no stored ones are left.
            let (filled, advanced) = self.step(out)?;
            if filled > 0 {
                return Ok(filled);
            }
            if !advanced && !self.is_complete {
                (self.at, self.end) = (0, self.stored.read(&mut self.buffer)?);
                if self.end == 0 {
                    return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the frame is cut"));
                }
            }
        }
        Ok(0)
    }
}

impl DecodeStream for Frame {
    fn finish(&mut self) -> io::Result<Option<u64>> {
        Ok(Some(self.used))
    }
}
