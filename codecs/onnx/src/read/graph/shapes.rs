//! Reads operators that move elements: their constant inputs become attributes.

use super::stretch::Stretch;
use super::values::{Attributes, Read, Reader};
use crate::format::message::Node;
use crate::format::operators::REDUCTIONS;
use ckpt_api::{Attribute, Op};
use ckpt_graph::shape::{broadcast, remaining, resolve, sliced};
use ckpt_graph::{Dims, Length};

impl<'a> Reader<'a> {
    /// Integers that an attribute or, in later operator sets, an input has; `None` for neither.
    pub(super) fn list(&self, node: &Node, at: usize, name: &str) -> Read<Option<Vec<i64>>> {
        let Some(lengths) = self.lengths(node, at, name)? else { return Ok(None) };
        let known: Option<Vec<i64>> = lengths.into_iter().map(Length::known).collect();
        known.map(Some).ok_or_else(|| format!("has an input '{name}' that depends on a free axis"))
    }

    /// As [`Reader::list`], where some may be lengths of free axes.
    pub(super) fn lengths(&self, node: &Node, at: usize, name: &str) -> Read<Option<Vec<Length>>> {
        if let Some(values) = node.ints(name) {
            return Ok(Some(values.iter().copied().map(Length::Known).collect()));
        }
        let Some(input) = node.input(at) else { return Ok(None) };
        let known = self
            .ints(input)
            .ok_or_else(|| format!("has an input '{name}' that is computed from the model's input"))?;
        Ok(Some(known.values))
    }

    pub(super) fn reshape(&mut self, node: &'a Node) -> Read<()> {
        if self.is_bias(node) {
            return Ok(());
        }
        let x = node.input(0).ok_or("lacks its input")?;
        let own = self.shape(x);
        let wanted = self.lengths(node, 1, "shape")?.ok_or("lacks its shape")?;
        let copies = node.int("allowzero").unwrap_or(0) == 0;
        let mut shape = Vec::with_capacity(wanted.len());
        let mut result = Vec::with_capacity(wanted.len());
        for (at, length) in wanted.iter().enumerate() {
            let same = own.as_ref().and_then(|own| own.get(at).copied());
            let (entry, len) = match *length {
                Length::Known(0) if copies => (0, same.unwrap_or(Length::Unknown)),
                Length::Known(-1) => (-1, Length::Unknown),
                Length::Known(len) => (len, Length::Known(len)),
                free if copies && same == Some(free) && free != Length::Unknown => (0, free),
                free => (-1, free),
            };
            shape.push(entry);
            result.push(len);
        }
        if shape.iter().filter(|entry| **entry == -1).count() > 1 {
            return Err("has a shape in which several lengths depend on free axes".to_owned());
        }
        if let Some(own) = own {
            infer(&own, &mut result);
        }
        let mut attributes = Attributes::new().ints("shape", shape);
        if !copies {
            attributes = attributes.int("allowzero", 1);
        }
        let input = self.operand(x)?;
        self.emit_one(node, Op::Reshape, vec![input], attributes, Some(result))
    }

    pub(super) fn flatten(&mut self, node: &'a Node) -> Read<()> {
        let input = self.operand(node.input(0).ok_or("lacks its input")?)?;
        let axis = node.int("axis").filter(|axis| *axis != 1);
        let attributes = axis.map_or(Attributes::new(), |axis| Attributes::new().int("axis", axis));
        self.emit(node, Op::Flatten, vec![input], attributes)
    }

    pub(super) fn transpose(&mut self, node: &'a Node) -> Read<()> {
        let x = node.input(0).ok_or("lacks its input")?;
        let perm = match (node.ints("perm"), self.shape(x)) {
            (Some(perm), _) => Some(perm.to_vec()),
            (None, Some(own)) => Some((0..own.len() as i64).rev().collect()),
            (None, None) => None,
        };
        let attributes = perm.map_or(Attributes::new(), |perm| Attributes::new().ints("perm", perm));
        let input = self.operand(x)?;
        self.emit(node, Op::Transpose, vec![input], attributes)
    }

