//! Values that are repeated, counted or cut along a free axis, by nodes that take its length from an input.
//!
//! The contract's operators take lengths that are known. A choice between a value and itself, by a condition that has
//! the free axis, repeats the value along that axis and computes nothing.

use super::values::{Attributes, Read, Reader};
use crate::format::message::Node;
use ckpt_api::{Attribute, Op};
use ckpt_graph::Length;

/// A free axis that a value gets: which one, and its place, counted from the last axis, which is 1.
pub(super) type Stretch = (usize, usize);

impl<'a> Reader<'a> {
    /// A value repeated along free axes, if it has the length 1.
    pub(super) fn stretched(&mut self, layer: &str, value: String, stretches: &[Stretch]) -> Read<String> {
        let mut value = value;
        for stretch in stretches {
            let condition = self.condition(*stretch)?;
            let output = self.fresh_value(&format!("{layer}/repeated"));
            let inputs = vec![condition, value.clone(), value];
            self.emit_as(layer, Op::Where, inputs, vec![output.clone()], Attributes::new());
            value = output;
        }
        Ok(value)
    }

    /// A truth value whose only long axis is a free one.
    fn condition(&mut self, (axis, place): Stretch) -> Read<String> {
        if let Some(known) = self.conditions.get(&(axis, place)) {
            return Ok(known.clone());
        }
        let (input, at, rank) =
            self.origins.get(&axis).cloned().ok_or("takes a length that no input of the model has")?;
        let others: Vec<i64> = (0..rank).filter(|other| *other != at).map(|other| other as i64).collect();
        let mut value = input.clone();
        if !others.is_empty() {
            let attributes = Attributes::new()
                .ints("starts", vec![0; others.len()])
                .ints("ends", vec![1; others.len()])
                .ints("axes", others);
            value = self.along(&input, Op::Slice, vec![value], attributes);
        }
        // Every number compares in some way; that it is none is a truth value, too.
        value = match self.dtype(&input).is_none_or(|dtype| dtype.is_float()) {
            true => self.along(&input, Op::from("IsNaN".to_owned()), vec![value], Attributes::new()),
            false => self.along(&input, Op::Equal, vec![value.clone(), value], Attributes::new()),
        };
        let mut shape = vec![-1];
        shape.resize(place, 1);
        value = self.along(&input, Op::Reshape, vec![value], Attributes::new().ints("shape", shape));
        self.conditions.insert((axis, place), value.clone());
        Ok(value)
    }

    fn along(&mut self, input: &str, op: Op, inputs: Vec<String>, attributes: Attributes) -> String {
        let output = self.fresh_value(&format!("{input}/length"));
        self.emit_as(&format!("{input}/length"), op, inputs, vec![output.clone()], attributes);
        output
    }

    /// The integers from `first` on, as many as a free axis is long.
    pub(super) fn counted(&mut self, layer: &str, first: i64, count: Length) -> Read<String> {
        let Length::Free { axis, times: 1, plus: 0 } = count else {
            return Err("counts up to a number that is no length of an input".to_owned());
        };
        let ones = self.filled(layer, 1.0, true, &[Length::free(axis)])?;
        let attributes = Attributes::new().int("axis", 0).int("exclusive", 1);
        let output = self.fresh_value(&format!("{layer}/count"));
        let op = Op::from("CumSum".to_owned());
        self.emit_as(layer, op, vec![ones], vec![output.clone()], attributes);
        if first == 0 {
            return Ok(output);
        }
        let (start, sum) =
            (self.fresh_value(&format!("{layer}/first")), self.fresh_value(&format!("{layer}/count")));
        let attributes = Attributes::new().with("value_int", Attribute::Int(first));
        self.emit_as(layer, Op::Constant, Vec::new(), vec![start.clone()], attributes);
        self.emit_as(layer, Op::Add, vec![output, start], vec![sum.clone()], Attributes::new());
        Ok(sum)
    }

    /// Integers up to the length of a free axis.
    pub(super) fn range(&mut self, node: &'a Node) -> Read<()> {
        let bound = |at: usize| Some(*self.ints(node.input(at)?)?.values.first()?);
        let (Some(Length::Known(first)), Some(end), Some(Length::Known(1))) = (bound(0), bound(1), bound(2))
        else {
            return self.composed(node);
        };
        let count = end - first;
        let value = self.counted(node.layer(), first, count)?;
        self.emit_one(node, Op::Identity, vec![value], Attributes::new(), Some(vec![count]))
    }
}
