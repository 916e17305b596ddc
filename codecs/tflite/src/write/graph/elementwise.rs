//! Operators on each element, and activations.

use super::super::flat::Field;
use super::unsupported;
use super::values::{Builder, Kind, Val, Value, missing, options};
use ckpt_api::{Node, Op, Result};
use ckpt_graph::Dims;

/// Activations that operators apply to their results.
const RELU: u8 = 1;
const RELU_N1_TO_1: u8 = 2;
const RELU6: u8 = 3;

impl Builder<'_> {
    /// Writes an operator on each element; `None` for another one.
    pub(super) fn elementwise_node(&mut self, node: &Node) -> Result<Option<Val>> {
        let unary = match node.op {
            Op::Sigmoid => Some((14, None)),
            Op::Tanh => Some((28, None)),
            Op::Elu if node.float("alpha", 1.0)? == 1.0 => Some((111, None)),
            Op::HardSwish => Some((117, options(91, []))),
            Op::Abs => Some((101, None)),
            Op::Neg => Some((59, None)),
            Op::Exp => Some((47, options(33, []))),
            Op::Log => Some((73, None)),
            Op::Sqrt => Some((75, None)),
            Op::Sin => Some((66, None)),
            Op::Cos => Some((108, None)),
            Op::Floor => Some((8, None)),
            Op::Ceil => Some((104, None)),
            Op::Round => Some((116, None)),
            Op::Sign => Some((158, None)),
            Op::Not => Some((87, None)),
            Op::LeakyRelu => {
                let alpha = narrow(node.float("alpha", 0.01)?);
                Some((98, options(75, [(0, Field::F32(alpha))])))
            }
            Op::Gelu => {
                let is_near = node.text("approximate")? == Some("tanh");
                Some((150, options(116, [(0, Field::Flag(is_near))])))
            }
            _ => None,
        };
        if let Some((code, options)) = unary {
            let x = self.input(node, 0)?;
            return self.emit(code, &[x.tensor], options, (x.dims.clone(), x.is_turned, x.kind)).map(Some);
        }
        Ok(Some(match node.op {
            Op::Relu => self.bounded(node, Some(0.0), None)?,
            Op::Clip => {
                let bound = |name: &str| {
                    node.attributes.contains_key(name).then(|| node.float(name, 0.0)).transpose()
                };
                self.bounded(node, bound("min")?, bound("max")?)?
            }
            Op::Softmax | Op::LogSoftmax => self.softmax(node)?,
            Op::Reciprocal => {
                let x = self.input(node, 0)?;
                let one = self.scalar_val(1.0)?;
                self.two(42, 29, &one, &x)?
            }
            Op::Add => self.binary(node, 0, 11, true)?,
            Op::Sub => self.binary(node, 41, 28, true)?,
            Op::Mul => self.binary(node, 18, 21, true)?,
            Op::Div => self.binary(node, 42, 29, true)?,
            Op::Max => self.several(node, 55, 39)?,
            Op::Min => self.several(node, 57, 39)?,
            Op::Pow => self.binary(node, 78, 56, false)?,
            Op::PRelu => self.binary(node, 54, 0, false)?,
            Op::Equal => self.compared(node, 71)?,
            Op::Less => self.compared(node, 58)?,
            Op::LessOrEqual => self.compared(node, 63)?,
            Op::Greater => self.compared(node, 61)?,
            Op::GreaterOrEqual => self.compared(node, 62)?,
            Op::And => self.compared(node, 86)?,
            Op::Or => self.compared(node, 84)?,
            Op::Where => {
                let (aligned, dims, is_turned) = self.aligned(node)?;
                let [condition, a, b] = &aligned[..] else {
                    return Err(unsupported(node, "it takes three values"));
                };
                let kind = a.kind;
                let condition = match condition.kind {
                    Kind::Bool => condition.clone(),
                    _ => self.as_kind(condition, Kind::Bool)?,
                };
                self.emit(
                    123,
                    &[condition.tensor, a.tensor, b.tensor],
                    options(98, []),
                    (dims, is_turned, kind),
                )?
            }
            Op::Cast => self.cast(node)?,
            _ => return self.activation_node(node),
        }))
    }

    /// Numbers within bounds: the activation of the operator before, if it takes one.
    fn bounded(&mut self, node: &Node, min: Option<f64>, max: Option<f64>) -> Result<Val> {
        let x = self.input(node, 0)?;
        let code = match (min, max) {
            (Some(0.0), None) => Some(RELU),
            (Some(-1.0), Some(1.0)) => Some(RELU_N1_TO_1),
            (Some(0.0), Some(6.0)) => Some(RELU6),
            _ => None,
        };
        let name = node.inputs.first().cloned().unwrap_or_default();
        if let Some(code) = code
            && self.is_taken_once(&name)
            && self.fused(&x, code)
        {
            return Ok(x);
        }
        self.within(&x, min, max)
    }

    /// Numbers within bounds, by operators of their own.
    pub(super) fn within(&mut self, x: &Val, min: Option<f64>, max: Option<f64>) -> Result<Val> {
        let result = (x.dims.clone(), x.is_turned, x.kind);
        let own = match (min, max) {
            (Some(0.0), None) => Some(19),
            (Some(-1.0), Some(1.0)) => Some(20),
            (Some(0.0), Some(6.0)) => Some(21),
            _ => None,
        };
        if let Some(code) = own {
            return self.emit(code, &[x.tensor], None, result);
        }
        let mut made = x.clone();
        for (code, bound) in [(55, min), (57, max)] {
            if let Some(bound) = bound.filter(|bound| bound.is_finite()) {
                made = self.with_scalar(code, 39, &made, bound)?;
            }
        }
        Ok(made)
    }

    /// A value and one number.
    pub(super) fn with_scalar(&mut self, code: i32, kind: u8, x: &Val, number: f64) -> Result<Val> {
        let scalar = self.scalar(number)?;
        self.emit(code, &[x.tensor, scalar], options(kind, []), (x.dims.clone(), x.is_turned, x.kind))
    }

    /// Two values of real numbers with the axes in one order, of which one may be a scalar.
    pub(super) fn two(&mut self, code: i32, kind: u8, a: &Val, b: &Val) -> Result<Val> {
        let of = if a.rank() >= b.rank() { a } else { b };
        self.emit(code, &[a.tensor, b.tensor], options(kind, []), (of.dims.clone(), of.is_turned, of.kind))
    }

    fn softmax(&mut self, node: &Node) -> Result<Val> {
        let x = self.input(node, 0)?;
        let rank = x.rank();
        let axis = ckpt_graph::shape::resolve(node.int("axis", -1)?, rank)
            .ok_or_else(|| unsupported(node, "its axis does not exist"))?;
        let (code, options) = match node.op {
            Op::Softmax => (25, options(9, [(0, Field::F32(1.0))])),
            _ => (50, options(36, [])),
        };
        let is_last = |val: &Val| val.place(axis).saturating_add(1) == rank;
        let x = if is_last(&x) {
            x
        } else if axis == 1 && rank > 2 {
            self.turned(&x)?
        } else {
            self.plain(&x)?
        };
        if is_last(&x) {
            return self.emit(code, &[x.tensor], options, (x.dims.clone(), x.is_turned, Kind::Real));
        }
        // The axis is exchanged with the last, and back.
        let mut perm: Vec<usize> = (0..rank).collect();
        perm.swap(axis, rank.saturating_sub(1));
        let of = |dims: &Dims| -> Dims { perm.iter().filter_map(|at| dims.get(*at).copied()).collect() };
        let turned = self.permuted(&x, &perm, (of(&x.dims), false))?;
        let made = self.emit(code, &[turned.tensor], options, (turned.dims.clone(), false, Kind::Real))?;
        self.permuted(&made, &perm, (x.dims.clone(), false))
    }

    fn binary(&mut self, node: &Node, code: i32, kind: u8, has_activation: bool) -> Result<Val> {
        let (aligned, dims, is_turned) = self.aligned(node)?;
        let [a, b] = &aligned[..] else { return Err(unsupported(node, "it takes two values")) };
        let options = if kind == 0 { None } else { options(kind, []) };
        let result = (dims, is_turned, a.kind);
        match has_activation && a.kind == Kind::Real {
            true => self.emit_active(code, &[Some(a.tensor), Some(b.tensor)], (options, 0), result),
            false => self.emit(code, &[a.tensor, b.tensor], options, result),
        }
    }

    fn several(&mut self, node: &Node, code: i32, kind: u8) -> Result<Val> {
        let (aligned, dims, is_turned) = self.aligned(node)?;
        let Some((first, rest)) = aligned.split_first() else {
            return Err(unsupported(node, "it takes no value"));
        };
        let mut made = first.clone();
        for next in rest {
            let result = (dims.clone(), is_turned, first.kind);
            made = self.emit(code, &[made.tensor, next.tensor], options(kind, []), result)?;
        }
        Ok(made)
    }

    fn compared(&mut self, node: &Node, code: i32) -> Result<Val> {
        let (aligned, dims, is_turned) = self.aligned(node)?;
        let [a, b] = &aligned[..] else { return Err(unsupported(node, "it takes two values")) };
        self.emit(code, &[a.tensor, b.tensor], None, (dims, is_turned, Kind::Bool))
    }

    /// All inputs of a node with their axes in one order, the lengths of its result, and whether that is turned.
    fn aligned(&mut self, node: &Node) -> Result<(Vec<Val>, Dims, bool)> {
        let dims = self.result(node)?;
        let rank = dims.len();
        let values: Vec<Value> = node
            .inputs
            .iter()
            .map(|name| self.values.get(name).cloned().ok_or_else(missing))
            .collect::<Result<_>>()?;
        let has_turned = values
            .iter()
            .any(|value| matches!(value, Value::Made(val) if val.is_turned && val.rank() == rank));
        // A value of fewer axes, unless it is one number, has them in the graph's order.
        let is_turned = has_turned
            && values.iter().all(|value| match value {
                Value::Made(val) => val.rank() == rank || val.rank() == 0,
                Value::Constant(_) => true,
            });
        let mut aligned = Vec::with_capacity(values.len());
        for value in values {
            aligned.push(match value {
                Value::Made(val) if is_turned && val.rank() == rank => self.turned(&val)?,
                Value::Made(val) => self.plain(&val)?,
                Value::Constant(constant) if is_turned && !constant.dims.is_empty() => {
                    self.placed(&constant, rank, true)?
                }
                Value::Constant(constant) => self.placed(&constant, constant.dims.len(), false)?,
            });
        }
        Ok((aligned, dims, is_turned))
    }

    fn cast(&mut self, node: &Node) -> Result<Val> {
        let x = self.input(node, 0)?;
        let to = match node.text("to")? {
            Some("float") => Kind::Real,
            Some("int") => Kind::Int,
            Some("bool") => Kind::Bool,
            _ => return Err(unsupported(node, "it rounds to 16 bits")),
        };
        if to == x.kind { Ok(x) } else { self.as_kind(&x, to) }
    }

    fn as_kind(&mut self, x: &Val, kind: Kind) -> Result<Val> {
        self.emit(53, &[x.tensor], options(37, []), (x.dims.clone(), x.is_turned, kind))
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the format computes with 32-bit floats")]
fn narrow(value: f64) -> f32 {
    value as f32
}
