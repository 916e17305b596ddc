//! Operators on each element, and activations.

use crate::model::Program;
use crate::operator::{Activation, Binary, Operator, Unary};
use crate::unsupported;
use crate::values::{Builder, Kind, Val, Value, missing};
use ckpt_api::{DType, Error, Node, Op, Result};
use ckpt_graph::Dims;

impl Builder<'_> {
    /// Writes an operator on each element; `None` for another one.
    pub(super) fn elementwise_node(&mut self, node: &Node) -> Result<Option<Val>> {
        let unary = match node.op {
            Op::Sigmoid => Some(Unary::Sigmoid),
            Op::Tanh => Some(Unary::Tanh),
            Op::Elu if node.float("alpha", 1.0)? == 1.0 => Some(Unary::Elu),
            Op::HardSwish if self.program == Program::Lite => Some(Unary::HardSwish),
            Op::Softplus if self.program == Program::JavaScript => Some(Unary::Softplus),
            Op::Erf if self.program == Program::JavaScript => Some(Unary::Erf),
            Op::Abs => Some(Unary::Abs),
            Op::Neg => Some(Unary::Neg),
            Op::Exp => Some(Unary::Exp),
            Op::Log => Some(Unary::Log),
            Op::Sqrt => Some(Unary::Sqrt),
            Op::Sin => Some(Unary::Sin),
            Op::Cos => Some(Unary::Cos),
            Op::Floor => Some(Unary::Floor),
            Op::Ceil => Some(Unary::Ceil),
            Op::Round => Some(Unary::Round),
            Op::Sign => Some(Unary::Sign),
            Op::Not => Some(Unary::Not),
            Op::Gelu if self.program == Program::Lite => Some(match node.text("approximate")? {
                Some("tanh") => Unary::GeluByTanh,
                _ => Unary::GeluByErf,
            }),
            _ => None,
        };
        if let Some(own) = unary {
            let x = self.input(node, 0)?;
            return self.unary(own, &x).map(Some);
        }
        Ok(Some(match node.op {
            Op::LeakyRelu => {
                let x = self.input(node, 0)?;
                let alpha = narrow(node.float("alpha", 0.01)?);
                self.emit(
                    Operator::LeakyRelu { alpha },
                    &[x.tensor],
                    (x.dims.clone(), x.is_turned, Kind::Real),
                )?
            }
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
                self.two(Binary::Div, &one, &x)?
            }
            Op::Add => self.binary(node, Binary::Add)?,
            Op::Sub => self.binary(node, Binary::Sub)?,
            Op::Mul => self.binary(node, Binary::Mul)?,
            Op::Div => self.binary(node, Binary::Div)?,
            Op::Max => self.several(node, Binary::Maximum)?,
            Op::Min => self.several(node, Binary::Minimum)?,
            Op::Pow => self.binary(node, Binary::Pow)?,
            Op::PRelu => self.prelu(node)?,
            Op::Equal => self.compared(node, Binary::Equal)?,
            Op::Less => self.compared(node, Binary::Less)?,
            Op::LessOrEqual => self.compared(node, Binary::LessEqual)?,
            Op::Greater => self.compared(node, Binary::Greater)?,
            Op::GreaterOrEqual => self.compared(node, Binary::GreaterEqual)?,
            Op::And => self.compared(node, Binary::And)?,
            Op::Or => self.compared(node, Binary::Or)?,
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
                let inputs = [condition.tensor, a.tensor, b.tensor];
                self.emit(Operator::Select, &inputs, (dims, is_turned, kind))?
            }
            Op::Cast => self.cast(node)?,
            _ => return self.activation_node(node),
        }))
    }

    /// Numbers within bounds: the activation of the operator before, if it takes one.
    fn bounded(&mut self, node: &Node, min: Option<f64>, max: Option<f64>) -> Result<Val> {
        let x = self.input(node, 0)?;
        let code = match (min, max) {
            _ if x.kind != Kind::Real => None,
            (Some(0.0), None) => Some(Activation::Relu),
            (Some(-1.0), Some(1.0)) if self.program == Program::Lite => Some(Activation::ReluN1To1),
            (Some(0.0), Some(6.0)) => Some(Activation::Relu6),
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
        let own = match (min, max) {
            _ if x.kind != Kind::Real => None,
            (Some(0.0), None) => Some(Unary::Relu),
            (Some(-1.0), Some(1.0)) if self.program == Program::Lite => Some(Unary::ReluN1To1),
            (Some(0.0), Some(6.0)) => Some(Unary::Relu6),
            _ => None,
        };
        if let Some(own) = own {
            return self.unary(own, x);
        }
        let mut made = x.clone();
        for (own, bound) in [(Binary::Maximum, min), (Binary::Minimum, max)] {
            if let Some(bound) = bound.filter(|bound| bound.is_finite()) {
                made = self.with_scalar(own, &made, bound)?;
            }
        }
        Ok(made)
    }

    /// A value and one number.
    pub(super) fn with_scalar(&mut self, own: Binary, x: &Val, number: f64) -> Result<Val> {
        let scalar = match x.kind {
            Kind::Real => self.scalar(number)?,
            Kind::Int if number.fract() == 0.0 => {
                self.literal(whole(number).to_le_bytes().to_vec(), Vec::new(), DType::I32)?
            }
            _ => {
                let error = Error::unsupported("a number beside integers is none");
                return Err(error.found(number.to_string()));
            }
        };
        self.emit(Operator::Binary(own), &[x.tensor, scalar], (x.dims.clone(), x.is_turned, x.kind))
    }

    /// Two values of real numbers with the axes in one order, of which one may be a scalar.
    pub(super) fn two(&mut self, own: Binary, a: &Val, b: &Val) -> Result<Val> {
        let of = if a.rank() >= b.rank() { a } else { b };
        let result = (of.dims.clone(), of.is_turned, of.kind);
        self.emit(Operator::Binary(own), &[a.tensor, b.tensor], result)
    }

    fn softmax(&mut self, node: &Node) -> Result<Val> {
        let x = self.input(node, 0)?;
        let rank = x.rank();
        let axis = ckpt_graph::shape::resolve(node.int("axis", -1)?, rank)
            .ok_or_else(|| unsupported(node, "its axis does not exist"))?;
        let own = if node.op == Op::Softmax { Operator::Softmax } else { Operator::LogSoftmax };
        let is_last = |val: &Val| val.place(axis).saturating_add(1) == rank;
        let x = if is_last(&x) {
            x
        } else if axis == 1 && rank > 2 {
            self.turned(&x)?
        } else {
            self.plain(&x)?
        };
        if is_last(&x) {
            return self.emit(own, &[x.tensor], (x.dims.clone(), x.is_turned, Kind::Real));
        }
        // The axis is exchanged with the last, and back.
        let mut perm: Vec<usize> = (0..rank).collect();
        perm.swap(axis, rank.saturating_sub(1));
        let of = |dims: &Dims| -> Dims { perm.iter().filter_map(|at| dims.get(*at).copied()).collect() };
        let turned = self.permuted(&x, &perm, (of(&x.dims), false))?;
        let made = self.emit(own, &[turned.tensor], (turned.dims.clone(), false, Kind::Real))?;
        self.permuted(&made, &perm, (x.dims.clone(), false))
    }

    fn binary(&mut self, node: &Node, own: Binary) -> Result<Val> {
        let (aligned, dims, is_turned) = self.aligned(node)?;
        let [a, b] = &aligned[..] else { return Err(unsupported(node, "it takes two values")) };
        let result = (dims, is_turned, a.kind);
        let has_activation = matches!(own, Binary::Add | Binary::Sub | Binary::Mul | Binary::Div);
        match has_activation && a.kind == Kind::Real {
            true => self.emit_active(Operator::Binary(own), &[a.tensor, b.tensor], result),
            false => self.emit(Operator::Binary(own), &[a.tensor, b.tensor], result),
        }
    }

    /// max(x, 0) − slope · max(−x, 0), unless the program has an operator for it.
    fn prelu(&mut self, node: &Node) -> Result<Val> {
        if self.program == Program::Lite {
            return self.binary(node, Binary::PRelu);
        }
        let (aligned, dims, is_turned) = self.aligned(node)?;
        let [x, slope] = &aligned[..] else { return Err(unsupported(node, "it takes two values")) };
        let (above, negative) = (self.unary(Unary::Relu, x)?, self.unary(Unary::Neg, x)?);
        let below = self.unary(Unary::Relu, &negative)?;
        let result = (dims, is_turned, Kind::Real);
        let scaled =
            self.emit(Operator::Binary(Binary::Mul), &[slope.tensor, below.tensor], result.clone())?;
        self.emit(Operator::Binary(Binary::Sub), &[above.tensor, scaled.tensor], result)
    }

    fn several(&mut self, node: &Node, own: Binary) -> Result<Val> {
        let (aligned, dims, is_turned) = self.aligned(node)?;
        let Some((first, rest)) = aligned.split_first() else {
            return Err(unsupported(node, "it takes no value"));
        };
        let mut made = first.clone();
        for next in rest {
            let result = (dims.clone(), is_turned, first.kind);
            made = self.emit(Operator::Binary(own), &[made.tensor, next.tensor], result)?;
        }
        Ok(made)
    }

    fn compared(&mut self, node: &Node, own: Binary) -> Result<Val> {
        let (aligned, dims, is_turned) = self.aligned(node)?;
        let [a, b] = &aligned[..] else { return Err(unsupported(node, "it takes two values")) };
        self.emit(Operator::Binary(own), &[a.tensor, b.tensor], (dims, is_turned, Kind::Bool))
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
        self.emit(Operator::Cast, &[x.tensor], (x.dims.clone(), x.is_turned, kind))
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the format computes with 32-bit floats")]
fn narrow(value: f64) -> f32 {
    value as f32
}

#[expect(clippy::cast_possible_truncation, reason = "a bound beyond the integers is the last of them")]
fn whole(value: f64) -> i32 {
    value as i32
}
