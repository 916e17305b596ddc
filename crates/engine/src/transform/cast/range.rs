//! What values a dtype has, and the powers of two that they are made of.

use ckpt_api::DType;

/// Whether every value of `from` is a value of `to`.
pub fn exact(from: DType, to: DType) -> bool {
    if from == to {
        return true;
    }
    match (range(from), range(to)) {
        (Some(from), Some(to)) => from.fits(&to),
        _ => false,
    }
}

/// What values a type has: floats by significant bits and exponents of the smallest and largest bit, integers likewise.
struct Range {
    signed: bool,
    float: bool,
    /// Significant bits.
    precision: i32,
    /// Exponent of the lowest bit of the smallest value.
    low: i32,
    /// Exponent of the highest bit of the largest value.
    high: i32,
    infinite: bool,
}

impl Range {
    fn fits(&self, other: &Range) -> bool {
        if !other.float {
            // A signed integer keeps one bit for the sign.
            let spare = i32::from(other.signed && !self.signed);
            return !self.float
                && (other.signed || !self.signed)
                && other.precision >= self.precision + spare;
        }
        (other.infinite || !self.infinite)
            && other.precision >= self.precision
            && other.low <= self.low
            && other.high >= self.high
    }
}

fn range(dtype: DType) -> Option<Range> {
    let float = |precision, low, high, infinite| {
        Some(Range { signed: true, float: true, precision, low, high, infinite })
    };
    let integer = |signed, bits: i32| {
        Some(Range { signed, float: false, precision: bits, low: 0, high: bits - 1, infinite: false })
    };
    match dtype {
        DType::F64 => float(53, -1074, 1023, true),
        DType::F32 => float(24, -149, 127, true),
        DType::F16 => float(11, -24, 15, true),
        DType::Bf16 => float(8, -133, 127, true),
        DType::F8E5m2 => float(3, -16, 15, true),
        DType::F8E4m3 => float(4, -9, 8, false),
        DType::F8E4m3fnuz => float(4, -10, 7, false),
        DType::F8E4m3b11fnuz => float(4, -13, 4, false),
        DType::F8E5m2fnuz => float(3, -17, 15, false),
        DType::F8E8m0 => float(1, -127, 127, false),
        DType::F6E2m3 => float(4, -3, 2, false),
        DType::F6E3m2 => float(3, -4, 4, false),
        DType::F4E2m1 => float(2, -1, 2, false),
        DType::I64 => integer(true, 64),
        DType::I32 | DType::Qi32 => integer(true, 32),
        DType::I16 | DType::Qi16 => integer(true, 16),
        DType::I8 | DType::Qi8 => integer(true, 8),
        DType::I4 => integer(true, 4),
        DType::I2 => integer(true, 2),
        DType::U64 => integer(false, 64),
        DType::U32 => integer(false, 32),
        DType::U16 | DType::Qu16 => integer(false, 16),
        DType::U8 | DType::Qu8 => integer(false, 8),
        DType::U4 => integer(false, 4),
        DType::U2 => integer(false, 2),
        _ => None,
    }
}

/// Two to this power, exactly; 0 and infinity for what is none of f64. `powi` promises no precision.
pub const fn power(exponent: i32) -> f64 {
    match exponent {
        ..-1074 => 0.0,
        -1074..-1022 => f64::from_bits(1 << (exponent + 1074)),
        -1022..=1023 => f64::from_bits(((exponent + 1023).cast_unsigned() as u64) << 52),
        1024.. => f64::INFINITY,
    }
}

/// The exponent of the highest bit; -1023 for zero and what is close to it.
pub(super) fn exponent_of(value: f64) -> i32 {
    i32::try_from(value.to_bits() >> 52 & 0x7ff).unwrap_or(0) - 1023
}

#[expect(clippy::cast_possible_truncation, reason = "the value is a whole number of at most 16")]
pub(super) fn small_integer(value: f64) -> i32 {
    value as i32
}