    pub(super) fn squeeze(&mut self, node: &'a Node) -> Read<()> {
        let x = node.input(0).ok_or("lacks its input")?;
        let axes = self.list(node, 1, "axes")?;
        let attributes = axes.map_or(Attributes::new(), |axes| Attributes::new().ints("axes", axes));
        let input = self.operand(x)?;
        self.emit(node, Op::from(node.op.as_str()), vec![input], attributes)
    }

    pub(super) fn expand(&mut self, node: &'a Node) -> Read<()> {
        let x = node.input(0).ok_or("lacks its input")?;
        let own = self.shape(x);
        let wanted = self.lengths(node, 1, "shape")?.ok_or("lacks its shape")?;
        let (shape, stretches) = self.stretches(&wanted, own.as_deref().unwrap_or_default())?;
        let input = self.operand(x)?;
        let result = own.and_then(|own| broadcast(&own, &wanted));
        let attributes = Attributes::new().ints("shape", shape);
        if stretches.is_empty() {
            return self.emit_one(node, Op::Expand, vec![input], attributes, result);
        }
        let known = self.fresh_value(&format!("{}/expanded", node.layer()));
        self.emit_as(node.layer(), Op::Expand, vec![input], vec![known.clone()], attributes);
        let value = self.stretched(node.layer(), known, &stretches)?;
        self.emit_one(node, Op::Identity, vec![value], Attributes::new(), result)
    }

    /// The lengths to which a value of a shape is expanded, and the free axes along which it is repeated.
    pub(super) fn stretches(&self, wanted: &[Length], own: &[Length]) -> Read<(Vec<i64>, Vec<Stretch>)> {
        let (mut lens, mut stretches) = (Vec::with_capacity(wanted.len()), Vec::new());
        for (at, length) in wanted.iter().enumerate() {
            let place = wanted.len() - at;
            let same = own.len().checked_sub(place).and_then(|at| own.get(at).copied());
            lens.push(match (*length, same) {
                (Length::Known(len), _) => len,
                (free, Some(own)) if free == own && free != Length::Unknown => -1,
                (Length::Free { axis, times: 1, plus: 0 }, None | Some(Length::Known(1))) => {
                    stretches.push((axis, place));
                    1
                }
                _ => return Err("repeats a value along a free axis".to_owned()),
            });
        }
        Ok((lens, stretches))
    }

    pub(super) fn tile(&mut self, node: &'a Node) -> Read<()> {
        let x = node.input(0).ok_or("lacks its input")?;
        let repeats = self.list(node, 1, "repeats")?.ok_or("lacks its repeats")?;
        let input = self.operand(x)?;
        self.emit(node, Op::Tile, vec![input], Attributes::new().ints("repeats", repeats))
    }

    pub(super) fn concat(&mut self, node: &'a Node) -> Read<()> {
        let axis = node.int("axis").ok_or("lacks its axis")?;
        let inputs = self.operands(node)?;
        self.emit(node, Op::Concat, inputs, Attributes::new().int("axis", axis))
    }

    pub(super) fn split(&mut self, node: &'a Node) -> Read<()> {
        let x = node.input(0).ok_or("lacks its input")?;
        let axis = node.int("axis").unwrap_or(0);
        let own = self.shape(x);
        let at = own.as_ref().and_then(|own| resolve(axis, own.len()));
        let whole = own.as_ref().zip(at).and_then(|(own, at)| own.get(at)?.known());
        let parts = i64::try_from(node.outputs.len()).unwrap_or(1);
        let lens = match (self.list(node, 1, "split")?, whole) {
            (Some(lens), _) => Some(lens),
            // The last of equal parts is shorter where they do not divide the axis.
            (None, Some(whole)) => {
                let part = whole.checked_add(parts - 1).and_then(|sum| sum.checked_div(parts)).unwrap_or(0);
                let len = |k: i64| (whole - k.saturating_mul(part)).clamp(0, part);
                Some((0..parts).map(len).collect())
            }
            (None, None) => None,
        };
        let mut attributes = Attributes::new().int("axis", axis);
        if let Some(lens) = &lens {
            attributes = attributes.ints("split", lens.clone());
        }
        let input = self.operand(x)?;
        self.emit(node, Op::Split, vec![input], attributes)
    }

