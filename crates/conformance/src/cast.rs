//! Casts of numbers: one at a time, through binary64.

use ckpt_api::DType;

/// Converts elements to another dtype; `None` if no conversion exists between the two.
pub(crate) fn cast(from: DType, to: DType, value: &[u8]) -> Option<Vec<u8>> {
    if from == to {
        return Some(value.to_vec());
    }
    let size = usize::try_from(from.bytes()?).ok()?;
    let one = |stored: &[u8]| element(to, number(from, stored)?, is_negative(from, stored));
    Some(value.chunks(size).map(one).collect::<Option<Vec<_>>>()?.concat())
}

/// Whether a number has a minus. Arithmetic does not keep that of a NaN on every platform.
fn is_negative(dtype: DType, element: &[u8]) -> bool {
    let signed = dtype.is_float() || matches!(dtype, DType::I8 | DType::I16 | DType::I32 | DType::I64);
    signed && element.last().is_some_and(|byte| byte & 0x80 != 0)
}

fn number(dtype: DType, element: &[u8]) -> Option<f64> {
    let bits = element.iter().rev().fold(0u64, |bits, byte| bits << 8 | u64::from(*byte));
    let signed = |width: u32| (bits << (64 - width)) as i64 >> (64 - width);
    Some(match dtype {
        DType::F64 => f64::from_bits(bits),
        DType::F32 => f64::from(f32::from_bits(bits as u32)),
        DType::F16 => widened(bits, 5, 10),
        DType::Bf16 => f64::from(f32::from_bits((bits as u32) << 16)),
        DType::I8 | DType::I16 | DType::I32 | DType::I64 => signed(dtype.bits()?) as f64,
        DType::U8 | DType::U16 | DType::U32 | DType::U64 | DType::Bool => bits as f64,
        _ => return None,
    })
}

fn element(dtype: DType, number: f64, is_negative: bool) -> Option<Vec<u8>> {
    let sign = if is_negative { -1.0 } else { 1.0 };
    let half = |bits: u16| (bits | u16::from(is_negative) << 15).to_le_bytes().to_vec();
    Some(match dtype {
        DType::F64 => number.copysign(f64::from(sign)).to_le_bytes().to_vec(),
        DType::F32 => (number as f32).copysign(sign).to_le_bytes().to_vec(),
        DType::F16 => half(narrowed(number, 5, 10)),
        DType::Bf16 => half(narrowed(number, 8, 7)),
        _ => return None,
    })
}

/// The number that the bits of a small IEEE float stand for.
fn widened(bits: u64, exponent_bits: u32, mantissa_bits: u32) -> f64 {
    let top = (1 << exponent_bits) - 1;
    let bias = (1 << (exponent_bits - 1)) - 1;
    let (exponent, mantissa) = (bits >> mantissa_bits & top, bits & ((1 << mantissa_bits) - 1));
    let fraction = mantissa as f64 / (1u64 << mantissa_bits) as f64;
    let size = match exponent {
        0 => fraction * power_of_two(1 - bias),
        _ if exponent == top && mantissa != 0 => f64::NAN,
        _ if exponent == top => f64::INFINITY,
        _ => (1.0 + fraction) * power_of_two(exponent as i32 - bias),
    };
    if bits >> (exponent_bits + mantissa_bits) & 1 == 1 { -size } else { size }
}

/// The bits, without the sign, of the 16-bit IEEE float nearest to a number, halves to even.
fn narrowed(number: f64, exponent_bits: u32, mantissa_bits: u32) -> u16 {
    let top = ((1 << exponent_bits) - 1) << mantissa_bits;
    if number.is_nan() {
        return top | 1 << (mantissa_bits - 1);
    }
    let bias = (1 << (exponent_bits - 1)) - 1;
    // The exponent of the last bit that is kept: of the number itself, or of the smallest.
    let exponent = ((number.abs().to_bits() >> 52) as i32 - 1023).max(1 - bias);
    let last = exponent - mantissa_bits as i32;
    // Both are powers of two: the quotient is exact. Carries go into the exponent by themselves.
    let units = (number.abs() / power_of_two(last)).round_ties_even();
    let bits = units + f64::from(exponent + bias - 1) * (1u64 << mantissa_bits) as f64;
    bits.min(f64::from(top)) as u16
}

/// Two to the power of an exponent that normal numbers have, exactly: the precision of `powi` is the platform's.
fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(((exponent + 1023) as u64) << 52)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_rounded_to_the_nearest_and_halves_to_even() {
        let f16 = |number: f32| cast(DType::F32, DType::F16, &number.to_le_bytes()).unwrap();
        for (number, bits) in [
            (0.0, 0u16),
            (-0.0, 0x8000),
            (1.0, 0x3c00),
            (-1.5, 0xbe00),
            (65504.0, 0x7bff),
            (65520.0, 0x7c00),
            (f32::INFINITY, 0x7c00),
            (6e-8, 1),
            (f32::EPSILON / 4.0, 0),
            (1.0 + 4096.0 * f32::EPSILON, 0x3c00),
            (1.0 + 3.0 * 4096.0 * f32::EPSILON, 0x3c02),
        ] {
            assert_eq!(f16(number), bits.to_le_bytes(), "{number}");
        }
        let bf16 = cast(DType::F32, DType::Bf16, &f32::NAN.to_le_bytes()).unwrap();
        assert_eq!(bf16, 0x7fc0u16.to_le_bytes());
        let bf16 = cast(DType::F32, DType::Bf16, &f32::from_bits(0xffc0_0000).to_le_bytes()).unwrap();
        assert_eq!(bf16, 0xffc0u16.to_le_bytes());
    }

    #[test]
    fn every_f16_comes_back() {
        for bits in (0..=u16::MAX)
            .step_by(if cfg!(miri) { 997 } else { 1 })
            .filter(|bits| bits & 0x7c00 != 0x7c00 || bits & 0x3ff == 0)
        {
            let wide = cast(DType::F16, DType::F32, &bits.to_le_bytes()).unwrap();
            assert_eq!(cast(DType::F32, DType::F16, &wide).unwrap(), bits.to_le_bytes());
        }
    }

    #[test]
    fn integers_are_signed_or_not_as_their_dtype_says() {
        assert_eq!(cast(DType::I8, DType::F32, &[0xff]).unwrap(), (-1f32).to_le_bytes());
        assert_eq!(cast(DType::U8, DType::F32, &[0xff]).unwrap(), 255f32.to_le_bytes());
        assert_eq!(cast(DType::String, DType::F32, b"text"), None);
    }
}
