//! ONNX's data types, and its messages.

pub(crate) mod gates;
pub(crate) mod message;
pub(crate) mod operators;

use ckpt_api::DType;
use ckpt_containers::protobuf::WireFormat;

/// What errors say of messages.
pub(crate) static WIRE: WireFormat = WireFormat {
    cut_short: "the model is cut short",
    other_type: "a field has another type than ONNX gives it",
    unknown_type: "the file is damaged, or not an ONNX model",
};

/// Metadata namespace of what a model states beside its graph and tensors.
pub const NAMESPACE: &str = "onnx";

/// Number of the data type of strings.
pub(crate) const STRING: i64 = 8;
/// The domain whose operators have weights among their attributes: trees, linear models.
pub(crate) const LEARNED: &str = "ai.onnx.ml";

/// Every data type of numbers, with its number in `TensorProto.DataType`.
const DTYPES: [(DType, i64); 27] = [
    (DType::F32, 1),
    (DType::U8, 2),
    (DType::I8, 3),
    (DType::U16, 4),
    (DType::I16, 5),
    (DType::I32, 6),
    (DType::I64, 7),
    (DType::Bool, 9),
    (DType::F16, 10),
    (DType::F64, 11),
    (DType::U32, 12),
    (DType::U64, 13),
    (DType::C64, 14),
    (DType::C128, 15),
    (DType::Bf16, 16),
    (DType::F8E4m3, 17),
    (DType::F8E4m3fnuz, 18),
    (DType::F8E5m2, 19),
    (DType::F8E5m2fnuz, 20),
    (DType::U4, 21),
    (DType::I4, 22),
    (DType::F4E2m1, 23),
    (DType::F8E8m0, 24),
    (DType::U2, 25),
    (DType::I2, 26),
    (DType::F6E2m3, 27),
    (DType::F6E3m2, 28),
];

/// Lists the dtypes of ONNX.
pub(crate) const NATIVE: [DType; 27] = {
    let mut native = [DType::F64; 27];
    let mut k = 0;
    while k < DTYPES.len() {
        native[k] = DTYPES[k].0;
        k += 1;
    }
    native
};

/// Returns the dtype with this number.
pub(crate) fn dtype(number: i64) -> Option<DType> {
    DTYPES.iter().find(|(_, known)| *known == number).map(|(dtype, _)| *dtype)
}

/// Returns the number of a dtype.
pub(crate) fn number(dtype: DType) -> Option<i64> {
    DTYPES.iter().find(|(known, _)| *known == dtype).map(|(_, number)| *number)
}

/// Whether several elements share a byte. A float of 6 bits has one of its own, and takes its low bits.
pub(crate) fn is_packed(dtype: DType) -> bool {
    dtype.bits().is_some_and(|bits| matches!(bits, 1 | 2 | 4))
}
