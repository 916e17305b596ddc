//! Lowers elementwise functions.

use super::lowering::{Lowering, Operand, misfit, show};
use super::strides::{merge_axes, row_major};
use crate::kernel::{Binary, Function, Pairwise, Unary};
use crate::value::Numbers;
use crate::{Kernel, op};
use ckpt_api::{Attribute, Op, Result};

/// Lowers a function of one value.
pub(super) fn unary(lowering: &mut Lowering) -> Result<()> {
    let function = function(lowering)?;
    lowering.allow_roles(&[])?;
    let [x] = lowering.exactly()?;
    let made = match function {
        Function::Relu | Function::Clip { .. } | Function::Square => x.numbers,
        Function::Scale { .. } => {
            lowering.check_numbers(x, Numbers::Integer)?;
            Numbers::Integer
        }
        Function::Dequantize { .. } => {
            lowering.check_numbers(x, Numbers::Integer)?;
            Numbers::Real
        }
        _ => {
            lowering.check_numbers(x, Numbers::Real)?;
            Numbers::Real
        }
    };
    let output = lowering.output(x.shape.clone(), made)?;
    lowering.call(Kernel::Unary(Unary { len: x.len(), function }), [Operand::Input(0)], output);
    Ok(())
}

fn function(lowering: &Lowering) -> Result<Function> {
    let plain = |function| lowering.allow_attributes(&[]).map(|()| function);
    match &lowering.node.op {
        Op::Relu => plain(Function::Relu),
        Op::Softplus => plain(Function::Softplus),
        Op::Sigmoid => plain(Function::Sigmoid),
        Op::Tanh => plain(Function::Tanh),
        Op::LeakyRelu => {
            lowering.allow_attributes(&["alpha"])?;
            Ok(Function::LeakyRelu { alpha: lowering.node.float("alpha", 0.01)? })
        }
        Op::Elu => {
            lowering.allow_attributes(&["alpha"])?;
            Ok(Function::Elu { alpha: lowering.node.float("alpha", 1.0)? })
        }
        Op::Gelu => gelu(lowering),
        Op::Clip => {
            lowering.allow_attributes(&["min", "max"])?;
            let min = lowering.node.float("min", f64::NEG_INFINITY)?;
            let max = lowering.node.float("max", f64::INFINITY)?;
            // ONNX: where min exceeds max, every element becomes max.
            Ok(Function::Clip { min: min.min(max), max })
        }
        other => match other.name() {
            op::SQUARE => plain(Function::Square),
            op::SCALE => {
                lowering.allow_attributes(&["multiply", "divide"])?;
                let (multiply, divide) = (factor(lowering, "multiply")?, factor(lowering, "divide")?);
                Ok(Function::Scale { multiply, divide })
            }
            op::DEQUANTIZE => dequantize(lowering),
            _ => Err(super::unsupported(other)),
        },
    }
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

/// Lowers a function of two values, broadcast as in ONNX.
pub(super) fn binary(lowering: &mut Lowering) -> Result<()> {
    lowering.allow_attributes(&[])?;
    lowering.allow_roles(&[])?;
    let [a, b] = lowering.exactly()?;
    lowering.check_numbers(b, a.numbers)?;
    let shape = broadcast(&a.shape, &b.shape)?;
    let [own_a, own_b] = [&a.shape, &b.shape].map(|own| broadcast_strides(own, &shape));
    let output = lowering.output(shape.clone(), a.numbers)?;
    let (shape, strides) = merge_axes(&shape, [&own_a, &own_b])?;
    let function = if lowering.node.op == Op::Add { Pairwise::Add } else { Pairwise::Multiply };
    let kernel = Binary { shape, strides, function };
    lowering.call(Kernel::Binary(kernel), [Operand::Input(0), Operand::Input(1)], output);
    Ok(())
}

fn broadcast(a: &[usize], b: &[usize]) -> Result<Vec<usize>> {
    let rank = a.len().max(b.len());
    let length = |shape: &[usize], axis: usize| {
        axis.checked_sub(rank - shape.len()).and_then(|axis| shape.get(axis).copied()).unwrap_or(1)
    };
    let lengths = (0..rank).map(|axis| match (length(a, axis), length(b, axis)) {
        (a, b) if a == b => Some(a),
        (1, b) => Some(b),
        (a, 1) => Some(a),
        _ => None,
    });
    let found = lengths.collect::<Option<Vec<_>>>();
    found.ok_or_else(|| misfit(b, format!("a shape that broadcasts to {}", show(a))))
}

fn broadcast_strides(own: &[usize], shape: &[usize]) -> Vec<usize> {
    let mut strides = vec![0; shape.len() - own.len()];
    strides
        .extend(row_major(own).into_iter().zip(own).map(|(stride, len)| if *len == 1 { 0 } else { stride }));
    strides
}
