//! Decompresses Zstandard.

use ckpt_api::{DecodeStream, Decoder, Error, Parameters, StoredBytes};
use ruzstd::decoding::errors::FrameDecoderError;
use ruzstd::decoding::{FrameDecoder, StreamingDecoder};
use std::io::{self, Read};

/// The largest window of a frame: what RFC 8878 recommends that every decoder supports.
const LARGEST_WINDOW: u64 = 8 << 20;

/// One frame of Zstandard (RFC 8878) with a window of at most 8 MiB.
pub const ZSTD: &Decoder = &Decoder::stream(
    "zstd",
    // A block of 128 KiB for four bytes.
    |stored, _| stored.saturating_mul(32 << 10),
    start,
)
.with_memory(2 * LARGEST_WINDOW);

fn start(stored: StoredBytes, _: &Parameters, _: u64) -> io::Result<Box<dyn DecodeStream>> {
    match StreamingDecoder::new_with_max_window_size(stored, LARGEST_WINDOW) {
        Ok(decoder) => Ok(Box::new(Frame(decoder))),
        Err(FrameDecoderError::WindowSizeTooBig { requested, .. }) => Err(io::Error::other(
            Error::unsupported("the window of the compressed bytes is too large")
                .found(ckpt_api::count(requested, "byte"))
                .expected(format!("at most {LARGEST_WINDOW} bytes"))
                .help("compress them again without --ultra and --long"),
        )),
        Err(error) => Err(io::Error::other(error.to_string())),
    }
}

struct Frame(StreamingDecoder<StoredBytes, FrameDecoder>);

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
