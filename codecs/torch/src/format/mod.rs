//! Names, dtypes and file names of PyTorch's checkpoints.

pub(crate) mod keys;
pub(crate) mod metadata;

use ckpt_api::DType;

/// Id of the format, and its metadata namespace.
pub(crate) const ID: &str = "torch";
/// What would run the calls of a pickle.
pub(crate) const LOADER: &str = "torch.load without weights_only";
/// Ending of the index of a set of files.
pub(crate) const INDEX_ENDING: &str = ".bin.index.json";
/// Endings of checkpoints.
pub(crate) const ENDINGS: &[&str] = &["pt", "pth", "bin", "ckpt"];

/// What PyTorch calls the type of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Element {
    /// The name of `torch.NAME`.
    pub(crate) name: &'static str,
    /// The class of its storages; empty for types that only untyped storages hold.
    storage: &'static str,
    pub(crate) bytes: u64,
    /// `None` for types that no other format has.
    pub(crate) dtype: Option<DType>,
}

const fn element(name: &'static str, storage: &'static str, bytes: u64, dtype: DType) -> Element {
    Element { name, storage, bytes, dtype: Some(dtype) }
}

const fn unknown(name: &'static str, storage: &'static str, bytes: u64) -> Element {
    Element { name, storage, bytes, dtype: None }
}

const ELEMENTS: &[Element] = &[
    element("float64", "DoubleStorage", 8, DType::F64),
    element("float32", "FloatStorage", 4, DType::F32),
    element("float16", "HalfStorage", 2, DType::F16),
    element("bfloat16", "BFloat16Storage", 2, DType::Bf16),
    element("int64", "LongStorage", 8, DType::I64),
    element("int32", "IntStorage", 4, DType::I32),
    element("int16", "ShortStorage", 2, DType::I16),
    element("int8", "CharStorage", 1, DType::I8),
    element("uint8", "ByteStorage", 1, DType::U8),
    element("bool", "BoolStorage", 1, DType::Bool),
    element("complex64", "ComplexFloatStorage", 8, DType::C64),
    element("complex128", "ComplexDoubleStorage", 16, DType::C128),
    element("qint8", "QInt8Storage", 1, DType::I8),
    element("quint8", "QUInt8Storage", 1, DType::U8),
    element("qint32", "QInt32Storage", 4, DType::I32),
    element("uint16", "", 2, DType::U16),
    element("uint32", "", 4, DType::U32),
    element("uint64", "", 8, DType::U64),
    element("float8_e4m3fn", "", 1, DType::F8E4m3),
    element("float8_e5m2", "", 1, DType::F8E5m2),
    element("float8_e4m3fnuz", "", 1, DType::F8E4m3fnuz),
    element("float8_e5m2fnuz", "", 1, DType::F8E5m2fnuz),
    element("float8_e8m0fnu", "", 1, DType::F8E8m0),
    unknown("quint4x2", "QUInt4x2Storage", 1),
    unknown("quint2x4", "QUInt2x4Storage", 1),
    unknown("float4_e2m1fn_x2", "", 1),
    unknown("complex32", "", 4),
    unknown("bcomplex32", "", 4),
    unknown("bits8", "", 1),
    unknown("bits16", "", 2),
    unknown("bits1x8", "", 1),
    unknown("bits2x4", "", 1),
    unknown("bits4x2", "", 1),
];

/// The bytes of storages without a type.
pub(crate) const BYTE: Element = element("uint8", "UntypedStorage", 1, DType::U8);

/// Returns the type of `torch.NAME`.
pub(crate) fn element_named(name: &str) -> Option<Element> {
    ELEMENTS.iter().copied().find(|element| element.name == name)
}

/// Returns the type that tensors of this dtype have.
pub(crate) fn element_of(dtype: DType) -> Option<Element> {
    ELEMENTS.iter().copied().find(|element| element.dtype == Some(dtype))
}

impl Element {
    /// Returns module and name of the class of its storages; `None` for types that only untyped storages hold.
    pub(crate) fn storage_class(self) -> Option<(&'static str, &'static str)> {
        (!self.storage.is_empty()).then_some(("torch", self.storage))
    }
}

/// What a class of storages holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StorageClass {
    Typed(Element),
    /// Bytes; each tensor states its own type.
    Untyped,
}

impl StorageClass {
    /// Returns the class of this module and name.
    pub(crate) fn named(module: &str, name: &str) -> Option<Self> {
        if !matches!(module, "torch" | "torch.cuda" | "torch.storage") {
            return None;
        }
        match name {
            "" => None,
            "UntypedStorage" => Some(StorageClass::Untyped),
            _ => ELEMENTS.iter().copied().find(|element| element.storage == name).map(StorageClass::Typed),
        }
    }

    /// Returns the type in which its elements are counted.
    pub(crate) fn element(self) -> Element {
        match self {
            StorageClass::Typed(element) => element,
            StorageClass::Untyped => BYTE,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_known_type_has_the_bytes_of_its_dtype() {
        for element in ELEMENTS {
            if let Some(dtype) = element.dtype {
                assert_eq!(dtype.bytes(), Some(element.bytes), "{}", element.name);
            }
            assert_eq!(element_named(element.name), Some(*element));
        }
    }

    #[test]
    fn storages_are_known_by_module_and_name() {
        let name = |module, name| StorageClass::named(module, name).map(|class| class.element().name);
        assert_eq!(name("torch", "BFloat16Storage"), Some("bfloat16"));
        assert_eq!(name("torch.storage", "UntypedStorage"), Some("uint8"));
        for (module, class) in
            [("torch", "Storage"), ("torch", "QuuxStorage"), ("posix", "FloatStorage"), ("torch", "Float")]
        {
            assert_eq!(name(module, class), None, "{module} {class}");
        }
    }
}
