//! Element types: numbers in records, and codes of NumPy in pickles.

use ckpt_api::DType;

/// Dtypes with their numbers in records, and NumPy's codes.
const DTYPES: [(i64, DType, Option<&str>); 14] = [
    (0, DType::Bool, Some("b1")),
    (1, DType::I16, Some("i2")),
    (2, DType::I32, Some("i4")),
    (3, DType::I64, Some("i8")),
    (4, DType::F16, Some("f2")),
    (5, DType::F32, Some("f4")),
    (6, DType::F64, Some("f8")),
    (20, DType::U8, Some("u1")),
    (21, DType::I8, Some("i1")),
    // NumPy has no bf16: Paddle stores its bits as integers.
    (22, DType::Bf16, Some("u2")),
    (23, DType::C64, Some("c8")),
    (24, DType::C128, Some("c16")),
    (32, DType::F8E4m3, None),
    (33, DType::F8E5m2, None),
];

/// The dtypes that come back from a pickle.
pub(crate) const NATIVE: [DType; 12] = [
    DType::Bf16,
    DType::F32,
    DType::F64,
    DType::F16,
    DType::I8,
    DType::U8,
    DType::I16,
    DType::I32,
    DType::I64,
    DType::Bool,
    DType::C64,
    DType::C128,
];

/// Returns the dtype of a number.
pub(crate) fn dtype(number: i64) -> Option<DType> {
    DTYPES.iter().find(|(own, ..)| *own == number).map(|(_, dtype, _)| *dtype)
}

/// Returns the number of a dtype in records.
pub(crate) fn dtype_number(dtype: DType) -> Option<i64> {
    DTYPES.iter().find(|(_, own, _)| *own == dtype).map(|(number, ..)| *number)
}

/// Returns NumPy's code of a dtype in pickles. Integers of 16 bits without a sign are taken for bf16 there.
pub(crate) fn code(dtype: DType) -> Option<&'static str> {
    match dtype {
        DType::U16 => Some("u2"),
        _ => DTYPES.iter().find(|(_, own, _)| *own == dtype).and_then(|(.., code)| *code),
    }
}

/// Returns the dtype to store `dtype` as in a pickle: itself or, if Paddle lacks it, one that holds every value exactly;
/// `None` if there is none.
pub(crate) fn holder(dtype: DType) -> Option<DType> {
    // Nothing else becomes what is taken for bf16.
    dtype.holder(|held| code(held).is_some() && (held != DType::U16 || dtype == held))
}

/// Returns the dtype to store `dtype` as in a record, as [`holder`] does for pickles.
pub(crate) fn holder_in_record(dtype: DType) -> Option<DType> {
    dtype.holder(|dtype| dtype_number(dtype).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dtype_that_comes_back_has_a_code_and_is_stored_as_itself() {
        for own in NATIVE {
            assert!(code(own).is_some() && holder(own) == Some(own), "{own}");
            assert_eq!(dtype(dtype_number(own).unwrap()), Some(own));
        }
        assert_eq!(dtype(9), None);
    }

    #[test]
    fn dtypes_without_a_holder_are_those_that_no_dtype_of_paddle_holds() {
        let homeless: Vec<&str> =
            DType::ALL.iter().filter(|dtype| holder(**dtype).is_none()).map(|dtype| dtype.name()).collect();
        assert_eq!(homeless, ["u64", "string", "variant"]);
    }
}
