//! Values within a block of a table, whose checksum is verified when they are read.

use super::super::stored::{Stored, Values};
use crate::errors::checksum_mismatch;
use crate::format::{TRAILER_LEN, crc32c, mask};
use ckpt_api::fields::le;
use ckpt_api::{
    Compression, DType, DecodeStream, Decoder, Error, Extent, Fields, File, FileId, Parameters, Result,
    StoredBytes, count,
};
use std::io::{self, Read};
use std::ops::Range;

/// The values in a block: raw elements, or varints. The whole block is read, because its checksum is that of all bytes.
pub(crate) const BLOCK: &Decoder = &Decoder::stream(
    "tf1-block",
    |stored, parameters| Place::of(parameters).map_or(0, |place| stored.saturating_mul(place.element.max(1))),
    |stored, parameters, _| match Place::of(parameters) {
        Some(place) => Ok(Box::new(BlockStream::new(stored, place))),
        None => Err(io::Error::other("no values of a block have these parameters")),
    },
);

/// A block: its offset in the file, and its bytes without the trailer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    offset: u64,
    size: u64,
}

impl Block {
    /// A block that is not compressed.
    pub fn new(file: &File, offset: u64, size: u64) -> Result<Self> {
        let kind = file.bytes(offset.saturating_add(size), 1)?;
        match kind[..] {
            [0] => Ok(Block { offset, size }),
            _ => Err(Error::unsupported("a block of a V1 checkpoint is compressed")
                .offset(offset)
                .found(format!("compression {kind:?}"))
                .expected("none, as TensorFlow writes it")),
        }
    }

    /// Where the values of `elements` elements are.
    pub fn extent(self, values: &Stored, dtype: DType, elements: u64) -> Result<Extent> {
        let size =
            dtype.bytes().ok_or_else(|| Error::unsupported("the dtype has no width").found(dtype.name()))?;
        let len =
            elements.checked_mul(size).ok_or_else(|| Error::unsupported("the tensor has too many bytes"))?;
        let Block { offset, size: block } = self;
        let (range, element) = match values.values(dtype)? {
            Some(Values::Fixed(range)) => (range, 0),
            Some(Values::Varints(range)) => (range, size),
            None => (offset..offset, 0),
        };
        let stored = range.end.saturating_sub(range.start);
        if (element == 0 && stored != len) || stored < elements.min(len) {
            return Err(Error::corrupt("the values of a tensor do not fit its shape")
                .offset(range.start)
                .found(count(stored, "byte"))
                .expected(format!("{elements} elements of {dtype}")));
        }
        let place = Place { start: range.start.saturating_sub(offset), len: stored, element };
        let compression = Compression::new(BLOCK, block.saturating_add(TRAILER_LEN));
        Ok(Extent::new(FileId(0), offset, len)
            .with_compression(compression.with_parameters(place.parameters())))
    }

    /// Reads all bytes, in parts, and verifies their checksum.
    pub fn verify(self, file: &File) -> Result<()> {
        let covered = self.size.saturating_add(TRAILER_LEN).saturating_sub(CHECKSUM);
        let mut computed = 0;
        Fields::range(file, self.offset, covered)?.stream(|bytes| computed = crc32c(computed, bytes))?;
        let at = self.offset.saturating_add(covered);
        let stored = Fields::range(file, at, CHECKSUM)?.parse(le::<u32>)?;
        match mask(computed) == stored {
            true => Ok(()),
            false => Err(mismatch(mask(computed), stored).offset(self.offset)),
        }
    }
}

/// Where values are in a block.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// The first byte, and their number.
    start: u64,
    len: u64,
    /// Bytes of an element that a varint becomes; 0 for raw elements.
    element: u64,
}

impl Place {
    fn parameters(self) -> Parameters {
        Parameters::default()
            .with_number("start", self.start)
            .with_number("len", self.len)
            .with_number("element", self.element)
    }

    fn of(parameters: &Parameters) -> Option<Self> {
        let number = |name| parameters.number(name);
        let place = Place { start: number("start")?, len: number("len")?, element: number("element")? };
        (place.element <= 8).then_some(place)
    }

    fn range(self) -> Range<u64> {
        self.start..self.start.saturating_add(self.len)
    }
}

/// Bytes that are read at once.
const BUFFER: u64 = 64 << 10;
/// Bytes of the checksum at the end of a block.
const CHECKSUM: u64 = 4;
/// How far the bits of the last byte of a varint are shifted, at most.
const MAX_SHIFT: u32 = 63;

