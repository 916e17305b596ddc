//! The number types that kernels are generic over.

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
    fn abs(self) -> Self;
    fn floor(self) -> Self;
    fn ceil(self) -> Self;
    fn round_ties_even(self) -> Self;
}

/// A type of stored elements, computed in type `A`.
pub(super) trait Stored<A>: Copy + Send + Sync {
    fn widen(self) -> A;
    /// Rounds to the stored type; `None` for an integer that does not fit.
    fn narrow(value: A) -> Option<Self>;
}

macro_rules! real {
    ($t:ty, $exp:ident, $exp_m1:ident, $ln:ident, $ln_1p:ident, $tanh:ident, $erf:ident, $sin:ident, $cos:ident,
     $pow:ident) => {
        impl Number for $t {
            const ZERO: Self = 0.0;
            fn add(self, other: Self) -> Self {
                self + other
            }
            fn sub(self, other: Self) -> Self {
                self - other
            }
            fn mul(self, other: Self) -> Self {
                self * other
            }
            fn div(self, other: Self) -> Self {
                self / other
            }
            fn rem(self, other: Self) -> Self {
                self % other
            }
            fn pow(self, other: Self) -> Self {
                libm::$pow(self, other)
            }
            #[allow(clippy::cast_possible_truncation, reason = "a constant is rounded to the type")]
            fn constant(value: f64) -> Self {
                value as $t
            }
        }

        impl Real for $t {
            fn neg(self) -> Self {
                -self
            }
            fn sqrt(self) -> Self {
                <$t>::sqrt(self)
            }
            fn exp(self) -> Self {
                libm::$exp(self)
            }
            fn exp_m1(self) -> Self {
                libm::$exp_m1(self)
            }
            fn ln(self) -> Self {
                libm::$ln(self)
            }
            fn ln_1p(self) -> Self {
                libm::$ln_1p(self)
            }
            fn tanh(self) -> Self {
                libm::$tanh(self)
            }
            fn erf(self) -> Self {
                libm::$erf(self)
            }
            fn sin(self) -> Self {
                libm::$sin(self)
            }
            fn cos(self) -> Self {
                libm::$cos(self)
            }
            fn abs(self) -> Self {
                <$t>::abs(self)
            }
            fn floor(self) -> Self {
                <$t>::floor(self)
            }
            fn ceil(self) -> Self {
                <$t>::ceil(self)
            }
            fn round_ties_even(self) -> Self {
                <$t>::round_ties_even(self)
            }
        }

        impl Stored<$t> for $t {
            fn widen(self) -> $t {
                self
            }
            fn narrow(value: $t) -> Option<Self> {
                Some(value)
            }
        }
    };
}

real!(f32, expf, expm1f, logf, log1pf, tanhf, erff, sinf, cosf, powf);
real!(f64, exp, expm1, log, log1p, tanh, erf, sin, cos, pow);

impl Stored<f64> for f32 {
    fn widen(self) -> f64 {
        f64::from(self)
    }
    #[expect(clippy::cast_possible_truncation, reason = "the kernels state rounding to binary32")]
    fn narrow(value: f64) -> Option<Self> {
        Some(value as f32)
    }
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
    /// Integers have no powers: the caller refuses them.
    fn pow(self, _: Self) -> Self {
        0
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
