//! Elements of dtypes, as buffers and DLPack describe them.

use ckpt::api::DType;
use ckpt_buffers::{Array, ElementType, Storage};
use pyo3::PyResult;

/// The code of the module `struct` for an element in whole bytes, and its DLPack type. What has no code gets that of an
/// unsigned integer of its size, and strings that of bytes.
fn described(dtype: DType) -> (usize, &'static str, Option<ElementType>) {
    let element = |code, bits| Some(ElementType::new(code, bits));
    match dtype {
        DType::F64 => (8, "d", element(2, 64)),
        DType::F32 => (4, "f", element(2, 32)),
        DType::F16 => (2, "e", element(2, 16)),
        DType::Bf16 => (2, "H", element(4, 16)),
        DType::I64 => (8, "q", element(0, 64)),
        DType::I32 | DType::Qi32 => (4, "i", element(0, 32)),
        DType::I16 | DType::Qi16 => (2, "h", element(0, 16)),
        DType::I8 | DType::I4 | DType::I2 | DType::Qi8 => (1, "b", element(0, 8)),
        DType::U64 => (8, "Q", element(1, 64)),
        DType::U32 => (4, "I", element(1, 32)),
        DType::U16 | DType::Qu16 => (2, "H", element(1, 16)),
        DType::U8 | DType::U4 | DType::U2 | DType::Qu8 => (1, "B", element(1, 8)),
        DType::Bool => (1, "?", element(6, 8)),
        DType::C64 => (8, "Zf", element(5, 64)),
        DType::C128 => (16, "Zd", element(5, 128)),
        _ => (1, "B", None),
    }
}

/// An array of elements of this dtype, in whole bytes.
pub(crate) fn array(storage: Storage, shape: &[u64], dtype: DType) -> PyResult<Array> {
    let (item, format, element) = described(dtype);
    Array::new(storage, shape, item, format, element)
}

/// An array of bytes.
pub(crate) fn bytes(mut storage: Storage) -> PyResult<Array> {
    let len = storage.as_mut_slice().len() as u64;
    Array::new(storage, &[len], 1, "B", None)
}
