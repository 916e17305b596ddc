//! Compressed extents, read as if they lay decompressed in a file.

use super::fletcher::Fletcher32;
use super::in_place::DecodedInPlace;
use super::section::{Section, within};
use super::stream::{Stream, blame};
use crate::io::ends_before;
use crate::layout::{DecoderKind, FLETCHER_BYTES};
use crate::{Compression, DecoderUnit, Error, Extent, File, ReadAt, Result};
use std::cmp::Ordering;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

/// Extents that decompress to at most so many bytes are kept, so that they can be read in any order at no cost.
const KEPT: u64 = 1 << 20;
/// Tables, windows and buffers that any decoder may have.
const WORKING: u64 = 512 << 10;
/// Bytes that are decompressed at once where nobody wants them.
const SKIPPED: usize = 16 << 10;

impl Extent {
    /// Bytes of memory that reading the extent takes at most, beside what it is read into: 0 if it is not
    /// compressed.
    pub fn decompression_memory(&self) -> u64 {
        if let Some(computed) = self.computed() {
            let parts = computed.stored().into_iter().map(Extent::decompression_memory);
            return parts.fold(0, u64::saturating_add);
        }
        let Some(compression) = self.compression() else { return 0 };
        let total = compression.skip.saturating_add(self.len).saturating_add(compression.after);
        let copies = if compression.shuffled.is_some() { 2 } else { 1 };
        let all = total.saturating_mul(copies).saturating_add(WORKING);
        match compression.known().map(|(decoder, _)| decoder.unit()) {
            Ok(DecoderUnit::InPlace) => 0,
            Ok(DecoderUnit::Whole) => all.saturating_add(compression.stored),
            Ok(DecoderUnit::Stream { memory }) if copies > 1 || total <= KEPT => {
                // No window is larger than what is decoded, and no more than two of them are in memory.
                all.saturating_add(memory.min(total.saturating_mul(2)))
            }
            Ok(DecoderUnit::Stream { memory }) => memory.saturating_add(WORKING),
            Err(_) if copies > 1 || total <= KEPT => all,
            Err(_) => WORKING,
        }
    }

