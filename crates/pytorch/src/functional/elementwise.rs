//! Functions of each element.

use super::Emitter;
use super::attributes::truth;
use crate::attributes::{float, int, text};
use crate::names::number;
use crate::refusal::refuse;
use ckpt_api::{Node, Op, Result};

/// Operators that are a function of PyTorch, or an expression of one value.
const UNARY: [(Op, &str); 32] = [
    (Op::Relu, "F.relu({})"),
    (Op::Softplus, "F.softplus({})"),
    (Op::Softsign, "F.softsign({})"),
    (Op::HardSwish, "F.hardswish({})"),
    (Op::Mish, "F.mish({})"),
    (Op::Sigmoid, "torch.sigmoid({})"),
    (Op::Tanh, "torch.tanh({})"),
    (Op::Abs, "torch.abs({})"),
    (Op::Neg, "-{}"),
    (Op::Sign, "torch.sign({})"),
    (Op::Reciprocal, "torch.reciprocal({})"),
    (Op::Sqrt, "torch.sqrt({})"),
    (Op::Exp, "torch.exp({})"),
    (Op::Log, "torch.log({})"),
    (Op::Sin, "torch.sin({})"),
    (Op::Cos, "torch.cos({})"),
    (Op::Tan, "torch.tan({})"),
    (Op::Asin, "torch.asin({})"),
    (Op::Acos, "torch.acos({})"),
    (Op::Atan, "torch.atan({})"),
    (Op::Sinh, "torch.sinh({})"),
    (Op::Cosh, "torch.cosh({})"),
    (Op::Asinh, "torch.asinh({})"),
    (Op::Acosh, "torch.acosh({})"),
    (Op::Atanh, "torch.atanh({})"),
    (Op::Erf, "torch.erf({})"),
    (Op::Floor, "torch.floor({})"),
    (Op::Ceil, "torch.ceil({})"),
    (Op::Round, "torch.round({})"),
    (Op::Identity, "{}"),
    (Op::Not, "({} == 0).long()"),
    (Op::IsNaN, "torch.isnan({}).long()"),
];

/// Operators of two values; truth values are integers, as in the graph.
const BINARY: [(Op, &str); 14] = [
    (Op::Add, "{} + {}"),
    (Op::Sub, "{} - {}"),
    (Op::Mul, "{} * {}"),
    (Op::Pow, "torch.pow({}, {})"),
    (Op::MatMul, "torch.matmul({}, {})"),
    (Op::Equal, "({} == {}).long()"),
    (Op::Less, "({} < {}).long()"),
    (Op::LessOrEqual, "({} <= {}).long()"),
    (Op::Greater, "({} > {}).long()"),
    (Op::GreaterOrEqual, "({} >= {}).long()"),
    (Op::And, "torch.logical_and({}, {}).long()"),
    (Op::Or, "torch.logical_or({}, {}).long()"),
    (Op::Xor, "torch.logical_xor({}, {}).long()"),
    (Op::GatherElements, "on_axis"),
];

