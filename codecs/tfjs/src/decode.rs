//! Decoders: numbers of integers and of 16-bit floats, and the bytes of texts without their lengths.

use ckpt_api::{Compression, Decoder, Parameters};
use half::f16;
use std::io;

/// Every decoder of the codec.
pub(crate) const ALL: &[&Decoder] = &[AFFINE, HALVES, TEXTS];

const SCALE: &str = "scale";
const MIN: &str = "min";
const IS_16_BIT: &str = "is_16_bit";
const IS_WHOLE: &str = "is_whole";
const LEFT: &str = "left";
const PREFIX: &str = "prefix";

/// Integers `q` of one or two bytes, as the numbers `q · scale + min`: product and sum in 64-bit floats, rounded once, as
/// TensorFlow.js computes them.
const AFFINE: &Decoder = &Decoder::whole(
    "tfjs.affine",
    |stored, parameters| {
        let width = if parameters.flag(IS_16_BIT) == Some(true) { 2 } else { 1 };
        (stored / width).saturating_mul(4)
    },
    |stored, parameters, out| match Numbers::of_integers(parameters) {
        Some(numbers) => Ok(numbers.decode(stored, out)),
        None => Err(io::Error::other("the scale and the least number are missing")),
    },
);

/// 16-bit floats, as those of 32 bits.
const HALVES: &Decoder = &Decoder::whole(
    "tfjs.halves",
    |stored, _| stored.saturating_mul(2),
    |stored, _, out| Ok(Numbers::Halves.decode(stored, out)),
);

/// Texts, each after its length in four bytes. The bytes may begin within a text, or within a length.
const TEXTS: &Decoder = &Decoder::whole(
    "tfjs.texts",
    |stored, _| stored,
    |stored, parameters, out| {
        let mut cursor = Cursor::of(parameters);
        let (mut rest, mut filled) = (stored, 0);
        while let Some((text, after)) = cursor.next(rest) {
            let end = filled + text.len();
            let place = out.get_mut(filled..end).ok_or_else(|| io::Error::other("the texts are too long"))?;
            place.copy_from_slice(text);
            (rest, filled) = (after, end);
        }
        Ok(filled)
    },
);

/// How numbers of 32 bits are stored in fewer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Numbers {
    /// As integers that stand for them.
    Integers {
        scale: f64,
        min: f64,
        is_16_bit: bool,
        /// Whether the numbers are whole ones of 32 bits, and no floats.
        is_whole: bool,
    },
    /// As 16-bit floats.
    Halves,
}

impl Numbers {
    /// Bytes of a stored number.
    pub(crate) fn width(self) -> u64 {
        match self {
            Numbers::Integers { is_16_bit: false, .. } => 1,
            _ => 2,
        }
    }

    /// How the numbers of so many stored bytes are decoded.
    pub(crate) fn compression(self, stored: u64) -> Compression {
        let Numbers::Integers { scale, min, is_16_bit, is_whole } = self else {
            return Compression::new(HALVES, stored);
        };
        let parameters = Parameters::default()
            .with_number(SCALE, scale.to_bits())
            .with_number(MIN, min.to_bits())
            .with_flag(IS_16_BIT, is_16_bit)
            .with_flag(IS_WHOLE, is_whole);
        Compression::new(AFFINE, stored).with_parameters(parameters)
    }

    fn of_integers(parameters: &Parameters) -> Option<Self> {
        let number = |name| parameters.number(name).map(f64::from_bits);
        Some(Numbers::Integers {
            scale: number(SCALE)?,
            min: number(MIN)?,
            is_16_bit: parameters.flag(IS_16_BIT)?,
            is_whole: parameters.flag(IS_WHOLE)?,
        })
    }

    /// Writes the numbers, and returns how many bytes of `out` they fill.
    pub(crate) fn decode(self, stored: &[u8], out: &mut [u8]) -> usize {
        let (out, _) = out.as_chunks_mut::<4>();
        let (halves, _) = stored.as_chunks::<2>();
        let Numbers::Integers { scale, min, is_16_bit, is_whole } = self else {
            return fill(out, halves.iter().map(|half| f16::from_le_bytes(*half).to_f32().to_le_bytes()));
        };
        let number = |integer: f64| integer * scale + min;
        let of_half = |half: &[u8; 2]| number(u16::from_le_bytes(*half).into());
        let of_byte = |byte: &u8| number((*byte).into());
        match (is_16_bit, is_whole) {
            (false, false) => fill(out, stored.iter().map(|byte| float(of_byte(byte)))),
            (false, true) => fill(out, stored.iter().map(|byte| whole(of_byte(byte)))),
            (true, false) => fill(out, halves.iter().map(|half| float(of_half(half)))),
            (true, true) => fill(out, halves.iter().map(|half| whole(of_half(half)))),
        }
    }
}

fn fill(out: &mut [[u8; 4]], numbers: impl ExactSizeIterator<Item = [u8; 4]>) -> usize {
    let filled = numbers.len().min(out.len());
    out.iter_mut().zip(numbers).for_each(|(place, number)| *place = number);
    4 * filled
}

fn float(number: f64) -> [u8; 4] {
    // The nearest float, infinite beyond the largest: what an array of them takes in JavaScript.
    (number as f32).to_le_bytes()
}

