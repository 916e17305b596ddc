//! Lowers operations that are no layers: those of `keras.ops`, and those of TensorFlow that Keras 2 records.

use super::activations::OVER_ALL;
use super::arguments::{Arg, Args};
use super::lowering::{Lowering, Site};
use super::merging::refuse_narrow;
use super::values::{Val, resolve};
use crate::layer::Reason;
use crate::model::Layer;
use crate::naming::shown_name;
use ckpt_api::{Attribute, Op};
use ckpt_graph::shape::product_of_matrices;
use ckpt_graph::{Length, Range, int};
use serde_json::Value;

/// Most elements of a constant.
const MAX_CONSTANT: usize = 1 << 20;

/// An operation with its options, which are in the configuration or in the call.
struct Operation<'a> {
    layer: &'a Layer,
    args: &'a Args,
}

impl Operation<'_> {
    /// Returns an option by its names, or by its place among the arguments.
    fn option(&self, place: usize, names: &[&str]) -> Option<&Value> {
        let called = names.iter().find_map(|name| match self.args.kwargs.get(*name) {
            Some(Arg::Constant(value)) => Some(value),
            _ => None,
        });
        let placed = self.args.args.get(place).and_then(|arg| match arg {
            Arg::Constant(value) => Some(value),
            _ => None,
        });
        let own = names.iter().find_map(|name| self.layer.option(name));
        own.or(called).or(placed).filter(|value| !value.is_null())
    }

    /// Whether an option is stated, as none.
    fn is_null(&self, name: &str) -> bool {
        let called = self.args.kwargs.get(name);
        self.layer.config.get(name).is_some_and(Value::is_null)
            || matches!(called, Some(Arg::Constant(value)) if value.is_null())
    }

    fn ints(&self, place: usize, names: &[&str]) -> Result<Option<Vec<i64>>, Reason> {
        let invalid = || format!("its option '{}' is not a list of integers", names.first().unwrap_or(&""));
        if let Some(Arg::List(items)) =
            names.iter().find_map(|name| self.args.kwargs.get(*name)).or(self.args.args.get(place))
        {
            let ints = items.iter().map(|item| match item {
                Arg::Constant(value) => value.as_i64(),
                _ => None,
            });
            return ints.collect::<Option<Vec<i64>>>().map(Some).ok_or_else(invalid);
        }
        let Some(value) = self.option(place, names) else { return Ok(None) };
        let found = match value {
            Value::Array(items) => items.iter().map(Value::as_i64).collect(),
            value => value.as_i64().map(|value| vec![value]),
        };
        found.map(Some).ok_or_else(invalid)
    }

    fn float(&self, place: usize, names: &[&str], default: f64) -> Result<f64, Reason> {
        match self.option(place, names) {
            None => Ok(default),
            Some(value) => value
                .as_f64()
                .ok_or_else(|| format!("its option '{}' is no number", names.first().unwrap_or(&""))),
        }
    }

    fn flag(&self, name: &str) -> bool {
        self.option(usize::MAX, &[name]) == Some(&Value::Bool(true))
    }
}

/// Returns an argument by its place or its names.
pub(super) fn argument<'a>(args: &'a Args, place: usize, names: &[&str]) -> Option<&'a Arg> {
    args.args.get(place).or_else(|| names.iter().find_map(|name| args.kwargs.get(*name)))
}

/// Options that the operations here take account of, and names that they have for what they compute with.
const UNDERSTOOD: [&str; 38] = [
    "a",
    "alpha",
    "approximate",
    "arrays",
    "axes",
    "axis",
    "axis1",
    "axis2",
    "b",
    "clip_value_max",
    "clip_value_min",
    "condition",
    "dtype",
    "features",
    "function",
    "input",
    "input_tensor",
    "inputs",
    "keepdims",
    "key",
    "logits",
    "name",
    "negative_slope",
    "newshape",
    "perm",
    "shape",
    "slice_spec",
    "tensor",
    "trainable",
    "value",
    "values",
    "x",
    "x1",
    "x2",
    "x_max",
    "x_min",
    "xs",
    "y",
];

/// Refuses options that change what an operation computes, and that nothing here takes account of.
fn refuse_unknown(operation: &Operation) -> Result<(), Reason> {
    let is_unknown = |(name, value): &(&String, &Value)| {
        let is_neutral = matches!(value, Value::Null | Value::Bool(false))
            || name.as_str() == "decimals" && value.as_i64() == Some(0);
        !is_neutral && !UNDERSTOOD.contains(&name.as_str())
    };
    let called = operation.args.kwargs.iter().filter_map(|(name, arg)| match arg {
        Arg::Constant(value) => Some((name, value)),
        _ => None,
    });
    match operation.layer.config.iter().chain(called).find(is_unknown) {
        None => Ok(()),
        Some((name, _)) => Err(format!("its option '{}' is not supported", shown_name(name))),
    }
}

