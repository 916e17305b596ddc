//! Signed LEB128: integers in groups of seven bits, the lowest first, each but the last with the highest bit set.

use ckpt_api::{Compression, DecodeStream, Decoder, Parameters, StoredBytes};
use std::io::{self, Read};

/// Every decoder of the codec.
pub(crate) const ALL: &[&Decoder] = &[DECODED, ENCODED];

const WIDTH: &str = "width";
/// Stored bytes that are read at once.
const PIECE: usize = 16 << 10;
/// Bytes of the longest integer of 32 bits, and of 16.
const LONGEST: [u64; 2] = [5, 3];

/// The integers that LEB128 stands for, of two or four bytes each.
const DECODED: &Decoder = &Decoder::stream(
    "nnue.leb128",
    |stored, parameters| width(parameters).map_or(0, |width| stored.saturating_mul(width)),
    |stored, parameters, _| start(stored, parameters, decode),
);

/// The LEB128 of integers: what a writer stores of them.
const ENCODED: &Decoder = &Decoder::stream(
    "nnue.encoded-leb128",
    |stored, parameters| width(parameters).map_or(0, |width| (stored / width).saturating_mul(longest(width))),
    |stored, parameters, _| start(stored, parameters, encode),
);

/// How `stored` bytes of LEB128 become integers of `width` bytes.
pub(crate) fn decoded(width: u64, stored: u64) -> Compression {
    Compression::new(DECODED, stored).with_parameters(Parameters::default().with_number(WIDTH, width))
}

/// How `stored` bytes of integers of `width` bytes become LEB128.
pub(crate) fn encoded(width: u64, stored: u64) -> Compression {
    Compression::new(ENCODED, stored).with_parameters(Parameters::default().with_number(WIDTH, width))
}

/// Whether these bytes are decoded to integers.
pub(crate) fn is_decoded(compression: &Compression) -> bool {
    compression.decoder() == DECODED.name()
}

/// The most bytes of an integer of `width` bytes.
pub(crate) fn longest(width: u64) -> u64 {
    let [wide, narrow] = LONGEST;
    if width == 4 { wide } else { narrow }
}

/// Returns how many bytes the integers take, which come in pieces of whole ones.
pub(crate) fn encoded_len(width: u64, integers: &[u8]) -> u64 {
    let mut len = 0;
    for_each(width, integers, |integer| len += bytes(integer).1 as u64);
    len
}

fn width(parameters: &Parameters) -> Option<u64> {
    parameters.number(WIDTH).filter(|width| matches!(width, 2 | 4))
}

fn start(stored: StoredBytes, parameters: &Parameters, step: Step) -> io::Result<Box<dyn DecodeStream>> {
    let width = width(parameters).ok_or_else(|| io::Error::other("the width of the integers is missing"))?;
    Ok(Box::new(Steps { stored, width, step, input: Vec::new(), output: Vec::new(), at: 0 }))
}

/// Appends what the first whole integers of the bytes become, and returns how many bytes these are.
type Step = fn(width: u64, &[u8], &mut Vec<u8>) -> io::Result<usize>;

/// A stream of integers, a piece at a time.
struct Steps {
    stored: StoredBytes,
    width: u64,
    step: Step,
    /// Stored bytes that do not end an integer yet.
    input: Vec<u8>,
    output: Vec<u8>,
    /// Bytes of `output` that were read.
    at: usize,
}

impl Steps {
    /// Fills `output`; nothing at the end.
    fn advance(&mut self) -> io::Result<()> {
        self.output.clear();
        self.at = 0;
        while self.output.is_empty() {
            let before = self.input.len();
            self.input.resize(before + PIECE, 0);
            let read = self.stored.read(self.input.get_mut(before..).unwrap_or_default());
            self.input.truncate(before + *read.as_ref().unwrap_or(&0));
            if read? == 0 {
                return match before {
                    0 => Ok(()),
                    _ => Err(io::Error::other("the last integer is cut short")),
                };
            }
            let used = (self.step)(self.width, &self.input, &mut self.output)?;
            self.input.drain(..used);
        }
        Ok(())
    }
}

impl Read for Steps {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at == self.output.len() && !buffer.is_empty() {
            self.advance()?;
        }
        let rest = self.output.get(self.at..).unwrap_or_default();
        let len = rest.len().min(buffer.len());
        if let (Some(to), Some(from)) = (buffer.get_mut(..len), rest.get(..len)) {
            to.copy_from_slice(from);
        }
        self.at += len;
        Ok(len)
    }
}

impl DecodeStream for Steps {}