/// Decodes the values of a block.
struct BlockStream {
    stored: StoredBytes,
    /// Bytes that the checksum covers and that are not read yet.
    covered: u64,
    crc: u32,
    place: Place,
    buffer: Vec<u8>,
    /// The next byte of the buffer, and its place in the block.
    next: usize,
    position: u64,
    /// The bytes of a decoded number that are not returned yet are the last `left` of its first ones.
    number: [u8; 8],
    left: usize,
}

impl BlockStream {
    fn new(stored: StoredBytes, place: Place) -> Self {
        let covered = stored.len().saturating_sub(CHECKSUM);
        let (buffer, number) = (Vec::new(), [0; 8]);
        BlockStream { stored, covered, crc: 0, place, buffer, next: 0, position: 0, number, left: 0 }
    }

    /// Reads the next part of what the checksum covers; `false` at its end.
    fn fill(&mut self) -> io::Result<bool> {
        self.buffer.clear();
        self.next = 0;
        let wanted = self.covered.min(BUFFER);
        (&mut self.stored).take(wanted).read_to_end(&mut self.buffer)?;
        if (self.buffer.len() as u64) < wanted {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.covered = self.covered.saturating_sub(wanted);
        self.crc = crc32c(self.crc, &self.buffer);
        Ok(wanted > 0)
    }

    /// The bytes of values that are in the buffer; none behind the last value.
    fn values(&mut self) -> io::Result<&[u8]> {
        let Range { start, end } = self.place.range();
        loop {
            let ready = self.buffer.len().saturating_sub(self.next);
            if self.position >= end {
                return Ok(&[]);
            }
            if ready == 0 {
                if !self.fill()? {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            } else if self.position < start {
                self.take(ready.min(within(start.saturating_sub(self.position))));
            } else {
                let stop = self.next.saturating_add(ready.min(within(end.saturating_sub(self.position))));
                return Ok(self.buffer.get(self.next..stop).unwrap_or_default());
            }
        }
    }

    fn take(&mut self, bytes: usize) {
        self.next = self.next.saturating_add(bytes);
        self.position = self.position.saturating_add(bytes as u64);
    }

    /// Decodes the next varint; `false` behind the last.
    fn decode(&mut self) -> io::Result<bool> {
        let (mut value, mut shift) = (0u64, 0);
        loop {
            let byte = match self.values()?.first() {
                Some(byte) => *byte,
                None if shift == 0 => return Ok(false),
                None => return Err(io::ErrorKind::UnexpectedEof.into()),
            };
            self.take(1);
            value |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
            if byte & 0x80 == 0 {
                break;
            }
            shift += 7;
            if shift > MAX_SHIFT {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "a varint is too long"));
            }
        }
        self.number = value.to_le_bytes();
        self.left = within(self.place.element).min(self.number.len());
        Ok(true)
    }
}

fn mismatch(computed: u32, stored: u32) -> Error {
    checksum_mismatch("the checksum of a block does not match", computed, stored)
}

fn within(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// Copies as many bytes as both have.
fn copy(from: &[u8], to: &mut [u8]) -> usize {
    let len = from.len().min(to.len());
    to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
    len
}

impl Read for BlockStream {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.place.element == 0 {
            let copied = copy(self.values()?, out);
            self.take(copied);
            return Ok(copied);
        }
        let mut written = 0;
        while written < out.len() {
            if self.left == 0 && !self.decode()? {
                break;
            }
            let element = within(self.place.element).min(self.number.len());
            let ready = self.number.get(element.saturating_sub(self.left)..element).unwrap_or_default();
            let copied = copy(ready, out.get_mut(written..).unwrap_or_default());
            self.left = self.left.saturating_sub(copied);
            written = written.saturating_add(copied);
        }
        Ok(written)
    }
}

impl DecodeStream for BlockStream {
    fn finish(&mut self) -> io::Result<Option<u64>> {
        if !self.values()?.is_empty() || self.left > 0 {
            return Err(io::Error::other("a tensor has more values than elements"));
        }
        while self.fill()? {}
        let mut sum = [0; CHECKSUM as usize];
        self.stored.read_exact(&mut sum)?;
        let (computed, stored) = (mask(self.crc), u32::from_le_bytes(sum));
        match computed == stored {
            true => Ok(Some(self.stored.len())),
            false => Err(io::Error::other(mismatch(computed, stored))),
        }
    }
}