/// Returns the name that `keras.ops` gives an operation of TensorFlow.
fn tensorflow(function: &str) -> &str {
    let last = function.rsplit('.').next().unwrap_or(function);
    match last {
        "add" | "__add__" => "Add",
        "subtract" | "sub" => "Subtract",
        "multiply" | "mul" => "Multiply",
        "divide" | "truediv" => "Divide",
        "pow" => "Power",
        "maximum" => "Maximum",
        "minimum" => "Minimum",
        "matmul" => "Matmul",
        "reduce_mean" => "Mean",
        "reduce_sum" => "Sum",
        "reduce_max" => "Max",
        "reduce_min" => "Min",
        "reshape" => "Reshape",
        "transpose" => "Transpose",
        "expand_dims" => "ExpandDims",
        "squeeze" => "Squeeze",
        "concat" => "Concatenate",
        "stack" => "Stack",
        "cast" => "Cast",
        "clip_by_value" => "Clip",
        "relu" => "Relu",
        "relu6" => "Relu6",
        "sigmoid" => "Sigmoid",
        "tanh" => "Tanh",
        "softmax" => "Softmax",
        "gelu" => "Gelu",
        "silu" | "swish" => "Silu",
        "exp" => "Exp",
        "log" => "Log",
        "sqrt" => "Sqrt",
        "rsqrt" => "Rsqrt",
        "square" => "Square",
        "abs" => "Abs",
        "negative" => "Negative",
        "sin" => "Sin",
        "cos" => "Cos",
        "getitem" | "_slice_helper" => "GetItem",
        other => other,
    }
}

impl Lowering {
    /// Lowers an operation, and returns its results.
    pub(super) fn operation(&mut self, site: Site, args: &Args) -> Result<Vec<Val>, Reason> {
        let layer = site.layer;
        let operation = Operation { layer, args };
        let kind = match layer.class.as_str() {
            "SlicingOpLambda" => "GetItem",
            "TFOpLambda" => tensorflow(layer.text("function").unwrap_or_default()),
            class => class,
        };
        refuse_unknown(&operation)?;
        if let Some(made) = self.binary_operation(kind, args)? {
            return Ok(vec![made]);
        }
        if matches!(kind, "Concatenate" | "Stack") {
            return self.joined(kind, &operation).map(|made| vec![made]);
        }
        let x = self.operand(
            args,
            0,
            &["x", "a", "inputs", "tensor", "input", "features", "logits", "input_tensor", "value"],
        )?;
        let made = match self.unary_operation(kind, &operation, &x)? {
            Some(made) => Some(made),
            None => self.moving_operation(kind, &operation, &x)?,
        };
        let unsupported = || match layer.class.as_str() {
            "TFOpLambda" => format!(
                "its function '{}' is not supported",
                shown_name(layer.text("function").unwrap_or_default())
            ),
            _ => "the operation is not supported".to_owned(),
        };
        made.map(|made| vec![made]).ok_or_else(unsupported)
    }

    /// Returns an argument as a value of the graph; constants become nodes.
    fn operand(&mut self, args: &Args, place: usize, names: &[&str]) -> Result<Val, Reason> {
        match argument(args, place, names) {
            Some(Arg::Value(val)) => Ok(val.clone()),
            Some(arg) => {
                let (shape, values, is_integer) =
                    constant(arg).ok_or("it takes a constant that is not supported")?;
                match (is_integer, &shape[..], &values[..]) {
                    // Keras converts a constant to the other operand's type.
                    (_, [], [value]) => self.values.scalar(*value),
                    _ => {
                        let name = self.values.constant_name();
                        self.values.floats(&name, &shape, values)
                    }
                }
            }
            None => Err("it lacks an argument".to_owned()),
        }
    }

