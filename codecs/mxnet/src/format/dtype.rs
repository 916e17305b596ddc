//! Numbers of element types.

use ckpt_api::DType;

const DTYPES: [(i32, DType); 9] = [
    (0, DType::F32),
    (1, DType::F64),
    (2, DType::F16),
    (3, DType::U8),
    (4, DType::I32),
    (5, DType::I8),
    (6, DType::I64),
    (7, DType::Bool),
    (12, DType::Bf16),
];

/// The dtypes of MXNet.
pub(crate) const NATIVE: [DType; DTYPES.len()] = {
    let mut native = [DType::F32; DTYPES.len()];
    let mut k = 0;
    while k < native.len() {
        native[k] = DTYPES[k].1;
        k += 1;
    }
    native
};

/// Returns the dtype of a number.
pub(crate) fn dtype(number: i32) -> Option<DType> {
    DTYPES.iter().find(|(own, _)| *own == number).map(|(_, dtype)| *dtype)
}

/// Returns the number of a dtype.
pub(crate) fn dtype_number(dtype: DType) -> Option<i32> {
    DTYPES.iter().find(|(_, own)| *own == dtype).map(|(number, _)| *number)
}

/// Returns the dtype to store `dtype` as: itself or, if MXNet lacks it, one that holds every value exactly; `None` if
/// there is none.
pub(crate) fn holder(dtype: DType) -> Option<DType> {
    dtype.holder(|dtype| dtype_number(dtype).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dtype_of_mxnet_has_one_number() {
        for own in NATIVE {
            assert_eq!(dtype(dtype_number(own).unwrap()), Some(own));
            assert_eq!(holder(own), Some(own));
        }
        assert_eq!(dtype(77), None);
    }

    #[test]
    fn dtypes_without_a_holder_are_those_that_no_dtype_of_mxnet_holds() {
        let homeless: Vec<&str> =
            DType::ALL.iter().filter(|dtype| holder(**dtype).is_none()).map(|dtype| dtype.name()).collect();
        assert_eq!(homeless, ["u64", "c64", "c128", "string", "variant"]);
    }
}
