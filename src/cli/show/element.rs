//! Elements one by one, as people and programs read them.

use ckpt_api::{DType, Error, Result};
use ckpt_engine::source::{ByteChunks, TensorRef};
use ckpt_engine::transform::{cast, castable};
use half::{bf16, f16};

/// One element.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Element {
    /// A number, with the fewest digits that stand for it in its dtype.
    Float(f64, String),
    Int(i128),
    Bool(bool),
    Complex([String; 2]),
    /// A string, or the bytes of an element that is no number.
    Bytes(Vec<u8>),
}

/// Reads the elements of a tensor in order, in bounded memory.
pub(super) struct Elements<'a> {
    name: &'a str,
    chunks: ByteChunks<'a>,
    dtype: DType,
    /// What elements are converted to, which holds every value.
    plain: DType,
    /// Lengths of the strings that come next.
    lengths: Option<std::slice::Iter<'a, u64>>,
    chunk: Vec<u8>,
    at: usize,
    /// Longest string that is read whole.
    longest: u64,
}

impl<'a> Elements<'a> {
    pub(super) fn new(tensor: &TensorRef<'a>, longest: u64) -> Result<Self> {
        let dtype = tensor.dtype();
        Ok(Elements {
            name: tensor.name(),
            chunks: tensor.byte_chunks()?,
            dtype,
            plain: plain(dtype),
            lengths: tensor.lengths().map(<[u64]>::iter),
            chunk: Vec::new(),
            at: 0,
            longest,
        })
    }

    /// Passes over so many elements.
    pub(super) fn skip(&mut self, count: u64) -> Result<()> {
        let mut bytes = match (&mut self.lengths, self.plain.bytes()) {
            (Some(lengths), _) => {
                (0..count).zip(lengths).fold(0, |sum: u64, (_, len)| sum.saturating_add(*len))
            }
            (None, size) => count.saturating_mul(size.unwrap_or(0)),
        };
        while bytes > 0 && self.fill()? {
            let passed = bytes.min((self.chunk.len() - self.at) as u64);
            self.at += usize::try_from(passed).unwrap_or(0);
            bytes -= passed;
        }
        Ok(())
    }

    /// Returns the next element; `None` after the last.
    pub(super) fn next(&mut self) -> Result<Option<Element>> {
        if let Some(lengths) = &mut self.lengths {
            let Some(len) = lengths.next().copied() else { return Ok(None) };
            return self.string(len).map(Some);
        }
        if !self.fill()? {
            return Ok(None);
        }
        let size = usize::try_from(self.plain.bytes().unwrap_or(1)).unwrap_or(1);
        let bytes = self.chunk.get(self.at..self.at + size).unwrap_or_default();
        self.at += size;
        Ok(Some(element(self.plain, bytes)))
    }

    fn string(&mut self, len: u64) -> Result<Element> {
        if len > self.longest {
            return Err(Error::limit("a string of the tensor is too long to be printed")
                .tensor(self.name)
                .found(ckpt_engine::words::count(len, "byte"))
                .expected(format!("at most {} bytes", self.longest)));
        }
        let mut left = usize::try_from(len).unwrap_or(usize::MAX);
        let mut string = Vec::new();
        while left > 0 && self.fill()? {
            let rest = self.chunk.get(self.at..).unwrap_or_default();
            let part = rest.get(..left).unwrap_or(rest);
            string.extend_from_slice(part);
            self.at += part.len();
            left -= part.len();
        }
        Ok(Element::Bytes(string))
    }

    /// Makes sure that there are bytes; false after the last.
    fn fill(&mut self) -> Result<bool> {
        while self.at >= self.chunk.len() {
            let Some(bytes) = self.chunks.next() else { return Ok(false) };
            self.at = 0;
            let bytes = bytes?;
            if self.dtype == self.plain {
                self.chunk = bytes;
            } else {
                cast(self.dtype, self.plain, 0, &bytes, &mut self.chunk)
                    .map_err(|error| error.tensor(self.name))?;
            }
        }
        Ok(true)
    }
}