/// The number as JavaScript stores `Math.round` of it in an array of 32-bit integers: halves go up, and what does not fit
/// wraps around.
fn whole(number: f64) -> [u8; 4] {
    const TURN: f64 = 4_294_967_296.0;
    let floor = number.floor();
    let rounded = if number - floor >= 0.5 { floor + 1.0 } else { floor };
    // From 0 to 2³² − 1: each is an integer of 32 bits. NaN is 0.
    (rounded.rem_euclid(TURN) as u32).to_le_bytes()
}

/// Where the bytes of texts and of their lengths are, over bytes that come in pieces.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cursor {
    /// Bytes that the text still has.
    pub(crate) left: u64,
    /// Bytes of the next length that were seen.
    prefix: Vec<u8>,
    /// Lengths that were complete since they were taken.
    pub(crate) lengths: Vec<u64>,
}

impl Cursor {
    fn of(parameters: &Parameters) -> Self {
        let prefix = parameters.bytes(PREFIX).unwrap_or_default().iter().copied().take(3).collect();
        Cursor { left: parameters.number(LEFT).unwrap_or(0), prefix, lengths: Vec::new() }
    }

    /// How stored bytes are decoded that begin here.
    pub(crate) fn compression(&self, stored: u64) -> Compression {
        let parameters = Parameters::default().with_number(LEFT, self.left);
        Compression::new(TEXTS, stored).with_parameters(parameters.with_bytes(PREFIX, &self.prefix[..]))
    }

    /// Bytes of the next length that were seen.
    pub(crate) fn seen(&self) -> u64 {
        self.prefix.len() as u64
    }

    /// Takes the next bytes of a text, perhaps none, and returns them and what is behind; `None` at the end.
    pub(crate) fn next<'b>(&mut self, bytes: &'b [u8]) -> Option<(&'b [u8], &'b [u8])> {
        if self.left > 0 {
            let len = usize::try_from(self.left).unwrap_or(usize::MAX).min(bytes.len());
            let (text, rest) = bytes.split_at(len);
            self.left -= len as u64;
            return Some((text, rest)).filter(|_| len > 0);
        }
        let (byte, rest) = bytes.split_first()?;
        self.prefix.push(*byte);
        if let Some(length) = self.prefix.first_chunk::<4>() {
            self.left = u32::from_le_bytes(*length).into();
            self.lengths.push(self.left);
            self.prefix.clear();
        }
        Some((&[], rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(affine: Numbers, stored: &[u8]) -> Vec<[u8; 4]> {
        let mut out = vec![0; 4 * stored.len() / affine.width() as usize];
        assert_eq!(affine.decode(stored, &mut out), out.len());
        out.as_chunks().0.to_vec()
    }

    #[test]
    fn product_and_sum_are_rounded_once() {
        // With two roundings in 32-bit floats the second number is another.
        let integers = |is_16_bit| Numbers::Integers { scale: 0.1, min: -0.3, is_16_bit, is_whole: false };
        let expected =
            [-0.3, 0.1 - 0.3, 0.1 * 3.0 - 0.3, 255.0 * 0.1 - 0.3].map(|n: f64| (n as f32).to_le_bytes());
        assert_eq!(decoded(integers(false), &[0, 1, 3, 255]), expected);
        assert_eq!(decoded(integers(true), &[0x34, 0x12]), [((4660.0 * 0.1 - 0.3) as f32).to_le_bytes()]);
    }

    #[test]
    fn halves_of_whole_numbers_go_up_and_large_ones_wrap_around() {
        let affine = |scale, min| Numbers::Integers { scale, min, is_16_bit: false, is_whole: true };
        let expected = [-1i32, 0, 0, 1, 1, 2].map(i32::to_le_bytes);
        assert_eq!(decoded(affine(0.5, -1.0), &[0, 1, 2, 3, 4, 5]), expected);
        let large = decoded(affine(4_294_967_296.0, 7.0), &[1, 200]);
        assert_eq!(large, [7i32.to_le_bytes(); 2]);
        assert_eq!(decoded(affine(f64::MAX, 0.0), &[2]), [[0; 4]], "what is infinite is 0");
    }

    #[test]
    fn halves_are_widened() {
        let stored =
            [1.5f32, -0.25, f32::INFINITY].map(|number| f16::from_f32(number).to_le_bytes()).concat();
        let expected = [1.5f32, -0.25, f32::INFINITY].map(f32::to_le_bytes);
        assert_eq!(decoded(Numbers::Halves, &stored), expected);
    }

    #[test]
    fn texts_are_found_in_whatever_pieces_their_bytes_come() {
        let stored = b"\x02\0\0\0ab\0\0\0\0\x03\0\0\0cde";
        for cut in 0..=stored.len() {
            let (mut cursor, mut found) = (Cursor::default(), Vec::new());
            for piece in [&stored[..cut], &stored[cut..]] {
                let mut rest = piece;
                while let Some((text, after)) = cursor.next(rest) {
                    found.extend_from_slice(text);
                    rest = after;
                }
            }
            assert_eq!((&found[..], &cursor.lengths[..]), (&b"abcde"[..], &[2, 0, 3][..]), "cut at {cut}");
            assert_eq!((cursor.left, cursor.seen()), (0, 0));
        }
    }
}
