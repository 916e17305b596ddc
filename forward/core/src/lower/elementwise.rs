//! Lowers elementwise functions.

use super::broadcast::broadcast;
use super::lowering::{Info, Load, Lowering, Operand, misfit, show, unsupported};
use super::strides::{merge_axes, row_major};
use crate::kernel::{Binary, Compare, Function, Pairwise, Relation, Select, Short, Unary};
use crate::value::Numbers;
use crate::{Kernel, op};
use ckpt_api::{Attribute, Op, Result};

/// ONNX's constants, which are binary32's of the function's paper.
const SELU_ALPHA: f64 = 1.673_263_192_176_818_8;
const SELU_GAMMA: f64 = 1.050_701_022_148_132_3;

/// Lowers a function of one value.
pub(super) fn unary(lowering: &mut Lowering) -> Result<()> {
    let function = function(lowering)?;
    lowering.allow_roles(&[])?;
    let [x] = lowering.exactly()?;
    let made = made(lowering, x, function)?;
    let output = lowering.output(x.shape.clone(), made)?;
    lowering.call(Kernel::Unary(Unary { len: x.len(), function }), [Operand::Input(0)], output);
    Ok(())
}

/// The kind of numbers that a function makes of `x`.
fn made(lowering: &Lowering, x: &Info, function: Function) -> Result<Numbers> {
    let (taken, made) = match function {
        Function::Not | Function::Scale { .. } => (Numbers::Integer, Numbers::Integer),
        Function::Dequantize { .. } => (Numbers::Integer, Numbers::Real),
        Function::Truncate => (Numbers::Real, Numbers::Integer),
        function if function.has_integers() => (x.numbers, x.numbers),
        _ => (Numbers::Real, Numbers::Real),
    };
    lowering.check_numbers(x, taken)?;
    Ok(made)
}

fn function(lowering: &Lowering) -> Result<Function> {
    if let Some(function) = plain(&lowering.node.op) {
        return lowering.allow_attributes(&[]).map(|()| function);
    }
    let [alpha, beta, gamma] = ["alpha", "beta", "gamma"];
    let number = |name: &str, default: f64| lowering.node.float(name, default);
    let with = |names: &[&str]| lowering.allow_attributes(names);
    Ok(match &lowering.node.op {
        Op::LeakyRelu => {
            with(&[alpha])?;
            Function::LeakyRelu { alpha: number(alpha, 0.01)? }
        }
        Op::ThresholdedRelu => {
            with(&[alpha])?;
            Function::ThresholdedRelu { alpha: number(alpha, 1.0)? }
        }
        Op::Elu => {
            with(&[alpha])?;
            Function::Elu { alpha: number(alpha, 1.0)? }
        }
        Op::Celu => celu(lowering)?,
        Op::Selu => {
            with(&[alpha, gamma])?;
            Function::Selu { alpha: number(alpha, SELU_ALPHA)?, gamma: number(gamma, SELU_GAMMA)? }
        }
        Op::HardSigmoid => {
            with(&[alpha, beta])?;
            Function::HardSigmoid { alpha: number(alpha, 0.2)?, beta: number(beta, 0.5)? }
        }
        Op::Swish => {
            with(&[alpha])?;
            Function::Swish { alpha: number(alpha, 1.0)? }
        }
        Op::Gelu => gelu(lowering)?,
        Op::Clip => {
            with(&["min", "max"])?;
            let (min, max) = (number("min", f64::NEG_INFINITY)?, number("max", f64::INFINITY)?);
            // ONNX: where min exceeds max, every element becomes max.
            Function::Clip { min: min.min(max), max }
        }
        other => match other.name() {
            op::SQUARE => with(&[]).map(|()| Function::Square)?,
            op::SCALE => {
                with(&["multiply", "divide"])?;
                let (multiply, divide) = (factor(lowering, "multiply")?, factor(lowering, "divide")?);
                Function::Scale { multiply, divide }
            }
            op::DEQUANTIZE => dequantize(lowering)?,
            _ => return Err(unsupported(other)),
        },
    })
}

