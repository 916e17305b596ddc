//! Operations on each element, and activations.

use super::{Lowering, Read, Val};
use crate::read::Operation;
use ckpt_api::{Attribute, DType, Node, Op};
use ckpt_graph::{Length, int};

impl Lowering<'_, '_> {
    /// Lowers an operation on each element; `None` if it is another one.
    pub(super) fn elementwise(&mut self, operation: &Operation) -> Read<Option<Val>> {
        if let Some(made) = self.binary(operation)? {
            return Ok(Some(made));
        }
        if let Some(node) = self.activation(operation)? {
            let x = self.take(operation, "x")?;
            return self.builder.map(node, &x).map(Some);
        }
        self.composed(operation)
    }

    /// The node of an operation that ONNX has.
    fn activation(&self, operation: &Operation) -> Read<Option<Node>> {
        let number = |name: &str, default: f64| self.float_or(operation, name, default).map(Attribute::Float);
        let node = |op: Op| self.builder.node(op);
        Ok(Some(match operation.op.as_str() {
            "relu" => node(Op::Relu),
            "relu6" => {
                node(Op::Clip).attribute("min", Attribute::Float(0.0)).attribute("max", Attribute::Float(6.0))
            }
            "clip" => {
                node(Op::Clip).attribute("min", number("alpha", 0.0)?).attribute("max", number("beta", 1.0)?)
            }
            "sigmoid" => node(Op::Sigmoid),
            "sigmoid_hard" => {
                let node = node(Op::HardSigmoid).attribute("alpha", number("alpha", 0.2)?);
                node.attribute("beta", number("beta", 0.5)?)
            }
            "tanh" => node(Op::Tanh),
            "leaky_relu" => node(Op::LeakyRelu).attribute("alpha", number("alpha", 0.01)?),
            "elu" => node(Op::Elu).attribute("alpha", number("alpha", 1.0)?),
            "thresholded_relu" => node(Op::ThresholdedRelu).attribute("alpha", number("alpha", 1.0)?),
            "silu" => node(Op::Swish),
            "softplus" => node(Op::Softplus),
            "softsign" => node(Op::Softsign),
            "gelu" => match self.text(operation, "mode").as_str() {
                "EXACT" | "" => node(Op::Gelu),
                "TANH_APPROXIMATION" => {
                    node(Op::Gelu).attribute("approximate", Attribute::Text("tanh".into()))
                }
                // x · sigmoid(1.702 · x)
                "SIGMOID_APPROXIMATION" => node(Op::Swish).attribute("alpha", Attribute::Float(1.702)),
                other => return Err(format!("has the mode '{other}'")),
            },
            "softmax" => {
                let axis = self.int_or(operation, "axis", -1)?;
                node(Op::Softmax).attribute("axis", Attribute::Int(axis))
            }
            "exp" => node(Op::Exp),
            "sqrt" => node(Op::Sqrt),
            "abs" => node(Op::Abs),
            "sign" => node(Op::Sign),
            "floor" => node(Op::Floor),
            "ceil" => node(Op::Ceil),
            "round" => node(Op::Round),
            "erf" => node(Op::Erf),
            "sin" => node(Op::Sin),
            "cos" => node(Op::Cos),
            "tan" => node(Op::Tan),
            "asin" => node(Op::Asin),
            "acos" => node(Op::Acos),
            "atan" => node(Op::Atan),
            "sinh" => node(Op::Sinh),
            "cosh" => node(Op::Cosh),
            "atanh" => node(Op::Atanh),
            "logical_not" => node(Op::Not),
            _ => return Ok(None),
        }))
    }

    /// Operations of several nodes.
    fn composed(&mut self, operation: &Operation) -> Read<Option<Val>> {
        Ok(Some(match operation.op.as_str() {
            "identity" => self.take(operation, "x")?,
            "cast" => self.cast(operation)?,
            "square" => {
                let x = self.take(operation, "x")?;
                self.builder.apply(Op::Mul, &[&x, &x])?
            }
            "log" | "inverse" | "rsqrt" => {
                let x = self.take(operation, "x")?;
                let default = if operation.op == "log" { 1e-45 } else { 1e-4 };
                let default = if operation.op == "rsqrt" { 1e-12 } else { default };
                let epsilon = self.float_or(operation, "epsilon", default)?;
                let x = self.added(&x, epsilon)?;
                match operation.op.as_str() {
                    "log" => self.builder.apply(Op::Log, &[&x])?,
                    "inverse" => self.builder.apply(Op::Reciprocal, &[&x])?,
                    _ => {
                        let root = self.builder.apply(Op::Sqrt, &[&x])?;
                        self.builder.apply(Op::Reciprocal, &[&root])?
                    }
                }
            }
            "scaled_tanh" => {
                let x = self.take(operation, "x")?;
                let factors = [("beta", 1.0), ("alpha", 1.0)]
                    .map(|(name, default)| self.float_or(operation, name, default));
                let [inner, outer] = factors;
                let x = self.multiplied(&x, inner?)?;
                let made = self.builder.apply(Op::Tanh, &[&x])?;
                self.multiplied(&made, outer?)?
            }
            "prelu" => {
                let x = self.take(operation, "x")?;
                let slope = self.take(operation, "alpha")?;
                let channels = slope.len(0);
                let ones = x.rank().saturating_sub(2);
                let dims = [vec![channels], vec![Length::Known(1); ones]].concat();
                let slope = self.builder.reshape(&slope, dims)?;
                self.builder.apply(Op::PRelu, &[&x, &slope])?
            }
            "select" => {
                let all = ["cond", "a", "b"].map(|name| self.take(operation, name));
                let [condition, a, b] = all;
                self.builder.apply(Op::Where, &[&condition?, &a?, &b?])?
            }
            _ => return Ok(None),
        }))
    }