    pub(super) fn slice(&mut self, node: &'a Node) -> Read<()> {
        let x = node.input(0).ok_or("lacks its input")?;
        let own = self.shape(x);
        let starts = self.list(node, 1, "starts")?.ok_or("lacks its starts")?;
        let ends = self.lengths(node, 2, "ends")?.ok_or("lacks its ends")?;
        let axes = self.list(node, 3, "axes")?.unwrap_or_else(|| (0..starts.len() as i64).collect());
        let steps = self.list(node, 4, "steps")?.unwrap_or_else(|| vec![1; starts.len()]);
        if [ends.len(), axes.len(), steps.len()] != [starts.len(); 3] {
            return Err("has lists of different lengths".to_owned());
        }
        let mut shape = own.clone();
        let mut known = Vec::with_capacity(ends.len());
        let mut starts = starts;
        let mut cuts = Vec::new();
        for (((end, axis), start), step) in ends.iter().zip(&axes).zip(&mut starts).zip(&steps) {
            let at = own.as_ref().and_then(|own| resolve(*axis, own.len()));
            let len = own.as_ref().zip(at).and_then(|(own, at)| own.get(at).copied());
            let end = match end {
                Length::Known(end) => *end,
                free if len == Some(*free) && *free != Length::Unknown => i64::MAX,
                // Elements up to the length of another axis are picked one by one.
                Length::Free { .. } if *step == 1 && *start >= 0 => {
                    let count = *end - *start;
                    cuts.push((*axis, std::mem::take(start), count));
                    known.push(i64::MAX);
                    if let Some((shape, at)) = shape.as_mut().zip(at)
                        && let Some(own) = shape.get_mut(at)
                    {
                        *own = count;
                    }
                    continue;
                }
                _ => return Err("ends at a place that depends on a free axis".to_owned()),
            };
            known.push(end);
            if let Some((shape, at)) = shape.as_mut().zip(at)
                && let Some(own) = shape.get_mut(at)
            {
                *own = sliced(*own, *start, end, *step);
            }
        }
        let mut attributes = Attributes::new().ints("starts", starts).ints("ends", known).ints("axes", axes);
        if steps.iter().any(|step| *step != 1) {
            attributes = attributes.ints("steps", steps);
        }
        let input = self.operand(x)?;
        if cuts.is_empty() {
            return self.emit_one(node, Op::Slice, vec![input], attributes, shape);
        }
        let mut value = self.fresh_value(&format!("{}/cut", node.layer()));
        self.emit_as(node.layer(), Op::Slice, vec![input], vec![value.clone()], attributes);
        for (axis, start, count) in cuts {
            let picked = self.counted(node.layer(), start, count)?;
            let output = self.fresh_value(&format!("{}/cut", node.layer()));
            let attributes = Attributes::new().int("axis", axis);
            self.emit_as(node.layer(), Op::Gather, vec![value, picked], vec![output.clone()], attributes);
            value = output;
        }
        self.emit_one(node, Op::Identity, vec![value], Attributes::new(), shape)
    }

    pub(super) fn pad(&mut self, node: &'a Node) -> Read<()> {
        if self.is_bias(node) {
            return Ok(());
        }
        let x = node.input(0).ok_or("lacks its input")?;
        let own = self.shape(x);
        let mut pads = self.list(node, 1, "pads")?.ok_or("lacks its pads")?;
        if let Some(axes) = self.list(node, 3, "axes")? {
            let rank = own.as_ref().map(Vec::len).ok_or("pads some axes of a value of unknown rank")?;
            let mut all = vec![0; rank.saturating_mul(2)];
            for (k, axis) in axes.iter().enumerate() {
                let at = resolve(*axis, rank).ok_or("has an axis that does not exist")?;
                for (to, from) in [(at, k), (at + rank, k + axes.len())] {
                    if let (Some(to), Some(from)) = (all.get_mut(to), pads.get(from)) {
                        *to = *from;
                    }
                }
            }
            pads = all;
        }
        let mode = node.text("mode").unwrap_or("constant").to_owned();
        let value = match node.input(2) {
            Some(input) => self.number(input).ok_or("has a value that is not a constant")?,
            None => f64::from(node.float("value").unwrap_or(0.0)),
        };
        let mut attributes = Attributes::new().ints("pads", pads).with("mode", Attribute::Text(mode));
        if value != 0.0 {
            attributes = attributes.with("value", Attribute::Float(value));
        }
        let input = self.operand(x)?;
        self.emit(node, Op::Pad, vec![input], attributes)
    }

