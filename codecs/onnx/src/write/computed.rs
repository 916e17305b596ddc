//! Writes layers that take inputs in place of attributes, as ONNX does.

use super::builder::{Builder, Kind, Setting};
use super::ops::{allow, ints};
use ckpt_api::{DType, Error, Node, Op, Result};

impl Builder<'_> {
    /// A layer of which the graph computes attributes.
    pub(super) fn computed(&mut self, node: &Node) -> Result<()> {
        let (op, names): (&'static str, &[&'static str]) = match node.op {
            Op::Reshape => ("Reshape", &["allowzero"]),
            Op::Expand => ("Expand", &[]),
            Op::Slice => ("Slice", &[]),
            Op::Tile => ("Tile", &[]),
            Op::Pad => ("Pad", &["mode"]),
            Op::Split => ("Split", &["axis"]),
            Op::TopK => ("TopK", &["axis", "largest", "sorted"]),
            Op::Range => ("Range", &[]),
            Op::Resize => ("Resize", &["mode", "coordinate_transformation_mode", "nearest_mode"]),
            _ => {
                return Err(Error::unsupported(
                    "the operator is not written to ONNX with computed attributes",
                )
                .found(node.op.name()));
            }
        };
        let has_value = node.op == Op::Pad && node.attributes.contains_key("value");
        allow(node, &[names, if has_value { &["value"] } else { &[] }].concat())?;
        let settings: Vec<(&'static str, Setting)> = ints(node, names)?;
        let mut inputs = Vec::with_capacity(node.inputs.len());
        for (at, name) in node.inputs.iter().enumerate() {
            let is_list = at >= node.op.computed_attributes().0;
            inputs.push(match name.is_empty() {
                true => String::new(),
                false if is_list => self.list_of(node, name)?,
                false => self.value(name)?,
            });
        }
        if has_value {
            inputs.push(self.real("value", node.float("value", 0.0)?)?);
        }
        let first = inputs.first().cloned().unwrap_or_default();
        let kind = self.kind(&first);
        let rank = if matches!(node.op, Op::Reshape | Op::Expand) { None } else { self.rank(&first) };
        let outputs: Vec<String> = node.outputs.iter().map(|output| self.declare(output)).collect();
        self.push(op, inputs, outputs.clone(), settings);
        for (place, (own, output)) in node.outputs.iter().zip(outputs).enumerate() {
            let kind = if node.op == Op::TopK && place == 1 { Kind::Int } else { kind };
            self.define(own, output, kind, if node.op == Op::Range { Some(1) } else { rank });
        }
        Ok(())
    }

    /// An input that is a list of integers, or of real numbers if it has factors of lengths or bounds of a range.
    fn list_of(&mut self, node: &Node, name: &str) -> Result<String> {
        let value = self.value(name)?;
        match (self.kind(&value), &node.op) {
            (Kind::Real, Op::Resize) if self.real != DType::F32 => {
                Err(Error::unsupported("ONNX takes factors of lengths in f32").found(self.real.to_string()))
            }
            (Kind::Real, Op::Resize | Op::Range) => Ok(value),
            _ => Ok(self.all_of(vec![value], Kind::Int).into_iter().next().unwrap_or_default()),
        }
    }

    /// Integers in steps that are known.
    pub(super) fn range(&mut self, node: &Node) -> Result<()> {
        allow(node, &["start", "limit", "delta"])?;
        let mut inputs = Vec::with_capacity(3);
        for (name, default) in [("start", 0), ("limit", 0), ("delta", 1)] {
            inputs.push(self.int(name, node.int(name, default)?));
        }
        self.finish(node, "Range", inputs, Vec::new(), Some(1))
    }
}
