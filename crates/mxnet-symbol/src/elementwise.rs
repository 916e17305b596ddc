//! Arithmetic element by element, products of matrices, and reductions.

use crate::lowering::{Lowering, Val};
use crate::stated::Read;
use crate::symbol::Step;
use ckpt_api::{Attribute, Op};
use ckpt_graph::shape::{product_of_matrices, resolve, show};

impl Lowering<'_> {
    /// Lowers arithmetic; `None` if it is another operator.
    pub(crate) fn elementwise(&mut self, step: &Step) -> Read<Option<Val>> {
        if let Some(op) = unary(&step.op) {
            return self.mapped(self.builder.node(op), step).map(Some);
        }
        if let Some(op) = binary(&step.op) {
            let (a, b) = (self.take(step, 0)?, self.take(step, 1)?);
            return self.builder.apply(op, &[&a, &b]).map(Some);
        }
        if let Some((op, is_reversed)) = with_scalar(&step.op) {
            let x = self.take(step, 0)?;
            let scalar = self.builder.scalar(step.float("scalar", 1.0)?)?;
            let inputs = if is_reversed { [&scalar, &x] } else { [&x, &scalar] };
            return self.builder.apply(op, &inputs).map(Some);
        }
        Ok(Some(match step.op.as_str() {
            "add_n" | "ElementWiseSum" | "_sum" => {
                let mut all = self.take_all(step)?.into_iter();
                let first = all.next().ok_or("adds no values")?;
                all.try_fold(first, |sum, val| self.builder.apply(Op::Add, &[&sum, &val]))?
            }
            "square" => {
                let x = self.take(step, 0)?;
                self.builder.apply(Op::Mul, &[&x, &x])?
            }
            "rsqrt" => {
                let x = self.take(step, 0)?;
                let root = self.builder.apply(Op::Sqrt, &[&x])?;
                self.builder.apply(Op::Reciprocal, &[&root])?
            }
            "clip" => {
                let node = self.builder.node(Op::Clip);
                let node = node.attribute("min", Attribute::Float(step.single("a_min", f32::MIN)?));
                let node = node.attribute("max", Attribute::Float(step.single("a_max", f32::MAX)?));
                self.mapped(node, step)?
            }
            "_contrib_div_sqrt_dim" => {
                let x = self.take(step, 0)?;
                let features = u32::try_from(x.known_features()?).map_err(|_| "has too many features")?;
                let root = self.builder.scalar(f64::from(features).sqrt())?;
                self.builder.apply(Op::Div, &[&x, &root])?
            }
            "Cast" | "cast" | "amp_cast" => {
                let dtype = step.text("dtype").unwrap_or_default();
                match dtype {
                    "float32" | "float64" => self.mapped(self.builder.node(Op::Identity), step)?,
                    other => return Err(crate::attributes::wrong("dtype", other)),
                }
            }
            "dot" | "batch_dot" | "linalg_gemm2" | "_linalg_gemm2" => self.product(step)?,
            other => match reduction(other) {
                Some(op) => self.reduced(step, op)?,
                None => return Ok(None),
            },
        }))
    }

    /// A product of matrices.
    fn product(&mut self, step: &Step) -> Read<Val> {
        let (a, b) = (self.take(step, 0)?, self.take(step, 1)?);
        let is_batch = step.op != "dot";
        if a.rank() != b.rank() || (a.rank() != 2 && !is_batch) || a.rank() < 2 {
            return Err(format!("multiplies values of shapes {} and {}", show(&a.dims), show(&b.dims)));
        }
        let alpha = step.float("alpha", 1.0)?;
        let mut turned = |val: Val, key: &str| -> Read<Val> {
            let mut order: Vec<usize> = (0..val.rank()).collect();
            let last = val.rank().saturating_sub(1);
            match step.flag(key, false)? {
                true => {
                    order.swap(last, last.saturating_sub(1));
                    self.builder.transpose(&val, &order)
                }
                false => Ok(val),
            }
        };
        let (a, b) = (turned(a, "transpose_a")?, turned(b, "transpose_b")?);
        let dims = product_of_matrices(&a.dims, &b.dims);
        let dims = dims
            .ok_or_else(|| format!("multiplies values of shapes {} and {}", show(&a.dims), show(&b.dims)))?;
        let made = self.builder.plain(self.builder.node(Op::MatMul), &[&a, &b], dims)?;
        if (alpha - 1.0).abs() > 0.0 {
            let alpha = self.builder.scalar(alpha)?;
            return self.builder.apply(Op::Mul, &[&made, &alpha]);
        }
        Ok(made)
    }

    fn reduced(&mut self, step: &Step, op: Op) -> Read<Val> {
        let x = self.take(step, 0)?;
        let stated = step.ints("axis")?;
        let axes: Vec<usize> = match &stated {
            None => (0..x.rank()).collect(),
            Some(stated) => stated
                .iter()
                .map(|axis| resolve(*axis, x.rank()))
                .collect::<Option<_>>()
                .ok_or_else(|| format!("names axes {stated:?} of a value of {}", x.rank()))?,
        };
        let axes = match step.flag("exclude", false)? && stated.is_some() {
            true => (0..x.rank()).filter(|axis| !axes.contains(axis)).collect(),
            false => axes,
        };
        if step.op == "norm" && step.int("ord", 2)? != 2 {
            return Err(crate::attributes::wrong("ord", step.text("ord").unwrap_or_default()));
        }
        let made = self.builder.reduce(op, &x, &axes, step.flag("keepdims", false)?)?;
        self.with_an_axis(made)
    }
}