/// Functions without attributes.
fn plain(op: &Op) -> Option<Function> {
    Some(match op {
        Op::Relu => Function::Relu,
        Op::Softplus => Function::Softplus,
        Op::Softsign => Function::Softsign,
        Op::Sigmoid => Function::Sigmoid,
        Op::HardSwish => Function::HardSwish,
        Op::Mish => Function::Mish,
        Op::Tanh => Function::Tanh,
        Op::Abs => Function::Abs,
        Op::Neg => Function::Negate,
        Op::Sign => Function::Sign,
        Op::Reciprocal => Function::Reciprocal,
        Op::Sqrt => Function::Sqrt,
        Op::Exp => Function::Exp,
        Op::Log => Function::Log,
        Op::Sin => Function::Sin,
        Op::Cos => Function::Cos,
        Op::Tan => Function::Tan,
        Op::Asin => Function::Asin,
        Op::Acos => Function::Acos,
        Op::Atan => Function::Atan,
        Op::Sinh => Function::Sinh,
        Op::Cosh => Function::Cosh,
        Op::Asinh => Function::Asinh,
        Op::Acosh => Function::Acosh,
        Op::Atanh => Function::Atanh,
        Op::Erf => Function::Erf,
        Op::Floor => Function::Floor,
        Op::Ceil => Function::Ceil,
        Op::Round => Function::Round,
        Op::Not => Function::Not,
        _ => return None,
    })
}

fn celu(lowering: &Lowering) -> Result<Function> {
    lowering.allow_attributes(&["alpha"])?;
    let alpha = lowering.node.float("alpha", 1.0)?;
    if alpha == 0.0 {
        return Err(Attribute::Float(alpha).invalid("alpha", "a number other than 0"));
    }
    Ok(Function::Celu { alpha })
}

fn gelu(lowering: &Lowering) -> Result<Function> {
    lowering.allow_attributes(&["approximate"])?;
    match lowering.node.text("approximate")? {
        None | Some("none") => Ok(Function::Gelu { tanh: false }),
        Some("tanh") => Ok(Function::Gelu { tanh: true }),
        Some(other) => Err(Attribute::Text(other.to_owned()).invalid("approximate", "'none' or 'tanh'")),
    }
}

fn dequantize(lowering: &Lowering) -> Result<Function> {
    lowering.allow_attributes(&["divide"])?;
    let divide = lowering.node.float("divide", 1.0)?;
    if divide == 0.0 || !divide.is_finite() {
        return Err(Attribute::Float(divide).invalid("divide", "a finite number other than 0"));
    }
    Ok(Function::Dequantize { divide })
}

/// An integer of 32 bits other than 0; 1 if it is absent.
fn factor(lowering: &Lowering, name: &str) -> Result<i32> {
    let value = lowering.node.int(name, 1)?;
    let factor = i32::try_from(value).ok().filter(|value| *value != 0);
    factor.ok_or_else(|| Attribute::Int(value).invalid(name, "an integer of 32 bits other than 0"))
}

/// Lowers what a division leaves: with the sign of the divisor, or of the dividend if `fmod` is 1.
pub(super) fn modulo(lowering: &mut Lowering) -> Result<()> {
    lowering.allow_attributes(&["fmod"])?;
    let function = if lowering.node.flag("fmod")? { Pairwise::Remainder } else { Pairwise::Modulo };
    pairs(lowering, function)
}

/// Lowers the bits of integers, moved by a number of places.
pub(super) fn shift(lowering: &mut Lowering) -> Result<()> {
    lowering.allow_attributes(&["direction"])?;
    let function = match lowering.node.text("direction")? {
        Some("LEFT") => Pairwise::ShiftLeft,
        Some("RIGHT") => Pairwise::ShiftRight,
        other => {
            let found = Attribute::Text(other.unwrap_or_default().to_owned());
            return Err(found.invalid("direction", "'LEFT' or 'RIGHT'"));
        }
    };
    pairs(lowering, function)
}

/// Lowers a function of two values, broadcast as in ONNX.
pub(super) fn binary(lowering: &mut Lowering, function: Pairwise) -> Result<()> {
    lowering.allow_attributes(&[])?;
    pairs(lowering, function)
}

fn pairs(lowering: &mut Lowering, function: Pairwise) -> Result<()> {
    lowering.allow_roles(&[])?;
    let [a, b] = lowering.exactly()?;
    if function.is_of_bits() {
        lowering.check_numbers(a, Numbers::Integer)?;
    }
    lowering.check_numbers(b, a.numbers)?;
    let (shape, [own_a, own_b]) = broadcast([a, b])?;
    let output = lowering.output(shape.clone(), a.numbers)?;
    let (shape, strides) = merge_axes(&shape, [&own_a, &own_b])?;
    let kernel = Binary { shape, strides, function };
    lowering.call(Kernel::Binary(kernel), [Operand::Input(0), Operand::Input(1)], output);
    Ok(())
}

