//! Decodes the numbers of a repeated field of a protocol buffer to little-endian elements.

use crate::ProtobufNumbers;
use std::io::{self, BufReader, Read};

/// Bytes that are read at once.
const BUFFER: usize = 16 << 10;
/// Bytes of the longest varint.
const MAX_VARINT: u32 = 10;

/// Elements, one after the other, from the bytes of the field.
pub(crate) struct NumberDecoder<R> {
    source: BufReader<R>,
    numbers: ProtobufNumbers,
    /// Bytes of the field that were decoded.
    used: u64,
    /// The bytes of an element that are not read yet are the last `left`.
    element: [u8; 8],
    left: usize,
}

impl<R: Read> NumberDecoder<R> {
    pub(crate) fn new(source: R, numbers: ProtobufNumbers) -> Self {
        let source = BufReader::with_capacity(BUFFER, source);
        NumberDecoder { source, numbers, used: 0, element: [0; 8], left: 0 }
    }

    /// Bytes of the field that were decoded so far.
    pub(crate) fn used(&self) -> u64 {
        self.used
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
