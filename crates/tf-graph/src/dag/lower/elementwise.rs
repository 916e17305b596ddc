//! Lowers elementwise operations, and products of two values.

use super::super::super::no_chain::NoChain;
use super::super::super::node::{flag, text};
use super::super::facts::{dtype, subscripts};
use super::super::pattern::float;
use super::lowering::Lowering;
use super::values::Val;
use crate::proto::NodeDef;
use ckpt_api::{Attribute, Node, Op};
use ckpt_graph::shape::{product_of_matrices, show};
use ckpt_graph::{Dims, Layout, Length};

impl Lowering<'_> {
    /// Lowers an elementwise operation or a product; `None` if it is another one.
    pub(super) fn elementwise(&mut self, op: &NodeDef, inputs: &[Val]) -> Result<Option<Val>, NoChain> {
        let made = match inputs {
            [x] => self.unary(op, x)?,
            [a, b] => self.binary(op, a, b)?,
            [condition, a, b] if op.op == "SelectV2" || op.op == "Select" => {
                if op.op == "Select" && condition.rank() != a.rank() {
                    return Ok(None);
                }
                Some(self.values.apply("Where", &[condition, a, b])?)
            }
            _ => None,
        };
        if made.is_none() && op.op == "AddN" {
            return match inputs.split_first() {
                Some((first, rest)) => {
                    let mut sum = first.clone();
                    for value in rest {
                        sum = self.values.apply("Add", &[&sum, value])?;
                    }
                    Ok(Some(sum))
                }
                None => Ok(None),
            };
        }
        Ok(made)
    }

    fn unary(&mut self, op: &NodeDef, x: &Val) -> Result<Option<Val>, NoChain> {
        let node = |op: Op| Node::new("", op);
        let number = |value: f64| Attribute::Float(value);
        let active = match op.op.as_str() {
            "Relu" => Some(node(Op::Relu)),
            "Relu6" => Some(node(Op::Clip).attribute("min", number(0.0)).attribute("max", number(6.0))),
            "Sigmoid" => Some(node(Op::Sigmoid)),
            "Tanh" => Some(node(Op::Tanh)),
            "Elu" => Some(node(Op::Elu)),
            "Selu" => Some(node(Op::Selu)),
            "Softplus" => Some(node(Op::Softplus)),
            "Softsign" => Some(node(Op::Softsign)),
            "LeakyRelu" => Some(node(Op::LeakyRelu).attribute("alpha", number(float(op, "alpha", 0.2)))),
            "Softmax" => Some(self.over_channels(Op::Softmax, x)),
            "LogSoftmax" => Some(self.over_channels(Op::LogSoftmax, x)),
            _ => None,
        };
        if let Some(node) = active {
            return self.activation(op, node, std::slice::from_ref(x)).map(Some);
        }
        let values = &mut self.values;
        let one = match op.op.as_str() {
            "Exp" | "Log" | "Sqrt" | "Neg" | "Abs" | "Sign" | "Erf" | "Sin" | "Cos" | "Floor" | "Ceil"
            | "Round" => values.apply(op.op.as_str(), &[x])?,
            "Rint" => values.apply("Round", &[x])?,
            "Reciprocal" | "Inv" => values.apply("Reciprocal", &[x])?,
            "LogicalNot" => values.apply("Not", &[x])?,
            "IsNan" => values.apply("IsNaN", &[x])?,
            "IsInf" => values.apply("IsInf", &[x])?,
            "IsFinite" => {
                let (nan, infinite) = (values.apply("IsNaN", &[x])?, values.apply("IsInf", &[x])?);
                let other = values.apply("Or", &[&nan, &infinite])?;
                values.apply("Not", &[&other])?
            }
            "Square" => values.apply("Mul", &[x, x])?,
            "Rsqrt" => {
                let root = values.apply("Sqrt", &[x])?;
                values.apply("Reciprocal", &[&root])?
            }
            "Expm1" | "Log1p" | "Erfc" => {
                let one = values.scalar(1.0)?;
                match op.op.as_str() {
                    "Expm1" => {
                        let power = values.apply("Exp", &[x])?;
                        values.apply("Sub", &[&power, &one])?
                    }
                    "Log1p" => {
                        let sum = values.apply("Add", &[x, &one])?;
                        values.apply("Log", &[&sum])?
                    }
                    _ => {
                        let erf = values.apply("Erf", &[x])?;
                        values.apply("Sub", &[&one, &erf])?
                    }
                }
            }
            "Cast" => return self.cast(op, x),
            _ => return Ok(None),
        };
        Ok(Some(one))
    }

    /// Returns a softmax over the last axis in TensorFlow's order.
    fn over_channels(&self, op: Op, x: &Val) -> Node {
        let node = Node::new("", op);
        match x.layout {
            Layout::First => node.attribute("axis", Attribute::Int(1)),
            Layout::Last => node,
        }
    }

    fn cast(&mut self, op: &NodeDef, x: &Val) -> Result<Option<Val>, NoChain> {
        let is_real = |kind: Option<i32>| matches!(kind, Some(1 | 2 | 14 | 19));
        // Types of up to 32 bits, and of 64: what is cast to fewer bits would wrap around.
        let is_int = |kind: Option<i32>| matches!(kind, Some(3..=6 | 9 | 17));
        let is_wide = |kind: Option<i32>| matches!(kind, Some(3 | 9));
        let (from, to) = (dtype(op, "SrcT"), dtype(op, "DstT"));
        let is_bool = |kind| kind == Some(10);
        let target = match () {
            () if is_real(from) && is_real(to) => return Ok(Some(x.clone())),
            () if (is_int(from) || is_bool(from)) && is_wide(to) => return Ok(Some(x.clone())),
            () if is_bool(from) && is_bool(to) => return Ok(Some(x.clone())),
            () if is_real(to) && (is_int(from) || is_bool(from)) => "float",
            () if is_wide(to) && is_real(from) => "int",
            () if is_bool(to) && (is_int(from) || is_real(from)) => "bool",
            () => return Ok(None),
        };
        let node = self.values.node("Cast").attribute("to", Attribute::Text(target.into()));
        Ok(Some(self.values.map(node, x)?))
    }

    fn binary(&mut self, op: &NodeDef, a: &Val, b: &Val) -> Result<Option<Val>, NoChain> {
        let values = &mut self.values;
        let made = match op.op.as_str() {
            "AddV2" | "Add" | "AddN" => values.apply("Add", &[a, b])?,
            "BiasAdd" if super::super::facts::is_channels_last(op) => values.apply("Add", &[a, b])?,
            "Sub" => values.apply("Sub", &[a, b])?,
            "Mul" => values.apply("Mul", &[a, b])?,
            "RealDiv" | "Div" => values.apply("Div", &[a, b])?,
            "Maximum" => values.apply("Max", &[a, b])?,
            "Minimum" => values.apply("Min", &[a, b])?,
            "Pow" => values.apply("Pow", &[a, b])?,
            "Less" | "LessOrEqual" | "Greater" | "Equal" => values.apply(op.op.as_str(), &[a, b])?,
            "LessEqual" => values.apply("LessOrEqual", &[a, b])?,
            "GreaterEqual" => values.apply("GreaterOrEqual", &[a, b])?,
            "LogicalAnd" => values.apply("And", &[a, b])?,
            "LogicalOr" => values.apply("Or", &[a, b])?,
            "NotEqual" => {
                let equal = values.apply("Equal", &[a, b])?;
                values.apply("Not", &[&equal])?
            }
            "SquaredDifference" => {
                let difference = values.apply("Sub", &[a, b])?;
                values.apply("Mul", &[&difference, &difference])?
            }
            "DivNoNan" => {
                let quotient = values.apply("Div", &[a, b])?;
                let zero = values.scalar(0.0)?;
                let is_zero = values.apply("Equal", &[b, &zero])?;
                values.apply("Where", &[&is_zero, &zero, &quotient])?
            }
            "MatMul" => {
                return self.product(a, b, flag(op, "transpose_a"), flag(op, "transpose_b")).map(Some);
            }
            "BatchMatMulV2" | "BatchMatMul" | "BatchMatMulV3" => {
                return self.product(a, b, flag(op, "adj_x"), flag(op, "adj_y")).map(Some);
            }
            "Einsum" => return self.einsum(op, a, b).map(Some),
            _ => return Ok(None),
        };
        Ok(Some(made))
    }

    /// Multiplies matrices in the last two axes.
    fn product(&mut self, a: &Val, b: &Val, turn_a: bool, turn_b: bool) -> Result<Val, NoChain> {
        let (a, b) = (self.values.last(a)?, self.values.last(b)?);
        let turned = |lowering: &mut Self, val: Val, turn: bool| {
            if turn { lowering.swapped(&val) } else { Ok(val) }
        };
        let (a, b) = (turned(self, a, turn_a)?, turned(self, b, turn_b)?);
        let misfit = || NoChain::unsupported("it multiplies values that are no matrices");
        let ([.., inner], [.., own, _]) = (&a.dims[..], &b.dims[..]) else { return Err(misfit()) };
        if !inner.is(*own) && !matches!((inner, own), (Length::Unknown, _) | (_, Length::Unknown)) {
            return Err(NoChain::unsupported(format!(
                "it multiplies matrices of shapes {} and {}",
                show(&a.dims),
                show(&b.dims)
            )));
        }
        let dims = product_of_matrices(&a.dims, &b.dims).ok_or_else(misfit)?;
        let node = self.values.node("MatMul");
        Ok(self.values.plain(node, &[&a, &b], dims)?)
    }

    /// Exchanges the last two axes.
    fn swapped(&mut self, val: &Val) -> Result<Val, NoChain> {
        let rank = val.rank();
        if rank < 2 {
            return Err(NoChain::unsupported("it multiplies values that are no matrices"));
        }
        let mut order: Vec<usize> = (0..rank).collect();
        order.swap(rank - 2, rank - 1);
        Ok(self.values.transpose(val, &order)?)
    }

    fn einsum(&mut self, op: &NodeDef, a: &Val, b: &Val) -> Result<Val, NoChain> {
        let equation = text(op, "equation").ok_or_else(|| NoChain::unsupported("it has no equation"))?;
        let (operands, result) = subscripts(equation, &[a.rank(), b.rank()])
            .ok_or_else(|| NoChain::unsupported(format!("its equation '{equation}' is not supported")))?;
        let (a, b) = (self.values.last(a)?, self.values.last(b)?);
        let len = |letter: &char| {
            operands.iter().zip([&a, &b]).find_map(|(letters, val)| {
                letters.iter().position(|own| own == letter).and_then(|at| val.dims.get(at)).copied()
            })
        };
        let dims = result.iter().map(len).collect::<Option<Dims>>();
        let dims =
            dims.ok_or_else(|| NoChain::unsupported(format!("its equation '{equation}' does not fit")))?;
        let joined = |letters: &Vec<char>| letters.iter().collect::<String>();
        let equation =
            format!("{}->{}", operands.iter().map(joined).collect::<Vec<_>>().join(","), joined(&result));
        let node = self.values.node("Einsum").attribute("equation", Attribute::Text(equation));
        Ok(self.values.plain(node, &[&a, &b], dims)?)
    }
}
