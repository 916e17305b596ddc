//! Activations that several operators make, with the bits of one. Those that would differ in their last bits have no counterpart:
//! `Softplus`, `Mish` and `Erf` in TensorFlow Lite.

use crate::model::Program;
use crate::operator::{Binary, Operator, Reduction, Unary};
use crate::unsupported;
use crate::values::{Builder, Kind, Val};
use ckpt_api::{Node, Op, Result};

/// What `Selu` states in ONNX, in 32 bits.
const SELU: [f64; 2] = [1.673_263_192_176_818_8, 1.050_701_022_148_132_3];

impl Builder<'_> {
    /// Writes an activation; `None` for another operator.
    pub(super) fn activation_node(&mut self, node: &Node) -> Result<Option<Val>> {
        let is_known = matches!(
            node.op,
            Op::Swish
                | Op::HardSigmoid
                | Op::Softsign
                | Op::Elu
                | Op::Celu
                | Op::Selu
                | Op::ThresholdedRelu
                | Op::Tan
                | Op::LpNormalization
        ) || (self.program == Program::JavaScript
            && matches!(node.op, Op::Gelu | Op::HardSwish | Op::Mish));
        if !is_known {
            return Ok(None);
        }
        let x = self.input(node, 0)?;
        Ok(Some(match node.op {
            Op::Swish => {
                let alpha = node.float("alpha", 1.0)?;
                let inner = if alpha == 1.0 { x.clone() } else { self.with_scalar(Binary::Mul, &x, alpha)? };
                let gate = self.unary(Unary::Sigmoid, &inner)?;
                self.two(Binary::Mul, &x, &gate)?
            }
            Op::HardSigmoid => {
                let line = (node.float("alpha", 0.2)?, node.float("beta", 0.5)?);
                self.hard_sigmoid(&x, line)?
            }
            Op::Softsign => self.softsign(&x)?,
            Op::Elu => self.elu(&x, node.float("alpha", 1.0)?, 1.0)?,
            Op::Celu => {
                let alpha = node.float("alpha", 1.0)?;
                self.elu(&x, alpha, alpha)?
            }
            Op::Selu => {
                let [alpha, gamma] = SELU;
                let made = self.elu(&x, node.float("alpha", alpha)?, 1.0)?;
                self.with_scalar(Binary::Mul, &made, node.float("gamma", gamma)?)?
            }
            Op::ThresholdedRelu => {
                let threshold = self.scalar_val(node.float("alpha", 1.0)?)?;
                let is_above = self.emit(
                    Operator::Binary(Binary::Greater),
                    &[x.tensor, threshold.tensor],
                    (x.dims.clone(), x.is_turned, Kind::Bool),
                )?;
                let gate =
                    self.emit(Operator::Cast, &[is_above.tensor], (x.dims.clone(), x.is_turned, Kind::Real))?;
                self.two(Binary::Mul, &x, &gate)?
            }
            Op::Gelu => self.gelu(&x, node.text("approximate")? == Some("tanh"))?,
            Op::HardSwish => {
                let gate = self.hard_sigmoid(&x, (1.0 / 6.0, 0.5))?;
                self.two(Binary::Mul, &x, &gate)?
            }
            Op::Mish => {
                let soft = self.unary(Unary::Softplus, &x)?;
                let gate = self.unary(Unary::Tanh, &soft)?;
                self.two(Binary::Mul, &x, &gate)?
            }
            Op::Tan => {
                let (sine, cosine) = (self.unary(Unary::Sin, &x)?, self.unary(Unary::Cos, &x)?);
                self.two(Binary::Div, &sine, &cosine)?
            }
            _ => self.length_of_one(node, &x)?,
        }))
    }

    /// slope · x + offset, within 0 and 1.
    pub(super) fn hard_sigmoid(&mut self, x: &Val, (slope, offset): (f64, f64)) -> Result<Val> {
        let scaled = self.with_scalar(Binary::Mul, x, slope)?;
        let moved = self.with_scalar(Binary::Add, &scaled, offset)?;
        self.within(&moved, Some(0.0), Some(1.0))
    }

    /// x / (|x| + 1).
    pub(super) fn softsign(&mut self, x: &Val) -> Result<Val> {
        let size = self.unary(Unary::Abs, x)?;
        let sum = self.with_scalar(Binary::Add, &size, 1.0)?;
        self.two(Binary::Div, x, &sum)
    }

    /// x · (1 + erf(x / √2)) / 2, or the same by a hyperbolic tangent.
    fn gelu(&mut self, x: &Val, is_by_tanh: bool) -> Result<Val> {
        let inner = match is_by_tanh {
            true => {
                let cube = self.two(Binary::Mul, x, x)?;
                let cube = self.two(Binary::Mul, &cube, x)?;
                let cube = self.with_scalar(Binary::Mul, &cube, 0.044715)?;
                let sum = self.two(Binary::Add, x, &cube)?;
                let scaled = self.with_scalar(Binary::Mul, &sum, (2.0 / std::f64::consts::PI).sqrt())?;
                self.unary(Unary::Tanh, &scaled)?
            }
            false => {
                let scaled = self.with_scalar(Binary::Mul, x, std::f64::consts::FRAC_1_SQRT_2)?;
                self.unary(Unary::Erf, &scaled)?
            }
        };
        let sum = self.with_scalar(Binary::Add, &inner, 1.0)?;
        let half = self.with_scalar(Binary::Mul, x, 0.5)?;
        self.two(Binary::Mul, &half, &sum)
    }

    /// max(x, 0) + factor · (e^(min(x, 0) / width) − 1).
    fn elu(&mut self, x: &Val, factor: f64, width: f64) -> Result<Val> {
        let positive = self.within(x, Some(0.0), None)?;
        let mut below = self.within(x, None, Some(0.0))?;
        if width != 1.0 {
            below = self.with_scalar(Binary::Div, &below, width)?;
        }
        // The operator's own: e^x − 1 without the loss of a difference near 0.
        let below = self.unary(Unary::Elu, &below)?;
        let below = self.with_scalar(Binary::Mul, &below, factor)?;
        self.two(Binary::Add, &positive, &below)
    }

    /// Values divided by their length along an axis.
    fn length_of_one(&mut self, node: &Node, x: &Val) -> Result<Val> {
        if node.int("p", 2)? != 2 {
            return Err(unsupported(node, "its length is no root of a sum of squares"));
        }
        let axis = ckpt_graph::shape::resolve(node.int("axis", -1)?, x.rank())
            .ok_or_else(|| unsupported(node, "its axis does not exist"))?;
        let one = ckpt_graph::shape::reduced(&x.dims, &[axis], true);
        let place = self.ints(&[i64::try_from(x.place(axis)).unwrap_or(0)])?;
        let squares = self.two(Binary::Mul, x, x)?;
        let summed = Operator::Reduce { by: Reduction::Sum, keeps: true };
        let result = (one.clone(), x.is_turned, Kind::Real);
        let sum = self.emit(summed, &[squares.tensor, place], result)?;
        let length = self.unary(Unary::Sqrt, &sum)?;
        // Of zeros it is 0, and so is what is divided.
        let length = self.with_scalar(Binary::Maximum, &length, f64::from(f32::MIN_POSITIVE))?;
        self.two(Binary::Div, x, &length)
    }
}
