//! Decoders of chunks: one codec alone is a stream; several, blosc, and values within nodes are decoded at once.

mod blosc;
mod blosclz;
mod inflated;
mod lz4;

use crate::zarr::ByteCodec;
use ckpt_api::{Checksum, ChecksumAlgorithm, Compression, Decoder, Error, Parameters};
use ckpt_containers::decoders::{GZIP, ZLIB, ZSTD, longest_deflate, longest_zstd};
use inflated::inflated;
use std::borrow::Cow;
use std::io;

/// What [`ckpt_api::Codec::decoders`] returns.
pub(crate) const ALL: &[&Decoder] = &[ZSTD, GZIP, ZLIB, CHUNK];

/// Codecs of a chunk, in the order of decoding, of the stored bytes or of those in the parameters.
const CHUNK: &Decoder = &Decoder::whole("zarr", longest, decode);

/// The parameters with the numbers of codecs, in the order of decoding.
const STEPS: [&str; 8] = ["step1", "step2", "step3", "step4", "step5", "step6", "step7", "step8"];

/// The parameter with the bytes of a value that is within a node, and the one that says where.
const VALUE: &str = "value";
const AT: &str = "at";

/// How a chunk is compressed that has so many bytes in a file; `None` if it is stored as it is.
pub(crate) fn of_stored(codecs: &[ByteCodec], stored: u64) -> Option<Compression> {
    Some(match codecs {
        [] => return None,
        [ByteCodec::Zstd] => Compression::new(ZSTD, stored),
        [ByteCodec::Gzip] => Compression::new(GZIP, stored),
        [ByteCodec::Zlib] => Compression::new(ZLIB, stored),
        _ => Compression::new(CHUNK, stored).with_parameters(parameters(codecs)),
    })
}

/// How a chunk is stored that is within a node, from this byte of its body on.
pub(crate) fn of_inline(codecs: &[ByteCodec], value: &[u8], at: u64) -> Compression {
    let parameters = parameters(codecs).with_number(AT, at).with_bytes(VALUE, value);
    Compression::new(CHUNK, 0).with_parameters(parameters)
}

fn parameters(codecs: &[ByteCodec]) -> Parameters {
    // The last codec of writing is the first of reading.
    let steps = STEPS.iter().zip(codecs.iter().rev());
    steps.fold(Parameters::default(), |own, (name, codec)| own.with_number(name, number(*codec)))
}

const fn number(codec: ByteCodec) -> u64 {
    match codec {
        ByteCodec::Zstd => 1,
        ByteCodec::Gzip => 2,
        ByteCodec::Zlib => 3,
        ByteCodec::Crc32c => 4,
        ByteCodec::Blosc => 5,
    }
}

fn steps(parameters: &Parameters) -> Option<Vec<ByteCodec>> {
    const ALL: [ByteCodec; 5] =
        [ByteCodec::Zstd, ByteCodec::Gzip, ByteCodec::Zlib, ByteCodec::Crc32c, ByteCodec::Blosc];
    let numbers = STEPS.iter().map_while(|name| parameters.number(name));
    numbers.map(|stated| ALL.iter().copied().find(|codec| number(*codec) == stated)).collect()
}

fn longest(stored: u64, parameters: &Parameters) -> u64 {
    let Some(steps) = steps(parameters) else { return 0 };
    let len = parameters.bytes(VALUE).map_or(stored, |value| value.len() as u64);
    steps.into_iter().fold(len, |len, codec| match codec {
        ByteCodec::Zstd => longest_zstd(len, parameters),
        ByteCodec::Gzip | ByteCodec::Zlib => longest_deflate(len, parameters),
        ByteCodec::Crc32c => len,
        ByteCodec::Blosc => blosc::longest(len),
    })
}

