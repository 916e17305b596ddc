//! The number types that kernels are generic over.

use super::functions;
use crate::kernel::{Pairwise, Short};
use half::{bf16, f16};

/// A type in which sums are computed.
pub(super) trait Number: Copy + PartialOrd + Send + Sync {
    const ZERO: Self;
    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    /// The quotient; integers are rounded towards zero, and 0 by anything is 0.
    fn div(self, other: Self) -> Self;
    /// What the division leaves, with the sign of `self`; 0 for integers and 0.
    fn rem(self, other: Self) -> Self;
    fn pow(self, other: Self) -> Self;
    /// A function of the bits of integers; the caller refuses it for real numbers.
    fn bits(self, _other: Self, _function: Pairwise) -> Self {
        self
    }
    fn constant(value: f64) -> Self;

    /// A number of elements.
    #[expect(clippy::cast_precision_loss, reason = "lengths are below 2^53")]
    fn length(len: usize) -> Self {
        Self::constant(len as f64)
    }

    /// What the division leaves, with the sign of `other`.
    fn modulo(self, other: Self) -> Self {
        let left = self.rem(other);
        let differs = (left < Self::ZERO && other > Self::ZERO) || (left > Self::ZERO && other < Self::ZERO);
        if differs { left.add(other) } else { left }
    }

    /// The greater of two numbers, the first of equal ones; NaN if one is NaN.
    fn greater(self, other: Self) -> Self {
        if self.is_nan() || self >= other { self } else { other }
    }

    /// The lesser of two numbers, the first of equal ones; NaN if one is NaN.
    fn lesser(self, other: Self) -> Self {
        if self.is_nan() || self <= other { self } else { other }
    }

    fn is_nan(&self) -> bool {
        self.partial_cmp(self).is_none()
    }
}

/// A type of real numbers.
pub(super) trait Real: Number {
    fn neg(self) -> Self;
    fn sqrt(self) -> Self;
    fn exp(self) -> Self;
    fn exp_m1(self) -> Self;
    fn ln(self) -> Self;
    fn ln_1p(self) -> Self;
    fn tanh(self) -> Self;
    fn erf(self) -> Self;
    fn sin(self) -> Self;
    fn cos(self) -> Self;
    fn tan(self) -> Self;
    fn asin(self) -> Self;
    fn acos(self) -> Self;
    fn atan(self) -> Self;
    fn sinh(self) -> Self;
    fn cosh(self) -> Self;
    fn asinh(self) -> Self;
    fn acosh(self) -> Self;
    fn atanh(self) -> Self;
    fn abs(self) -> Self;
    fn floor(self) -> Self;
    fn ceil(self) -> Self;
    fn round_ties_even(self) -> Self;
    fn to_float16(self) -> Self;
    fn to_bfloat16(self) -> Self;
    fn to_short(self, short: Short) -> Self;
}

/// A type of stored elements, computed in type `A`.
pub(super) trait Stored<A>: Copy + Send + Sync {
    fn widen(self) -> A;
    /// Rounds to the stored type; `None` for an integer that does not fit.
    fn narrow(value: A) -> Option<Self>;
}

macro_rules! real {
    ($t:ty, $exp:path, $exp_m1:path, $ln:path, $ln_1p:path, $tanh:path, $erf:path, $sin:path, $cos:path,
     $pow:path, $($name:ident: $function:path),+) => {
        impl Number for $t {
            const ZERO: Self = 0.0;
            #[inline(always)]
            fn add(self, other: Self) -> Self {
                self + other
            }
            #[inline(always)]
            fn sub(self, other: Self) -> Self {
                self - other
            }
            #[inline(always)]
            fn mul(self, other: Self) -> Self {
                self * other
            }
            #[inline(always)]
            fn div(self, other: Self) -> Self {
                self / other
            }
            #[inline(always)]
            fn rem(self, other: Self) -> Self {
                self % other
            }
            #[inline(always)]
            fn pow(self, other: Self) -> Self {
                $pow(self, other)
            }
            #[allow(clippy::cast_possible_truncation, reason = "a constant is rounded to the type")]
            #[inline(always)]
            fn constant(value: f64) -> Self {
                value as $t
            }
        }

        impl Real for $t {
            #[inline(always)]
            fn neg(self) -> Self {
                -self
            }
            #[inline(always)]
            fn sqrt(self) -> Self {
                <$t>::sqrt(self)
            }
            #[inline(always)]
            fn exp(self) -> Self {
                $exp(self)
            }
            #[inline(always)]
            fn exp_m1(self) -> Self {
                $exp_m1(self)
            }
            #[inline(always)]
            fn ln(self) -> Self {
                $ln(self)
            }
            #[inline(always)]
            fn ln_1p(self) -> Self {
                $ln_1p(self)
            }
            #[inline(always)]
            fn tanh(self) -> Self {
                $tanh(self)
            }
            #[inline(always)]
            fn erf(self) -> Self {
                $erf(self)
            }
            #[inline(always)]
            fn sin(self) -> Self {
                $sin(self)
            }
            #[inline(always)]
            fn cos(self) -> Self {
                $cos(self)
            }
            $(fn $name(self) -> Self {
                $function(self)
            })+
            #[inline(always)]
            fn abs(self) -> Self {
                <$t>::abs(self)
            }
            #[inline(always)]
            fn floor(self) -> Self {
                <$t>::floor(self)
            }
            #[inline(always)]
            fn ceil(self) -> Self {
                <$t>::ceil(self)
            }
            #[inline(always)]
            fn round_ties_even(self) -> Self {
                <$t>::round_ties_even(self)
            }
            #[allow(clippy::cast_possible_truncation, reason = "rounding is what this does")]
            fn to_float16(self) -> Self {
                f16::from_f32(self as f32).into()
            }
            #[allow(clippy::cast_possible_truncation, reason = "rounding is what this does")]
            fn to_bfloat16(self) -> Self {
                bf16::from_f32(self as f32).into()
            }
            #[allow(clippy::cast_possible_truncation, reason = "a number of a few bits fits")]
            fn to_short(self, short: Short) -> Self {
                shortened(f64::from(self), short) as $t
            }
        }

        impl Stored<$t> for $t {
            #[inline(always)]
            fn widen(self) -> $t {
                self
            }
            #[inline(always)]
            fn narrow(value: $t) -> Option<Self> {
                Some(value)
            }
        }
    };
}

