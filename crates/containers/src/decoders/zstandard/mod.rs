//! Decompresses Zstandard: with the library that is written in C, or with one in Rust where no C compiler is.

#[cfg(target_os = "linux")]
mod native;
#[cfg(not(target_os = "linux"))]
mod portable;
mod window;

use super::Stored;
use ckpt_api::{DecodeStream, Decoder, Parameters, StoredBytes};
use std::io;

#[cfg(target_os = "linux")]
use native::Frame;
#[cfg(not(target_os = "linux"))]
use portable::Frame;
use window::LARGEST_WINDOW_LOG;

/// One frame of Zstandard (RFC 8878) with a window of at most 8 MiB.
pub const ZSTD: &Decoder = &Decoder::stream("zstd", longest_zstd, start).with_memory(2 << LARGEST_WINDOW_LOG);

/// The most bytes that so many bytes of Zstandard decode to: a block of 128 KiB for four bytes.
pub fn longest_zstd(stored: u64, _: &Parameters) -> u64 {
    stored.saturating_mul(32 << 10)
}

/// Starts to decode one frame of Zstandard, as [`ZSTD`] does.
///
/// # Errors
/// As of reading the stream.
pub fn decode_zstd(stored: Stored) -> io::Result<Box<dyn DecodeStream>> {
    Ok(Box::new(Frame::new(stored)?))
}

fn start(stored: StoredBytes, _: &Parameters, _: u64) -> io::Result<Box<dyn DecodeStream>> {
    decode_zstd(Box::new(stored))
}
