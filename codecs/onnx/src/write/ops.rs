//! Writes one layer as nodes of ONNX.

use super::builder::{Builder, Kind, Setting};
use crate::format::operators::{REDUCTIONS, SAME, UNARY};
use ckpt_api::{Attribute, DType, Error, Node, Op, Result};

/// The operators of the contract that can be written, but for those that are known by name alone.
pub(crate) static OPS: [Op; 78] = [
    Op::Gemm,
    Op::Conv,
    Op::Concat,
    Op::Pad,
    Op::Clip,
    Op::Relu,
    Op::LeakyRelu,
    Op::Elu,
    Op::Gelu,
    Op::Selu,
    Op::Celu,
    Op::ThresholdedRelu,
    Op::PRelu,
    Op::Softplus,
    Op::Softsign,
    Op::HardSigmoid,
    Op::HardSwish,
    Op::Swish,
    Op::Mish,
    Op::Sigmoid,
    Op::Tanh,
    Op::Softmax,
    Op::LogSoftmax,
    Op::Flatten,
    Op::Identity,
    Op::MaxPool,
    Op::AveragePool,
    Op::GlobalAveragePool,
    Op::GlobalMaxPool,
    Op::BatchNormalization,
    Op::Add,
    Op::Sub,
    Op::Mul,
    Op::Div,
    Op::Pow,
    Op::Max,
    Op::Min,
    Op::Abs,
    Op::Neg,
    Op::Sign,
    Op::Reciprocal,
    Op::Sqrt,
    Op::Exp,
    Op::Log,
    Op::Sin,
    Op::Cos,
    Op::Tan,
    Op::Asin,
    Op::Acos,
    Op::Atan,
    Op::Sinh,
    Op::Cosh,
    Op::Asinh,
    Op::Acosh,
    Op::Atanh,
    Op::Erf,
    Op::Floor,
    Op::Ceil,
    Op::Round,
    Op::Equal,
    Op::Less,
    Op::LessOrEqual,
    Op::Greater,
    Op::GreaterOrEqual,
    Op::And,
    Op::Or,
    Op::Xor,
    Op::Not,
    Op::Where,
    Op::Cast,
    Op::MatMul,
    Op::ReduceSum,
    Op::ReduceMean,
    Op::Constant,
    Op::Reshape,
    Op::Transpose,
    Op::LayerNormalization,
    Op::Gather,
];

/// Pooling of whole images, which has neither attributes nor windows.
const POOLS: [(&str, &[&str]); 2] = [("GlobalAveragePool", &[]), ("GlobalMaxPool", &[])];

/// Further ones that are only written as they are: models have older forms of them, or constants for them.
const ALIKE: [(&str, &[&str]); 11] = [
    ("MaxPool", &["kernel_shape", "strides", "pads", "dilations", "ceil_mode", "auto_pad"]),
    (
        "AveragePool",
        &["kernel_shape", "strides", "pads", "dilations", "ceil_mode", "count_include_pad", "auto_pad"],
    ),
    ("Concat", &["axis"]),
    ("Transpose", &["perm"]),
    ("MatMul", &[]),
    ("Einsum", &["equation"]),
    ("Gelu", &["approximate"]),
    ("DepthToSpace", &["blocksize", "mode"]),
    ("SpaceToDepth", &["blocksize"]),
    ("Flatten", &["axis"]),
    ("LRN", &["size"]),
];

/// Operators with the inputs of the layer that take integers, and no truth values.
const COMPUTING: [&str; 7] = ["Relu", "Abs", "Neg", "Sign", "MatMul", "ArgMax", "ArgMin"];

/// Elementwise operators of several inputs: name, whether they take truth values, whether they make some.
const ELEMENTWISE: [(&str, bool, bool); 20] = [
    ("Add", false, false),
    ("Sub", false, false),
    ("Mul", false, false),
    ("Div", false, false),
    ("Pow", false, false),
    ("Max", false, false),
    ("Min", false, false),
    ("PRelu", false, false),
    ("Mod", false, false),
    ("BitwiseAnd", false, false),
    ("BitwiseOr", false, false),
    ("BitwiseXor", false, false),
    ("Equal", false, true),
    ("Less", false, true),
    ("LessOrEqual", false, true),
    ("Greater", false, true),
    ("GreaterOrEqual", false, true),
    ("And", true, true),
    ("Or", true, true),
    ("Xor", true, true),
];

