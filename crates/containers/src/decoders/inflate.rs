//! Decompresses DEFLATE, with and without zlib's header.

use ckpt_api::{DecodeStream, Decoder, StoredBytes};
use flate2::read::{DeflateDecoder, ZlibDecoder};
use std::io::{self, Read};

/// The most bytes that one byte can decompress to: 258 for a length and a distance of one bit each.
const RATIO: u64 = 1032;

/// DEFLATE (RFC 1951) without a header, as zip archives store it.
pub const DEFLATE: &Decoder = &Decoder::stream(
    "deflate",
    |stored, _| stored.saturating_mul(RATIO),
    |stored, _, _| Ok(Box::new(Deflate(DeflateDecoder::new(stored)))),
);

/// zlib (RFC 1950), as HDF5's `gzip` filter stores it.
pub const ZLIB: &Decoder = &Decoder::stream(
    "zlib",
    |stored, _| stored.saturating_mul(RATIO),
    |stored, _, _| Ok(Box::new(Zlib(ZlibDecoder::new(stored)))),
);

struct Deflate(DeflateDecoder<StoredBytes>);

impl Read for Deflate {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.0.read(out)
    }
}

impl DecodeStream for Deflate {
    fn finish(&mut self) -> io::Result<Option<u64>> {
        Ok(Some(self.0.total_in()))
    }
}

struct Zlib(ZlibDecoder<StoredBytes>);

impl Read for Zlib {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.0.read(out)
    }
}

impl DecodeStream for Zlib {
    fn finish(&mut self) -> io::Result<Option<u64>> {
        Ok(Some(self.0.total_in()))
    }
}
