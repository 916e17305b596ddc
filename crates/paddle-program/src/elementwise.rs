//! Arithmetic element by element, activations, and reductions.

use crate::json::Operation;
use crate::lowering::{Lowering, Val};
use crate::parameter::Read;
use ckpt_api::{Attribute, Node, Op};
use ckpt_graph::shape::resolve_all;
use ckpt_graph::{Length, int};

impl Lowering<'_> {
    /// Lowers arithmetic; `None` if it is another operation.
    pub(crate) fn elementwise(&mut self, own: &Operation<'_>) -> Read<Option<Val>> {
        if own.name == "add"
            && let Some(made) = self.biased(own)?
        {
            return Ok(Some(made));
        }
        if let Some(op) = unary(own.name) {
            return self.mapped(self.builder.node(op), own).map(Some);
        }
        if let Some(op) = binary(own.name) {
            let (a, b) = (self.take(own, 0)?, self.take(own, 1)?);
            return self.builder.apply(op, &[&a, &b]).map(Some);
        }
        if let Some(node) = self.parametric(own)? {
            return self.mapped(node, own).map(Some);
        }
        Ok(Some(match own.name {
            "square" => {
                let x = self.take(own, 0)?;
                self.builder.apply(Op::Mul, &[&x, &x])?
            }
            "rsqrt" => {
                let x = self.take(own, 0)?;
                let root = self.builder.apply(Op::Sqrt, &[&x])?;
                self.builder.apply(Op::Reciprocal, &[&root])?
            }
            "logsigmoid" => {
                let x = self.take(own, 0)?;
                let negative = self.builder.apply(Op::Neg, &[&x])?;
                let made = self.builder.apply(Op::Softplus, &[&negative])?;
                self.builder.apply(Op::Neg, &[&made])?
            }
            "pow" => {
                let x = self.take(own, 0)?;
                let exponent = self.builder.scalar(own.float("y")?)?;
                self.builder.apply(Op::Pow, &[&x, &exponent])?
            }
            "add_n" => {
                let mut all = self.values(own)?.into_iter();
                let first = all.next().ok_or("adds no values")?;
                all.try_fold(first, |sum, val| self.builder.apply(Op::Add, &[&sum, &val]))?
            }
            "scale" => self.scaled(own)?,
            "clip" => {
                let node = self.builder.node(Op::Clip);
                let node = node.attribute("min", Attribute::Float(self.number(own, 1)?));
                let node = node.attribute("max", Attribute::Float(self.number(own, 2)?));
                self.mapped(node, own)?
            }
            "dropout" => self.dropout(own)?,
            "prelu" => self.prelu(own)?,
            "cast" => self.cast(own)?,
            "argmax" => {
                let x = self.take(own, 0)?;
                let axis = x.resolve(self.int(own, 1)?)?;
                if own.flag("flatten") {
                    return Err("takes all axes as one, which is not supported".to_owned());
                }
                let node = self.builder.node(Op::ArgMax).attribute("axis", Attribute::Int(int(axis)?));
                let keeps = own.flag("keepdims");
                let node = node.attribute("keepdims", Attribute::Int(i64::from(keeps)));
                let dims = ckpt_graph::shape::reduced(&x.dims, &[axis], keeps);
                self.builder.plain(node, &[&x], dims)?
            }
            other => match reduction(other) {
                Some(op) => self.reduced(own, op)?,
                None => return Ok(None),
            },
        }))
    }

    /// The node of an activation that has numbers of its own.
    fn parametric(&self, own: &Operation<'_>) -> Read<Option<Node>> {
        let node = |op: Op, numbers: &[(&str, f64)]| {
            let node = self.builder.node(op);
            numbers.iter().fold(node, |node, (name, number)| node.attribute(name, Attribute::Float(*number)))
        };
        let softmax = |op: Op| -> Read<Node> {
            Ok(self.builder.node(op).attribute("axis", Attribute::Int(own.int("axis")?)))
        };
        Ok(Some(match own.name {
            "relu6" => node(Op::Clip, &[("min", 0.0), ("max", 6.0)]),
            "hardtanh" => node(Op::Clip, &[("min", own.float("t_min")?), ("max", own.float("t_max")?)]),
            "leaky_relu" => node(Op::LeakyRelu, &[("alpha", own.float("negative_slope")?)]),
            "elu" => node(Op::Elu, &[("alpha", own.float("alpha")?)]),
            "celu" => node(Op::Celu, &[("alpha", own.float("alpha")?)]),
            "selu" => node(Op::Selu, &[("alpha", own.float("alpha")?), ("gamma", own.float("scale")?)]),
            "hardsigmoid" => {
                node(Op::HardSigmoid, &[("alpha", own.float("slope")?), ("beta", own.float("offset")?)])
            }
            "gelu" => {
                let form = if own.flag("approximate") { "tanh" } else { "none" };
                self.builder.node(Op::Gelu).attribute("approximate", Attribute::Text(form.to_owned()))
            }
            "softplus" if (own.float("beta")? - 1.0).abs() < f64::EPSILON => self.builder.node(Op::Softplus),
            "softmax" => softmax(Op::Softmax)?,
            "log_softmax" => softmax(Op::LogSoftmax)?,
            _ => return Ok(None),
        }))
    }

    /// Adds a node that takes the first input of an operation.
    fn mapped(&mut self, node: Node, own: &Operation<'_>) -> Read<Val> {
        let x = self.take(own, 0)?;
        self.builder.map(node, &x)
    }

    /// `scale · x + bias`, or `scale · (x + bias)`.
    fn scaled(&mut self, own: &Operation<'_>) -> Read<Val> {
        let (mut x, scale, bias) = (self.take(own, 0)?, self.number(own, 1)?, own.float("bias")?);
        let is_last = own.flag("bias_after_scale");
        for (op, number, neutral) in match is_last {
            true => [(Op::Mul, scale, 1.0), (Op::Add, bias, 0.0)],
            false => [(Op::Add, bias, 0.0), (Op::Mul, scale, 1.0)],
        } {
            if (number - neutral).abs() > 0.0 {
                let number = self.builder.scalar(number)?;
                x = self.builder.apply(op, &[&x, &number])?;
            }
        }
        Ok(x)
    }

    /// Makes numbers of one kind of those of another: numbers of 64 bits are as those of 32.
    fn cast(&mut self, own: &Operation<'_>) -> Read<Val> {
        let kind = |dtype: &str| match dtype {
            "f32" | "f64" => Some("float"),
            "i32" | "i64" => Some("int"),
            "bool" => Some("bool"),
            _ => None,
        };
        let (from, to) = (self.dtype(own, 0), own.output()?.dtype.as_str());
        let node = match (kind(from), kind(to)) {
            (Some(from), Some(to)) if from == to => self.builder.node(Op::Identity),
            (Some(_), Some(to)) => {
                self.builder.node(Op::Cast).attribute("to", Attribute::Text(to.to_owned()))
            }
            _ => {
                let (from, to) = (from.escape_debug(), to.escape_debug());
                return Err(format!("makes {to} of {from}, which is not supported"));
            }
        };
        self.mapped(node, own)
    }

    fn dropout(&mut self, own: &Operation<'_>) -> Read<Val> {
        let x = self.take(own, 0)?;
        match own.text("mode").unwrap_or_default() {
            _ if !own.flag("is_test") => Err("drops values, as in training".to_owned()),
            "upscale_in_train" => Ok(x),
            _ => {
                let kept = self.builder.scalar(1.0 - self.number(own, 2)?)?;
                self.builder.apply(Op::Mul, &[&x, &kept])
            }
        }
    }

    fn prelu(&mut self, own: &Operation<'_>) -> Read<Val> {
        own.has_channels_first()?;
        let (x, slope) = (self.take(own, 0)?, self.take(own, 1)?);
        let behind = x.rank().saturating_sub(2);
        let slope = match own.text("mode").unwrap_or_default() {
            "all" => slope,
            "channel" if slope.rank() == 1 && slope.features() != Length::Known(1) && behind > 0 => {
                self.builder.unsqueeze(&slope, &(1..=behind).collect::<Vec<usize>>())?
            }
            "channel" => slope,
            other => return Err(format!("has slopes for each '{}'", other.escape_debug())),
        };
        self.builder.elementwise(self.builder.node(Op::PRelu), &[&x, &slope])
    }

    fn reduced(&mut self, own: &Operation<'_>, op: Op) -> Read<Val> {
        let x = self.take(own, 0)?;
        let axes = if own.input(1).is_some() { self.ints(own, 1)? } else { own.ints("axis")? };
        let axes = match axes.is_empty() {
            true => (0..x.rank()).collect(),
            false => {
                let all = resolve_all(&axes, x.rank());
                all.ok_or_else(|| format!("names axes {axes:?} of a value of {}", x.rank()))?
            }
        };
        self.builder.reduce(op, &x, &axes, own.flag("keepdim"))
    }
}