/// Lowers the maximum or minimum of one or more values, the first two first.
pub(super) fn extreme(lowering: &mut Lowering, function: Pairwise) -> Result<()> {
    lowering.allow_attributes(&[])?;
    lowering.allow_roles(&[])?;
    let count = lowering.inputs.len();
    let first = lowering.input(0)?;
    let mut so_far = (Operand::Input(0), first.clone());
    for index in 1..count {
        let next = lowering.input(index)?;
        lowering.check_numbers(next, first.numbers)?;
        let (shape, [own_a, own_b]) = broadcast([&so_far.1, next])?;
        let made = match index + 1 == count {
            true => lowering.output(shape.clone(), first.numbers)?,
            false => lowering.temporary(shape.clone(), first.numbers)?,
        };
        let (merged, strides) = merge_axes(&shape, [&own_a, &own_b])?;
        let kernel = Kernel::Binary(Binary { shape: merged, strides, function });
        lowering.call(kernel, [so_far.0, Operand::Input(index)], made);
        so_far = (made, Info { shape, numbers: first.numbers });
    }
    if count == 1 { super::moves::identity(lowering) } else { Ok(()) }
}

/// Lowers a relation of two values; `swapped` exchanges them.
pub(super) fn compare(lowering: &mut Lowering, relation: Relation, swapped: bool) -> Result<()> {
    lowering.allow_attributes(&[])?;
    lowering.allow_roles(&[])?;
    let [a, b] = lowering.exactly()?;
    lowering.check_numbers(b, a.numbers)?;
    let (shape, [own_a, own_b]) = broadcast([a, b])?;
    let output = lowering.output(shape.clone(), Numbers::Integer)?;
    let (shape, mut strides) = merge_axes(&shape, [&own_a, &own_b])?;
    let mut operands = [Operand::Input(0), Operand::Input(1)];
    if swapped {
        strides.reverse();
        operands.reverse();
    }
    lowering.call(Kernel::Compare(Compare { shape, strides, relation }), operands, output);
    Ok(())
}

/// Lowers an operator of two truth values, 1 and 0: a function of them is the result.
pub(super) fn truths(lowering: &mut Lowering, function: Pairwise) -> Result<()> {
    let [a, _] = lowering.exactly()?;
    lowering.check_numbers(a, Numbers::Integer)?;
    binary(lowering, function)
}

/// Lowers the exclusive or of two truth values: whether they are not equal.
pub(super) fn differ(lowering: &mut Lowering) -> Result<()> {
    lowering.allow_attributes(&[])?;
    lowering.allow_roles(&[])?;
    let [a, b] = lowering.exactly()?;
    lowering.check_numbers(a, Numbers::Integer)?;
    lowering.check_numbers(b, Numbers::Integer)?;
    let (shape, [own_a, own_b]) = broadcast([a, b])?;
    let equal = lowering.temporary(shape.clone(), Numbers::Integer)?;
    let output = lowering.output(shape.clone(), Numbers::Integer)?;
    let len = shape.iter().product();
    let (shape, strides) = merge_axes(&shape, [&own_a, &own_b])?;
    let kernel = Compare { shape, strides, relation: Relation::Equal };
    lowering.call(Kernel::Compare(kernel), [Operand::Input(0), Operand::Input(1)], equal);
    lowering.call(Kernel::Unary(Unary { len, function: Function::Not }), [equal], output);
    Ok(())
}

/// Lowers the choice between two values.
pub(super) fn select(lowering: &mut Lowering) -> Result<()> {
    lowering.allow_attributes(&[])?;
    lowering.allow_roles(&[])?;
    let [condition, a, b] = lowering.exactly()?;
    lowering.check_numbers(condition, Numbers::Integer)?;
    lowering.check_numbers(b, a.numbers)?;
    let (shape, [of_condition, own_a, own_b]) = broadcast([condition, a, b])?;
    let output = lowering.output(shape.clone(), a.numbers)?;
    let (shape, strides) = merge_axes(&shape, [&of_condition, &own_a, &own_b])?;
    let operands = [Operand::Input(0), Operand::Input(1), Operand::Input(2)];
    lowering.call(Kernel::Select(Select { shape, strides }), operands, output);
    Ok(())
}

/// Lowers `x < 0 ? slope·x : x`.
pub(super) fn leaky(lowering: &mut Lowering) -> Result<()> {
    lowering.allow_attributes(&[])?;
    lowering.allow_roles(&[])?;
    let [x, slope] = lowering.exactly()?;
    lowering.real(0)?;
    lowering.real(1)?;
    let (shape, [own, of_slope]) = broadcast([x, slope])?;
    if shape != x.shape {
        return Err(misfit(&slope.shape, format!("a shape that broadcasts to {}", show(&x.shape))));
    }
    let (merged, [own, of_slope]) = merge_axes(&shape, [&own, &of_slope])?;
    let nothing = vec![0; merged.len()];
    let packed = row_major(&merged);
    let zero = lowering.load(Load::Constant { value: 0.0, len: 1 });
    let scaled = lowering.temporary(shape.clone(), Numbers::Real)?;
    let is_below = lowering.temporary(shape.clone(), Numbers::Integer)?;
    let output = lowering.output(shape, Numbers::Real)?;
    let product =
        Binary { shape: merged.clone(), strides: [own.clone(), of_slope], function: Pairwise::Multiply };
    lowering.call(Kernel::Binary(product), [Operand::Input(0), Operand::Input(1)], scaled);
    let below = Compare { shape: merged.clone(), strides: [own.clone(), nothing], relation: Relation::Less };
    lowering.call(Kernel::Compare(below), [Operand::Input(0), zero], is_below);
    let choice = Select { shape: merged, strides: [packed.clone(), packed, own] };
    lowering.call(Kernel::Select(choice), [is_below, scaled, Operand::Input(0)], output);
    Ok(())
}

