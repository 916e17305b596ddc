//! Activations that several operators of the format make, with the bits of one. Those that would differ in their last bits, such as
//! `Softplus`, `Mish` and `Erf`, have no counterpart.

use super::super::flat::Field;
use super::unsupported;
use super::values::{Builder, Kind, Val, options};
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
        );
        if !is_known {
            return Ok(None);
        }
        let x = self.input(node, 0)?;
        Ok(Some(match node.op {
            Op::Swish => {
                let alpha = node.float("alpha", 1.0)?;
                let inner = if alpha == 1.0 { x.clone() } else { self.with_scalar(18, 21, &x, alpha)? };
                let gate = self.unary(14, &inner)?;
                self.two(18, 21, &x, &gate)?
            }
            Op::HardSigmoid => {
                let scaled = self.with_scalar(18, 21, &x, node.float("alpha", 0.2)?)?;
                let moved = self.with_scalar(0, 11, &scaled, node.float("beta", 0.5)?)?;
                self.within(&moved, Some(0.0), Some(1.0))?
            }
            Op::Softsign => {
                let size = self.unary(101, &x)?;
                let sum = self.with_scalar(0, 11, &size, 1.0)?;
                self.two(42, 29, &x, &sum)?
            }
            Op::Elu => self.elu(&x, node.float("alpha", 1.0)?, 1.0)?,
            Op::Celu => {
                let alpha = node.float("alpha", 1.0)?;
                self.elu(&x, alpha, alpha)?
            }
            Op::Selu => {
                let [alpha, gamma] = SELU;
                let made = self.elu(&x, node.float("alpha", alpha)?, 1.0)?;
                self.with_scalar(18, 21, &made, node.float("gamma", gamma)?)?
            }
            Op::ThresholdedRelu => {
                let threshold = self.scalar_val(node.float("alpha", 1.0)?)?;
                let is_above = self.emit(
                    61,
                    &[x.tensor, threshold.tensor],
                    None,
                    (x.dims.clone(), x.is_turned, Kind::Bool),
                )?;
                let gate = self.emit(
                    53,
                    &[is_above.tensor],
                    options(37, []),
                    (x.dims.clone(), x.is_turned, Kind::Real),
                )?;
                self.two(18, 21, &x, &gate)?
            }
            Op::Tan => {
                let (sine, cosine) = (self.unary(66, &x)?, self.unary(108, &x)?);
                self.two(42, 29, &sine, &cosine)?
            }
            _ => self.length_of_one(node, &x)?,
        }))
    }

    fn unary(&mut self, code: i32, x: &Val) -> Result<Val> {
        self.emit(code, &[x.tensor], None, (x.dims.clone(), x.is_turned, Kind::Real))
    }

    /// max(x, 0) + factor · (e^(min(x, 0) / width) − 1).
    fn elu(&mut self, x: &Val, factor: f64, width: f64) -> Result<Val> {
        let positive = self.within(x, Some(0.0), None)?;
        let mut below = self.within(x, None, Some(0.0))?;
        if width != 1.0 {
            below = self.with_scalar(42, 29, &below, width)?;
        }
        // The operator's own: e^x − 1 without the loss of a difference near 0.
        let below = self.unary(111, &below)?;
        let below = self.with_scalar(18, 21, &below, factor)?;
        self.two(0, 11, &positive, &below)
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
        let squares = self.two(18, 21, x, x)?;
        let keeps = options(27, [(0, Field::Flag(true))]);
        let result = (one.clone(), x.is_turned, Kind::Real);
        let sum = self.emit(74, &[squares.tensor, place], keeps, result.clone())?;
        let length = self.emit(75, &[sum.tensor], None, result)?;
        // Of zeros it is 0, and so is what is divided.
        let length = self.with_scalar(55, 39, &length, f64::from(f32::MIN_POSITIVE))?;
        self.emit(42, &[x.tensor, length.tensor], options(29, []), (x.dims.clone(), x.is_turned, Kind::Real))
    }
}