    fn binary_operation(&mut self, kind: &str, args: &Args) -> Result<Option<Val>, Reason> {
        let op = match kind {
            "Add" => Op::Add,
            "Subtract" => Op::Sub,
            "Multiply" => Op::Mul,
            "Divide" | "TrueDivide" => Op::Div,
            "Power" => Op::Pow,
            "Maximum" => Op::Max,
            "Minimum" => Op::Min,
            "Less" => Op::Less,
            "LessEqual" => Op::LessOrEqual,
            "Greater" => Op::Greater,
            "GreaterEqual" => Op::GreaterOrEqual,
            "Equal" => Op::Equal,
            "LogicalAnd" => Op::And,
            "LogicalOr" => Op::Or,
            "Matmul" => Op::MatMul,
            "Where" => {
                let condition = self.operand(args, 0, &["condition"])?;
                let condition =
                    if condition.tag.is_integer { condition } else { self.cast(&condition, "bool")? };
                let (a, b) = (self.operand(args, 1, &["x1", "x"])?, self.operand(args, 2, &["x2", "y"])?);
                return self.values.apply(Op::Where, &[&condition, &a, &b]).map(Some);
            }
            _ => return Ok(None),
        };
        let a = self.operand(args, 0, &["x1", "x", "a"])?;
        let b = self.operand(args, 1, &["x2", "y", "b"])?;
        if matches!(op, Op::Add | Op::Sub | Op::Mul | Op::Pow | Op::MatMul) {
            let is_real = |val: &Val, place, names: &[&str]| {
                !val.tag.is_integer && matches!(argument(args, place, names), Some(Arg::Value(_)))
            };
            // With real numbers, they are real numbers.
            if !is_real(&a, 0, &["x1", "x", "a"]) && !is_real(&b, 1, &["x2", "y", "b"]) {
                refuse_narrow(&[a.clone(), b.clone()])?;
            }
        }
        if op == Op::MatMul {
            return self.product(&a, &b).map(Some);
        }
        // Integers of which one is taken with real numbers are real numbers.
        let is_mixed = a.tag.is_integer != b.tag.is_integer || op == Op::Div && a.tag.is_integer;
        let (a, b) = match is_mixed && !matches!(op, Op::And | Op::Or) {
            true => (self.as_real(&a)?, self.as_real(&b)?),
            false => (a, b),
        };
        self.values.apply(op, &[&a, &b]).map(Some)
    }

    pub(super) fn as_real(&mut self, x: &Val) -> Result<Val, Reason> {
        if x.tag.is_integer { self.cast(x, "float") } else { Ok(x.clone()) }
    }

    fn product(&mut self, a: &Val, b: &Val) -> Result<Val, Reason> {
        let (a, b) = (self.values.last(a)?, self.values.last(b)?);
        let dims =
            product_of_matrices(&a.dims, &b.dims).ok_or("it multiplies values that are no matrices")?;
        self.values.plain(self.values.node(Op::MatMul), &[&a, &b], dims)
    }

    /// Lowers `Concatenate` and `Stack`, whose values are in a list.
    fn joined(&mut self, kind: &str, operation: &Operation) -> Result<Val, Reason> {
        let names = ["xs", "x", "values", "arrays"];
        let list = operation
            .args
            .args
            .first()
            .or_else(|| names.iter().find_map(|name| operation.args.kwargs.get(*name)));
        let all = list.map(Arg::all).unwrap_or_default();
        let first = all.first().ok_or("it joins no values")?;
        let default = if kind == "Stack" { 0 } else { -1 };
        let axis = operation.ints(1, &["axis"])?.and_then(|axes| axes.first().copied()).unwrap_or(default);
        if kind == "Concatenate" {
            return self.values.join(first.resolve(axis)?, &all);
        }
        let axis = resolve(axis, first.rank() + 1)?;
        let items =
            all.iter().map(|item| self.values.unsqueeze(item, &[axis])).collect::<Result<Vec<_>, _>>()?;
        self.values.join(axis, &items)
    }