impl Builder<'_> {
    /// Writes a layer.
    pub(super) fn node(&mut self, node: &Node) -> Result<()> {
        let name = node.op.name();
        if node.computed_attributes().next().is_some() {
            return self.computed(node);
        }
        if let Some((op, numbers)) = UNARY.iter().chain(&POOLS).find(|(op, _)| *op == name) {
            allow(node, numbers)?;
            let settings = floats(node, numbers)?;
            return self.one(node, op, settings, None);
        }
        if let Some((op, truths, makes)) = ELEMENTWISE.iter().find(|(op, ..)| *op == name) {
            return self.elementwise(node, op, *truths, *makes);
        }
        if let Some((op, names)) = SAME.iter().chain(&ALIKE).find(|(op, _)| *op == name) {
            return self.same(node, op, names);
        }
        if let Some(op) = REDUCTIONS.iter().find(|op| **op == name) {
            return self.reduce(node, op);
        }
        match name {
            "Gemm" => self.gemm(node),
            "Conv" | "ConvTranspose" => self.conv(node),
            "Gather" => self.gather(node),
            "BatchNormalization" => self.batch_normalization(node),
            "LayerNormalization" | "InstanceNormalization" | "GroupNormalization" => self.normalization(node),
            "RMSNormalization" => self.rms_normalization(node),
            "Constant" => self.constant(node),
            "Softmax" | "LogSoftmax" => {
                allow(node, &["axis"])?;
                let op = if name == "Softmax" { "Softmax" } else { "LogSoftmax" };
                self.one(node, op, ints(node, &["axis"])?, None)
            }
            "Swish" => self.swish(node),
            "Clip" => self.clip(node),
            "Cast" => self.cast(node),
            "Not" => self.truth(node, "Not"),
            "IsNaN" => self.truth(node, "IsNaN"),
            "Where" => self.choose(node),
            "Reshape" => {
                allow(node, &["shape", "allowzero"])?;
                let settings = ints(node, &["allowzero"])?;
                let rank = node.ints("shape")?.map(<[i64]>::len);
                self.with_list(node, "Reshape", "shape", settings, rank)
            }
            "Squeeze" => {
                allow(node, &["axes"])?;
                let count = node.ints("axes")?.map(<[i64]>::len);
                let rank = self.input(node)?.1.zip(count).and_then(|(rank, count)| rank.checked_sub(count));
                self.with_list(node, "Squeeze", "axes", Vec::new(), rank)
            }
            "Unsqueeze" => {
                allow(node, &["axes"])?;
                let count = node.ints("axes")?.map(<[i64]>::len);
                let rank = self.input(node)?.1.zip(count).map(|(rank, count)| rank + count);
                self.with_list(node, "Unsqueeze", "axes", Vec::new(), rank)
            }
            "Expand" => self.expand(node),
            "Range" => self.range(node),
            "Tile" => {
                allow(node, &["repeats"])?;
                let rank = self.input(node)?.1;
                self.with_list(node, "Tile", "repeats", Vec::new(), rank)
            }
            "Split" => self.split(node),
            "Slice" => self.slice(node),
            "Pad" => self.pad(node),
            "CumSum" => self.cum_sum(node),
            "Trilu" => self.trilu(node),
            "TopK" => self.top_k(node),
            "Resize" => self.resize(node),
            "If" => self.choice(node),
            "Loop" => self.repeated(node),
            "LSTM" => self.recurrent(node, "LSTM"),
            "GRU" => self.recurrent(node, "GRU"),
            "RNN" => self.recurrent(node, "RNN"),
            _ => Err(unsupported(node)),
        }
    }

    /// The first input's name in the model, and its rank.
    pub(super) fn input(&self, node: &Node) -> Result<(String, Option<usize>)> {
        let first = node.inputs.first().ok_or_else(|| Error::corrupt("the layer lacks its input"))?;
        let name = self.value(first)?;
        let rank = self.rank(&name);
        Ok((name, rank))
    }

    pub(super) fn inputs(&self, node: &Node) -> Result<Vec<String>> {
        node.inputs.iter().map(|name| self.value(name)).collect()
    }

    /// The only output of a layer, declared.
    pub(super) fn output(&mut self, node: &Node) -> Result<(String, String)> {
        let own = node.outputs.first().ok_or_else(|| Error::corrupt("the layer lacks its output"))?;
        Ok((own.clone(), self.declare(own)))
    }

    /// One node with the layer's inputs, whose numbers are of the first input's kind; its rank is the first's unless
    /// given.
    fn one(&mut self, node: &Node, op: &'static str, settings: Settings, rank: Option<usize>) -> Result<()> {
        no_parameters(node)?;
        let mut inputs = self.inputs(node)?;
        if COMPUTING.contains(&op) {
            inputs = inputs.into_iter().map(|input| self.numeric(input)).collect();
        }
        self.finish(node, op, inputs, settings, rank)
    }

    /// The node that makes the layer's output.
    pub(super) fn finish(
        &mut self,
        node: &Node,
        op: &'static str,
        inputs: Vec<String>,
        settings: Settings,
        rank: Option<usize>,
    ) -> Result<()> {
        let first = inputs.first().cloned().unwrap_or_default();
        let (kind, rank) = (self.kind(&first), rank.or(self.rank(&first)));
        let (own, output) = self.output(node)?;
        self.push(op, inputs, vec![output.clone()], settings);
        self.define(&own, output, kind, rank);
        Ok(())
    }

    fn same(&mut self, node: &Node, op: &'static str, names: &[&'static str]) -> Result<()> {
        let numbers: &[&'static str] = if op == "LRN" { &["alpha", "beta", "bias"] } else { &[] };
        allow(node, &[names, numbers].concat())?;
        let mut settings = ints(node, names)?;
        settings.extend(floats(node, numbers)?);
        let made = match op {
            "ArgMax" | "ArgMin" | "Shape" => Some(Kind::Int),
            "IsInf" => Some(Kind::Bool),
            _ => None,
        };
        let is_flat = (op == "Flatten").then_some(2);
        if op.starts_with("Scatter") {
            return self.scatter(node, op, settings);
        }
        self.one(node, op, settings, is_flat)?;
        if let Some(kind) = made {
            self.retype(node, kind)?;
        }
        // The rank of what these make is another one than their input's.
        if matches!(op, "MatMul" | "Einsum" | "GatherND" | "ArgMax" | "ArgMin" | "Shape")
            && let Some(output) = node.outputs.first()
        {
            let name = self.value(output)?;
            let rank = node.inputs.iter().filter_map(|input| self.rank(&self.value(input).ok()?)).max();
            self.set_rank(&name, rank.filter(|rank| op == "MatMul" && *rank > 1));
        }
        Ok(())
    }

    /// Updates are numbers of the value's kind.
    fn scatter(&mut self, node: &Node, op: &'static str, settings: Settings) -> Result<()> {
        no_parameters(node)?;
        let mut inputs = self.inputs(node)?;
        if let [data, _, updates] = &mut inputs[..] {
            let kind = self.kind(data);
            if self.kind(updates) != kind {
                *updates = self.cast_to(updates.clone(), kind);
            }
        }
        self.finish(node, op, inputs, settings, None)
    }

    fn elementwise(&mut self, node: &Node, op: &'static str, truths: bool, makes: bool) -> Result<()> {
        allow(node, &["fmod"])?;
        no_parameters(node)?;
        let inputs = self.inputs(node)?;
        let kinds: Vec<Kind> = inputs.iter().map(|input| self.kind(input)).collect();
        let kind = match () {
            () if truths => Kind::Bool,
            () if kinds.contains(&Kind::Real) => Kind::Real,
            () => Kind::Int,
        };
        let rank = inputs.iter().map(|input| self.rank(input)).collect::<Option<Vec<_>>>();
        let inputs = self.all_of(inputs, kind);
        let settings = ints(node, &["fmod"])?;
        if op == "Mod" && kind == Kind::Real && node.int("fmod", 0)? == 0 {
            return Err(Error::unsupported("ONNX has no remainder of real numbers with the divisor's sign")
                .field(&node.name)
                .help("state 'fmod' if the dividend's sign is right"));
        }
        let (own, output) = self.output(node)?;
        self.push(op, inputs, vec![output.clone()], settings);
        let rank = rank.and_then(|ranks| ranks.into_iter().max());
        self.define(&own, output, if makes { Kind::Bool } else { kind }, rank);
        Ok(())
    }

    fn reduce(&mut self, node: &Node, op: &'static str) -> Result<()> {
        allow(node, &["axes", "keepdims", "noop_with_empty_axes"])?;
        let keeps = node.int("keepdims", 1)?;
        let axes = node.ints("axes")?;
        let rank = self.input(node)?.1;
        let rank = match (keeps, axes) {
            (0, Some(axes)) => rank.and_then(|rank| rank.checked_sub(axes.len())),
            (0, None) => Some(0),
            _ => rank,
        };
        let settings =
            [vec![("keepdims", Setting::Int(keeps))], ints(node, &["noop_with_empty_axes"])?].concat();
        self.with_list(node, op, "axes", settings, rank)?;
        if let (Some(output), None) = (node.outputs.first(), rank) {
            let name = self.value(output)?;
            self.set_rank(&name, None);
        }
        Ok(())
    }

    /// A node that takes a list of integers, an attribute of the layer, as its second input.
    fn with_list(
        &mut self,
        node: &Node,
        op: &'static str,
        name: &str,
        settings: Settings,
        rank: Option<usize>,
    ) -> Result<()> {
        no_parameters(node)?;
        let mut first = self.input(node)?.0;
        if op.starts_with("Reduce") {
            first = self.numeric(first);
        }
        let kind = self.kind(&first);
        let mut inputs = vec![first];
        if let Some(values) = node.ints(name)? {
            inputs.push(self.ints(name, values));
        }
        let (own, output) = self.output(node)?;
        self.push(op, inputs, vec![output.clone()], settings);
        // A rank that is not known is not the input's.
        self.define(&own, output, kind, rank);
        Ok(())
    }

    /// `x · sigmoid(alpha · x)`: ONNX has no operator of its own for it in this operator set.
    fn swish(&mut self, node: &Node) -> Result<()> {
        allow(node, &["alpha"])?;
        let (x, _) = self.input(node)?;
        let alpha = node.float("alpha", 1.0)?;
        let mut inner = x.clone();
        if alpha != 1.0 {
            let factor = self.real("alpha", alpha)?;
            inner = self.step("Mul", vec![inner, factor], []);
        }
        let gate = self.step("Sigmoid", vec![inner], []);
        self.finish(node, "Mul", vec![x, gate], Vec::new(), None)
    }

    fn clip(&mut self, node: &Node) -> Result<()> {
        allow(node, &["min", "max"])?;
        let x = self.input(node)?.0;
        let x = self.numeric(x);
        let mut inputs = vec![x.clone()];
        for name in ["min", "max"] {
            let bound = match node.attributes.contains_key(name) {
                false => String::new(),
                true if self.kind(&x) == Kind::Int => self.int(name, node.float(name, 0.0)? as i64),
                true => self.real(name, node.float(name, 0.0)?)?,
            };
            inputs.push(bound);
        }
        while inputs.last().is_some_and(String::is_empty) {
            inputs.pop();
        }
        self.finish(node, "Clip", inputs, Vec::new(), None)
    }

    fn cast(&mut self, node: &Node) -> Result<()> {
        allow(node, &["to"])?;
        let (kind, half) = match node.text("to")? {
            Some("float") => (Kind::Real, None),
            Some("float16") => (Kind::Real, Some(DType::F16)),
            Some("bfloat16") => (Kind::Real, Some(DType::Bf16)),
            Some("float8e4m3fn") => (Kind::Real, Some(DType::F8E4m3)),
            Some("float8e4m3fnuz") => (Kind::Real, Some(DType::F8E4m3fnuz)),
            Some("float8e5m2") => (Kind::Real, Some(DType::F8E5m2)),
            Some("float8e5m2fnuz") => (Kind::Real, Some(DType::F8E5m2fnuz)),
            Some("int") => (Kind::Int, None),
            Some("bool") => (Kind::Bool, None),
            _ => {
                return Err(Error::corrupt("attribute 'to' is not valid")
                    .expected("float, float16, bfloat16, a type of 8 bits, int or bool"));
            }
        };
        no_parameters(node)?;
        let (mut x, rank) = self.input(node)?;
        // Rounded to fewer bits, and then the type that the real numbers of the graph have.
        if let Some(number) = half.filter(|half| *half != self.real).and_then(crate::format::number) {
            x = self.step("Cast", vec![x], [("to", Setting::Int(number))]);
        }
        let to = vec![("to", Setting::Int(self.data_type(kind)))];
        self.finish(node, "Cast", vec![x], to, rank)?;
        self.retype(node, kind)
    }

    fn retype(&mut self, node: &Node, kind: Kind) -> Result<()> {
        let Some(output) = node.outputs.first() else { return Ok(()) };
        let name = self.value(output)?;
        let rank = self.rank(&name);
        self.define(output, name, kind, rank);
        Ok(())
    }

    fn truth(&mut self, node: &Node, op: &'static str) -> Result<()> {
        allow(node, &[])?;
        let (x, _) = self.input(node)?;
        let inputs = if op == "Not" { self.all_of(vec![x], Kind::Bool) } else { vec![x] };
        self.finish(node, op, inputs, Vec::new(), None)?;
        self.retype(node, Kind::Bool)
    }

    fn choose(&mut self, node: &Node) -> Result<()> {
        allow(node, &[])?;
        let inputs = self.inputs(node)?;
        let [condition, yes, no] = &inputs[..] else {
            return Err(Error::corrupt("the layer has not three inputs"));
        };
        let kinds = [self.kind(yes), self.kind(no)];
        let kind = if kinds.contains(&Kind::Real) {
            Kind::Real
        } else if kinds == [Kind::Bool; 2] {
            Kind::Bool
        } else {
            Kind::Int
        };
        let rank = inputs
            .iter()
            .map(|input| self.rank(input))
            .collect::<Option<Vec<_>>>()
            .and_then(|ranks| ranks.into_iter().max());
        let mut all = self.all_of(vec![condition.clone()], Kind::Bool);
        all.extend(self.all_of(vec![yes.clone(), no.clone()], kind));
        let (own, output) = self.output(node)?;
        self.push("Where", all, vec![output.clone()], []);
        self.define(&own, output, kind, rank);
        Ok(())
    }
}

