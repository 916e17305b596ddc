//! Kernels that compute each element from the elements at the same place.

use serde::Serialize;

/// An elementwise function. Operand: `x` of `len` elements.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Unary {
    /// Elements.
    pub len: usize,
    /// Which function.
    pub function: Function,
}

/// A function of one number, computed in `A`. NaN gives NaN, except in functions of integers. Functions marked (T) are
/// transcendental: backends may differ by a few ULP.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Function {
    /// `x > 0 ? x : 0` (so −0 gives 0).
    Relu,
    /// `x < 0 ? alpha·x : x`.
    LeakyRelu {
        /// Slope below 0.
        alpha: f64,
    },
    /// (T) `x < 0 ? alpha·(eˣ − 1) : x`, with `eˣ − 1` computed as one function.
    Elu {
        /// Factor below 0.
        alpha: f64,
    },
    /// (T) `gamma·(x < 0 ? alpha·(eˣ − 1) : x)`, with `eˣ − 1` computed as one function.
    Selu {
        /// Factor below 0.
        alpha: f64,
        /// Factor of all.
        gamma: f64,
    },
    /// (T) `x < 0 ? alpha·(e^(x/alpha) − 1) : x`, with `eˣ − 1` computed as one function.
    Celu {
        /// Factor below 0, not 0.
        alpha: f64,
    },
    /// (T) `0.5·x·(1 + erf(x / √2))`, or with `tanh`: `0.5·x·(1 + tanh(√(2/π)·(x + 0.044715·x³)))`.
    Gelu {
        /// Whether the approximation by tanh is used.
        tanh: bool,
    },
    /// (T) `max(x, 0) + ln(1 + e^−|x|)`.
    Softplus,
    /// `x / (1 + |x|)`.
    Softsign,
    /// (T) `x < 0 ? eˣ / (1 + eˣ) : 1 / (1 + e⁻ˣ)`.
    Sigmoid,
    /// `clip(alpha·x + beta, 0, 1)`.
    HardSigmoid {
        /// Slope.
        alpha: f64,
        /// Value at 0.
        beta: f64,
    },
    /// `x·clip(x/6 + 0.5, 0, 1)`, with the factor 1/6 rounded to `A`.
    HardSwish,
    /// (T) `x·sigmoid(alpha·x)`.
    Swish {
        /// Factor of the sigmoid's argument.
        alpha: f64,
    },
    /// (T) `x·tanh(softplus(x))`.
    Mish,
    /// (T) hyperbolic tangent.
    Tanh,
    /// `x > alpha ? x : 0`.
    ThresholdedRelu {
        /// Where it begins.
        alpha: f64,
    },
    /// `x < min ? min : x > max ? max : x`; also of integers.
    Clip {
        /// Lower bound; −∞ for none.
        min: f64,
        /// Upper bound; ∞ for none.
        max: f64,
    },
    /// `|x|`; also of integers.
    Abs,
    /// `−x`; also of integers.
    Negate,
    /// `x > 0 ? 1 : x < 0 ? −1 : 0`; also of integers.
    Sign,
    /// `x·x`; also of integers.
    Square,
    /// `1 / x`.
    Reciprocal,
    /// `√x`; NaN below 0.
    Sqrt,
    /// (T) `eˣ`.
    Exp,
    /// (T) `ln x`; −∞ at 0, NaN below.
    Log,
    /// (T) sine.
    Sin,
    /// (T) cosine.
    Cos,
    /// (T) tangent.
    Tan,
    /// (T) inverse sine; NaN outside −1..1.
    Asin,
    /// (T) inverse cosine; NaN outside −1..1.
    Acos,
    /// (T) inverse tangent.
    Atan,
    /// (T) hyperbolic sine.
    Sinh,
    /// (T) hyperbolic cosine.
    Cosh,
    /// (T) inverse hyperbolic sine.
    Asinh,
    /// (T) inverse hyperbolic cosine; NaN below 1.
    Acosh,
    /// (T) inverse hyperbolic tangent; NaN outside −1..1.
    Atanh,
    /// (T) the error function.
    Erf,
    /// The greatest integer of at most `x`.
    Floor,
    /// The least integer of at least `x`.
    Ceil,
    /// The nearest integer; halfway, the even one.
    Round,
    /// The nearest number of binary16, by way of binary32; halfway, the even one. What exceeds it is infinite.
    ToFloat16,
    /// The nearest number of bfloat16, by way of binary32; halfway, the even one.
    ToBfloat16,
    /// The nearest number of a type of a few bits; halfway, the even one.
    ToShort(Short),
    /// Integers: `x = 0 ? 1 : 0`.
    Not,
    /// Integers: `x·multiply / divide`, rounded towards zero.
    Scale {
        /// Factor.
        multiply: i32,
        /// Divisor, not 0.
        divide: i32,
    },
    /// Integers to real numbers: `x / divide`.
    Dequantize {
        /// Divisor, not 0.
        divide: f64,
    },
    /// Real numbers to integers, rounded towards zero; NaN and what exceeds 32 bits are errors.
    Truncate,
}

