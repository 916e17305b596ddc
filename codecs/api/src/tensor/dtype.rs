//! Element types.

use crate::Error;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

macro_rules! dtypes {
    ($($(#[$doc:meta])* $variant:ident = $name:literal, $bits:expr, $component:expr;)*) => {
        /// The type of a tensor's elements.
        ///
        /// Names follow safetensors if it has one, else TensorFlow, in lower case.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[non_exhaustive]
        pub enum DType { $($(#[$doc])* #[serde(rename = $name)] $variant,)* }

        impl DType {
            /// Every dtype, in declaration order.
            pub const ALL: &'static [DType] = &[$(DType::$variant,)*];

            /// The name shown to people and used in JSON.
            pub const fn name(self) -> &'static str {
                match self { $(DType::$variant => $name,)* }
            }

            /// Bits of information in one element; `None` if elements have a length each.
            pub const fn bits(self) -> Option<u32> {
                match self { $(DType::$variant => $bits,)* }
            }

            /// Bytes that a change of byte order reverses together (half an element for complex numbers).
            pub const fn component_bytes(self) -> usize {
                match self { $(DType::$variant => $component,)* }
            }
        }
    };
}

dtypes! {
    /// IEEE 754 binary64.
    F64 = "f64", Some(64), 8;
    /// IEEE 754 binary32.
    F32 = "f32", Some(32), 4;
    /// IEEE 754 binary16.
    F16 = "f16", Some(16), 2;
    /// The upper half of a binary32.
    Bf16 = "bf16", Some(16), 2;
    /// 8-bit float, 5 exponent bits, IEEE-like infinities.
    F8E5m2 = "f8_e5m2", Some(8), 1;
    /// 8-bit float, 4 exponent bits, finite, one NaN per sign.
    F8E4m3 = "f8_e4m3", Some(8), 1;
    /// 8-bit float, 4 exponent bits (bias 8), no negative zero.
    F8E4m3fnuz = "f8_e4m3fnuz", Some(8), 1;
    /// 8-bit float, 4 exponent bits (bias 11), no negative zero.
    F8E4m3b11fnuz = "f8_e4m3b11fnuz", Some(8), 1;
    /// 8-bit float, 5 exponent bits (bias 16), no negative zero.
    F8E5m2fnuz = "f8_e5m2fnuz", Some(8), 1;
    /// 8-bit power-of-two scale.
    F8E8m0 = "f8_e8m0", Some(8), 1;
    /// 6-bit float, 2 exponent bits.
    F6E2m3 = "f6_e2m3", Some(6), 1;
    /// 6-bit float, 3 exponent bits.
    F6E3m2 = "f6_e3m2", Some(6), 1;
    /// 4-bit float, 2 exponent bits.
    F4E2m1 = "f4_e2m1", Some(4), 1;
    /// Signed 64-bit integer.
    I64 = "i64", Some(64), 8;
    /// Signed 32-bit integer.
    I32 = "i32", Some(32), 4;
    /// Signed 16-bit integer.
    I16 = "i16", Some(16), 2;
    /// Signed 8-bit integer.
    I8 = "i8", Some(8), 1;
    /// Signed 4-bit integer.
    I4 = "i4", Some(4), 1;
    /// Signed 2-bit integer.
    I2 = "i2", Some(2), 1;
    /// Unsigned 64-bit integer.
    U64 = "u64", Some(64), 8;
    /// Unsigned 32-bit integer.
    U32 = "u32", Some(32), 4;
    /// Unsigned 16-bit integer.
    U16 = "u16", Some(16), 2;
    /// Unsigned 8-bit integer.
    U8 = "u8", Some(8), 1;
    /// Unsigned 4-bit integer.
    U4 = "u4", Some(4), 1;
    /// Unsigned 2-bit integer.
    U2 = "u2", Some(2), 1;
    /// TensorFlow's quantized signed 32-bit integer.
    Qi32 = "qint32", Some(32), 4;
    /// TensorFlow's quantized signed 16-bit integer.
    Qi16 = "qint16", Some(16), 2;
    /// TensorFlow's quantized signed 8-bit integer.
    Qi8 = "qint8", Some(8), 1;
    /// TensorFlow's quantized unsigned 16-bit integer.
    Qu16 = "quint16", Some(16), 2;
    /// TensorFlow's quantized unsigned 8-bit integer.
    Qu8 = "quint8", Some(8), 1;
    /// One byte, 0 or 1.
    Bool = "bool", Some(8), 1;
    /// Two binary32: real, imaginary.
    C64 = "c64", Some(64), 4;
    /// Two binary64: real, imaginary.
    C128 = "c128", Some(128), 8;
    /// Byte strings, a length each.
    String = "string", None, 1;
    /// TensorFlow's serialized objects, a length each; opaque bytes here.
    Variant = "variant", None, 1;
}

impl DType {
    /// Whole bytes of one element that is not packed with its neighbors; `None` if elements have a length each.
    pub const fn bytes(self) -> Option<u64> {
        match self.bits() {
            Some(bits) => Some(bits.div_ceil(8) as u64),
            None => None,
        }
    }

    /// Whether the elements are real floating-point numbers.
    pub const fn is_float(self) -> bool {
        matches!(
            self,
            DType::F64
                | DType::F32
                | DType::F16
                | DType::Bf16
                | DType::F8E5m2
                | DType::F8E4m3
                | DType::F8E4m3fnuz
                | DType::F8E4m3b11fnuz
                | DType::F8E5m2fnuz
                | DType::F8E8m0
                | DType::F6E2m3
                | DType::F6E3m2
                | DType::F4E2m1
        )
    }

    /// The dtype to store elements as: this one if a format `has` it, or else the narrowest that it has and that holds every
    /// value exactly; `None` if there is none.
    ///
    /// ```
    /// use ckpt_api::DType;
    ///
    /// let has = |dtype| matches!(dtype, DType::F32 | DType::I8 | DType::I16);
    /// let held = [DType::I8, DType::Bf16, DType::U8, DType::F64].map(|dtype| dtype.holder(has));
    /// assert_eq!(held, [Some(DType::I8), Some(DType::F32), Some(DType::I16), None]);
    /// ```
    pub fn holder(self, has: impl Fn(DType) -> bool) -> Option<DType> {
        let wider: &[DType] = match self {
            DType::Bf16 | DType::F8E8m0 => &[DType::F32],
            small if small.is_float() && small.bits() <= Some(8) => &[DType::F16, DType::F32],
            DType::I2 | DType::I4 | DType::Qi8 => &[DType::I8, DType::I16, DType::I32, DType::I64],
            DType::U2 | DType::U4 => &[DType::U8, DType::I8, DType::I16, DType::I32, DType::I64],
            DType::U8 | DType::Qu8 => &[DType::U8, DType::I16, DType::I32, DType::I64],
            DType::I16 | DType::Qi16 => &[DType::I16, DType::I32, DType::I64],
            DType::U16 | DType::Qu16 => &[DType::U16, DType::I32, DType::I64],
            DType::Qi32 => &[DType::I32, DType::I64],
            DType::U32 => &[DType::I64],
            _ => &[],
        };
        [self].iter().chain(wider).copied().find(|dtype| has(*dtype))
    }

    /// The dtype with exactly this [`name`](DType::name), as files record it. What a person writes is parsed:
    /// [`DType::from_str`].
    pub fn from_name(name: &str) -> Option<DType> {
        DType::ALL.iter().copied().find(|dtype| dtype.name() == name)
    }
}

/// Other names, in lower case: those of NumPy, ONNX, PyTorch and TensorFlow. `float` is the one of ONNX, PyTorch and
/// TensorFlow (`DT_FLOAT`), as `half` and `double` are. `int` and `long` are none, because their sizes differ.
const ALIASES: &[(&str, DType)] = &[
    ("float64", DType::F64),
    ("fp64", DType::F64),
    ("double", DType::F64),
    ("float32", DType::F32),
    ("fp32", DType::F32),
    ("float", DType::F32),
    ("single", DType::F32),
    ("float16", DType::F16),
    ("fp16", DType::F16),
    ("half", DType::F16),
    ("bfloat16", DType::Bf16),
    ("float8_e5m2", DType::F8E5m2),
    ("fp8_e5m2", DType::F8E5m2),
    ("float8_e4m3", DType::F8E4m3),
    ("float8_e4m3fn", DType::F8E4m3),
    ("fp8_e4m3", DType::F8E4m3),
    ("float8_e4m3fnuz", DType::F8E4m3fnuz),
    ("float8_e4m3b11fnuz", DType::F8E4m3b11fnuz),
    ("float8_e5m2fnuz", DType::F8E5m2fnuz),
    ("float8_e8m0fnu", DType::F8E8m0),
    ("float6_e2m3fn", DType::F6E2m3),
    ("float6_e3m2fn", DType::F6E3m2),
    ("float4_e2m1fn", DType::F4E2m1),
    ("int64", DType::I64),
    ("int32", DType::I32),
    ("int16", DType::I16),
    ("int8", DType::I8),
    ("int4", DType::I4),
    ("int2", DType::I2),
    ("uint64", DType::U64),
    ("uint32", DType::U32),
    ("uint16", DType::U16),
    ("uint8", DType::U8),
    ("uint4", DType::U4),
    ("uint2", DType::U2),
    ("boolean", DType::Bool),
    ("complex64", DType::C64),
    ("complex128", DType::C128),
];

/// Parses what a person writes: a [`name`](DType::name), or the name that NumPy, PyTorch or TensorFlow has, in lower or
/// upper case.
///
/// ```
/// use ckpt_api::DType;
/// for text in ["bf16", "bfloat16", "BF16"] {
///     assert_eq!(text.parse::<DType>()?, DType::Bf16);
/// }
/// # Ok::<(), ckpt_api::Error>(())
/// ```
impl FromStr for DType {
    type Err = Error;

    /// # Errors
    /// [`crate::Kind::Usage`] for a text that names none.
    fn from_str(text: &str) -> Result<DType, Error> {
        let name = text.to_ascii_lowercase();
        let alias = || ALIASES.iter().find(|(alias, _)| *alias == name).map(|(_, dtype)| *dtype);
        DType::from_name(&name)
            .or_else(alias)
            .ok_or_else(|| Error::usage("unknown dtype").found(format!("'{text}'")))
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The order of bytes within a component.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Endian {
    /// Least significant byte first.
    #[default]
    Little,
    /// Most significant byte first.
    Big,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_finds_its_dtype() {
        for dtype in DType::ALL {
            assert_eq!(DType::from_name(dtype.name()), Some(*dtype));
        }
        assert_eq!(DType::ALL.len(), 35);
    }

    #[test]
    fn every_alias_is_parsed_in_any_case_and_is_no_name_of_a_dtype() {
        for (alias, dtype) in ALIASES {
            assert_eq!(alias.parse::<DType>().unwrap(), *dtype);
            assert_eq!(alias.to_ascii_uppercase().parse::<DType>().unwrap(), *dtype);
            assert_eq!(DType::from_name(alias), None, "{alias} is stored in no file");
        }
        for dtype in DType::ALL {
            assert_eq!(dtype.name().parse::<DType>().unwrap(), *dtype);
        }
        for ambiguous in ["int", "long", ""] {
            assert_eq!(ambiguous.parse::<DType>().unwrap_err().kind(), crate::Kind::Usage);
        }
    }

    #[test]
    fn small_types_take_a_whole_byte_unless_packed() {
        assert_eq!(DType::I2.bytes(), Some(1));
        assert_eq!(DType::C128.bytes(), Some(16));
        assert_eq!(DType::String.bytes(), None);
    }
}