    fn unary_operation(&mut self, kind: &str, operation: &Operation, x: &Val) -> Result<Option<Val>, Reason> {
        let axes = || operation.ints(1, &["axis"]).map(|axes| axes.unwrap_or_else(|| vec![-1]));
        let number = |value: f64| Attribute::Float(value);
        let plain = match kind {
            "Relu" => Some("relu"),
            "Relu6" => Some("relu6"),
            "Sigmoid" => Some("sigmoid"),
            "Tanh" => Some("tanh"),
            "Silu" | "Swish" => Some("silu"),
            "Selu" => Some("selu"),
            "Softplus" => Some("softplus"),
            "Softsign" => Some("softsign"),
            "HardSigmoid" => Some("hard_sigmoid"),
            "HardSilu" => Some("hard_silu"),
            "HardTanh" => Some("hard_tanh"),
            "LogSigmoid" => Some("log_sigmoid"),
            "Mish" => Some("mish"),
            _ => None,
        };
        if let Some(name) = plain {
            return self.function(name, x.clone()).map(Some);
        }
        if matches!(kind, "Square" | "Negative" | "Abs" | "Absolute") {
            refuse_narrow(std::slice::from_ref(x))?;
        }
        let op = match kind {
            "Exp" => Op::Exp,
            "Log" => Op::Log,
            "Sqrt" => Op::Sqrt,
            "Abs" | "Absolute" => Op::Abs,
            "Negative" => Op::Neg,
            "Sign" => Op::Sign,
            "Sin" => Op::Sin,
            "Cos" => Op::Cos,
            "Erf" => Op::Erf,
            "Floor" => Op::Floor,
            "Ceil" => Op::Ceil,
            "Round" => Op::Round,
            "Reciprocal" => Op::Reciprocal,
            "LogicalNot" => Op::Not,
            "Square" => return self.values.apply(Op::Mul, &[x, x]).map(Some),
            "Rsqrt" => {
                let root = self.values.apply(Op::Sqrt, &[x])?;
                return self.values.apply(Op::Reciprocal, &[&root]).map(Some);
            }
            "Softmax" | "LogSoftmax" if operation.is_null("axis") => return Err(OVER_ALL.to_owned()),
            "Softmax" => return self.over(Op::Softmax, x, &axes()?).map(Some),
            "LogSoftmax" => return self.over(Op::LogSoftmax, x, &axes()?).map(Some),
            "Elu" | "Celu" | "LeakyRelu" | "Gelu" | "Clip" => {
                let node = match kind {
                    "Elu" => self
                        .values
                        .node(Op::Elu)
                        .attribute("alpha", number(operation.float(1, &["alpha"], 1.0)?)),
                    "Celu" => self
                        .values
                        .node(Op::Celu)
                        .attribute("alpha", number(operation.float(1, &["alpha"], 1.0)?)),
                    "LeakyRelu" => self
                        .values
                        .node(Op::LeakyRelu)
                        .attribute("alpha", number(operation.float(1, &["negative_slope", "alpha"], 0.2)?)),
                    "Gelu" => {
                        // The default of `keras.ops` is the approximation.
                        let is_exact =
                            operation.option(usize::MAX, &["approximate"]) == Some(&Value::Bool(false));
                        let node = self.values.node(Op::Gelu);
                        let is_exact = is_exact
                            || operation.layer.class == "TFOpLambda" && !operation.flag("approximate");
                        if is_exact {
                            node
                        } else {
                            node.attribute("approximate", Attribute::Text("tanh".into()))
                        }
                    }
                    _ => {
                        let low = operation.float(1, &["x_min", "clip_value_min"], f64::NEG_INFINITY)?;
                        let high = operation.float(2, &["x_max", "clip_value_max"], f64::INFINITY)?;
                        self.values
                            .node(Op::Clip)
                            .attribute("min", number(low))
                            .attribute("max", number(high))
                    }
                };
                return self.values.map(node, x).map(Some);
            }
            "Mean" | "Sum" | "Max" | "Min" | "Prod" => {
                let op = match kind {
                    "Mean" => Op::ReduceMean,
                    "Sum" => Op::ReduceSum,
                    "Max" => Op::ReduceMax,
                    "Min" => Op::ReduceMin,
                    _ => Op::ReduceProd,
                };
                let axes: Vec<usize> = match operation.ints(1, &["axis"])? {
                    Some(axes) => axes.iter().map(|axis| x.resolve(*axis)).collect::<Result<_, _>>()?,
                    None => (0..x.rank()).collect(),
                };
                if matches!(kind, "Sum" | "Prod") {
                    refuse_narrow(std::slice::from_ref(x))?;
                }
                let x = if kind == "Mean" { self.as_real(x)? } else { x.clone() };
                return self.values.reduce(op, &x, &axes, operation.flag("keepdims")).map(Some);
            }
            "Cast" => {
                let wanted = operation.option(1, &["dtype"]).and_then(Value::as_str).unwrap_or_default();
                let to = match wanted {
                    "float32" | "float64" | "float16" | "bfloat16" => "float",
                    "int32" | "int64" => "int",
                    "bool" => "bool",
                    other => {
                        return Err(format!("it casts to '{}', which is not supported", shown_name(other)));
                    }
                };
                return self.cast(x, to).map(Some);
            }
            "Identity" | "StopGradient" => Op::Identity,
            _ => return Ok(None),
        };
        self.values.apply(op, &[x]).map(Some)
    }

