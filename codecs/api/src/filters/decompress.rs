//! Compressed extents, read as if they lay decompressed in a file.

use super::fletcher::Fletcher32;
use super::latin1::Latin1Decoder;
use super::lzf::LzfDecoder;
use super::protobuf_numbers::NumberDecoder;
use super::section::{Section, within};
use super::signs::Signed;
use crate::io::ends_before;
use crate::layout::FLETCHER_BYTES;
use crate::{Compression, Error, Extent, File, Method, ReadAt, Result};
use flate2::read::{DeflateDecoder, ZlibDecoder};
use ruzstd::decoding::errors::FrameDecoderError;
use ruzstd::decoding::{FrameDecoder, StreamingDecoder};
use std::fmt;
use std::io::{self, Read};
use std::sync::{Arc, Mutex, PoisonError};

/// Extents that decompress to at most so many bytes are kept, so that they can be read in any order at no cost.
const KEPT: u64 = 1 << 20;
/// Tables, windows and buffers of a decoder; a window of Zstandard comes to that.
const WORKING: u64 = 512 << 10;
/// Bytes that are decompressed at once where nobody wants them.
const SKIPPED: usize = 16 << 10;
/// Bytes that are repeated, at most.
const LONGEST_PATTERN: u64 = 64;
/// The largest window of a Zstandard frame: what RFC 8878 recommends that every decoder supports.
const LARGEST_WINDOW: u64 = 8 << 20;

impl Extent {
    /// Bytes of memory that reading the extent takes at most, beside what it is read into: 0 where it is not
    /// compressed.
    pub fn decompression_memory(&self) -> u64 {
        if let Some(computed) = self.computed() {
            let parts = computed.stored().map(Extent::decompression_memory);
            return parts.fold(0, u64::saturating_add);
        }
        let Some(compression) = self.compression() else { return 0 };
        let total = compression.skip.saturating_add(self.len).saturating_add(compression.after);
        match compression.method {
            Method::Signs(_) => 0,
            _ if compression.shuffled.is_some() => total.saturating_mul(2).saturating_add(WORKING),
            _ if total <= KEPT => total + WORKING,
            Method::Zstd => 2 * LARGEST_WINDOW + WORKING,
            _ => WORKING,
        }
    }

    /// The extent's bytes as a file of their own, from byte 0 on, decompressed where they are compressed.
    ///
    /// A small extent (1 MiB) and a shuffled one is decompressed once and kept. A larger one is decompressed while it
    /// is read from its beginning to its end, in memory that does not depend on its size; whoever steps back begins
    /// again.
    ///
    /// ```
    /// use ckpt_api::{Compression, Extent, FileId, Input, Method};
    /// use std::collections::BTreeMap;
    /// // "aaaaaaaa", deflated.
    /// let stored = b"\x4b\x4c\x84\x00\x00".to_vec();
    /// let file = Input::memory("f", BTreeMap::from([("f".to_owned(), stored)])).main()?;
    /// let extent = Extent::new(FileId(0), 0, 8).with_compression(Compression::new(Method::Deflate, 5));
    /// assert_eq!(extent.open(&file)?.bytes(2, 6)?, b"aaaaaa");
    /// # Ok::<(), ckpt_api::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`crate::Kind::Corrupt`] where the file ends before or so few bytes cannot hold the extent's. Reading it fails
    /// with [`crate::Kind::Corrupt`] where the compressed data is damaged, holds more or fewer bytes than the extent
    /// states, or their own checksum differs.
    pub fn open(&self, file: &File) -> Result<File> {
        let inside = self.offset.checked_add(self.stored_len()).is_some_and(|end| end <= file.len());
        if !inside {
            return Err(ends_before("tensor", file.name(), file.len(), self.offset, self.stored_len()));
        }
        let source = Section { file: file.clone(), offset: self.offset, len: self.stored_len() };
        let handle: Arc<dyn ReadAt> = match self.compression() {
            None => Arc::new(source),
            Some(Compression { method: Method::Signs(signs), .. }) => {
                self.check_signs().map_err(|error| error.file(file.name()).offset(self.offset))?;
                Arc::new(Signed::new(source, *signs))
            }
            Some(compression) => Arc::new(Decompressed {
                total: compression.total(self.len).map_err(|error| error.file(file.name()))?,
                len: self.len,
                compression: Compression::clone(compression),
                source,
                state: Mutex::default(),
            }),
        };
        File::new(handle, file.name())
    }
}