fn decode(stored: &[u8], parameters: &Parameters, out: &mut [u8]) -> io::Result<usize> {
    let steps = steps(parameters).ok_or_else(|| io::Error::other("a codec of the chunk is unknown"))?;
    let mut bytes = Cow::Borrowed(parameters.bytes(VALUE).unwrap_or(stored));
    // What is compressed twice is hardly longer than what it becomes.
    let most = out.len().saturating_add(out.len() / 8).saturating_add(MOST_ADDED);
    for codec in steps {
        bytes = step(codec, bytes, most)?;
    }
    let to = out.get_mut(..bytes.len()).ok_or_else(|| io::Error::other("more bytes than the chunk has"))?;
    to.copy_from_slice(&bytes);
    Ok(bytes.len())
}

/// Bytes that codecs may add to a chunk.
const MOST_ADDED: usize = 64 << 10;

fn step(codec: ByteCodec, bytes: Cow<'_, [u8]>, most: usize) -> io::Result<Cow<'_, [u8]>> {
    match codec {
        ByteCodec::Crc32c => check_sum(bytes),
        ByteCodec::Blosc => blosc::decode(&bytes, most).map(Cow::Owned),
        ByteCodec::Zstd | ByteCodec::Gzip | ByteCodec::Zlib => {
            inflated(codec, bytes.into_owned(), most).map(Cow::Owned)
        }
    }
}

/// Compares the checksum that follows the bytes, and removes it.
fn check_sum(bytes: Cow<'_, [u8]>) -> io::Result<Cow<'_, [u8]>> {
    const SUM: usize = 4;
    let len = bytes.len().checked_sub(SUM).ok_or(io::ErrorKind::UnexpectedEof)?;
    let (data, stored) = bytes.split_at_checked(len).ok_or(io::ErrorKind::UnexpectedEof)?;
    let checksum = Checksum { algorithm: ChecksumAlgorithm::Crc32c, seed: 0, value: None };
    let mut running = checksum.start();
    running.update(data);
    let stored = stored.first_chunk().map_or(0, |sum| u32::from_le_bytes(*sum));
    if running.finish() != stored {
        return Err(io::Error::other(
            Error::corrupt("the checksum of a chunk does not match")
                .found(format!("{:#010x} computed over it", running.finish()))
                .expected(format!("{stored:#010x}, as stored"))
                .help("copy the checkpoint again; the data changed after it was written"),
        ));
    }
    Ok(match bytes {
        Cow::Borrowed(bytes) => Cow::Borrowed(bytes.get(..len).unwrap_or_default()),
        Cow::Owned(mut bytes) => {
            bytes.truncate(len);
            Cow::Owned(bytes)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ckpt_api::{Extent, FileId, Input};

    #[test]
    fn a_value_within_a_node_needs_no_byte_of_its_file() {
        let file = Input::memory("f", [("f".to_owned(), Vec::new())].into()).main().unwrap();
        let sum = crc32c::crc32c(b"abcd").to_le_bytes();
        let value = [&b"abcd"[..], &sum].concat();
        let open = |value: &[u8]| {
            let compression = of_inline(&[ByteCodec::Crc32c], value, 7);
            Extent::new(FileId(0), 0, 4).with_compression(compression).open(&file).unwrap().bytes(0, 4)
        };
        assert_eq!(open(&value).unwrap(), b"abcd");
        let damaged = [&b"abce"[..], &sum].concat();
        assert!(open(&damaged).unwrap_err().to_string().contains("checksum"));
    }

    #[test]
    fn a_plan_knows_the_codecs_of_a_chunk_again() {
        let codecs = [ByteCodec::Zstd, ByteCodec::Crc32c];
        let compression = of_inline(&codecs, b"x", 3);
        let json = serde_json::to_string(&compression).unwrap();
        assert!(json.contains(r#""zarr":{"step1":4,"step2":1,"at":3,"value":"eA=="}"#), "{json}");
        let mut read: Compression = serde_json::from_str(&json).unwrap();
        read.attach(ALL);
        assert!(read.has_decoder() && read == compression);
    }
}
