//! Functions of values, as expressions of Python.

use super::arguments::list;
use super::attributes::{float, ints, text};
use super::names::number;
use super::program::Piece;
use super::refusal::refuse;
use ckpt_api::{Attribute, Error, Node, Op, Result};

/// The expression of a function of one value, and the module that does the same.
pub(super) fn unary(node: &Node) -> Result<Option<(String, Option<String>)>> {
    let alpha = |default: f64| float(node, "alpha", default).map(number);
    let with = |expression: &str, module: &str| Some((expression.to_owned(), Some(module.to_owned())));
    let only = |expression: &str| Some((expression.to_owned(), None));
    Ok(match &node.op {
        Op::Identity => only("{}"),
        Op::Relu => with("{}.relu()", "nn.ReLU()"),
        Op::LeakyRelu => {
            let slope = alpha(0.01)?;
            with(&format!("F.leaky_relu({{}}, {slope})"), &format!("nn.LeakyReLU({slope})"))
        }
        Op::Elu => {
            let alpha = alpha(1.0)?;
            with(&format!("F.elu({{}}, {alpha})"), &format!("nn.ELU({alpha})"))
        }
        Op::Celu => {
            let alpha = alpha(1.0)?;
            with(&format!("F.celu({{}}, {alpha})"), &format!("nn.CELU({alpha})"))
        }
        Op::Selu => with("F.selu({})", "nn.SELU()"),
        Op::Gelu => match text(node, "approximate", "none")? {
            "none" => with("F.gelu({})", "nn.GELU()"),
            _ => with("F.gelu({}, approximate=\"tanh\")", "nn.GELU(\"tanh\")"),
        },
        Op::Softplus => with("F.softplus({})", "nn.Softplus()"),
        Op::Softsign => with("F.softsign({})", "nn.Softsign()"),
        Op::Sigmoid => with("{}.sigmoid()", "nn.Sigmoid()"),
        Op::HardSigmoid => {
            let (alpha, beta) = (alpha(0.2)?, number(float(node, "beta", 0.5)?));
            only(&format!("({alpha} * {{}} + {beta}).clamp(0, 1)"))
        }
        Op::HardSwish => with("F.hardswish({})", "nn.Hardswish()"),
        Op::Swish => match alpha(1.0)?.as_str() {
            "1.0" => with("F.silu({})", "nn.SiLU()"),
            alpha => only(&format!("{{}} * ({alpha} * {{}}).sigmoid()")),
        },
        Op::Mish => with("F.mish({})", "nn.Mish()"),
        Op::Tanh => with("{}.tanh()", "nn.Tanh()"),
        Op::ThresholdedRelu => {
            let alpha = alpha(1.0)?;
            with(&format!("F.threshold({{}}, {alpha}, 0.0)"), &format!("nn.Threshold({alpha}, 0.0)"))
        }
        Op::Clip => {
            let (min, max) = (float(node, "min", f64::NEG_INFINITY)?, float(node, "max", f64::INFINITY)?);
            match (min, max) {
                (0.0, 6.0) => with("F.relu6({})", "nn.ReLU6()"),
                _ => only(&format!("{{}}.clamp({}, {})", number(min), number(max))),
            }
        }
        Op::Cast => match text(node, "to", "float")? {
            "float" => only("{}.float()"),
            "int" => only("{}.long()"),
            "bool" => only("{}.bool()"),
            "float16" => only("{}.half().float()"),
            _ => only("{}.bfloat16().float()"),
        },
        Op::Not => only("~{}.bool()"),
        Op::Reciprocal => only("1.0 / {}"),
        Op::Neg => only("-{}"),
        Op::Floor
        | Op::Ceil
        | Op::Round
        | Op::Sign
        | Op::Abs
        | Op::Sqrt
        | Op::Exp
        | Op::Log
        | Op::Sin
        | Op::Cos
        | Op::Tan
        | Op::Asin
        | Op::Acos
        | Op::Atan
        | Op::Sinh
        | Op::Cosh
        | Op::Asinh
        | Op::Acosh
        | Op::Atanh
        | Op::Erf => only(&format!("{{}}.{}()", node.op.name().to_ascii_lowercase())),
        _ => None,
    })
}

