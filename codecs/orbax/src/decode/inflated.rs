//! Compressed bytes that are decoded at once.

use crate::zarr::ByteCodec;
use ckpt_containers::decoders::{Stored, decode_gzip, decode_zlib, decode_zstd};
use std::io::{self, Cursor, Read};

/// Decodes bytes that must all be one stream.
pub(super) fn inflated(codec: ByteCodec, bytes: Vec<u8>, most: usize) -> io::Result<Vec<u8>> {
    let len = bytes.len() as u64;
    let source: Stored = Box::new(Cursor::new(bytes));
    let mut stream = match codec {
        ByteCodec::Gzip => decode_gzip(source),
        ByteCodec::Zlib => decode_zlib(source),
        _ => decode_zstd(source)?,
    };
    let mut out = Vec::new();
    (&mut stream).take(most as u64 + 1).read_to_end(&mut out)?;
    if out.len() > most {
        return Err(io::Error::other("it decodes to more bytes than the chunk has"));
    }
    match stream.finish()? {
        Some(used) if used != len => Err(io::Error::other("bytes follow the compressed data")),
        _ => Ok(out),
    }
}