impl Extent {
    /// Checks that its numbers are as many as the stored ones, and nothing but their signs differs.
    fn check_signs(&self) -> Result<()> {
        let Some(compression) = self.compression() else { return Ok(()) };
        compression.check_signs()?;
        match compression.stored == self.len {
            true => Ok(()),
            false => Err(Error::corrupt("an extent with other signs contradicts itself")),
        }
    }
}

/// A section, from its first byte to its last.
struct Stored {
    section: Section,
    at: u64,
    failure: Arc<Mutex<Option<Error>>>,
}

impl Read for Stored {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let wanted = within(buffer, self.section.len.saturating_sub(self.at));
        match self.section.fill(self.at, wanted) {
            Ok(()) => {
                self.at = self.at.saturating_add(wanted.len() as u64);
                Ok(wanted.len())
            }
            Err(error) => {
                *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                Err(io::Error::other("the file cannot be read"))
            }
        }
    }
}

/// What a compressed extent decompresses to.
struct Decompressed {
    source: Section,
    compression: Compression,
    /// Decompressed bytes: of the extent, and with those before and after it.
    len: u64,
    total: u64,
    state: Mutex<State>,
}

#[derive(Default)]
enum State {
    #[default]
    Unread,
    /// All bytes.
    Kept(Vec<u8>),
    /// Decompressed in part.
    Running(Box<Running>),
}

/// A decoder, and the byte up to which it decompressed, what is skipped included.
struct Running {
    decoder: Decoder,
    at: u64,
}

impl fmt::Debug for Decompressed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decompressed").field("source", &self.source).finish_non_exhaustive()
    }
}

impl ReadAt for Decompressed {
    fn size(&self) -> io::Result<u64> {
        Ok(self.len)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let wanted = within(buffer, self.len.saturating_sub(offset));
        if !wanted.is_empty() {
            let first = self.compression.skip.saturating_add(offset);
            self.fill(first, wanted).map_err(|error| io::Error::other(self.place(error)))?;
        }
        Ok(wanted.len())
    }
}

impl Decompressed {
    /// Fills `out` with decompressed bytes from `first` on.
    fn fill(&self, first: u64, out: &mut [u8]) -> Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let State::Unread = *state
            && (self.total <= KEPT || self.compression.shuffled.is_some())
        {
            *state = State::Kept(self.whole()?);
        }
        if let State::Kept(bytes) = &*state {
            let start = usize::try_from(first).unwrap_or(usize::MAX);
            let bytes = bytes.get(start..).and_then(|rest| rest.get(..out.len()));
            out.copy_from_slice(
                bytes.ok_or_else(|| Error::defect("more bytes are read than were decompressed"))?,
            );
            return Ok(());
        }
        // What fails in between is not gone on with.
        let mut running = match std::mem::take(&mut *state) {
            State::Running(running) if running.at <= first => running,
            _ => Box::new(Running { decoder: self.start()?, at: 0 }),
        };
        let Running { decoder, at } = &mut *running;
        let mut skipped = [0; SKIPPED];
        while *at < first {
            let part = within(&mut skipped, first - *at);
            self.next(decoder, part)?;
            *at += part.len() as u64;
        }
        self.next(decoder, out)?;
        *at += out.len() as u64;
        if *at == self.total {
            self.end(decoder)?;
        }
        *state = State::Running(running);
        Ok(())
    }

    fn start(&self) -> Result<Decoder> {
        let compression = &self.compression;
        let payload = Section { len: compression.payload(), ..self.source.clone() };
        if compression.fletcher32 {
            self.check_fletcher(&payload)?;
        }
        Decoder::new(compression.method, &payload, self.total)
    }

    /// Compares the checksum of the compressed bytes with the one that follows them.
    fn check_fletcher(&self, payload: &Section) -> Result<()> {
        let (mut sum, mut bytes) = (Fletcher32::default(), [0; SKIPPED]);
        let mut at = 0;
        while at < payload.len {
            let part = within(&mut bytes, payload.len - at);
            payload.fill(at, part)?;
            sum.update(part);
            at += part.len() as u64;
        }
        let mut stored = [0; FLETCHER_BYTES as usize];
        self.source.fill(payload.len, &mut stored)?;
        let (found, stored) = (sum.finish(), u32::from_le_bytes(stored));
        if found == stored {
            return Ok(());
        }
        Err(Error::corrupt("the checksum of the compressed data does not match")
            .found(format!("{found:#010x}"))
            .expected(format!("{stored:#010x}, as stored"))
            .help("copy the file again; the data changed after it was written"))
    }

    /// All bytes, of an extent that is small, or bounded by a limit.
    fn whole(&self) -> Result<Vec<u8>> {
        let mut decoder = self.start()?;
        let mut bytes = Vec::new();
        let len = usize::try_from(self.total).map_err(|_| Error::limit("too large for this machine"))?;
        // No more is allocated than the bytes in the file account for.
        while bytes.len() < len {
            let start = bytes.len();
            bytes.resize(len.min(start + SKIPPED.max(start)), 0);
            self.next(&mut decoder, bytes.get_mut(start..).unwrap_or_default())?;
        }
        self.end(&mut decoder)?;
        Ok(match self.compression.shuffled {
            Some(element) => unshuffled(&bytes, element.get() as usize),
            None => bytes,
        })
    }

    fn next(&self, decoder: &mut Decoder, out: &mut [u8]) -> Result<()> {
        match decoder.fill(out)? {
            true => Ok(()),
            false => Err(Error::corrupt("the compressed data is shorter than the tensor")
                .expected(crate::count(self.total, "byte"))),
        }
    }

    /// Checks that nothing follows.
    fn end(&self, decoder: &mut Decoder) -> Result<()> {
        if decoder.fill(&mut [0])? {
            return Err(Error::corrupt("the compressed data is longer than the tensor")
                .expected(crate::count(self.total, "byte")));
        }
        let used = decoder.used()?;
        if used == self.compression.payload() {
            return Ok(());
        }
        Err(Error::corrupt("the compressed data ends too early")
            .found(crate::count(used, "byte"))
            .expected(crate::count(self.compression.payload(), "byte")))
    }

    fn place(&self, error: Error) -> Error {
        error.file(self.source.file.name()).offset(self.source.offset)
    }
}

