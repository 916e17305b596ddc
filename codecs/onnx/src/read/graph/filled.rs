//! Values that are one number at every place of a shape, such as the first states of a recurrent layer.

use super::values::{Attributes, Known, Read, Reader};
use crate::format::dtype;
use crate::format::message::Node;
use ckpt_api::{Attribute, DType, Node as Layer, Op};
use ckpt_graph::Length;
use ckpt_graph::shape::{broadcast, resolve, sliced};

impl<'a> Reader<'a> {
    /// Whether a node takes such a value.
    pub(super) fn is_filled(&self, node: &Node) -> bool {
        node.input(0).is_some_and(|name| matches!(self.known(name), Known::Filled { .. }))
    }

    /// Whether a value is 0 at every place.
    pub(super) fn is_zero(&self, name: &str) -> bool {
        match self.known(name) {
            Known::Filled { value, .. } => *value == 0.0,
            Known::Floats(values, _) => values.iter().all(|value| *value == 0.0),
            _ => false,
        }
    }

    /// A tensor that gets another name: exporters store equal tensors once.
    pub(super) fn alias(&self, node: &Node) -> Option<Known> {
        let (input, output) = (node.input(0)?, node.outputs.first()?);
        let is_tensor = self.tensor(input).is_some() && !self.is_output(output);
        (is_tensor || self.is_filled(node)).then(|| self.known(input).clone())
    }

    /// Whether a node gives a tensor a type that has all its numbers: graphs compute with real numbers, so the result is
    /// the tensor itself. Notes that type.
    pub(super) fn is_widened_tensor(&mut self, node: &'a Node) -> bool {
        let number = match node.op.as_str() {
            "Cast" => node.int("to").unwrap_or(0),
            _ => node.input(1).and_then(|like| self.dtypes.get(like).copied()).unwrap_or(0),
        };
        let own = node.input(0).and_then(|name| Some(self.tensor(name)?.1.dtype));
        let is_wider = own.zip(dtype(number)).is_some_and(|(own, wanted)| widens(own, wanted));
        if let (true, Some(output)) = (is_wider, node.outputs.first()) {
            self.dtypes.insert(output, number);
        }
        is_wider
    }

    /// A number that is repeated along free axes.
    pub(super) fn expanded(&self, node: &Node) -> Option<Known> {
        let input = node.input(0)?;
        let wanted = self.ints(node.input(1)?)?.values;
        let (value, is_int) = match self.known(input) {
            Known::Filled { value, is_int, .. } => (*value, *is_int),
            _ if wanted.iter().all(|len| len.known().is_some()) => return None,
            _ => (self.number(input)?, self.ints(input).is_some()),
        };
        let shape = broadcast(&self.shape(input)?, &wanted)?;
        Some(Known::Filled { value, is_int, shape })
    }

    /// A part of such a value.
    pub(super) fn sliced_filling(&self, node: &Node) -> Read<Option<Known>> {
        let Some(Known::Filled { value, is_int, mut shape }) =
            node.input(0).map(|name| self.known(name).clone())
        else {
            return Ok(None);
        };
        let starts = self.list(node, 1, "starts")?.ok_or("lacks its starts")?;
        let ends = self.list(node, 2, "ends")?.ok_or("lacks its ends")?;
        let axes = self.list(node, 3, "axes")?.unwrap_or_else(|| (0..starts.len() as i64).collect());
        let steps = self.list(node, 4, "steps")?.unwrap_or_else(|| vec![1; starts.len()]);
        for (((start, end), axis), step) in starts.iter().zip(&ends).zip(&axes).zip(&steps) {
            let at = resolve(*axis, shape.len()).ok_or("has an axis that does not exist")?;
            if let Some(len) = shape.get_mut(at) {
                *len = sliced(*len, *start, *end, *step);
            }
        }
        Ok(Some(Known::Filled { value, is_int, shape }))
    }

    /// The nodes of such a value: a number, and one that repeats it.
    pub(super) fn filled(&mut self, name: &str, value: f64, is_int: bool, shape: &[Length]) -> Read<String> {
        let (lens, stretches) = self.stretches(shape, &[])?;
        let number = match is_int {
            true => {
                Layer::new(String::new(), Op::Constant).attribute("value_int", Attribute::Int(value as i64))
            }
            false => {
                Layer::new(String::new(), Op::Constant).attribute("value_float", Attribute::Float(value))
            }
        };
        let (one, repeated) = (self.fresh_value(&format!("{name}/number")), self.fresh_value(name));
        self.push(name, Layer { outputs: vec![one.clone()], ..number });
        let attributes = Attributes::new().ints("shape", lens);
        self.emit_as(name, Op::Expand, vec![one], vec![repeated.clone()], attributes);
        let output = self.stretched(name, repeated, &stretches)?;
        self.set_shape(&output, Some(shape.to_vec()));
        Ok(output)
    }
}

/// Whether a floating-point type has all numbers of another one.
fn widens(from: DType, to: DType) -> bool {
    match to {
        DType::F64 => from.is_float(),
        DType::F32 => from.is_float() && from != DType::F64,
        _ => from == to && from.is_float(),
    }
}
