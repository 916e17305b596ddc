//! Decodes the numbers of a repeated field of a protocol buffer to little-endian elements.

use ckpt_api::{Compression, DecodeStream, Decoder, Parameters};
use std::io::{self, BufReader, Read};
use std::num::NonZeroU8;

/// [`ProtobufNumbers`] of a repeated field, which become little-endian elements.
pub const PROTOBUF: &Decoder = &Decoder::stream(
    "protobuf",
    |stored, parameters| match ProtobufNumbers::of(parameters) {
        Some(numbers) if numbers.is_varint => stored.saturating_mul(numbers.element_bytes.get().into()),
        Some(_) => stored,
        None => 0,
    },
    |stored, parameters, _| match ProtobufNumbers::of(parameters) {
        Some(numbers) => Ok(Box::new(NumberDecoder::new(stored, numbers))),
        None => Err(io::Error::other("no numbers have these parameters")),
    },
);

/// How a repeated field of a protocol buffer stores its numbers.
///
/// ```
/// use ckpt_api::{Extent, FileId, Input};
/// use ckpt_containers::decoders::ProtobufNumbers;
/// // 300 and 5 as a packed field of varints, which are read as integers of 16 bits.
/// let file = Input::memory("f", [("f".to_owned(), vec![0xac, 0x02, 5])].into()).main()?;
/// let numbers = ProtobufNumbers { tag_bytes: 0, element_bytes: 2.try_into().unwrap(), is_varint: true };
/// let extent = Extent::new(FileId(0), 0, 4).with_compression(numbers.compression(3));
/// assert_eq!(extent.open(&file)?.bytes(0, 4)?, [0x2c, 0x01, 5, 0]);
/// # Ok::<(), ckpt_api::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProtobufNumbers {
    /// Bytes of the tag before each number; 0 for a packed field, whose one tag comes before the extent.
    pub tag_bytes: u8,
    /// Bytes of an element: the low bytes of a varint, or all of a number of fixed length.
    pub element_bytes: NonZeroU8,
    /// Whether each number is a varint.
    pub is_varint: bool,
}

impl ProtobufNumbers {
    /// `stored` bytes of such numbers.
    pub fn compression(self, stored: u64) -> Compression {
        let ProtobufNumbers { tag_bytes, element_bytes, is_varint } = self;
        let parameters = Parameters::default()
            .with_number("tag_bytes", tag_bytes.into())
            .with_number("element_bytes", element_bytes.get().into())
            .with_flag("is_varint", is_varint);
        Compression::new(PROTOBUF, stored).with_parameters(parameters)
    }

    fn of(parameters: &Parameters) -> Option<Self> {
        let byte = |name| u8::try_from(parameters.number(name)?).ok();
        let element_bytes = NonZeroU8::new(byte("element_bytes")?)?;
        Some(ProtobufNumbers {
            tag_bytes: byte("tag_bytes")?,
            element_bytes,
            is_varint: parameters.flag("is_varint")?,
        })
    }
}

/// Bytes that are read at once.
const BUFFER: usize = 16 << 10;
/// Bytes of the longest varint.
const MAX_VARINT: u32 = 10;

/// Elements, one after the other, from the bytes of the field.
struct NumberDecoder<R> {
    source: BufReader<R>,
    numbers: ProtobufNumbers,
    /// Bytes of the field that were decoded.
    used: u64,
    /// The bytes of an element that are not read yet are the last `left`.
    element: [u8; 8],
    left: usize,
}

impl<R: Read> NumberDecoder<R> {
    fn new(source: R, numbers: ProtobufNumbers) -> Self {
        let source = BufReader::with_capacity(BUFFER, source);
        NumberDecoder { source, numbers, used: 0, element: [0; 8], left: 0 }
    }

    fn size(&self) -> usize {
        usize::from(self.numbers.element_bytes.get()).min(8)
    }

    /// Decodes the next number; `false` at the end of the field.
    fn decode(&mut self) -> io::Result<bool> {
        let Some(first) = self.byte()? else { return Ok(false) };
        let mut first = Some(first);
        for _ in 0..self.numbers.tag_bytes {
            first.take();
            first = Some(self.required()?);
        }
        let mut byte = first.unwrap_or_default();
        if !self.numbers.is_varint {
            for at in 0..self.size() {
                if at > 0 {
                    byte = self.required()?;
                }
                if let Some(to) = self.element.get_mut(at) {
                    *to = byte;
                }
            }
        } else {
            let (mut value, mut shift) = (u64::from(byte & 0x7f), 7);
            while byte & 0x80 != 0 {
                if shift >= 7 * MAX_VARINT {
                    return Err(io::Error::new(io::ErrorKind::InvalidData, "a varint is too long"));
                }
                byte = self.required()?;
                value |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
                shift += 7;
            }
            self.element = value.to_le_bytes();
        }
        self.left = self.size();
        Ok(true)
    }

    fn required(&mut self) -> io::Result<u8> {
        self.byte()?.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    fn byte(&mut self) -> io::Result<Option<u8>> {
        let mut byte = [0];
        let read = self.source.read(&mut byte)?;
        self.used = self.used.saturating_add(read as u64);
        Ok((read > 0).then_some(byte[0]))
    }
}

impl<R: Read> Read for NumberDecoder<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let mut written = 0;
        while written < out.len() {
            if self.left == 0 && !self.decode()? {
                break;
            }
            let start = self.size().saturating_sub(self.left);
            let ready = self.element.get(start..self.size()).unwrap_or_default();
            let rest = out.get_mut(written..).unwrap_or_default();
            let len = ready.len().min(rest.len());
            for (to, from) in rest.iter_mut().zip(ready) {
                *to = *from;
            }
            self.left = self.left.saturating_sub(len);
            written += len;
        }
        Ok(written)
    }
}

impl<R: Read + Send> DecodeStream for NumberDecoder<R> {
    fn finish(&mut self) -> io::Result<Option<u64>> {
        Ok(Some(self.used))
    }
}