fn damaged(method: Method, found: &dyn fmt::Display) -> Error {
    Error::corrupt("the compressed data is damaged")
        .found(found.to_string())
        .expected(format!("bytes of {}", method.name()))
        .help("copy the file again, or use another checkpoint")
}

/// The bytes of elements of `size` bytes, put together again. What is left at the end was not shuffled.
fn unshuffled(bytes: &[u8], size: usize) -> Vec<u8> {
    let count = bytes.len() / size.max(1);
    let (shuffled, rest) = bytes.split_at_checked(count * size).unwrap_or_default();
    let mut out = vec![0; shuffled.len()];
    if count > 0 {
        for (at, plane) in shuffled.chunks_exact(count).enumerate() {
            for (to, byte) in out.iter_mut().skip(at).step_by(size).zip(plane) {
                *to = *byte;
            }
        }
    }
    out.extend_from_slice(rest);
    out
}

/// Bytes that are repeated up to a length.
struct Repeated {
    pattern: Vec<u8>,
    at: usize,
    left: u64,
}

impl Repeated {
    fn read(section: &Section, left: u64) -> Result<Self> {
        if section.len > LONGEST_PATTERN {
            return Err(Error::unsupported("the bytes that are repeated are too many")
                .found(crate::count(section.len, "byte"))
                .expected(format!("at most {LONGEST_PATTERN} bytes")));
        }
        let mut pattern = vec![0; section.len as usize];
        section.fill(0, &mut pattern)?;
        Ok(Repeated { pattern, at: 0, left })
    }

    fn read_into(&mut self, out: &mut [u8]) -> usize {
        let out = within(out, self.left);
        for byte in &mut *out {
            *byte = self.pattern.get(self.at).copied().unwrap_or(0);
            self.at = if self.at + 1 < self.pattern.len() { self.at + 1 } else { 0 };
        }
        self.left = self.left.saturating_sub(out.len() as u64);
        out.len()
    }
}

struct Decoder {
    method: Method,
    bytes: Bytes,
    /// Why the file could not be read: decoders pass on no more than that it could not.
    failure: Arc<Mutex<Option<Error>>>,
}

