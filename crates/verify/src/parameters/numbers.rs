//! Converts stored elements to arrays of the forward pass, as they are read.

use ckpt_api::{DType, Error, Result};
use ckpt_engine::transform::for_each_number;
use ckpt_forward::Array;

/// Elements that become numbers as they are read: binary64 stays, other floating-point types become binary32, integers
/// become 32-bit integers.
pub(super) struct Decoder {
    dtype: DType,
    array: Array,
}

impl Decoder {
    /// Creates a decoder of `len` elements, for which it allocates.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Unsupported`] for complex numbers.
    pub(super) fn new(dtype: DType, len: usize) -> Result<Self> {
        let array = match dtype {
            DType::C64 | DType::C128 => return Err(unfit(dtype.name().to_owned())),
            DType::F64 => Array::F64(Vec::with_capacity(len)),
            _ if dtype.is_float() => Array::F32(Vec::with_capacity(len)),
            _ => Array::I32(Vec::with_capacity(len)),
        };
        Ok(Decoder { dtype, array })
    }

    /// Adds whole elements, little-endian.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Unsupported`] for strings, and integers that need more than 32 bits.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<()> {
        let dtype = self.dtype;
        match &mut self.array {
            Array::F64(values) => for_each_number(dtype, bytes, |value| values.push(value)),
            Array::F32(values) if dtype == DType::F32 => {
                values.extend(bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)));
                true
            }
            #[expect(
                clippy::cast_possible_truncation,
                reason = "binary32 holds the numbers of every shorter type"
            )]
            Array::F32(values) => for_each_number(dtype, bytes, |value| values.push(value as f32)),
            Array::I32(values) if dtype == DType::Bool => {
                values.extend(bytes.iter().map(|byte| i32::from(*byte != 0)));
                true
            }
            Array::I32(values) => return integers(dtype, bytes, values),
        };
        Ok(())
    }

    /// Returns the numbers of all elements.
    pub(super) fn finish(self) -> Array {
        self.array
    }
}

fn integers(dtype: DType, bytes: &[u8], values: &mut Vec<i32>) -> Result<()> {
    let mut wrong = None;
    let is_number = for_each_number(dtype, bytes, |value| {
        #[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
        match value >= f64::from(i32::MIN) && value <= f64::from(i32::MAX) {
            true => values.push(value as i32),
            false => wrong = wrong.or(Some(value)),
        }
    });
    match wrong {
        Some(value) => Err(unfit(format!("{value}, of type {dtype}"))),
        None if !is_number => Err(unfit(dtype.name().to_owned())),
        None => Ok(()),
    }
}

fn unfit(found: String) -> Error {
    Error::unsupported("the forward pass cannot use elements of this type")
        .found(found)
        .expected("real numbers, or integers that fit into 32 bits")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decodes an element at a time.
    fn numbers(dtype: DType, bytes: &[u8]) -> Result<Array> {
        let each = dtype.bytes().map_or(1, |bytes| bytes as usize);
        let mut decoder = Decoder::new(dtype, bytes.len() / each)?;
        bytes.chunks(each).try_for_each(|bytes| decoder.push(bytes))?;
        Ok(decoder.finish())
    }

    #[test]
    fn elements_become_numbers_of_the_same_value() {
        assert_eq!(numbers(DType::F16, &[0, 0x3c]).unwrap(), Array::F32(vec![1.0]));
        assert_eq!(numbers(DType::F64, &0.1f64.to_le_bytes()).unwrap(), Array::F64(vec![0.1]));
        assert_eq!(numbers(DType::I16, &[0xff, 0xff]).unwrap(), Array::I32(vec![-1]));
        assert_eq!(numbers(DType::Bool, &[1, 0]).unwrap(), Array::I32(vec![1, 0]));
        assert_eq!(numbers(DType::U32, &[0xff, 0xff, 0xff, 0x7f]).unwrap(), Array::I32(vec![i32::MAX]));
        for (dtype, bytes) in
            [(DType::U32, vec![0xff; 4]), (DType::String, vec![0]), (DType::C64, vec![0; 8])]
        {
            assert_eq!(numbers(dtype, &bytes).unwrap_err().kind(), ckpt_api::Kind::Unsupported, "{dtype}");
        }
    }
}
