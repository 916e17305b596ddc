//! What is around every object of a database: magic number, length, version, compression, checksum.

use ckpt_api::fields::{Bytes, be, field, le, varint};
use ckpt_api::{Checksum, ChecksumAlgorithm, Error, Limit, Result, count};
use ckpt_containers::decoders::decode_zstd;
use std::borrow::Cow;
use std::io::{Cursor, Read};

pub(crate) const MANIFEST_MAGIC: u32 = 0x0cdb_3a2a;
pub(crate) const NODE_MAGIC: u32 = 0x0cdb_20de;

/// Bytes of a decoded object, at most: what a database states of itself bounds nothing.
pub(crate) const MOST_DECODED: u64 = 256 << 20;

/// Bytes before the version, and after the body.
const HEAD: u64 = 12;
const TAIL: u64 = 4;

/// Returns the body of an object that is all of `bytes`, decoded to at most `most` bytes.
///
/// # Errors
/// [`ckpt_api::Kind::Corrupt`], [`ckpt_api::Kind::Unsupported`] and [`ckpt_api::Kind::Limit`].
pub(crate) fn open<'a>(bytes: &'a [u8], magic: u32, what: &str, most: u64) -> Result<Cow<'a, [u8]>> {
    let mut input = Bytes::new(bytes, 0);
    let found = input.parse(field("magic", be::<u32>))?;
    if found != magic {
        return Err(Error::corrupt(format!("the magic number is not that of {what}"))
            .offset(0)
            .found(format!("{found:08x}"))
            .expected(format!("{magic:08x}")));
    }
    let len = input.parse(field("length", le::<u64>))?;
    if len != bytes.len() as u64 || len < HEAD + TAIL {
        return Err(Error::corrupt(format!("the stated length of {what} is not that of its bytes"))
            .offset(4)
            .found(count(len, "byte"))
            .expected(count(bytes.len() as u64, "byte"))
            .help("copy the checkpoint again"));
    }
    let checked = bytes.len().saturating_sub(TAIL as usize);
    let (checked, sum) = bytes.split_at_checked(checked).unwrap_or_default();
    check_sum(checked, sum, what)?;
    let mut input = Bytes::new(checked.get(HEAD as usize..).unwrap_or_default(), HEAD);
    let version = input.parse(field("version", varint))?;
    let compression = input.parse(field("compression", varint))?;
    if version != 0 || compression > 1 {
        return Err(Error::unsupported(format!("{what} has an unknown version or compression"))
            .offset(HEAD)
            .found(format!("version {version}, compression {compression}"))
            .expected("version 0, compression 0 or 1"));
    }
    let body = input.as_slice();
    match compression {
        0 => Ok(Cow::Borrowed(body)),
        _ => decoded(body, most).map(Cow::Owned).map_err(|error| error.offset(input.offset())),
    }
}

fn check_sum(bytes: &[u8], stored: &[u8], what: &str) -> Result<()> {
    let checksum = Checksum { algorithm: ChecksumAlgorithm::Crc32c, seed: 0, value: None };
    let mut running = checksum.start();
    running.update(bytes);
    let (found, stored) = (running.finish(), stored.first_chunk().map(|sum| u32::from_le_bytes(*sum)));
    if stored == Some(found) {
        return Ok(());
    }
    Err(Error::corrupt(format!("the checksum of {what} does not match"))
        .offset(bytes.len() as u64)
        .found(format!("{found:#010x} computed over it"))
        .expected(format!("{:#010x}, as stored", stored.unwrap_or_default()))
        .help("copy the checkpoint again; the data changed after it was written"))
}

/// Decodes one frame of Zstandard, which need not state its length.
fn decoded(stored: &[u8], most: u64) -> Result<Vec<u8>> {
    let damaged = |error: std::io::Error| match error.downcast::<Error>() {
        Ok(error) => error,
        Err(error) => Error::corrupt("the compressed data is damaged").found(error.to_string()),
    };
    let mut stream = decode_zstd(Box::new(Cursor::new(stored.to_vec()))).map_err(damaged)?;
    let mut bytes = Vec::new();
    (&mut stream).take(most.saturating_add(1)).read_to_end(&mut bytes).map_err(damaged)?;
    if bytes.len() as u64 > most {
        return Err(Error::limit("a node or a manifest decodes to too many bytes")
            .found(format!("more than {most} bytes from {}", stored.len()))
            .help(ckpt_api::text![
                "if you trust the input, raise the limit with ",
                ckpt_api::Setting::LIMIT.of(&format!("{}={}", Limit::HeaderBytes.name(), MOST_DECODED * 2))
            ]));
    }
    match stream.finish().map_err(damaged)? {
        Some(used) if used != stored.len() as u64 => Err(Error::corrupt("bytes follow the compressed data")
            .found(count(stored.len() as u64, "byte"))
            .expected(count(used, "byte"))),
        _ => Ok(bytes),
    }
}