/// Lowers a conversion between kinds of numbers.
pub(super) fn cast(lowering: &mut Lowering) -> Result<()> {
    lowering.allow_attributes(&["to", "saturate"])?;
    lowering.allow_roles(&[])?;
    let [x] = lowering.exactly()?;
    let to = lowering.node.text("to")?.unwrap_or_default();
    if let Some(short) = short(to, lowering.node.int("saturate", 1)? != 0) {
        return rounded(lowering, x, Function::ToShort(short));
    }
    let function = match (to, x.numbers) {
        ("float", Numbers::Real) | ("int", Numbers::Integer) => return super::moves::copied(lowering),
        ("float", Numbers::Integer) => Function::Dequantize { divide: 1.0 },
        ("float16", _) => return rounded(lowering, x, Function::ToFloat16),
        ("bfloat16", _) => return rounded(lowering, x, Function::ToBfloat16),
        ("int", Numbers::Real) => Function::Truncate,
        ("bool", _) => return truth(lowering, x),
        (other, _) => {
            let expected = "'float', 'float16', 'bfloat16', a 'float8' type, 'float4e2m1', 'int' or 'bool'";
            return Err(Attribute::Text(other.to_owned()).invalid("to", expected));
        }
    };
    let output = lowering.output(x.shape.clone(), made(lowering, x, function)?)?;
    lowering.call(Kernel::Unary(Unary { len: x.len(), function }), [Operand::Input(0)], output);
    Ok(())
}

/// The type of a few bits with this name, and what becomes of numbers beyond it.
fn short(name: &str, saturates: bool) -> Option<Short> {
    let (digits, least, greatest, otherwise) = match name {
        "float8e4m3fn" => (3, -6, 448.0, f64::NAN),
        "float8e4m3fnuz" => (3, -7, 240.0, f64::NAN),
        "float8e5m2" => (2, -14, 57344.0, f64::INFINITY),
        "float8e5m2fnuz" => (2, -15, 57344.0, f64::NAN),
        "float4e2m1" => (1, 0, 6.0, 6.0),
        _ => return None,
    };
    Some(Short { digits, least, greatest, beyond: if saturates { greatest } else { otherwise } })
}

/// Real numbers, or integers as such, rounded to fewer bits.
fn rounded(lowering: &mut Lowering, x: &Info, function: Function) -> Result<()> {
    let len = x.len();
    let from = match x.numbers {
        Numbers::Real => Operand::Input(0),
        Numbers::Integer => {
            let real = lowering.temporary(x.shape.clone(), Numbers::Real)?;
            let function = Function::Dequantize { divide: 1.0 };
            lowering.call(Kernel::Unary(Unary { len, function }), [Operand::Input(0)], real);
            real
        }
    };
    let output = lowering.output(x.shape.clone(), Numbers::Real)?;
    lowering.call(Kernel::Unary(Unary { len, function }), [from], output);
    Ok(())
}

/// Whether each number is not 0: whether it does not equal 0, so that NaN is true.
fn truth(lowering: &mut Lowering, x: &Info) -> Result<()> {
    let len = x.len();
    let equal = lowering.temporary(x.shape.clone(), Numbers::Integer)?;
    let output = lowering.output(x.shape.clone(), Numbers::Integer)?;
    match x.numbers {
        Numbers::Real => {
            let zero = lowering.load(Load::Constant { value: 0.0, len: 1 });
            let kernel = Compare { shape: vec![len], strides: [vec![1], vec![0]], relation: Relation::Equal };
            lowering.call(Kernel::Compare(kernel), [Operand::Input(0), zero], equal);
        }
        Numbers::Integer => {
            let function = Function::Not;
            lowering.call(Kernel::Unary(Unary { len, function }), [Operand::Input(0)], equal);
        }
    }
    lowering.call(Kernel::Unary(Unary { len, function: Function::Not }), [equal], output);
    Ok(())
}