fn unary(name: &str) -> Option<Op> {
    Some(match name {
        "relu" | "relu_" => Op::Relu,
        "sigmoid" | "sigmoid_" => Op::Sigmoid,
        "tanh" | "tanh_" => Op::Tanh,
        "softsign" => Op::Softsign,
        "silu" | "swish" => Op::Swish,
        "mish" => Op::Mish,
        "hardswish" => Op::HardSwish,
        "exp" | "exp_" => Op::Exp,
        "log" => Op::Log,
        "sqrt" => Op::Sqrt,
        "abs" => Op::Abs,
        "sign" => Op::Sign,
        "reciprocal" => Op::Reciprocal,
        "floor" => Op::Floor,
        "ceil" => Op::Ceil,
        "erf" => Op::Erf,
        "sin" => Op::Sin,
        "cos" => Op::Cos,
        "assign" | "assign_" | "share_data_" => Op::Identity,
        _ => return None,
    })
}

fn binary(name: &str) -> Option<Op> {
    Some(match name {
        "add" | "add_" => Op::Add,
        "subtract" | "subtract_" => Op::Sub,
        "multiply" | "multiply_" => Op::Mul,
        "divide" | "divide_" => Op::Div,
        "elementwise_pow" => Op::Pow,
        "maximum" => Op::Max,
        "minimum" => Op::Min,
        _ => return None,
    })
}

fn reduction(name: &str) -> Option<Op> {
    Some(match name {
        "sum" => Op::ReduceSum,
        "mean" => Op::ReduceMean,
        "prod" => Op::ReduceProd,
        "max" | "amax" => Op::ReduceMax,
        "min" | "amin" => Op::ReduceMin,
        _ => return None,
    })
}
