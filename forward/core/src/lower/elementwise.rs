//! One element at a time.

use super::attributes::wrong;
use super::strides::{joined, row_major};
use super::{Operand, Site, misfit, show};
use crate::Kernel;
use crate::kernel::{Binary, Function, Pairwise, Unary};
use crate::value::Numbers;
use ckpt_api::{Attribute, Error, Op, Result};

/// A function of one value.
pub(super) fn unary(site: &mut Site) -> Result<()> {
    let function = function(site)?;
    site.roles(&[])?;
    let [x] = site.takes()?;
    let made = match function {
        Function::Relu | Function::Clip { .. } | Function::Square => x.numbers,
        Function::Scale { .. } => {
            site.must_be(x, Numbers::Integer)?;
            Numbers::Integer
        }
        Function::Dequantize { .. } => {
            site.must_be(x, Numbers::Integer)?;
            Numbers::Real
        }
        _ => {
            site.must_be(x, Numbers::Real)?;
            Numbers::Real
        }
    };
    let output = site.output(x.shape.clone(), made)?;
    site.call(Kernel::Unary(Unary { len: x.len(), function }), [Operand::Input(0)], output);
    Ok(())
}

fn function(site: &Site) -> Result<Function> {
    let plain = |function| site.knows(&[]).map(|()| function);
    match &site.node.op {
        Op::Relu => plain(Function::Relu),
        Op::Softplus => plain(Function::Softplus),
        Op::Sigmoid => plain(Function::Sigmoid),
        Op::Tanh => plain(Function::Tanh),
        Op::Square => plain(Function::Square),
        Op::LeakyRelu => {
            site.knows(&["alpha"])?;
            Ok(Function::LeakyRelu { alpha: site.float("alpha", 0.01)? })
        }
        Op::Elu => {
            site.knows(&["alpha"])?;
            Ok(Function::Elu { alpha: site.float("alpha", 1.0)? })
        }
        Op::Gelu => {
            site.knows(&["approximate"])?;
            match site.text("approximate")? {
                None | Some("none") => Ok(Function::Gelu { tanh: false }),
                Some("tanh") => Ok(Function::Gelu { tanh: true }),
                Some(other) => {
                    Err(wrong("approximate", &Attribute::Text(other.to_owned()), "'none' or 'tanh'"))
                }
            }
        }
        Op::Clip => {
            site.knows(&["min", "max"])?;
            let (min, max) = (site.float("min", f64::NEG_INFINITY)?, site.float("max", f64::INFINITY)?);
            // ONNX: then every element becomes the maximum.
            Ok(Function::Clip { min: min.min(max), max })
        }
        Op::Scale => {
            site.knows(&["multiply", "divide"])?;
            Ok(Function::Scale { multiply: small(site, "multiply")?, divide: small(site, "divide")? })
        }
        Op::Dequantize => {
            site.knows(&["divide"])?;
            let divide = site.float("divide", 1.0)?;
            if divide == 0.0 || !divide.is_finite() {
                return Err(wrong("divide", &Attribute::Float(divide), "a number other than 0"));
            }
            Ok(Function::Dequantize { divide })
        }
        op => Err(Error::unsupported("the forward pass does not have this operator").found(op.name())),
    }
}

/// An integer of 32 bits other than 0.
fn small(site: &Site, name: &str) -> Result<i32> {
    let value = site.int(name, 1)?;
    let small = i32::try_from(value).ok().filter(|value| *value != 0);
    small.ok_or_else(|| wrong(name, &Attribute::Int(value), "an integer of 32 bits other than 0"))
}

/// A function of two values, broadcast to each other as ONNX has it.
pub(super) fn binary(site: &mut Site) -> Result<()> {
    site.knows(&[])?;
    site.roles(&[])?;
    let [a, b] = site.takes()?;
    site.must_be(b, a.numbers)?;
    let shape = broadcast(&a.shape, &b.shape)?;
    let [own_a, own_b] = [&a.shape, &b.shape].map(|own| broadcast_strides(own, &shape));
    let output = site.output(shape.clone(), a.numbers)?;
    let (shape, strides) = joined(&shape, [&own_a, &own_b])?;
    let function = if site.node.op == Op::Add { Pairwise::Add } else { Pairwise::Multiply };
    let kernel = Binary { shape, strides, function };
    site.call(Kernel::Binary(kernel), [Operand::Input(0), Operand::Input(1)], output);
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