impl Emitter<'_> {
    /// The expression of an elementwise node; `None` for another one.
    pub(super) fn elementwise(&mut self, node: &Node) -> Result<Option<String>> {
        let plain = |found: Option<&(Op, &'static str)>| found.map(|(_, format)| *format);
        if let Some(format) = plain(UNARY.iter().find(|(op, _)| *op == node.op)) {
            return Ok(Some(format.replace("{}", &self.input(node, 0)?)));
        }
        if let Some(format) = plain(BINARY.iter().find(|(op, _)| *op == node.op)) {
            let (a, b) = (self.input(node, 0)?, self.input(node, 1)?);
            if node.op == Op::GatherElements {
                let axis = int(node, "axis", 0)?.to_string();
                let places = self.call("on_axis", &[a.clone(), b, axis.clone()]);
                return Ok(Some(format!("torch.gather({a}, {axis}, {places})")));
            }
            return Ok(Some(format.replacen("{}", &a, 1).replacen("{}", &b, 1)));
        }
        let all = |emitter: &Self| {
            (0..node.inputs.len()).map(|at| emitter.input(node, at)).collect::<Result<Vec<_>>>()
        };
        Ok(Some(match &node.op {
            Op::Div => {
                let both = all(self)?;
                self.call("divided", &both)
            }
            Op::Max => {
                let values = all(self)?;
                self.call("largest", &values)
            }
            Op::Min => {
                let values = all(self)?;
                self.call("smallest", &values)
            }
            Op::Mod => {
                let function = if int(node, "fmod", 0)? == 0 { "remainder" } else { "fmod" };
                format!("torch.{function}({}, {})", self.input(node, 0)?, self.input(node, 1)?)
            }
            Op::Where => {
                format!(
                    "torch.where({}.bool(), {}, {})",
                    self.input(node, 0)?,
                    self.input(node, 1)?,
                    self.input(node, 2)?
                )
            }
            Op::PRelu => {
                let (x, slope) = (self.input(node, 0)?, self.input(node, 1)?);
                format!("torch.where({x} < 0, {slope} * {x}, {x})")
            }
            Op::Clip => self.clip(node)?,
            Op::Cast => self.cast(node)?,
            Op::IsInf => {
                let x = self.input(node, 0)?;
                let mut found = Vec::new();
                for (name, function) in [("detect_negative", "isneginf"), ("detect_positive", "isposinf")] {
                    if int(node, name, 1)? != 0 {
                        found.push(format!("torch.{function}({x}).long()"));
                    }
                }
                if found.is_empty() { format!("torch.zeros_like({x}).long()") } else { found.join(" + ") }
            }
            _ => return self.activation(node),
        }))
    }

    fn activation(&self, node: &Node) -> Result<Option<String>> {
        let of = |name: &str, default: f64| float(node, name, default).map(number);
        let x = || self.input(node, 0);
        Ok(Some(match &node.op {
            Op::LeakyRelu => format!("F.leaky_relu({}, {})", x()?, of("alpha", 0.01)?),
            Op::Elu => format!("F.elu({}, {})", x()?, of("alpha", 1.0)?),
            Op::Celu => format!("F.celu({}, {})", x()?, of("alpha", 1.0)?),
            Op::Selu => {
                let (alpha, gamma) =
                    (of("alpha", 1.673_263_192_176_818_8)?, of("gamma", 1.050_701_022_148_132_3)?);
                format!("{gamma} * F.elu({}, {alpha})", x()?)
            }
            Op::ThresholdedRelu => {
                let x = x()?;
                format!("torch.where({x} > {}, {x}, torch.zeros_like({x}))", of("alpha", 1.0)?)
            }
            Op::HardSigmoid => {
                format!("torch.clamp({} * {} + {}, 0.0, 1.0)", x()?, of("alpha", 0.2)?, of("beta", 0.5)?)
            }
            Op::Swish => {
                let x = x()?;
                format!("{x} * torch.sigmoid({} * {x})", of("alpha", 1.0)?)
            }
            Op::Gelu => format!(
                "F.gelu({}, approximate=\"{}\")",
                x()?,
                match text(node, "approximate", "none")? {
                    "tanh" => "tanh",
                    _ => "none",
                }
            ),
            Op::Softmax => format!("torch.softmax({}, {})", x()?, int(node, "axis", -1)?),
            Op::LogSoftmax => format!("torch.log_softmax({}, {})", x()?, int(node, "axis", -1)?),
            _ => return Ok(None),
        }))
    }

    fn clip(&self, node: &Node) -> Result<String> {
        let mut bounds = Vec::new();
        for name in ["min", "max"] {
            if node.attributes.contains_key(name) {
                bounds.push(format!("{name}={}", number(float(node, name, 0.0)?)));
            }
        }
        let x = self.input(node, 0)?;
        Ok(if bounds.is_empty() {
            x
        } else {
            format!("torch.clamp({x}, {}).to({x}.dtype)", bounds.join(", "))
        })
    }

    fn cast(&self, node: &Node) -> Result<String> {
        let x = self.input(node, 0)?;
        Ok(match text(node, "to", "float")? {
            "float" => format!("({x} if {x}.is_floating_point() else {x}.float())"),
            "int" => format!("{x}.long()"),
            "bool" => format!("({x} != 0).long()"),
            "float16" => format!("{x}.half().float()"),
            "bfloat16" => format!("{x}.bfloat16().float()"),
            _ => return Err(refuse(node, "makes numbers of a type that is not known")),
        })
    }

    /// A reduction over axes.
    pub(super) fn reduction(&mut self, node: &Node) -> Result<Option<String>> {
        let function = match node.op {
            Op::ReduceSum => "torch.sum",
            Op::ReduceMean => "torch.mean",
            Op::ReduceMax => "torch.amax",
            Op::ReduceMin => "torch.amin",
            Op::ReduceProd => "product",
            Op::ReduceL1 => "lambda v, a, k: v.abs().sum(a, k)",
            Op::ReduceL2 => "lambda v, a, k: v.square().sum(a, k).sqrt()",
            Op::ReduceSumSquare => "lambda v, a, k: v.square().sum(a, k)",
            Op::ReduceLogSum => "lambda v, a, k: v.sum(a, k).log()",
            Op::ReduceLogSumExp => "torch.logsumexp",
            _ => return Ok(None),
        };
        if function == "product" {
            self.helpers.insert("product");
        }
        let axes = self.list(node, "axes")?;
        let keeps = truth(int(node, "keepdims", 1)? != 0);
        let x = self.input(node, 0)?;
        Ok(Some(self.call("reduced", &[x, function.to_owned(), axes, keeps])))
    }
}
