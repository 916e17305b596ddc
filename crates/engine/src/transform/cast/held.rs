//! Small floats that are restored from a dtype that holds them, and never rounded to.

use super::range::{exact, exponent_of, power, small_integer};
use ckpt_api::DType;

/// A float of at most 8 bits: the bits of its mantissa, the bias of its exponent, and the code of its sign.
struct Layout {
    mantissa: i32,
    bias: i32,
    sign: u8,
    /// Whether the code of the sign alone is NaN, as in the dtypes `fnuz`, in place of a negative zero.
    has_nan: bool,
}

fn layout(dtype: DType) -> Option<Layout> {
    Some(match dtype {
        DType::F8E4m3b11fnuz => Layout { mantissa: 3, bias: 11, sign: 0x80, has_nan: true },
        DType::F6E2m3 => Layout { mantissa: 3, bias: 1, sign: 0x20, has_nan: false },
        DType::F6E3m2 => Layout { mantissa: 2, bias: 3, sign: 0x20, has_nan: false },
        DType::F4E2m1 => Layout { mantissa: 1, bias: 1, sign: 0x08, has_nan: false },
        _ => return None,
    })
}

/// Whether the values of `dtype` are restored from `holder`, and a value that `dtype` lacks is an error, as with
/// integers. Formats hold such floats in at most 16 bits; wider floats are weights, which nobody narrows to 4 bits by
/// mistake.
pub fn restorable(holder: DType, dtype: DType) -> bool {
    is_restored_only(dtype)
        && holder.is_float()
        && holder.bits().is_some_and(|bits| bits <= 16)
        && exact(dtype, holder)
}

/// Whether no number is ever rounded to `dtype`.
pub(super) fn is_restored_only(dtype: DType) -> bool {
    layout(dtype).is_some()
}

/// Returns the code of `value` in `dtype`, or a code of another value if it has none.
pub(super) fn code(dtype: DType, value: f64) -> u8 {
    let Some(Layout { mantissa, bias, sign, has_nan }) = layout(dtype) else { return 0 };
    if value.is_nan() {
        return if has_nan { sign } else { 0 };
    }
    let smallest = 1 - bias;
    let exponent = exponent_of(value).max(smallest);
    let steps = value.abs() * power(mantissa - exponent);
    // Beyond every code, which also keeps the number of steps small.
    let is_code = steps.fract() == 0.0 && steps < power(mantissa + 1) && exponent < 16;
    let magnitude = is_code.then(|| small_integer(steps) + ((exponent - smallest) << mantissa));
    let magnitude = magnitude.and_then(|magnitude| u8::try_from(magnitude).ok()).filter(|code| *code < sign);
    match magnitude {
        Some(0) if has_nan => 0,
        Some(magnitude) if value.is_sign_negative() => sign | magnitude,
        Some(magnitude) => magnitude,
        // A value that has no code is not zero.
        None => 0,
    }
}

/// Whether a number is the one that its code stands for, which has the same bits, or is NaN, too.
pub(super) fn is_same(number: f64, stored: f64) -> bool {
    number.to_bits() == stored.to_bits() || number.is_nan() && stored.is_nan()
}