real!(
    f32,
    functions::exp,
    functions::expm1,
    libm::logf,
    libm::log1pf,
    functions::tanh,
    functions::erf,
    libm::sinf,
    libm::cosf,
    functions::pow,
    tan: libm::tanf,
    asin: libm::asinf,
    acos: libm::acosf,
    atan: libm::atanf,
    sinh: libm::sinhf,
    cosh: libm::coshf,
    asinh: libm::asinhf,
    acosh: libm::acoshf,
    atanh: libm::atanhf
);
real!(
    f64,
    libm::exp,
    libm::expm1,
    libm::log,
    libm::log1p,
    libm::tanh,
    libm::erf,
    libm::sin,
    libm::cos,
    libm::pow,
    tan: libm::tan,
    asin: libm::asin,
    acos: libm::acos,
    atan: libm::atan,
    sinh: libm::sinh,
    cosh: libm::cosh,
    asinh: libm::asinh,
    acosh: libm::acosh,
    atanh: libm::atanh
);

impl Stored<f64> for f32 {
    fn widen(self) -> f64 {
        f64::from(self)
    }
    #[expect(clippy::cast_possible_truncation, reason = "the kernels state rounding to binary32")]
    fn narrow(value: f64) -> Option<Self> {
        Some(value as f32)
    }
}

/// The nearest number of a type of a few bits; halfway, the even one.
fn shortened(x: f64, short: Short) -> f64 {
    let size = x.abs();
    if size.is_nan() {
        return x;
    }
    // The exponent of a normal number is in its bits; one that is not normal is below all of these types.
    let own = i32::try_from(size.to_bits() >> 52).unwrap_or(0) - 1023;
    let step = f64::from(own.max(short.least) - short.digits).exp2();
    let rounded = if size.is_finite() { (size / step).round_ties_even() * step } else { size };
    let bounded = if rounded > short.greatest { short.beyond } else { rounded };
    bounded.copysign(x)
}

/// Sums of integers saturate: one that exceeds 32 bits is detected when it is stored.
impl Number for i64 {
    const ZERO: Self = 0;
    fn add(self, other: Self) -> Self {
        self.saturating_add(other)
    }
    fn sub(self, other: Self) -> Self {
        self.saturating_sub(other)
    }
    fn mul(self, other: Self) -> Self {
        self.saturating_mul(other)
    }
    fn div(self, other: Self) -> Self {
        self.checked_div(other).unwrap_or(0)
    }
    fn rem(self, other: Self) -> Self {
        self.checked_rem(other).unwrap_or(0)
    }
    fn pow(self, other: Self) -> Self {
        match (u32::try_from(other), self) {
            (Ok(exponent), _) => self.saturating_pow(exponent),
            // 1 / xⁿ, rounded towards zero; the caller refuses 0.
            (Err(_), 1) => 1,
            (Err(_), -1) => {
                if other % 2 == 0 {
                    1
                } else {
                    -1
                }
            }
            (Err(_), _) if other < 0 => 0,
            (Err(_), 0) => 0,
            (Err(_), _) => i64::MAX,
        }
    }
    fn bits(self, other: Self, function: Pairwise) -> Self {
        let places = u32::try_from(other).unwrap_or(u32::MAX);
        match function {
            Pairwise::And => self & other,
            Pairwise::Or => self | other,
            Pairwise::ExclusiveOr => self ^ other,
            #[expect(clippy::cast_possible_truncation, reason = "32 bits are kept")]
            Pairwise::ShiftLeft => i64::from((self as i32).checked_shl(places).unwrap_or(0)),
            _ => self >> places.min(63),
        }
    }
    #[expect(clippy::cast_possible_truncation, reason = "a bound beyond the integers saturates")]
    fn constant(value: f64) -> Self {
        value as i64
    }
}

impl Stored<i64> for i32 {
    fn widen(self) -> i64 {
        i64::from(self)
    }
    fn narrow(value: i64) -> Option<Self> {
        i32::try_from(value).ok()
    }
}
