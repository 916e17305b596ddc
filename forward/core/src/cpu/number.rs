//! The number types that kernels are generic over.

/// A type in which sums are computed.
pub(super) trait Number: Copy + PartialOrd + Send + Sync {
    const ZERO: Self;
    fn add(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    fn constant(value: f64) -> Self;
}

/// A type of real numbers.
pub(super) trait Real: Number {
    fn sub(self, other: Self) -> Self;
    fn div(self, other: Self) -> Self;
    fn sqrt(self) -> Self;
    fn exp(self) -> Self;
    fn exp_m1(self) -> Self;
    fn ln(self) -> Self;
    fn ln_1p(self) -> Self;
    fn tanh(self) -> Self;
    fn erf(self) -> Self;
    fn sin(self) -> Self;
    fn abs(self) -> Self;
}

/// A type of stored elements, computed in type `A`.
pub(super) trait Stored<A>: Copy + Send + Sync {
    fn widen(self) -> A;
    /// Rounds to the stored type; `None` for an integer that does not fit.
    fn narrow(value: A) -> Option<Self>;
}

macro_rules! real {
    ($t:ty, $exp:ident, $exp_m1:ident, $ln:ident, $ln_1p:ident, $tanh:ident, $erf:ident, $sin:ident) => {
        impl Number for $t {
            const ZERO: Self = 0.0;
            fn add(self, other: Self) -> Self {
                self + other
            }
            fn mul(self, other: Self) -> Self {
                self * other
            }
            #[allow(clippy::cast_possible_truncation, reason = "a constant is rounded to the type")]
            fn constant(value: f64) -> Self {
                value as $t
            }
        }

        impl Real for $t {
            fn sub(self, other: Self) -> Self {
                self - other
            }
            fn div(self, other: Self) -> Self {
                self / other
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
            fn abs(self) -> Self {
                <$t>::abs(self)
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

real!(f32, expf, expm1f, logf, log1pf, tanhf, erff, sinf);
real!(f64, exp, expm1, log, log1p, tanh, erf, sin);

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
    fn mul(self, other: Self) -> Self {
        self.saturating_mul(other)
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