/// A type of real numbers of a few bits: `±m·2^(e − digits)` with integers `m < 2^(digits + 1)` and `e ≥ least`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Short {
    /// Bits of the significand behind its first one.
    pub digits: i32,
    /// The least exponent.
    pub least: i32,
    /// The greatest number.
    pub greatest: f64,
    /// What a number becomes that is greater when it is rounded: the greatest, infinity, or NaN.
    pub beyond: f64,
}

impl Function {
    /// Whether backends may differ by a few ULP.
    pub fn is_transcendental(self) -> bool {
        matches!(
            self,
            Function::Elu { .. }
                | Function::Selu { .. }
                | Function::Celu { .. }
                | Function::Gelu { .. }
                | Function::Softplus
                | Function::Sigmoid
                | Function::Swish { .. }
                | Function::Mish
                | Function::Tanh
                | Function::Exp
                | Function::Log
                | Function::Sin
                | Function::Cos
                | Function::Tan
                | Function::Asin
                | Function::Acos
                | Function::Atan
                | Function::Sinh
                | Function::Cosh
                | Function::Asinh
                | Function::Acosh
                | Function::Atanh
                | Function::Erf
        )
    }

    /// Whether integers have the function, with an integer as its result.
    pub fn has_integers(self) -> bool {
        matches!(
            self,
            Function::Relu
                | Function::Clip { .. }
                | Function::Abs
                | Function::Negate
                | Function::Sign
                | Function::Square
                | Function::Not
                | Function::Scale { .. }
        )
    }
}

/// A function of two numbers or two integers. Operands: `a`, `b`, each with its strides over `shape`; the output is
/// row-major.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Binary {
    /// Lengths of the output; at most [`MAX_RANK`](super::MAX_RANK) axes.
    pub shape: Vec<usize>,
    /// Strides of `a` and of `b`.
    pub strides: [Vec<usize>; 2],
    /// Which function.
    pub function: Pairwise,
}

/// A function of two numbers. A division of integers by 0, and what it leaves, is an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Pairwise {
    /// `a + b`.
    Add,
    /// `a − b`.
    Subtract,
    /// `a · b`.
    Multiply,
    /// `a / b`; integers are rounded towards zero.
    Divide,
    /// (T) `a` to the power `b`; of integers, too, rounded towards zero.
    Power,
    /// The greater one, `a` of equal ones; NaN if one is NaN.
    Maximum,
    /// The lesser one, `a` of equal ones; NaN if one is NaN.
    Minimum,
    /// What `a / b` leaves, with the sign of `b`.
    Modulo,
    /// What `a / b` leaves, with the sign of `a`.
    Remainder,
    /// The bits that both integers have.
    And,
    /// The bits that one of two integers has.
    Or,
    /// The bits that exactly one of two integers has.
    ExclusiveOr,
    /// `a·2ᵇ` of integers, of which 32 bits are kept; 0 if `b` is no number from 0 to 31.
    ShiftLeft,
    /// `a / 2ᵇ` of integers, rounded down; 0 or −1, as the sign of `a` is, if `b` is no number from 0 to 31.
    ShiftRight,
}

impl Pairwise {
    /// Whether it is a function of integers only.
    pub fn is_of_bits(self) -> bool {
        use Pairwise::{And, ExclusiveOr, Or, ShiftLeft, ShiftRight};
        matches!(self, And | Or | ExclusiveOr | ShiftLeft | ShiftRight)
    }
}

/// A relation of two numbers or two integers: 1 where it holds, 0 elsewhere, as integers. Operands: `a`, `b`, as those
/// of [`Binary`].
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Compare {
    /// Lengths of the output; at most [`MAX_RANK`](super::MAX_RANK) axes.
    pub shape: Vec<usize>,
    /// Strides of `a` and of `b`.
    pub strides: [Vec<usize>; 2],
    /// Which relation.
    pub relation: Relation,
}

/// A relation of two numbers; none holds for NaN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Relation {
    /// `a = b`.
    Equal,
    /// `a < b`.
    Less,
    /// `a ≤ b`.
    LessOrEqual,
}

/// One of two elements of any type. Operands: `condition` (integers), `a`, `b`, each with its strides over `shape`:
/// `condition ≠ 0 ? a : b`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Select {
    /// Lengths of the output; at most [`MAX_RANK`](super::MAX_RANK) axes.
    pub shape: Vec<usize>,
    /// Strides of the condition, of `a` and of `b`.
    pub strides: [Vec<usize>; 3],
}