fn decode(width: u64, stored: &[u8], output: &mut Vec<u8>) -> io::Result<usize> {
    let (mut used, mut integer, mut shift) = (0, 0i64, 0u32);
    for (at, byte) in stored.iter().enumerate() {
        integer |= i64::from(byte & 0x7F) << shift;
        shift += 7;
        if byte & 0x80 != 0 {
            match u64::from(shift) < 7 * longest(4) {
                true => continue,
                false => return Err(io::Error::other("an integer has more than 5 bytes")),
            }
        }
        if byte & 0x40 != 0 {
            integer |= -1i64 << shift;
        }
        let outside = || io::Error::other(format!("the integer {integer} has more than {} bits", 8 * width));
        match width {
            2 => output.extend(i16::try_from(integer).map_err(|_| outside())?.to_le_bytes()),
            _ => output.extend(i32::try_from(integer).map_err(|_| outside())?.to_le_bytes()),
        }
        (used, integer, shift) = (at + 1, 0, 0);
    }
    Ok(used)
}

fn encode(width: u64, stored: &[u8], output: &mut Vec<u8>) -> io::Result<usize> {
    for_each(width, stored, |integer| {
        let (bytes, len) = bytes(integer);
        output.extend(bytes.iter().take(len));
    });
    let width = usize::try_from(width).unwrap_or(1);
    Ok(stored.len() / width * width)
}

fn for_each(width: u64, integers: &[u8], mut visit: impl FnMut(i32)) {
    match width {
        2 => integers.as_chunks().0.iter().for_each(|bytes| visit(i16::from_le_bytes(*bytes).into())),
        _ => integers.as_chunks().0.iter().for_each(|bytes| visit(i32::from_le_bytes(*bytes))),
    }
}

/// The bytes of an integer, and how many they are: the fewest that have its value.
fn bytes(mut integer: i32) -> ([u8; 5], usize) {
    let (mut bytes, mut len) = ([0; 5], 0);
    for place in &mut bytes {
        let [low, ..] = integer.to_le_bytes();
        integer >>= 7;
        len += 1;
        let is_last = integer == if low & 0x40 == 0 { 0 } else { -1 };
        *place = if is_last { low & 0x7F } else { low | 0x80 };
        if is_last {
            break;
        }
    }
    (bytes, len)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(decoder: &Decoder, width: u64, stored: &[u8]) -> io::Result<Vec<u8>> {
        let parameters = Parameters::default().with_number(WIDTH, width);
        let stored = StoredBytes::new(io::Cursor::new(stored.to_vec()), stored.len() as u64);
        let mut out = Vec::new();
        decoder.start(stored, &parameters, 0)?.read_to_end(&mut out)?;
        Ok(out)
    }

    #[test]
    fn every_integer_of_16_bits_has_its_fewest_bytes_and_comes_back() {
        let integers: Vec<u8> = (i16::MIN..=i16::MAX).flat_map(i16::to_le_bytes).collect();
        let encoded = run(ENCODED, 2, &integers).unwrap();
        // 128 integers have one byte, 2¹⁴ − 128 have two.
        assert_eq!(encoded.len(), 128 + 2 * (16_384 - 128) + 3 * (65_536 - 16_384));
        assert_eq!(encoded_len(2, &integers), encoded.len() as u64);
        assert_eq!(run(DECODED, 2, &encoded).unwrap(), integers);
    }

    #[test]
    fn the_bytes_are_those_of_the_trainer() {
        let integers = [0i32, 1, -1, 63, 64, -64, -65, 127, 128, i32::MAX, i32::MIN];
        let expected: &[&[u8]] = &[
            &[0],
            &[1],
            &[0x7F],
            &[0x3F],
            &[0xC0, 0],
            &[0x40],
            &[0xBF, 0x7F],
            &[0xFF, 0],
            &[0x80, 1],
            &[0xFF, 0xFF, 0xFF, 0xFF, 7],
            &[0x80, 0x80, 0x80, 0x80, 0x78],
        ];
        let stored = integers.map(i32::to_le_bytes).concat();
        assert_eq!(run(ENCODED, 4, &stored).unwrap(), expected.concat());
        assert_eq!(run(DECODED, 4, &expected.concat()).unwrap(), stored);
    }

    #[test]
    fn integers_that_are_too_long_too_large_or_cut_are_refused() {
        for (width, stored, says) in [
            (4, &[0x80, 0x80, 0x80, 0x80, 0x80, 0][..], "more than 5 bytes"),
            (4, &[0xFF, 0xFF, 0xFF, 0xFF, 0x0F], "more than 32 bits"),
            (2, &[0x80, 0x80, 2], "the integer 32768 has more than 16 bits"),
            (2, &[1, 0x80], "cut short"),
        ] {
            let error = run(DECODED, width, stored).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
        assert!(run(DECODED, 3, &[0]).is_err());
    }
}
