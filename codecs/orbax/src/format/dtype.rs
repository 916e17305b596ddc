//! The names of element types.

use ckpt_api::{DType, Encoding, Endian, Error, Result};

/// An element type as a file states it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StoredType {
    pub(crate) dtype: DType,
    pub(crate) endian: Endian,
}

impl StoredType {
    const fn little(dtype: DType) -> Self {
        StoredType { dtype, endian: Endian::Little }
    }

    /// Bytes of an element: types below a byte take a whole one.
    pub(crate) fn bytes(self) -> u64 {
        self.dtype.bytes().unwrap_or(1)
    }

    /// How elements of an array are encoded whose stored axes are in this order.
    pub(crate) fn encoding(self, order: &[usize]) -> Encoding {
        Encoding::new(self.dtype, order.to_vec()).with_endian(self.endian)
    }
}

/// What NumPy, zarr and ml_dtypes call the types, and how zarr 2 spells those that NumPy itself has.
const TYPES: &[(&str, &str, DType)] = &[
    ("bool", "b1", DType::Bool),
    ("int8", "i1", DType::I8),
    ("int16", "i2", DType::I16),
    ("int32", "i4", DType::I32),
    ("int64", "i8", DType::I64),
    ("uint8", "u1", DType::U8),
    ("uint16", "u2", DType::U16),
    ("uint32", "u4", DType::U32),
    ("uint64", "u8", DType::U64),
    ("float16", "f2", DType::F16),
    ("float32", "f4", DType::F32),
    ("float64", "f8", DType::F64),
    ("complex64", "c8", DType::C64),
    ("complex128", "c16", DType::C128),
    ("bfloat16", "", DType::Bf16),
    ("float8_e4m3fn", "", DType::F8E4m3),
    ("float8_e5m2", "", DType::F8E5m2),
    ("float8_e4m3fnuz", "", DType::F8E4m3fnuz),
    ("float8_e5m2fnuz", "", DType::F8E5m2fnuz),
    ("float8_e4m3b11fnuz", "", DType::F8E4m3b11fnuz),
    ("float8_e8m0fnu", "", DType::F8E8m0),
    ("float6_e2m3fn", "", DType::F6E2m3),
    ("float6_e3m2fn", "", DType::F6E3m2),
    ("float4_e2m1fn", "", DType::F4E2m1),
    ("int4", "", DType::I4),
    ("int2", "", DType::I2),
    ("uint4", "", DType::U4),
    ("uint2", "", DType::U2),
];

/// The types that Orbax stores.
pub(crate) const STORED: &[DType] = &[
    DType::F64,
    DType::F32,
    DType::F16,
    DType::Bf16,
    DType::F8E5m2,
    DType::F8E4m3,
    DType::F8E4m3fnuz,
    DType::F8E4m3b11fnuz,
    DType::F8E5m2fnuz,
    DType::F8E8m0,
    DType::F4E2m1,
    DType::I64,
    DType::I32,
    DType::I16,
    DType::I8,
    DType::I4,
    DType::I2,
    DType::U64,
    DType::U32,
    DType::U16,
    DType::U8,
    DType::Bool,
    DType::C64,
    DType::C128,
];

/// The type that zarr 3, NumPy and ml_dtypes call so, little-endian.
///
/// # Errors
/// [`ckpt_api::Kind::Unsupported`].
pub(crate) fn by_name(name: &str) -> Result<StoredType> {
    let found = TYPES.iter().find(|(own, ..)| *own == name);
    found.map(|(.., dtype)| StoredType::little(*dtype)).ok_or_else(|| unknown(name))
}

/// The type that zarr 2 spells so: `<f4`, or a plain word.
///
/// # Errors
/// [`ckpt_api::Kind::Unsupported`].
pub(crate) fn of_zarr2(text: &str) -> Result<StoredType> {
    let spelled = |rest: &str| TYPES.iter().find(|(_, own, _)| !own.is_empty() && *own == rest);
    let mut chars = text.chars();
    let endian = match chars.next() {
        Some('<') => Endian::Little,
        Some('>') => Endian::Big,
        Some('|') => Endian::Little,
        _ => {
            return TYPES
                .iter()
                .find(|(own, short, _)| *own == text && short.is_empty())
                .map_or_else(|| Err(unknown(text)), |(.., dtype)| Ok(StoredType::little(*dtype)));
        }
    };
    let (.., dtype) = spelled(chars.as_str()).ok_or_else(|| unknown(text))?;
    match text.starts_with('|') && dtype.component_bytes() > 1 {
        true => Err(unknown(text)),
        false => Ok(StoredType { dtype: *dtype, endian }),
    }
}

/// What zarr 3, NumPy and ml_dtypes call a type; `None` for one that they lack.
pub(crate) fn name_of(dtype: DType) -> Option<&'static str> {
    TYPES.iter().find(|(.., own)| *own == dtype).map(|(name, ..)| *name)
}

/// How zarr 2 spells a type; `None` for one that it lacks.
pub(crate) fn zarr2_name_of(dtype: DType) -> Option<String> {
    let (name, short, _) = TYPES.iter().find(|(.., own)| *own == dtype)?;
    Some(match (*short, dtype.component_bytes()) {
        ("", _) => (*name).to_owned(),
        (short, 1) => format!("|{short}"),
        (short, _) => format!("<{short}"),
    })
}

fn unknown(name: &str) -> Error {
    Error::unsupported("the type of the elements has no counterpart")
        .field("dtype")
        .found(format!("'{}'", name.escape_debug()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zarr_2_spells_what_numpy_has_and_names_the_rest() {
        for (text, dtype) in [("<f4", DType::F32), ("|b1", DType::Bool), ("bfloat16", DType::Bf16)] {
            assert_eq!(of_zarr2(text).unwrap(), StoredType::little(dtype), "{text}");
            assert_eq!(zarr2_name_of(dtype).as_deref(), Some(text));
        }
        assert_eq!(of_zarr2(">c16").unwrap().endian, Endian::Big);
        for text in ["f4", "|f4", "<U5", "float32", "<V2", "", "|O", "<b"] {
            assert!(of_zarr2(text).is_err(), "{text}");
        }
    }
}