/// The expression of a function of two values, or of more for the greatest and the least.
pub(super) fn infix(node: &Node, operands: &[Piece]) -> Result<Vec<Piece>> {
    let (open, between, close) = match node.op {
        Op::Add => ("", " + ", ""),
        Op::Sub => ("", " - ", ""),
        Op::Mul => ("", " * ", ""),
        Op::Div => ("", " / ", ""),
        Op::Pow => ("", " ** ", ""),
        Op::Mod => ("", " % ", ""),
        Op::Equal => ("(", " == ", ").float()"),
        Op::Less => ("(", " < ", ").float()"),
        Op::LessOrEqual => ("(", " <= ", ").float()"),
        Op::Greater => ("(", " > ", ").float()"),
        Op::GreaterOrEqual => ("(", " >= ", ").float()"),
        Op::And => ("torch.logical_and(", ", ", ").float()"),
        Op::Or => ("torch.logical_or(", ", ", ").float()"),
        Op::Xor => ("torch.logical_xor(", ", ", ").float()"),
        Op::Max => return extreme(node, operands, "max"),
        Op::Min => return extreme(node, operands, "min"),
        Op::PRelu => return sloped(node, operands),
        _ => return Err(refuse(node, "has no form in the generated code")),
    };
    if operands.len() != 2 {
        return Err(refuse(node, "does not take two values"));
    }
    let mut written = vec![Piece::Text(open.to_owned())];
    for (number, operand) in operands.iter().enumerate() {
        written.extend((number > 0).then(|| Piece::Text(between.to_owned())));
        written.push(operand.clone());
    }
    written.push(Piece::Text(close.to_owned()));
    Ok(written)
}

/// A slope for each negative number: `nn.PReLU` has one for each channel only, and only on axis 1.
fn sloped(node: &Node, operands: &[Piece]) -> Result<Vec<Piece>> {
    let [value, slope] = operands else { return Err(refuse(node, "does not take two values")) };
    let text = |text: &str| Piece::Text(text.to_owned());
    let before = [text("torch.where("), value.clone(), text(" > 0, "), value.clone(), text(", ")];
    let after = [value.clone(), text(" * "), slope.clone(), text(")")];
    Ok([&before[..], &after[..]].concat())
}

fn extreme(node: &Node, operands: &[Piece], name: &str) -> Result<Vec<Piece>> {
    let is_number = |piece: &&Piece| matches!(piece, Piece::Text(_));
    let numbers: Vec<&Piece> = operands.iter().filter(is_number).collect();
    let others: Vec<&Piece> = operands.iter().filter(|piece| !is_number(piece)).collect();
    let text = |text: &str| Piece::Text(text.to_owned());
    match (&others[..], &numbers[..]) {
        ([value], [bound]) => {
            let side = if name == "max" { "min" } else { "max" };
            Ok(vec![(*value).clone(), text(&format!(".clamp({side}=")), (*bound).clone(), text(")")])
        }
        ([a, b], []) => {
            Ok(vec![text(&format!("torch.{name}imum(")), (*a).clone(), text(", "), (*b).clone(), text(")")])
        }
        _ => Err(refuse(node, "does not take two values")),
    }
}

/// The numbers of a Constant as a tensor.
pub(super) fn numbers(node: &Node) -> Result<String> {
    let listed = match (node.attributes.get("value_floats"), node.attributes.get("value_ints")) {
        (Some(Attribute::Floats(values)), _) => values.iter().map(|value| number(*value)).collect(),
        (_, Some(Attribute::Ints(values))) => values.iter().map(i64::to_string).collect(),
        _ => match (node.attributes.get("value_float"), node.attributes.get("value_int")) {
            (Some(Attribute::Float(value)), _) => return Ok(format!("torch.tensor({})", number(*value))),
            (_, Some(Attribute::Int(value))) => return Ok(format!("torch.tensor({value})")),
            _ => return Err(refuse(node, "has a value that is not supported")),
        },
    };
    let listed: Vec<String> = listed;
    // What a person would not write, and no reader would read.
    const MOST: usize = 4096;
    if listed.len() > MOST {
        return Err(Error::unsupported("a constant of the graph is too large for the generated code")
            .field(format!("layer '{}'", node.name))
            .found(format!("{} numbers", listed.len()))
            .expected(format!("at most {MOST}")));
    }
    let shape = match ints(node, "shape")? {
        Some(shape) => format!(".reshape({})", list(shape)),
        None => String::new(),
    };
    Ok(format!("torch.tensor([{}]){shape}", listed.join(", ")))
}
