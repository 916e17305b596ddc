//! Numbers and names of the format: versions, types of metadata values, types of tensors.

use crate::blocks::BlockType;
use ckpt_api::DType;

/// Id of the format, and the metadata namespace of the file's keys.
pub(crate) const ID: &str = "gguf";
/// Metadata namespace of what a file states outside its keys, if it differs from what the codec writes.
pub(crate) const FILE_NAMESPACE: &str = "gguf.file";
/// Keys of [`FILE_NAMESPACE`].
pub(crate) const KEY_VERSION: &str = "version";
pub(crate) const KEY_ENDIAN: &str = "endian";
pub(crate) const KEY_UNPADDED: &str = "unpadded";
/// Extension of a file.
pub(crate) const ENDING: &str = ".gguf";
/// The first bytes of a file of either byte order.
pub(crate) const MAGIC: [u8; 4] = *b"GGUF";
/// The version that is written; version 2 has the same layout.
pub(crate) const VERSION: u32 = 3;
/// The key that states the alignment of tensors, and the alignment of files without it.
pub(crate) const ALIGNMENT: &str = "general.alignment";
pub(crate) const DEFAULT_ALIGNMENT: u32 = 32;
/// The most axes of a tensor in llama.cpp.
pub(crate) const MOST_AXES: u32 = 4;
/// Bytes of the longest name of a tensor that llama.cpp reads.
pub(crate) const LONGEST_NAME: usize = 63;

macro_rules! value_types {
    ($($variant:ident $id:literal $name:literal $bytes:literal;)*) => {
        /// The type of a metadata value.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum ValueType { $($variant = $id,)* }

        impl ValueType {
            /// Every type.
            pub(crate) const ALL: &[ValueType] = &[$(ValueType::$variant,)*];

            /// Returns the type with this number.
            pub(crate) fn from_id(id: u32) -> Option<Self> {
                match id { $($id => Some(ValueType::$variant),)* _ => None }
            }

            /// Returns its name in lowercase, as the metadata of a checkpoint has it.
            pub(crate) fn name(self) -> &'static str {
                match self { $(ValueType::$variant => $name,)* }
            }

            /// Returns the number of bytes that a value takes at least.
            pub(crate) fn min_bytes(self) -> u64 {
                match self { $(ValueType::$variant => $bytes,)* }
            }
        }
    };
}

value_types! {
    U8 0 "u8" 1;
    I8 1 "i8" 1;
    U16 2 "u16" 2;
    I16 3 "i16" 2;
    U32 4 "u32" 4;
    I32 5 "i32" 4;
    F32 6 "f32" 4;
    Bool 7 "bool" 1;
    String 8 "string" 8;
    Array 9 "array" 12;
    U64 10 "u64" 8;
    I64 11 "i64" 8;
    F64 12 "f64" 8;
}

impl ValueType {
    /// Returns the type with this name.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|own| own.name() == name)
    }
}

/// The type of a tensor's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TensorType {
    /// Numbers, one after the other.
    Plain(DType),
    /// Blocks of numbers.
    Blocks(BlockType),
}

/// Every dtype of GGUF, with its number and its name in llama.cpp.
const DTYPES: [(DType, u32, &str); 8] = [
    (DType::F32, 0, "F32"),
    (DType::F16, 1, "F16"),
    (DType::I8, 24, "I8"),
    (DType::I16, 25, "I16"),
    (DType::I32, 26, "I32"),
    (DType::I64, 27, "I64"),
    (DType::F64, 28, "F64"),
    (DType::Bf16, 30, "BF16"),
];

/// Lists the dtypes of GGUF.
pub(crate) const NATIVE: [DType; 8] = {
    let mut native = [DType::F32; 8];
    let mut k = 0;
    while k < DTYPES.len() {
        native[k] = DTYPES[k].0;
        k += 1;
    }
    native
};

/// Types that llama.cpp no longer has, by number, under the name that they had.
const REMOVED: [(u32, &str); 8] = [
    (4, "Q4_2"),
    (5, "Q4_3"),
    (31, "Q4_0_4_4"),
    (32, "Q4_0_4_8"),
    (33, "Q4_0_8_8"),
    (36, "IQ4_NL_4_4"),
    (37, "IQ4_NL_4_8"),
    (38, "IQ4_NL_8_8"),
];

impl TensorType {
    /// Returns the type with this number.
    pub(crate) fn from_id(id: u32) -> Option<Self> {
        let plain = DTYPES.iter().find(|(_, own, _)| *own == id).map(|(dtype, ..)| TensorType::Plain(*dtype));
        plain.or_else(|| BlockType::from_id(id).map(TensorType::Blocks))
    }

    /// Returns the type's number.
    pub(crate) fn id(self) -> u32 {
        match self {
            TensorType::Plain(dtype) => {
                DTYPES.iter().find(|(own, ..)| *own == dtype).map_or(u32::MAX, |(_, id, _)| *id)
            }
            TensorType::Blocks(block_type) => block_type.id(),
        }
    }

    /// Returns the type's name in llama.cpp.
    pub(crate) fn name(self) -> &'static str {
        match self {
            TensorType::Plain(dtype) => {
                DTYPES.iter().find(|(own, ..)| *own == dtype).map_or("", |(.., name)| *name)
            }
            TensorType::Blocks(block_type) => block_type.name(),
        }
    }
}

/// Returns the name of a type that llama.cpp no longer has.
pub(crate) fn removed(id: u32) -> Option<&'static str> {
    REMOVED.iter().find(|(own, _)| *own == id).map(|(_, name)| *name)
}

/// Returns the dtype to store `dtype` as: itself or, if GGUF lacks it, one that holds every value exactly; `None` if
/// there is none.
pub(crate) fn holder(dtype: DType) -> Option<DType> {
    dtype.holder(|dtype| NATIVE.contains(&dtype))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_of_a_tensor_has_one_number_and_one_name() {
        let plain = NATIVE.map(TensorType::Plain);
        let blocks = BlockType::ALL.iter().map(|block_type| TensorType::Blocks(*block_type));
        let mut ids = std::collections::BTreeMap::new();
        for own in plain.into_iter().chain(blocks) {
            assert_eq!(TensorType::from_id(own.id()), Some(own));
            assert_eq!(removed(own.id()), None, "{}", own.name());
            assert_eq!(ids.insert(own.id(), own.name()), None);
        }
        assert_eq!(ids.len(), 34);
    }

    #[test]
    fn every_type_of_a_value_has_one_number_and_one_name() {
        for own in ValueType::ALL {
            assert_eq!(ValueType::from_id(*own as u32), Some(*own));
            assert_eq!(ValueType::from_name(own.name()), Some(*own));
        }
        assert_eq!(ValueType::from_id(13), None);
    }

    #[test]
    fn a_dtype_without_an_exact_holder_has_none() {
        let homeless: Vec<&str> =
            DType::ALL.iter().filter(|dtype| holder(**dtype).is_none()).map(|dtype| dtype.name()).collect();
        assert_eq!(homeless, ["u64", "bool", "c64", "c128", "string", "variant"]);
    }
}
