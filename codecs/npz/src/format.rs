//! Names, file extensions and dtypes, which `.npz` and `.npy` share.

use ckpt_api::DType;

/// Id of the format, and its metadata namespace.
pub(crate) const ID: &str = "npz";
/// Keys of a tensor's `npz` metadata.
pub(crate) const KEY_HEADER: &str = "header";
pub(crate) const KEY_VERSION: &str = "version";
/// Extension of an array's file, and of its member in an archive.
pub(crate) const ENDING: &str = ".npy";
/// The largest number of axes in NumPy 2; older versions allow 32.
pub(crate) const MOST_AXES: usize = 64;

/// Every dtype of NumPy, with its kind and its size in bytes.
const DTYPES: [(DType, char, u64); 14] = [
    (DType::F64, 'f', 8),
    (DType::F32, 'f', 4),
    (DType::F16, 'f', 2),
    (DType::I64, 'i', 8),
    (DType::I32, 'i', 4),
    (DType::I16, 'i', 2),
    (DType::I8, 'i', 1),
    (DType::U64, 'u', 8),
    (DType::U32, 'u', 4),
    (DType::U16, 'u', 2),
    (DType::U8, 'u', 1),
    (DType::Bool, 'b', 1),
    (DType::C64, 'c', 8),
    (DType::C128, 'c', 16),
];

/// The option that states the dtype of elements for which NumPy has no name.
pub(crate) const OPTION: &str = "dtype";

/// The dtypes of ml_dtypes, under the names that it gives them: NumPy writes them as `<V2`, `<V1` or `<f1`.
pub(crate) const UNTYPED: [(&str, DType); 7] = [
    ("bfloat16", DType::Bf16),
    ("float8_e4m3fn", DType::F8E4m3),
    ("float8_e5m2", DType::F8E5m2),
    ("float8_e4m3fnuz", DType::F8E4m3fnuz),
    ("float8_e5m2fnuz", DType::F8E5m2fnuz),
    ("float8_e4m3b11fnuz", DType::F8E4m3b11fnuz),
    ("float8_e8m0fnu", DType::F8E8m0),
];

/// The names of [`UNTYPED`].
pub(crate) static UNTYPED_NAMES: [&str; UNTYPED.len()] = {
    let mut names = [""; UNTYPED.len()];
    let mut k = 0;
    while k < names.len() {
        names[k] = UNTYPED[k].0;
        k += 1;
    }
    names
};

/// Lists the dtypes of NumPy.
pub(crate) const NATIVE: [DType; 14] = {
    let mut native = [DType::F64; 14];
    let mut k = 0;
    while k < DTYPES.len() {
        native[k] = DTYPES[k].0;
        k += 1;
    }
    native
};

/// Returns the dtype of a kind and a size in bytes.
pub(crate) fn dtype(kind: char, bytes: &str) -> Option<DType> {
    let same = |(_, known, size): &&(DType, char, u64)| *known == kind && size.to_string() == bytes;
    DTYPES.iter().find(same).map(|(dtype, ..)| *dtype)
}

/// Returns kind and size in bytes, as NumPy writes them.
pub(crate) fn code(dtype: DType) -> Option<String> {
    let known = DTYPES.iter().find(|(known, ..)| *known == dtype);
    known.map(|(_, kind, bytes)| format!("{kind}{bytes}"))
}

/// Returns the dtype to store `dtype` as: itself or, if NumPy lacks it, one that holds every value exactly; `None` if
/// there is none.
pub(crate) fn holder(dtype: DType) -> Option<DType> {
    dtype.holder(|dtype| NATIVE.contains(&dtype))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dtype_of_numpy_has_one_code() {
        for dtype_ in NATIVE {
            let code = code(dtype_).unwrap();
            let (kind, bytes) = code.split_at(1);
            assert_eq!(dtype(kind.chars().next().unwrap(), bytes), Some(dtype_));
            assert_eq!(dtype_.bytes().map(|bytes| bytes.to_string()).as_deref(), Some(bytes));
            assert_eq!(holder(dtype_), Some(dtype_));
        }
        assert_eq!(dtype('f', "04"), None);
    }

    #[test]
    fn every_dtype_has_a_holder_but_those_with_lengths() {
        let homeless: Vec<&str> =
            DType::ALL.iter().filter(|dtype| holder(**dtype).is_none()).map(|dtype| dtype.name()).collect();
        assert_eq!(homeless, ["string", "variant"]);
    }
}
