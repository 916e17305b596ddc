//! How tensors are stored: with which dtype, and in which class of storage.

use crate::format::{Element, element_of};
use ckpt_api::DType;

/// Every dtype that is written as it is, in the order of [`crate::format`].
pub(crate) const NATIVE: [DType; 20] = [
    DType::F64,
    DType::F32,
    DType::F16,
    DType::Bf16,
    DType::I64,
    DType::I32,
    DType::I16,
    DType::I8,
    DType::U8,
    DType::Bool,
    DType::C64,
    DType::C128,
    DType::F8E5m2,
    DType::F8E4m3,
    DType::F8E4m3fnuz,
    DType::F8E5m2fnuz,
    DType::F8E8m0,
    DType::U16,
    DType::U32,
    DType::U64,
];

/// Returns how a dtype is stored: as itself or, if PyTorch lacks it, as one that holds every value exactly; `None` if
/// there is none.
pub(crate) fn holder(dtype: DType) -> Option<Element> {
    element_of(dtype.holder(|dtype| NATIVE.contains(&dtype))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dtype_is_stored_but_those_with_lengths() {
        let homeless: Vec<&str> =
            DType::ALL.iter().filter(|dtype| holder(**dtype).is_none()).map(|dtype| dtype.name()).collect();
        assert_eq!(homeless, ["string", "variant"]);
        let native = |dtype: &DType| holder(*dtype).and_then(|element| element.dtype) == Some(*dtype);
        assert!(NATIVE.iter().all(native));
    }
}
