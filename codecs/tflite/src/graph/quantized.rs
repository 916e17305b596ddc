//! Integers with scales: as numbers within the graph, and as integers at its ends.

use super::known::Val;
use super::lowering::{Lowering, Read};
use super::step::Operation;
use ckpt_api::{Affine, Attribute, DType, Op};

/// Operators whose result has the elements of their inputs, and so the steps of their scale.
const MOVING: [&str; 14] = [
    "RESHAPE",
    "TRANSPOSE",
    "SQUEEZE",
    "EXPAND_DIMS",
    "STRIDED_SLICE",
    "SLICE",
    "GATHER",
    "MAX_POOL_2D",
    "SPLIT",
    "SPLIT_V",
    "UNPACK",
    "DEPTH_TO_SPACE",
    "SPACE_TO_DEPTH",
    "TILE",
];

impl Lowering<'_> {
    /// The result `number` of an operator, rounded to the steps of its scale.
    pub(super) fn rounded(&mut self, operation: &Operation<'_>, number: usize, val: Val) -> Read<Val> {
        let Some(affine) = self.affine(number)? else { return Ok(val) };
        let is_moved = MOVING.contains(&operation.name.as_str())
            && operation
                .inputs()?
                .iter()
                .any(|input| self.affine(*input).is_ok_and(|own| own.as_ref() == Some(&affine)));
        if is_moved {
            return Ok(val);
        }
        let (scale, zero) = single(&affine)?;
        let (least, most) = bounds(self.dtype(number)?)?;
        let steps = self.steps_of(&val, scale)?;
        let node = self.builder.node(Op::Clip).attribute("min", Attribute::Float(least - zero));
        let node = node.attribute("max", Attribute::Float(most - zero));
        let steps = self.builder.map(node, &steps)?;
        let scale = self.builder.scalar(scale)?;
        self.builder.apply(Op::Mul, &[&steps, &scale])
    }

    /// How many steps of a scale numbers are, rounded.
    fn steps_of(&mut self, val: &Val, scale: f64) -> Read<Val> {
        let scale = self.builder.scalar(scale)?;
        let steps = self.builder.apply(Op::Div, &[val, &scale])?;
        self.builder.apply(Op::Round, &[&steps])
    }

    /// The numbers that the integers of an input stand for.
    pub(super) fn dequantized(&mut self, number: usize, val: Val) -> Read<Val> {
        let Some(affine) = self.affine(number)? else { return Ok(val) };
        let (scale, zero) = single(&affine)?;
        let node = self.builder.node(Op::Cast).attribute("to", Attribute::Text("float".into()));
        let real = self.builder.map(node, &val)?;
        let zero = self.builder.scalar(zero)?;
        let steps = self.builder.apply(Op::Sub, &[&real, &zero])?;
        let scale = self.builder.scalar(scale)?;
        self.builder.apply(Op::Mul, &[&steps, &scale])
    }

    /// The integers that stand for the numbers of a result.
    pub(super) fn quantized(&mut self, number: usize, val: Val) -> Read<Val> {
        let Some(affine) = self.affine(number)? else { return Ok(val) };
        let (scale, zero) = single(&affine)?;
        let steps = self.steps_of(&val, scale)?;
        let zero = self.builder.scalar(zero)?;
        let integers = self.builder.apply(Op::Add, &[&steps, &zero])?;
        let node = self.builder.node(Op::Cast).attribute("to", Attribute::Text("int".into()));
        self.builder.map(node, &integers)
    }
}

/// The one scale and zero point of a value that is computed.
fn single(affine: &Affine) -> Read<(f64, f64)> {
    match (affine.scales(), affine.zero_points()) {
        ([scale], [zero]) if *scale > 0.0 => Ok((*scale, *zero)),
        _ => Err("makes or takes integers with a scale for each index of an axis, or without a positive one"
            .to_owned()),
    }
}

/// The least and the greatest integer of a dtype.
fn bounds(dtype: DType) -> Read<(f64, f64)> {
    match dtype {
        DType::I8 => Ok((-128.0, 127.0)),
        DType::U8 => Ok((0.0, 255.0)),
        DType::I16 => Ok((-32768.0, 32767.0)),
        DType::U16 => Ok((0.0, 65535.0)),
        DType::I4 => Ok((-8.0, 7.0)),
        other => Err(format!("makes {other} with a scale")),
    }
}
