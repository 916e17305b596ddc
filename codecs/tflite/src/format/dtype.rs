//! Types of tensors.

use ckpt_api::DType;

/// The number of strings.
pub(crate) const STRING: i8 = 5;

/// What a number of the format stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stored {
    /// Elements of one size.
    Elements(DType),
    /// Texts.
    Strings,
    /// A handle or an object, which no file holds.
    Handle,
}

/// Every dtype with its number.
const DTYPES: [(DType, i8); 20] = [
    (DType::F32, 0),
    (DType::F16, 1),
    (DType::I32, 2),
    (DType::U8, 3),
    (DType::I64, 4),
    (DType::Bool, 6),
    (DType::I16, 7),
    (DType::C64, 8),
    (DType::I8, 9),
    (DType::F64, 10),
    (DType::C128, 11),
    (DType::U64, 12),
    (DType::U32, 15),
    (DType::U16, 16),
    (DType::I4, 17),
    (DType::Bf16, 18),
    (DType::I2, 19),
    (DType::U4, 20),
    (DType::F8E4m3, 21),
    (DType::F8E5m2, 22),
];

/// The dtypes of the format.
pub(crate) const NATIVE: [DType; DTYPES.len()] = {
    let mut native = [DType::F32; DTYPES.len()];
    let mut k = 0;
    while k < DTYPES.len() {
        native[k] = DTYPES[k].0;
        k += 1;
    }
    native
};

/// Returns what a number stands for; `None` for one that the format does not have.
pub(crate) fn stored_dtype(number: i8) -> Option<Stored> {
    let known = DTYPES.iter().find(|(_, known)| *known == number);
    match (known, number) {
        (Some((dtype, _)), _) => Some(Stored::Elements(*dtype)),
        (None, STRING) => Some(Stored::Strings),
        (None, 13 | 14) => Some(Stored::Handle),
        (None, _) => None,
    }
}

/// Returns the number of a dtype; `None` if the format lacks it.
pub(crate) fn dtype_number(dtype: DType) -> Option<i8> {
    DTYPES.iter().find(|(known, _)| *known == dtype).map(|(_, number)| *number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_below_23_has_a_meaning() {
        assert!((0..23).all(|number| stored_dtype(number).is_some()));
        assert!([-1, 23, 99].iter().all(|number| stored_dtype(*number).is_none()));
        assert_eq!(stored_dtype(STRING), Some(Stored::Strings));
    }
}
