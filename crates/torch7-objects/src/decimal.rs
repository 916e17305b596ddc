//! Decodes the numbers of a storage in ASCII to little-endian elements.

use crate::class::Element;
use ckpt_api::{Compression, DecodeStream, Decoder, Parameters};
use half::f16;
use std::io::{self, BufReader, Read};

/// Numbers in decimal, with space between them, which become little-endian elements.
pub const DECIMAL: &Decoder = &Decoder::stream(
    "torch7_decimal",
    |stored, parameters| match element(parameters) {
        Some(element) => (stored / 2).saturating_add(1).saturating_mul(element.bytes(8)),
        None => 0,
    },
    |stored, parameters, _| match element(parameters) {
        Some(element) => {
            let source = BufReader::with_capacity(BUFFER, stored);
            Ok(Box::new(Numbers { source, element, bytes: [0; 8], left: 0 }))
        }
        None => Err(io::Error::other("no numbers have these parameters")),
    },
);

/// Bytes that are read at once.
const BUFFER: usize = 16 << 10;
/// Digits of the longest number that is one.
const MOST_DIGITS: usize = 64;
const ELEMENT: &str = "element";
/// What the parameter stands for.
const ELEMENTS: [Element; 6] =
    [Element::Short, Element::Int, Element::Long, Element::Half, Element::Float, Element::Double];

/// `stored` bytes with such numbers.
pub(crate) fn compression(element: Element, stored: u64) -> Compression {
    let number =
        (0u64..).zip(ELEMENTS).find(|(_, own)| *own == element).map_or(u64::MAX, |(number, _)| number);
    Compression::new(DECIMAL, stored).with_parameters(Parameters::default().with_number(ELEMENT, number))
}

fn element(parameters: &Parameters) -> Option<Element> {
    ELEMENTS.get(usize::try_from(parameters.number(ELEMENT)?).ok()?).copied()
}

/// Elements, one after the other.
struct Numbers<R> {
    source: BufReader<R>,
    element: Element,
    /// The bytes of an element that are not read yet are the last `left` of its own.
    bytes: [u8; 8],
    left: usize,
}

impl<R: Read> Numbers<R> {
    fn size(&self) -> usize {
        usize::try_from(self.element.bytes(8)).unwrap_or(8).min(8)
    }

    /// Decodes the next number; `false` behind the last one.
    fn decode(&mut self) -> io::Result<bool> {
        let mut digits = [0; MOST_DIGITS];
        let mut len = 0;
        let mut byte = [0];
        while self.source.read(&mut byte)? > 0 {
            match (byte[0].is_ascii_whitespace(), len) {
                (true, 0) => {}
                (true, _) => break,
                (false, _) => {
                    *digits.get_mut(len).ok_or_else(|| invalid("a number with too many digits"))? = byte[0];
                    len += 1;
                }
            }
        }
        if len == 0 {
            return Ok(false);
        }
        let text = std::str::from_utf8(digits.get(..len).unwrap_or_default()).unwrap_or_default();
        self.bytes = bytes(self.element, text)
            .ok_or_else(|| invalid(&format!("'{}' among the numbers", text.escape_debug())))?;
        self.left = self.size();
        Ok(true)
    }
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// The bytes of a number, with zeros behind them.
fn bytes(element: Element, text: &str) -> Option<[u8; 8]> {
    fn padded<const N: usize>(bytes: [u8; N]) -> [u8; 8] {
        let mut all = [0; 8];
        for (to, from) in all.iter_mut().zip(bytes) {
            *to = from;
        }
        all
    }
    Some(match element {
        Element::Byte | Element::Char => return None,
        Element::Short => padded(text.parse::<i16>().ok()?.to_le_bytes()),
        Element::Int => padded(text.parse::<i32>().ok()?.to_le_bytes()),
        Element::Long => padded(text.parse::<i64>().ok()?.to_le_bytes()),
        // Torch7 reads a float, and rounds it.
        Element::Half => padded(f16::from_f32(text.parse().ok()?).to_le_bytes()),
        Element::Float => padded(text.parse::<f32>().ok()?.to_le_bytes()),
        Element::Double => padded(text.parse::<f64>().ok()?.to_le_bytes()),
    })
}

impl<R: Read> Read for Numbers<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let mut written = 0;
        while written < out.len() {
            if self.left == 0 && !self.decode()? {
                break;
            }
            let start = self.size().saturating_sub(self.left);
            let ready = self.bytes.get(start..self.size()).unwrap_or_default();
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

impl<R: Read + Send> DecodeStream for Numbers<R> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_that_c_reads() {
        let of = |element, text| bytes(element, text);
        assert_eq!(of(Element::Float, "-nan").map(|bytes| bytes[3] & 0x7f), Some(0x7f));
        assert_eq!(of(Element::Half, "1.5"), Some([0, 0x3e, 0, 0, 0, 0, 0, 0]));
        assert_eq!(of(Element::Short, "-2"), Some([0xfe, 0xff, 0, 0, 0, 0, 0, 0]));
        assert_eq!(of(Element::Double, "-inf"), Some(f64::NEG_INFINITY.to_le_bytes()));
        assert_eq!([of(Element::Short, "40000"), of(Element::Int, "1.5"), of(Element::Long, "")], [None; 3]);
    }
}