enum Bytes {
    Stored(Stored),
    Deflate(DeflateDecoder<Stored>),
    Zlib(ZlibDecoder<Stored>),
    Zstd(Box<StreamingDecoder<Stored, FrameDecoder>>),
    Latin1(Latin1Decoder<Stored>),
    Lzf(Box<LzfDecoder<Stored>>),
    Repeated(Repeated),
    Protobuf(NumberDecoder<Stored>),
}

impl Decoder {
    /// Starts to decompress the bytes of a section to `total` bytes.
    fn new(method: Method, section: &Section, total: u64) -> Result<Self> {
        let failure = Arc::default();
        let stored = Stored { section: section.clone(), at: 0, failure: Arc::clone(&failure) };
        let bytes = match method {
            Method::Stored => Bytes::Stored(stored),
            Method::Deflate => Bytes::Deflate(DeflateDecoder::new(stored)),
            Method::Zlib => Bytes::Zlib(ZlibDecoder::new(stored)),
            Method::Latin1 => Bytes::Latin1(Latin1Decoder::new(stored)),
            Method::Protobuf(numbers) => Bytes::Protobuf(NumberDecoder::new(stored, numbers)),
            Method::Lzf => Bytes::Lzf(Box::new(LzfDecoder::new(stored))),
            Method::Repeated => Bytes::Repeated(Repeated::read(section, total)?),
            Method::Signs(_) => return Err(Error::defect("signs are flipped where they are read")),
            Method::Zstd => match StreamingDecoder::new_with_max_window_size(stored, LARGEST_WINDOW) {
                Ok(decoder) => Bytes::Zstd(Box::new(decoder)),
                Err(FrameDecoderError::WindowSizeTooBig { requested, .. }) => {
                    return Err(Error::unsupported("the window of the compressed bytes is too large")
                        .found(crate::count(requested, "byte"))
                        .expected(format!("at most {LARGEST_WINDOW} bytes"))
                        .help("compress them again without --ultra and --long"));
                }
                Err(error) => return Err(taken(&failure).unwrap_or_else(|| damaged(method, &error))),
            },
        };
        Ok(Decoder { method, bytes, failure })
    }

    /// Fills `out`; returns whether there were so many bytes.
    fn fill(&mut self, mut out: &mut [u8]) -> Result<bool> {
        while !out.is_empty() {
            let read = match &mut self.bytes {
                Bytes::Stored(stored) => stored.read(out),
                Bytes::Deflate(decoder) => decoder.read(out),
                Bytes::Zlib(decoder) => decoder.read(out),
                Bytes::Zstd(decoder) => decoder.read(out),
                Bytes::Latin1(decoder) => decoder.read(out),
                Bytes::Lzf(decoder) => decoder.read(out),
                Bytes::Repeated(repeated) => Ok(repeated.read_into(out)),
                Bytes::Protobuf(decoder) => decoder.read(out),
            };
            match read {
                Ok(0) => return Ok(false),
                Ok(read) => out = out.get_mut(read..).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    return Err(taken(&self.failure).unwrap_or_else(|| damaged(self.method, &error)));
                }
            }
        }
        Ok(true)
    }

    /// After the end: how many of the file's bytes were used.
    ///
    /// # Errors
    /// [`crate::Kind::Corrupt`] for a checksum that differs.
    fn used(&self) -> Result<u64> {
        match &self.bytes {
            Bytes::Stored(stored) => Ok(stored.at),
            Bytes::Deflate(decoder) => Ok(decoder.total_in()),
            Bytes::Zlib(decoder) => Ok(decoder.total_in()),
            Bytes::Latin1(decoder) => Ok(decoder.used()),
            Bytes::Protobuf(decoder) => Ok(decoder.used()),
            Bytes::Lzf(decoder) => Ok(decoder.used()),
            Bytes::Repeated(repeated) => Ok(repeated.pattern.len() as u64),
            Bytes::Zstd(stream) => {
                let stated = stream.decoder.get_checksum_from_data();
                match (stated, stream.decoder.get_calculated_checksum()) {
                    (Some(stated), Some(found)) if stated != found => {
                        Err(damaged(self.method, &format!("{found:#010x} computed over them"))
                            .expected(format!("{stated:#010x}, as stored")))
                    }
                    _ => Ok(stream.get_ref().at),
                }
            }
        }
    }
}

fn taken(failure: &Mutex<Option<Error>>) -> Option<Error> {
    failure.lock().unwrap_or_else(PoisonError::into_inner).take()
}
