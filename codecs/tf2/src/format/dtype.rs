//! TensorFlow's numbers for dtypes.

use ckpt_api::{DType, Error, Result};

/// The dtypes that can be stored, with TensorFlow's numbers for them.
const DTYPES: &[(i32, DType)] = &[
    (1, DType::F32),
    (2, DType::F64),
    (3, DType::I32),
    (4, DType::U8),
    (5, DType::I16),
    (6, DType::I8),
    (7, DType::String),
    (8, DType::C64),
    (9, DType::I64),
    (10, DType::Bool),
    (11, DType::Qi8),
    (12, DType::Qu8),
    (13, DType::Qi32),
    (14, DType::Bf16),
    (15, DType::Qi16),
    (16, DType::Qu16),
    (17, DType::U16),
    (18, DType::C128),
    (19, DType::F16),
    (21, DType::Variant),
    (22, DType::U32),
    (23, DType::U64),
    (24, DType::F8E5m2),
    (25, DType::F8E4m3),
    (26, DType::F8E4m3fnuz),
    (27, DType::F8E4m3b11fnuz),
    (28, DType::F8E5m2fnuz),
    (29, DType::I4),
    (30, DType::U4),
    (31, DType::I2),
    (32, DType::U2),
    (33, DType::F4E2m1),
];

/// The dtypes that can be stored.
pub(crate) const STORED_DTYPES: &[DType] = &{
    let mut dtypes = [DType::F32; DTYPES.len()];
    let mut index = 0;
    while index < dtypes.len() {
        dtypes[index] = DTYPES[index].1;
        index += 1;
    }
    dtypes
};

/// Returns the dtype that `dtype` is stored as: itself, or a dtype that represents all of its values.
pub(crate) fn holder(dtype: DType) -> DType {
    match dtype {
        // Powers of two from 2^-127 to 2^127.
        DType::F8E8m0 => DType::Bf16,
        // Values up to 28 in steps of at least 1/16 with at most 3 bits of fraction.
        DType::F6E2m3 | DType::F6E3m2 => DType::F8E4m3,
        same => same,
    }
}

/// Whether TensorFlow joins slices of `dtype`. It stores slices of every dtype, and fails to read the others: "Dtype half
/// not supported." (tried with TensorFlow 2.21).
pub(crate) fn joins_slices(dtype: DType) -> bool {
    matches!(
        dtype,
        DType::F32
            | DType::F64
            | DType::Bf16
            | DType::C64
            | DType::C128
            | DType::Bool
            | DType::I8
            | DType::I16
            | DType::I32
            | DType::I64
            | DType::U8
            | DType::Qi8
            | DType::Qu8
            | DType::Qi32
    )
}

pub(super) fn number(dtype: DType) -> Result<u32> {
    let known = DTYPES.iter().find(|(_, known)| *known == dtype);
    known
        .map(|(number, _)| number.unsigned_abs())
        .ok_or_else(|| Error::unsupported("TensorFlow has no such dtype").found(dtype.name()))
}

/// Offset of the number of a reference dtype from the number of its dtype.
const REFERENCE: i32 = 100;

/// The dtype with this number.
pub(crate) fn dtype(number: i32) -> Result<DType> {
    let known = |number| DTYPES.iter().find(|(known, _)| *known == number).map(|(_, dtype)| *dtype);
    let error = match number {
        0 => Error::corrupt("the tensor has no dtype"),
        20 => Error::unsupported("a resource handle has no stored value"),
        _ => match known(number) {
            Some(dtype) => return Ok(dtype),
            None if number > REFERENCE && known(number - REFERENCE).is_some() => {
                Error::unsupported("a reference dtype is not supported")
            }
            None => Error::unsupported("the dtype is unknown"),
        },
    };
    Err(error.field("dtype").found(number.to_string()).expected("1 to 33, except 20"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ckpt_api::Kind;

    #[test]
    fn a_dtype_without_a_stored_value_is_refused() {
        for (number, kind) in [(0, Kind::Corrupt), (20, Kind::Unsupported), (101, Kind::Unsupported)] {
            assert_eq!(dtype(number).unwrap_err().kind(), kind, "{number}");
        }
        assert_eq!(dtype(i32::MIN).unwrap_err().kind(), Kind::Unsupported);
        assert_eq!(dtype(33).unwrap(), DType::F4E2m1);
    }

    #[test]
    fn every_dtype_has_a_holder_that_can_be_stored() {
        assert_eq!(STORED_DTYPES.len(), 32);
        for dtype in DType::ALL {
            assert!(STORED_DTYPES.contains(&holder(*dtype)), "{dtype}");
            assert_eq!(holder(*dtype) == *dtype, STORED_DTYPES.contains(dtype), "{dtype}");
        }
    }
}