/// Whether an operator is arithmetic element by element.
pub(crate) fn is_arithmetic(name: &str) -> bool {
    unary(name).is_some() || binary(name).is_some() || with_scalar(name).is_some()
}

fn unary(name: &str) -> Option<Op> {
    Some(match name {
        "relu" => Op::Relu,
        "sigmoid" => Op::Sigmoid,
        "tanh" => Op::Tanh,
        "softsign" => Op::Softsign,
        "exp" => Op::Exp,
        "log" => Op::Log,
        "sqrt" => Op::Sqrt,
        "abs" => Op::Abs,
        "negative" => Op::Neg,
        "sign" => Op::Sign,
        "reciprocal" => Op::Reciprocal,
        "floor" => Op::Floor,
        "ceil" => Op::Ceil,
        "erf" => Op::Erf,
        "sin" => Op::Sin,
        "cos" => Op::Cos,
        _ => return None,
    })
}

fn binary(name: &str) -> Option<Op> {
    Some(match name {
        "elemwise_add" | "_plus" | "_Plus" | "_add" | "broadcast_add" | "broadcast_plus" | "_grad_add" => {
            Op::Add
        }
        "elemwise_sub" | "_minus" | "_Minus" | "_sub" | "broadcast_sub" | "broadcast_minus" => Op::Sub,
        "elemwise_mul" | "_mul" | "_Mul" | "broadcast_mul" => Op::Mul,
        "elemwise_div" | "_div" | "_Div" | "broadcast_div" => Op::Div,
        "_power" | "_Power" | "broadcast_power" => Op::Pow,
        "_maximum" | "_Maximum" | "broadcast_maximum" => Op::Max,
        "_minimum" | "_Minimum" | "broadcast_minimum" => Op::Min,
        _ => return None,
    })
}

/// The operator of a name, and whether the scalar comes first.
fn with_scalar(name: &str) -> Option<(Op, bool)> {
    Some(match name {
        "_plus_scalar" | "_PlusScalar" => (Op::Add, false),
        "_minus_scalar" | "_MinusScalar" => (Op::Sub, false),
        "_rminus_scalar" | "_RMinusScalar" => (Op::Sub, true),
        "_mul_scalar" | "_MulScalar" => (Op::Mul, false),
        "_div_scalar" | "_DivScalar" => (Op::Div, false),
        "_rdiv_scalar" | "_RDivScalar" => (Op::Div, true),
        "_power_scalar" | "_PowerScalar" => (Op::Pow, false),
        "_rpower_scalar" | "_RPowerScalar" => (Op::Pow, true),
        "_maximum_scalar" | "_MaximumScalar" => (Op::Max, false),
        "_minimum_scalar" | "_MinimumScalar" => (Op::Min, false),
        _ => return None,
    })
}

fn reduction(name: &str) -> Option<Op> {
    Some(match name {
        "sum" | "sum_axis" => Op::ReduceSum,
        "mean" => Op::ReduceMean,
        "prod" => Op::ReduceProd,
        "max" | "max_axis" => Op::ReduceMax,
        "min" | "min_axis" => Op::ReduceMin,
        "norm" => Op::ReduceL2,
        _ => return None,
    })
}
