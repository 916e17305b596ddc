//! Converts stored elements to arrays of the forward pass.

use crate::transform::for_each_number;
use ckpt_api::{DType, Error, Result};
use ckpt_forward::Array;

/// Converts little-endian elements: binary64 stays, other floating-point types become binary32, integers become 32-bit
/// integers.
///
/// # Errors
/// [`ckpt_api::Kind::Unsupported`] for complex numbers, strings, and integers that need more than 32 bits.
pub(super) fn numbers(dtype: DType, bytes: &[u8]) -> Result<Array> {
    let unfit = |found: String| {
        Err(Error::unsupported("the forward pass cannot use elements of this type")
            .found(found)
            .expected("real numbers, or integers that fit into 32 bits"))
    };
    let mut wide: Vec<f64> = Vec::with_capacity(bytes.len() / 8 + 1);
    match dtype {
        DType::C64 | DType::C128 => return unfit(dtype.name().to_owned()),
        DType::F64 => {
            for_each_number(dtype, bytes, |value| wide.push(value));
            return Ok(Array::F64(wide));
        }
        _ if dtype.is_float() => {
            let mut values = Vec::new();
            #[expect(
                clippy::cast_possible_truncation,
                reason = "binary32 holds the numbers of every shorter type"
            )]
            for_each_number(dtype, bytes, |value| values.push(value as f32));
            return Ok(Array::F32(values));
        }
        _ => {}
    }
    if !for_each_number(dtype, bytes, |value| wide.push(value)) {
        return unfit(dtype.name().to_owned());
    }
    let whole = |value: f64| {
        #[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
        (value >= f64::from(i32::MIN) && value <= f64::from(i32::MAX)).then_some(value as i32)
    };
    let mut values = Vec::with_capacity(wide.len());
    for value in wide {
        match whole(value) {
            Some(value) => values.push(value),
            None => return unfit(format!("{value}, of type {dtype}")),
        }
    }
    Ok(Array::I32(values))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_become_numbers_of_the_same_value() {
        assert_eq!(numbers(DType::F16, &[0, 0x3c]).unwrap(), Array::F32(vec![1.0]));
        assert_eq!(numbers(DType::F64, &0.1f64.to_le_bytes()).unwrap(), Array::F64(vec![0.1]));
        assert_eq!(numbers(DType::I16, &[0xff, 0xff]).unwrap(), Array::I32(vec![-1]));
        assert_eq!(numbers(DType::U32, &[0xff, 0xff, 0xff, 0x7f]).unwrap(), Array::I32(vec![i32::MAX]));
        for (dtype, bytes) in
            [(DType::U32, vec![0xff; 4]), (DType::String, vec![0]), (DType::C64, vec![0; 8])]
        {
            assert_eq!(numbers(dtype, &bytes).unwrap_err().kind(), ckpt_api::Kind::Unsupported, "{dtype}");
        }
    }
}
