//! Operators on each element, and activations.

use super::known::Val;
use super::lowering::{Lowering, Read};
use super::step::Operation;
use ckpt_api::{Attribute, DType, Node, Op};
use ckpt_graph::Layout;

impl Lowering<'_> {
    /// Lowers an operator on each element; `None` if it is another one.
    pub(super) fn elementwise(&mut self, operation: &Operation<'_>) -> Read<Option<Val>> {
        let made = match operation.step.inputs.len() {
            1 => self.unary(operation)?,
            2 => self.binary(operation)?,
            3 if matches!(operation.name.as_str(), "SELECT" | "SELECT_V2") => {
                let [condition, a, b] = [0, 1, 2].map(|index| self.take(operation, index));
                Some(self.builder.apply(Op::Where, &[&condition?, &a?, &b?])?)
            }
            _ => None,
        };
        match (made, operation.name.as_str()) {
            (None, "ADD_N") => {
                let mut sum = self.take(operation, 0)?;
                for index in 1..operation.step.inputs.len() {
                    let next = self.take(operation, index)?;
                    sum = self.builder.apply(Op::Add, &[&sum, &next])?;
                }
                Ok(Some(sum))
            }
            (made, _) => Ok(made),
        }
    }

    fn unary(&mut self, operation: &Operation<'_>) -> Read<Option<Val>> {
        let number = |value: f64| Attribute::Float(value);
        let clip =
            |node: Node, min: f64, max: f64| node.attribute("min", number(min)).attribute("max", number(max));
        let place = self.builder.place.clone();
        let node = |op: Op| Node::new(place.clone(), op);
        let active = match operation.name.as_str() {
            "RELU" => node(Op::Relu),
            "RELU6" => clip(node(Op::Clip), 0.0, 6.0),
            "RELU_N1_TO_1" => clip(node(Op::Clip), -1.0, 1.0),
            "RELU_0_TO_1" => clip(node(Op::Clip), 0.0, 1.0),
            "LOGISTIC" => node(Op::Sigmoid),
            "TANH" => node(Op::Tanh),
            "ELU" => node(Op::Elu),
            "HARD_SWISH" => node(Op::HardSwish),
            "LEAKY_RELU" => node(Op::LeakyRelu).attribute("alpha", number(operation.float(0, 0.0)?)),
            "GELU" => match operation.flag(0)? {
                true => node(Op::Gelu).attribute("approximate", Attribute::Text("tanh".into())),
                false => node(Op::Gelu),
            },
            "EXP" => node(Op::Exp),
            "LOG" => node(Op::Log),
            "SQRT" => node(Op::Sqrt),
            "NEG" => node(Op::Neg),
            "ABS" => node(Op::Abs),
            "SIGN" => node(Op::Sign),
            "SIN" => node(Op::Sin),
            "COS" => node(Op::Cos),
            "FLOOR" => node(Op::Floor),
            "CEIL" => node(Op::Ceil),
            "ROUND" => node(Op::Round),
            "LOGICAL_NOT" => node(Op::Not),
            "SOFTMAX" | "LOG_SOFTMAX" => return self.softmax(operation).map(Some),
            "L2_NORMALIZATION" => {
                let x = self.take(operation, 0)?;
                let axis = x.axis(x.rank().saturating_sub(1));
                let node =
                    node(Op::LpNormalization).attribute("axis", Attribute::Int(ckpt_graph::int(axis)?));
                let made = self.builder.map(node, &x)?;
                return self.activated(made, operation.code(0)?).map(Some);
            }
            "SQUARE" => {
                let x = self.take(operation, 0)?;
                return self.builder.apply(Op::Mul, &[&x, &x]).map(Some);
            }
            "RSQRT" => {
                let x = self.take(operation, 0)?;
                let root = self.builder.apply(Op::Sqrt, &[&x])?;
                return self.builder.apply(Op::Reciprocal, &[&root]).map(Some);
            }
            "ZEROS_LIKE" => {
                let x = self.take(operation, 0)?;
                return self.builder.apply(Op::Sub, &[&x, &x]).map(Some);
            }
            "CAST" => return self.cast(operation).map(Some),
            // The result's scale, or that it has none, is all that they change.
            "QUANTIZE" | "DEQUANTIZE" => return self.take(operation, 0).map(Some),
            _ => return Ok(None),
        };
        let x = self.take(operation, 0)?;
        self.builder.map(active, &x).map(Some)
    }

    fn softmax(&mut self, operation: &Operation<'_>) -> Read<Val> {
        let mut x = self.take(operation, 0)?;
        let op = if operation.name == "SOFTMAX" { Op::Softmax } else { Op::LogSoftmax };
        let beta = if op == Op::Softmax { operation.float(0, 0.0)? } else { 1.0 };
        if beta != 1.0 {
            let factor = self.builder.scalar(beta)?;
            x = self.builder.apply(Op::Mul, &[&x, &factor])?;
        }
        let node = match x.layout {
            Layout::First => self.builder.node(op).attribute("axis", Attribute::Int(1)),
            Layout::Last => self.builder.node(op),
        };
        self.builder.map(node, &x)
    }

    fn cast(&mut self, operation: &Operation<'_>) -> Read<Val> {
        let x = self.take(operation, 0)?;
        let to = operation.output(0).map(|output| self.dtype(output)).transpose()?;
        let (from, to) = (self.dtype(operation.required(0)?)?, to.unwrap_or(DType::F32));
        let is_wide = |dtype: DType| matches!(dtype, DType::I32 | DType::I64);
        let is_int =
            |dtype: DType| is_wide(dtype) || matches!(dtype, DType::I8 | DType::U8 | DType::I16 | DType::U16);
        let target = match () {
            () if from.is_float() && to.is_float() => return Ok(x),
            () if (is_int(from) || from == DType::Bool) && is_wide(to) => return Ok(x),
            () if from == to => return Ok(x),
            () if to.is_float() && (is_int(from) || from == DType::Bool) => "float",
            () if is_wide(to) && from.is_float() => "int",
            () if to == DType::Bool && (is_int(from) || from.is_float()) => "bool",
            () => return Err(format!("makes {to} of {from}")),
        };
        let node = self.builder.node(Op::Cast).attribute("to", Attribute::Text(target.into()));
        self.builder.map(node, &x)
    }

    fn binary(&mut self, operation: &Operation<'_>) -> Read<Option<Val>> {
        let fused = match operation.name.as_str() {
            "ADD" => Some(Op::Add),
            "SUB" => Some(Op::Sub),
            "MUL" => Some(Op::Mul),
            "DIV" => Some(Op::Div),
            _ => None,
        };
        if let Some(op) = fused {
            self.check_wrapping(operation)?;
            let (a, b) = (self.take(operation, 0)?, self.take(operation, 1)?);
            let made = self.builder.apply(op, &[&a, &b])?;
            return self.activated(made, operation.code(0)?).map(Some);
        }
        let op = match operation.name.as_str() {
            "MAXIMUM" => Op::Max,
            "MINIMUM" => Op::Min,
            "POW" => Op::Pow,
            "EQUAL" => Op::Equal,
            "LESS" => Op::Less,
            "LESS_EQUAL" => Op::LessOrEqual,
            "GREATER" => Op::Greater,
            "GREATER_EQUAL" => Op::GreaterOrEqual,
            "LOGICAL_AND" => Op::And,
            "LOGICAL_OR" => Op::Or,
            "PRELU" => Op::PRelu,
            "NOT_EQUAL" => {
                let (a, b) = (self.take(operation, 0)?, self.take(operation, 1)?);
                let equal = self.builder.apply(Op::Equal, &[&a, &b])?;
                return self.builder.apply(Op::Not, &[&equal]).map(Some);
            }
            "SQUARED_DIFFERENCE" => {
                let (a, b) = (self.take(operation, 0)?, self.take(operation, 1)?);
                let difference = self.builder.apply(Op::Sub, &[&a, &b])?;
                return self.builder.apply(Op::Mul, &[&difference, &difference]).map(Some);
            }
            "FLOOR_DIV" if self.dtype(operation.required(0)?)?.is_float() => {
                let (a, b) = (self.take(operation, 0)?, self.take(operation, 1)?);
                return self.builder.floor_div(&a, &b, true).map(Some);
            }
            _ => return Ok(None),
        };
        let (a, b) = (self.take(operation, 0)?, self.take(operation, 1)?);
        self.builder.apply(op, &[&a, &b]).map(Some)
    }

    /// Refuses arithmetic on plain integers of few bits, which wrap around.
    fn check_wrapping(&self, operation: &Operation<'_>) -> Read<()> {
        let number = operation.required(0)?;
        let dtype = self.dtype(number)?;
        let is_narrow = matches!(dtype, DType::I8 | DType::U8 | DType::I16 | DType::U16);
        match is_narrow && self.affine(number)?.is_none() {
            true => Err(format!("computes with {dtype} without a scale, which wraps around")),
            false => Ok(()),
        }
    }
}