    fn added(&mut self, x: &Val, number: f64) -> Read<Val> {
        if number == 0.0 {
            return Ok(x.clone());
        }
        let number = self.builder.scalar(number)?;
        self.builder.apply(Op::Add, &[x, &number])
    }

    fn multiplied(&mut self, x: &Val, number: f64) -> Read<Val> {
        let number = self.builder.scalar(number)?;
        self.builder.apply(Op::Mul, &[x, &number])
    }

    /// Between floats, nothing changes: the graph computes with one kind.
    fn cast(&mut self, operation: &Operation) -> Read<Val> {
        let from = match operation.argument("x") {
            Some(crate::read::Argument::Name(name)) => self.dtype(name),
            _ => None,
        };
        let x = self.take(operation, "x")?;
        let to = operation.outputs.first().and_then(|output| output.ty.element()?.dtype);
        let (from, to) = (from.ok_or("takes a value of unknown type")?, to.ok_or("makes no numbers")?);
        let is_int = |dtype: DType| {
            matches!(dtype, DType::I32 | DType::I64 | DType::I16 | DType::I8 | DType::U8 | DType::U16)
        };
        let target = match () {
            () if from == to || (from.is_float() && to.is_float()) => return Ok(x),
            () if is_int(from) && is_int(to) => return Ok(x),
            () if to.is_float() => "float",
            () if to == DType::Bool => "bool",
            () if is_int(to) => "int",
            () => return Err(format!("makes {to} of {from}")),
        };
        let node = self.builder.node(Op::Cast).attribute("to", Attribute::Text(target.into()));
        self.builder.map(node, &x)
    }

    /// The type of a value by its name in the program.
    fn dtype(&self, name: &str) -> Option<DType> {
        match self.operations.get(name) {
            Some(operation) => {
                let own = operation.outputs.iter().find(|output| output.name == name)?;
                own.ty.element()?.dtype
            }
            None => self.inputs.get(name).copied(),
        }
    }

    fn binary(&mut self, operation: &Operation) -> Read<Option<Val>> {
        let op = match operation.op.as_str() {
            "add" => Op::Add,
            "sub" => Op::Sub,
            "mul" => Op::Mul,
            "real_div" => Op::Div,
            "pow" => Op::Pow,
            "maximum" => Op::Max,
            "minimum" => Op::Min,
            "equal" | "not_equal" => Op::Equal,
            "less" => Op::Less,
            "less_equal" => Op::LessOrEqual,
            "greater" => Op::Greater,
            "greater_equal" => Op::GreaterOrEqual,
            "logical_and" => Op::And,
            "logical_or" => Op::Or,
            "logical_xor" => Op::Xor,
            "mod" | "floor_div" => return self.rounded_down(operation).map(Some),
            _ => return Ok(None),
        };
        let (x, y) = (self.take(operation, "x")?, self.take(operation, "y")?);
        let made = self.builder.apply(op, &[&x, &y])?;
        Ok(Some(match operation.op.as_str() {
            "not_equal" => self.builder.apply(Op::Not, &[&made])?,
            _ => made,
        }))
    }

    /// A remainder with the sign of the divisor, or a quotient without it.
    fn rounded_down(&mut self, operation: &Operation) -> Read<Val> {
        let (x, y) = (self.take(operation, "x")?, self.take(operation, "y")?);
        let is_real =
            operation.outputs.first().and_then(|output| output.ty.element()).is_none_or(|own| own.is_float());
        match operation.op.as_str() {
            "mod" => self.builder.floor_mod(&x, &y, is_real),
            _ => self.builder.floor_div(&x, &y, is_real),
        }
    }

    /// A reduction over axes; `None` if it is another operation.
    pub(super) fn reduction(&mut self, operation: &Operation) -> Read<Option<Val>> {
        let op = match operation.op.as_str() {
            "reduce_mean" => Op::ReduceMean,
            "reduce_sum" => Op::ReduceSum,
            "reduce_max" => Op::ReduceMax,
            "reduce_min" => Op::ReduceMin,
            "reduce_prod" => Op::ReduceProd,
            "reduce_l1_norm" => Op::ReduceL1,
            "reduce_l2_norm" => Op::ReduceL2,
            "reduce_sum_square" => Op::ReduceSumSquare,
            "reduce_log_sum_exp" => Op::ReduceLogSumExp,
            "reduce_argmax" | "reduce_argmin" => {
                let x = self.take(operation, "x")?;
                let axis = self.axis(operation, x.rank(), -1)?;
                let keeps = self.flag(operation, "keep_dims", false)?;
                let op = if operation.op == "reduce_argmax" { Op::ArgMax } else { Op::ArgMin };
                let node = self.builder.node(op).attribute("axis", Attribute::Int(int(axis)?));
                let node = node.attribute("keepdims", Attribute::Int(i64::from(keeps)));
                let dims = self.made(operation);
                return self.builder.plain(node, &[&x], dims).map(Some);
            }
            _ => return Ok(None),
        };
        let x = self.take(operation, "x")?;
        let axes = match operation.argument("axes") {
            Some(_) => self.axes(operation, "axes", x.rank())?,
            None => (0..x.rank()).collect(),
        };
        let keeps = self.flag(operation, "keep_dims", false)?;
        self.builder.reduce(op, &x, &axes, keeps).map(Some)
    }
}