pub(super) type Settings = Vec<(&'static str, Setting)>;

/// The error for an operator that ONNX lacks.
fn unsupported(node: &Node) -> Error {
    let what = match &node.op {
        Op::Custom(_) => "ONNX has no such operator",
        _ => "the operator is not written to ONNX",
    };
    Error::unsupported(what).found(node.op.name())
}

/// Fails for an attribute that the operator has not.
pub(super) fn allow(node: &Node, names: &[&str]) -> Result<()> {
    match node.attributes.keys().find(|name| !names.contains(&name.as_str())) {
        Some(name) => Err(Error::unsupported(format!("{} has an attribute that ONNX lacks", node.op))
            .found(format!("'{name}'"))),
        None => Ok(()),
    }
}

/// Fails for a layer with tensors whose operator takes none.
fn no_parameters(node: &Node) -> Result<()> {
    match node.parameters.keys().next() {
        Some(role) => Err(Error::unsupported(format!("{} has a tensor in an unknown role", node.op))
            .found(format!("'{role}'"))),
        None => Ok(()),
    }
}

/// Integers, lists of them, and texts, as they are.
pub(super) fn ints(node: &Node, names: &[&'static str]) -> Result<Settings> {
    let mut settings = Vec::new();
    for name in names {
        let setting = match node.attributes.get(*name) {
            None => continue,
            Some(Attribute::Int(value)) => Setting::Int(*value),
            Some(Attribute::Ints(values)) => Setting::Ints(values.clone()),
            Some(Attribute::Text(value)) => Setting::Text(value.clone()),
            Some(Attribute::Texts(values)) => Setting::Texts(values.clone()),
            Some(other) => return Err(other.invalid(name, "an integer, a list of them, or a text")),
        };
        settings.push((*name, setting));
    }
    Ok(settings)
}

fn floats(node: &Node, names: &[&'static str]) -> Result<Settings> {
    let mut settings = Vec::new();
    for name in names.iter().filter(|name| node.attributes.contains_key(**name)) {
        settings.push((*name, Setting::Float(node.float(name, 0.0)? as f32)));
    }
    Ok(settings)
}
