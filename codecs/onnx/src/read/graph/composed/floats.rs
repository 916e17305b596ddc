//! Types of real numbers of a few bits.

use super::super::values::Attributes;
use ckpt_api::{Attribute, DType};

/// The name of a type of at most 16 bits in graphs.
pub(in super::super) fn short(dtype: DType) -> Option<&'static str> {
    Some(match dtype {
        DType::F16 => "float16",
        DType::Bf16 => "bfloat16",
        DType::F8E4m3 => "float8e4m3fn",
        DType::F8E4m3fnuz => "float8e4m3fnuz",
        DType::F8E5m2 => "float8e5m2",
        DType::F8E5m2fnuz => "float8e5m2fnuz",
        DType::F4E2m1 => "float4e2m1",
        _ => return None,
    })
}

/// The attributes of a cast to a kind of numbers. With `saturate` 0, what exceeds a type of 8 bits is infinite or NaN.
pub(in super::super) fn to(kind: &str, saturate: i64) -> Attributes {
    let attributes = Attributes::new().with("to", Attribute::Text(kind.to_owned()));
    if saturate == 0 && kind.starts_with("float8") { attributes.int("saturate", 0) } else { attributes }
}
