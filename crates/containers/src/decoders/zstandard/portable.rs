//! Frames, decoded without C.

use super::super::Stored;
use super::window::{LARGEST_WINDOW_LOG, too_large_window};
use ckpt_api::{DecodeStream, Error};
use ruzstd::decoding::errors::FrameDecoderError;
use ruzstd::decoding::{FrameDecoder, StreamingDecoder};
use std::io::{self, Read};

/// One frame.
pub(super) struct Frame(StreamingDecoder<Stored, FrameDecoder>);

impl Frame {
    pub(super) fn new(stored: Stored) -> io::Result<Self> {
        match StreamingDecoder::new_with_max_window_size(stored, 1 << LARGEST_WINDOW_LOG) {
            Ok(decoder) => Ok(Frame(decoder)),
            Err(FrameDecoderError::WindowSizeTooBig { requested, .. }) => {
                Err(io::Error::other(too_large_window().found(ckpt_api::count(requested, "byte"))))
            }
            Err(error) => Err(io::Error::other(error.to_string())),
        }
    }
}

impl Read for Frame {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.0.read(out)
    }
}

impl DecodeStream for Frame {
    fn finish(&mut self) -> io::Result<Option<u64>> {
        let decoder = &self.0.decoder;
        match (decoder.get_checksum_from_data(), decoder.get_calculated_checksum()) {
            (Some(stated), Some(found)) if stated != found => Err(io::Error::other(
                Error::corrupt("the compressed data is damaged")
                    .found(format!("{found:#010x} computed over them"))
                    .expected(format!("{stated:#010x}, as stored"))
                    .help("copy the file again, or use another checkpoint"),
            )),
            _ => Ok(None),
        }
    }
}