    pub(super) fn cum_sum(&mut self, node: &'a Node) -> Read<()> {
        let axis =
            self.list(node, 1, "axis")?.and_then(|axis| axis.first().copied()).ok_or("lacks its axis")?;
        let mut attributes = Attributes::new().int("axis", axis);
        for name in ["exclusive", "reverse"] {
            if let Some(value) = node.int(name) {
                attributes = attributes.int(name, value);
            }
        }
        self.plain(node, Op::from(node.op.as_str()), attributes)
    }

    pub(super) fn trilu(&mut self, node: &'a Node) -> Read<()> {
        let k = self.list(node, 1, "k")?.and_then(|k| k.first().copied()).unwrap_or(0);
        let attributes = Attributes::new().int("upper", node.int("upper").unwrap_or(1)).int("k", k);
        self.plain(node, Op::Trilu, attributes)
    }

    pub(super) fn top_k(&mut self, node: &'a Node) -> Read<()> {
        let k = self.list(node, 1, "k")?.and_then(|k| k.first().copied()).ok_or("lacks its k")?;
        let mut attributes = Attributes::new().int("k", k);
        for name in ["axis", "largest", "sorted"] {
            if let Some(value) = node.int(name) {
                attributes = attributes.int(name, value);
            }
        }
        let x = node.input(0).ok_or("lacks its input")?;
        let input = self.operand(x)?;
        self.emit_as(node.layer(), Op::TopK, vec![input], node.outputs.clone(), attributes);
        Ok(())
    }

    pub(super) fn blocks(&mut self, node: &'a Node) -> Read<()> {
        let mut attributes =
            Attributes::new().int("blocksize", node.int("blocksize").ok_or("lacks its blocksize")?);
        if let Some(mode) = node.text("mode") {
            attributes = attributes.with("mode", Attribute::Text(mode.to_owned()));
        }
        self.plain_unknown(node, attributes)
    }

    /// A node whose result has another shape than its input.
    pub(super) fn plain_unknown(&mut self, node: &Node, attributes: Attributes) -> Read<()> {
        let input = self.operand(node.input(0).ok_or("lacks its input")?)?;
        self.emit_one(node, Op::from(node.op.clone()), vec![input], attributes, None)
    }

    pub(super) fn reduce(&mut self, node: &'a Node) -> Read<()> {
        if !REDUCTIONS.contains(&node.op.as_str()) {
            return Err("is not supported".to_owned());
        }
        let x = node.input(0).ok_or("lacks its input")?;
        let axes = self.list(node, 1, "axes")?.filter(|axes| !axes.is_empty());
        let keeps = node.int("keepdims").unwrap_or(1) != 0;
        if axes.is_none() && node.int("noop_with_empty_axes") == Some(1) {
            return match node.op.as_str() {
                "ReduceL1" | "ReduceL2" => self.plain(node, Op::Abs, Attributes::new()),
                "ReduceSumSquare" => {
                    let (input, shape) = (self.operand(x)?, self.shape(x));
                    self.emit_one(node, Op::Mul, vec![input.clone(), input], Attributes::new(), shape)
                }
                _ => self.plain(node, Op::Identity, Attributes::new()),
            };
        }
        let mut attributes = Attributes::new().int("keepdims", keeps.into());
        if let Some(axes) = axes {
            attributes = attributes.ints("axes", axes);
        }
        let input = self.operand(x)?;
        self.emit(node, Op::from(node.op.as_str()), vec![input], attributes)
    }
}

/// Fills in the one length of a new shape that is not known, where the others cancel.
fn infer(own: &[Length], result: &mut [Length]) {
    let open: Vec<usize> =
        result.iter().enumerate().filter(|(_, len)| **len == Length::Unknown).map(|(at, _)| at).collect();
    let [open] = open[..] else { return };
    let others: Dims = result.iter().enumerate().filter(|(at, _)| *at != open).map(|(_, len)| *len).collect();
    if let Some(to) = result.get_mut(open) {
        *to = remaining(own, &others);
    }
}