    fn moving_operation(
        &mut self,
        kind: &str,
        operation: &Operation,
        x: &Val,
    ) -> Result<Option<Val>, Reason> {
        Ok(Some(match kind {
            "Reshape" => {
                let target = operation.ints(1, &["newshape", "shape"])?.ok_or("its shape is not stated")?;
                let Some((batch, rest)) = target.split_first() else {
                    return Err("it reshapes to a scalar".to_owned());
                };
                let keeps =
                    *batch == -1 && rest.iter().all(|len| *len >= 0) || x.len(0).known() == Some(*batch);
                if keeps {
                    let inner: Length = x.dims.iter().skip(1).product();
                    let lens: Vec<Length> = rest.iter().copied().map(Length::Known).collect();
                    // The batch may take or give elements.
                    if inner.known().is_some() && inner != lens.iter().product() {
                        let x = self.values.last(x)?;
                        let dims = [&[Length::Unknown], &lens[..]].concat();
                        let node = self.values.node(Op::Reshape).attribute("shape", Attribute::Ints(target));
                        return self.values.same(node, &x, dims).map(Some);
                    }
                    self.reshape_to(x, rest)?
                } else {
                    return Err("it reshapes the batch".to_owned());
                }
            }
            "Transpose" => {
                let order: Vec<i64> = match operation.ints(1, &["axes", "perm"])? {
                    Some(order) => order,
                    None => (0..int(x.rank())?).rev().collect(),
                };
                let order = order.iter().map(|axis| x.resolve(*axis)).collect::<Result<Vec<_>, _>>()?;
                self.permuted(x, &order)?
            }
            "Swapaxes" => {
                let at = |name: &str| {
                    operation
                        .ints(usize::MAX, &[name])
                        .map(|axes| axes.and_then(|axes| axes.first().copied()))
                };
                let (Some(a), Some(b)) = (at("axis1")?, at("axis2")?) else { return Ok(None) };
                let mut order: Vec<usize> = (0..x.rank()).collect();
                order.swap(x.resolve(a)?, x.resolve(b)?);
                self.permuted(x, &order)?
            }
            "ExpandDims" => {
                let axes = operation.ints(1, &["axis"])?.ok_or("its axis is not stated")?;
                let rank = x.rank() + axes.len();
                let mut axes = axes.iter().map(|axis| resolve(*axis, rank)).collect::<Result<Vec<_>, _>>()?;
                axes.sort_unstable();
                self.values.unsqueeze(x, &axes)?
            }
            "Squeeze" => {
                let axes = match operation.ints(1, &["axis"])? {
                    Some(axes) => axes.iter().map(|axis| x.resolve(*axis)).collect::<Result<Vec<_>, _>>()?,
                    None => (0..x.rank()).filter(|axis| x.len(*axis) == Length::Known(1)).collect(),
                };
                self.values.squeeze(x, &axes)?
            }
            "Flip" => {
                let axes = match operation.ints(1, &["axis"])? {
                    Some(axes) => axes.iter().map(|axis| x.resolve(*axis)).collect::<Result<Vec<_>, _>>()?,
                    None => (0..x.rank()).collect(),
                };
                let ranges: Vec<Range> = axes.into_iter().map(Range::backwards).collect();
                self.values.slice(x, &ranges)?
            }
            "GetItem" => self.item(operation.args, x)?,
            _ => return Ok(None),
        }))
    }
}

/// Reads a constant: a number, or lists of numbers, with its shape, and whether it has integers alone.
fn constant(arg: &Arg) -> Option<(Vec<u64>, Vec<f64>, bool)> {
    fn list(arg: &Arg, depth: usize, shape: &mut Vec<u64>, values: &mut Vec<f64>) -> Option<bool> {
        let items: Vec<Arg> = match arg {
            Arg::Constant(Value::Number(number)) if depth == shape.len() => {
                values.push(number.as_f64()?);
                return (values.len() <= MAX_CONSTANT).then_some(number.is_i64());
            }
            Arg::List(items) => items.clone(),
            Arg::Constant(Value::Array(items)) => items.iter().cloned().map(Arg::Constant).collect(),
            _ => return None,
        };
        let len = u64::try_from(items.len()).ok()?;
        match shape.get(depth) {
            Some(known) if *known == len => {}
            None if values.is_empty() => shape.push(len),
            _ => return None,
        }
        let kinds = items.iter().map(|item| list(item, depth + 1, shape, values));
        kinds.collect::<Option<Vec<bool>>>().map(|kinds| kinds.into_iter().all(|is_integer| is_integer))
    }
    // Arrays are stored with their values and type.
    if let Arg::Constant(Value::Object(map)) = arg {
        let value = map.get("config").and_then(|config| config.get("value"))?;
        return constant(&Arg::Constant(value.clone()));
    }
    let (mut shape, mut values) = (Vec::new(), Vec::new());
    let is_integer = list(arg, 0, &mut shape, &mut values)?;
    Some((shape, values, is_integer))
}
