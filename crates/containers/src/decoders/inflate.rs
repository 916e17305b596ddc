//! Decompresses DEFLATE, with and without the headers of zlib and gzip.

use super::Stored;
use ckpt_api::{DecodeStream, Decoder, Parameters, StoredBytes};
use flate2::bufread::GzDecoder;
use flate2::read::{DeflateDecoder, ZlibDecoder};
use std::io::{self, BufReader, Read};

/// The most bytes that one byte can decompress to: 258 for a length and a distance of one bit each.
const RATIO: u64 = 1032;

/// DEFLATE (RFC 1951) without a header, as zip archives store it.
pub const DEFLATE: &Decoder = &Decoder::stream("deflate", longest_deflate, |stored, _, _| {
    Ok(Box::new(Deflate(DeflateDecoder::new(stored))))
});

/// zlib (RFC 1950), as HDF5's `gzip` filter stores it.
pub const ZLIB: &Decoder =
    &Decoder::stream("zlib", longest_deflate, |stored, _, _| Ok(decode_zlib(Box::new(stored))));

/// One member of gzip (RFC 1952).
pub const GZIP: &Decoder =
    &Decoder::stream("gzip", longest_deflate, |stored, _, _| Ok(decode_gzip(Box::new(stored))));

/// The most bytes that so many bytes of DEFLATE, zlib or gzip decode to.
pub fn longest_deflate(stored: u64, _: &Parameters) -> u64 {
    stored.saturating_mul(RATIO)
}

/// Starts to decode zlib, as [`ZLIB`] does.
pub fn decode_zlib(stored: Stored) -> Box<dyn DecodeStream> {
    Box::new(Zlib(ZlibDecoder::new(stored)))
}

/// Starts to decode one member of gzip, as [`GZIP`] does.
pub fn decode_gzip(stored: Stored) -> Box<dyn DecodeStream> {
    Box::new(Gzip(GzDecoder::new(BufReader::new(Counted { stored, read: 0 }))))
}

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

struct Zlib(ZlibDecoder<Stored>);

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

struct Gzip(GzDecoder<BufReader<Counted>>);

impl Read for Gzip {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.0.read(out)
    }
}

impl DecodeStream for Gzip {
    fn finish(&mut self) -> io::Result<Option<u64>> {
        let buffered = self.0.get_ref();
        Ok(Some(buffered.get_ref().read.saturating_sub(buffered.buffer().len() as u64)))
    }
}

/// Stored bytes, and how many of them were read.
struct Counted {
    stored: Stored,
    read: u64,
}

impl Read for Counted {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.stored.read(out)?;
        self.read += read as u64;
        Ok(read)
    }
}