/// Returns a dtype that holds every value of `dtype`, of those that [`element`] reads.
fn plain(dtype: DType) -> DType {
    match dtype {
        DType::F64 | DType::F32 | DType::F16 | DType::Bf16 | DType::U64 | DType::Bool => dtype,
        other if other.is_float() && castable(other, DType::F32) => DType::F32,
        other if !other.is_float() && castable(other, DType::I64) => DType::I64,
        other => other,
    }
}

fn element(dtype: DType, bytes: &[u8]) -> Element {
    let f32_at = |at: usize| {
        bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0.0, |bytes| f32::from_le_bytes(*bytes))
    };
    let f64_at = |at: usize| {
        bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0.0, |bytes| f64::from_le_bytes(*bytes))
    };
    let two = || bytes.first_chunk().copied().unwrap_or_default();
    let eight = || bytes.first_chunk().copied().unwrap_or_default();
    match dtype {
        DType::F64 => Element::Float(f64_at(0), shortest(&f64_at(0))),
        DType::F32 => Element::Float(f32_at(0).into(), shortest(&f32_at(0))),
        DType::F16 => {
            let value = f16::from_le_bytes(two());
            Element::Float(value.into(), shortest_by(value.into(), |text| f16::from_f64(text) == value))
        }
        DType::Bf16 => {
            let value = bf16::from_le_bytes(two());
            Element::Float(value.into(), shortest_by(value.into(), |text| bf16::from_f64(text) == value))
        }
        DType::I64 => Element::Int(i64::from_le_bytes(eight()).into()),
        DType::U64 => Element::Int(u64::from_le_bytes(eight()).into()),
        DType::Bool => Element::Bool(bytes.first().is_some_and(|byte| *byte != 0)),
        DType::C64 => Element::Complex([shortest(&f32_at(0)), shortest(&f32_at(4))]),
        DType::C128 => Element::Complex([shortest(&f64_at(0)), shortest(&f64_at(8))]),
        _ => Element::Bytes(bytes.to_vec()),
    }
}

/// Returns the fewest digits that stand for a number in its own type.
pub(super) fn shortest(value: &impl std::fmt::Debug) -> String {
    let text = format!("{value:?}");
    text.strip_suffix(".0").map_or_else(|| text.clone(), str::to_owned)
}

/// As [`shortest`], for a type of 16 bits; `is_same` returns whether a number is rounded to the value.
fn shortest_by(value: f64, is_same: impl Fn(f64) -> bool) -> String {
    // 5 digits stand for every binary16, 4 for every bfloat16.
    let rounded = (0..5).filter_map(|places| format!("{value:.places$e}").parse::<f64>().ok());
    let found = rounded.into_iter().find(|rounded| is_same(*rounded));
    shortest(&found.unwrap_or(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_has_the_fewest_digits_that_stand_for_it_in_its_dtype() {
        let text = |element| match element {
            Element::Float(_, text) => text,
            other => panic!("{other:?}"),
        };
        let half = |value: f64| text(element(DType::F16, &f16::from_f64(value).to_le_bytes()));
        assert_eq!([half(0.1), half(320.0), half(65504.0), half(f64::NAN)], ["0.1", "320", "65500", "NaN"]);
        let brain = |value: f64| text(element(DType::Bf16, &bf16::from_f64(value).to_le_bytes()));
        assert_eq!([brain(0.1), brain(-2.5), brain(f64::INFINITY)], ["0.1", "-2.5", "inf"]);
        assert_eq!(text(element(DType::F32, &0.1f32.to_le_bytes())), "0.1");
        assert_eq!(text(element(DType::F64, &1e-7f64.to_le_bytes())), "1e-7");
    }

    #[test]
    fn every_dtype_of_numbers_is_shown_as_numbers() {
        for dtype in DType::ALL.iter().filter(|dtype| dtype.bytes().is_some()) {
            let bytes = vec![0; usize::try_from(plain(*dtype).bytes().unwrap()).unwrap()];
            assert!(!matches!(element(plain(*dtype), &bytes), Element::Bytes(_)), "{dtype}");
        }
    }
}