    /// The extent's bytes as a file of their own, from byte 0 on, decompressed where they are compressed.
    ///
    /// A small extent (1 MiB) is decompressed once and kept, and so are a shuffled one and one whose decoder decodes
    /// all of it at once. A larger one is decompressed while it is read from its beginning to its end, in memory that
    /// does not depend on its size; whoever steps back begins again.
    ///
    /// ```
    /// use ckpt_api::{Compression, Decoder, Extent, FileId, Input};
    /// // Two bytes that are repeated.
    /// let file = Input::memory("f", [("f".to_owned(), b"ab".to_vec())].into()).main()?;
    /// let extent = Extent::new(FileId(0), 0, 8).with_compression(Compression::new(Decoder::REPEATED, 2));
    /// assert_eq!(extent.open(&file)?.bytes(2, 6)?, b"ababab");
    /// # Ok::<(), ckpt_api::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`crate::Kind::Corrupt`] if the file ends before or so few bytes cannot hold the extent's;
    /// [`crate::Kind::Unsupported`] if nobody registered the decoder that a plan names. Reading it fails
    /// with [`crate::Kind::Corrupt`] if the compressed data is damaged, holds more or fewer bytes than the extent
    /// states, or their own checksum differs.
    pub fn open(&self, file: &File) -> Result<File> {
        let inside = self.offset.checked_add(self.stored_len()).is_some_and(|end| end <= file.len());
        if !inside {
            return Err(ends_before("tensor", file.name(), file.len(), self.offset, self.stored_len()));
        }
        let source = Section { file: file.clone(), offset: self.offset, len: self.stored_len() };
        let Some(compression) = self.compression() else { return File::new(Arc::new(source), file.name()) };
        let place = |error: Error| error.file(file.name()).offset(self.offset);
        let (decoder, parameters) = compression.known().map_err(place)?;
        let total = compression.total(self.len).map_err(|error| error.file(file.name()))?;
        let handle: Arc<dyn ReadAt> = match &decoder.kind {
            DecoderKind::InPlace { decode, .. } => {
                Arc::new(DecodedInPlace::new(source, *decode, parameters.clone()))
            }
            _ => Arc::new(Decompressed {
                total,
                len: self.len,
                compression: Compression::clone(compression),
                source,
                state: Mutex::default(),
            }),
        };
        File::new(handle, file.name())
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
    stream: Stream,
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
            && (self.total <= KEPT || self.compression.shuffled.is_some() || self.compression.is_whole())
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
            _ => Box::new(Running { stream: self.start()?, at: 0 }),
        };
        let Running { stream, at } = &mut *running;
        let mut skipped = [0; SKIPPED];
        while *at < first {
            let part = within(&mut skipped, first - *at);
            self.next(stream, part)?;
            *at += part.len() as u64;
        }
        self.next(stream, out)?;
        *at += out.len() as u64;
        if *at == self.total {
            self.end(stream)?;
        }
        *state = State::Running(running);
        Ok(())
    }

    /// The stored bytes, without their checksum, which is compared.
    fn payload(&self) -> Result<Section> {
        let payload = Section { len: self.compression.payload(), ..self.source.clone() };
        if self.compression.fletcher32 {
            self.check_fletcher(&payload)?;
        }
        Ok(payload)
    }

    fn start(&self) -> Result<Stream> {
        let (decoder, parameters) = self.compression.known()?;
        Stream::start(decoder, parameters, &self.payload()?, self.total)
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
        let (decoder, parameters) = self.compression.known()?;
        let bytes = match decoder.unit() {
            DecoderUnit::Whole => {
                let stored = self.payload()?.bytes()?;
                let mut bytes = self.buffer()?;
                let len = decoder.decode(&stored, parameters, &mut bytes);
                match len.map_err(|error| blame(decoder, error))?.cmp(&bytes.len()) {
                    Ordering::Less => return Err(self.shorter()),
                    Ordering::Greater => return Err(self.longer()),
                    Ordering::Equal => bytes,
                }
            }
            _ => self.streamed()?,
        };
        Ok(match self.compression.shuffled {
            Some(element) => unshuffled(&bytes, element.get() as usize),
            None => bytes,
        })
    }

    /// Room for all bytes, which are bounded by a limit.
    fn buffer(&self) -> Result<Vec<u8>> {
        let len = self.usize_total()?;
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(len).map_err(|_| Error::limit("too large for this machine"))?;
        bytes.resize(len, 0);
        Ok(bytes)
    }

    fn streamed(&self) -> Result<Vec<u8>> {
        let mut stream = self.start()?;
        let mut bytes = Vec::new();
        let len = self.usize_total()?;
        // No more is allocated than the bytes in the file account for.
        while bytes.len() < len {
            let start = bytes.len();
            bytes.resize(len.min(start + SKIPPED.max(start)), 0);
            self.next(&mut stream, bytes.get_mut(start..).unwrap_or_default())?;
        }
        self.end(&mut stream)?;
        Ok(bytes)
    }

    fn usize_total(&self) -> Result<usize> {
        usize::try_from(self.total).map_err(|_| Error::limit("too large for this machine"))
    }

    fn next(&self, stream: &mut Stream, out: &mut [u8]) -> Result<()> {
        if stream.fill(out)? { Ok(()) } else { Err(self.shorter()) }
    }

    /// Checks that nothing follows.
    fn end(&self, stream: &mut Stream) -> Result<()> {
        if stream.fill(&mut [0])? {
            return Err(self.longer());
        }
        let used = stream.finish()?;
        if used == self.compression.payload() {
            return Ok(());
        }
        Err(Error::corrupt("the compressed data ends too early")
            .found(crate::count(used, "byte"))
            .expected(crate::count(self.compression.payload(), "byte")))
    }

    fn shorter(&self) -> Error {
        Error::corrupt("the compressed data is shorter than the tensor")
            .expected(crate::count(self.total, "byte"))
    }

    fn longer(&self) -> Error {
        Error::corrupt("the compressed data is longer than the tensor")
            .expected(crate::count(self.total, "byte"))
    }

    fn place(&self, error: Error) -> Error {
        error.file(self.source.file.name()).offset(self.source.offset)
    }
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
