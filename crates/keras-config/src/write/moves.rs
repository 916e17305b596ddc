//! Layers that move elements, and the order of axes.

use super::emit::Request;
use super::emitter::{Arg, Emitter, Held, Item, invalid};
use super::images::Pairs;
use crate::model::Generation;
use ckpt_api::{Error, Node, Op, Result};
use serde_json::{Value, json};

impl<'a> Emitter<'a> {
    /// Returns a value whose axes in Keras are those of the graph.
    pub(super) fn materialized(&mut self, name: &str, held: &Held) -> Result<Held> {
        let mut held = self.forwards(name, held)?;
        if held.is_plain() {
            return Ok(held);
        }
        let real: Vec<usize> = held.axes.iter().copied().flatten().collect();
        if real.first() != Some(&0) || held.axes.first() != Some(&Some(0)) {
            return Err(Error::unsupported("Keras has no layer that moves the batch"));
        }
        if !real.iter().copied().eq(0..held.dims.len()) {
            let dims: Vec<Option<u64>> = real.iter().map(|axis| held.len(*axis)).collect();
            let options = json!({ "dims": real.get(1..).unwrap_or_default() });
            let layer = self.layer(&format!("{name}/permute"), "Permute", options, &held);
            let mut next = 0..dims.len();
            let axes = held.axes.iter().map(|axis| axis.and_then(|_| next.next())).collect();
            held = Held { axes, ..Held::plain(layer, 0, dims) };
        }
        if held.is_plain() {
            return Ok(held);
        }
        let dims: Vec<Option<u64>> =
            held.axes.iter().map(|axis| axis.map_or(Some(1), |axis| held.len(axis))).collect();
        self.reshaped(&format!("{name}/reshape"), &held, dims)
    }

    /// Returns a value whose axes in Keras are those of the graph, its batch among them: a result of the model.
    pub(super) fn result(&mut self, name: &str, held: &Held) -> Result<Held> {
        let batch = held.axes.iter().position(|axis| *axis == Some(0));
        if batch.is_none_or(|at| at == 0) {
            return self.materialized(name, held);
        }
        let held = self.forwards(name, held)?;
        let real: Vec<usize> = held.axes.iter().copied().flatten().collect();
        let mut dims: Vec<Option<u64>> = real.iter().map(|axis| held.len(*axis)).collect();
        let mut layer = Arg::of(&held);
        let mut made = (held.layer, held.result);
        if !real.iter().copied().eq(0..held.dims.len()) {
            let module = "keras.src.ops.numpy";
            let at = self.operation(
                &format!("{name}/transpose"),
                module,
                "Transpose",
                json!({ "axes": real }),
                vec![layer],
            )?;
            (layer, made) = (Arg::Value(at, 0), (at, 0));
        }
        let added: Vec<usize> =
            held.axes.iter().enumerate().filter(|(_, axis)| axis.is_none()).map(|(at, _)| at).collect();
        if !added.is_empty() {
            let options = json!({ "axis": added });
            let name = format!("{name}/expand");
            let at = self.operation(&name, "keras.src.ops.numpy", "ExpandDims", options, vec![layer])?;
            made = (at, 0);
            added.iter().for_each(|axis| dims.insert(*axis, Some(1)));
        }
        Ok(Held::plain(made.0, made.1, dims))
    }

    /// Returns a value whose steps are in the graph's order.
    pub(super) fn forwards(&mut self, name: &str, held: &Held) -> Result<Held> {
        if !held.is_reversed {
            return Ok(held.clone());
        }
        let layer = self.operation(
            &format!("{name}/flip"),
            "keras.src.ops.numpy",
            "Flip",
            json!({"axis": 1}),
            vec![Arg::of(held)],
        )?;
        Ok(Held { layer, result: 0, is_reversed: false, ..held.clone() })
    }

    /// Adds an operation of `keras.ops`.
    pub(super) fn operation(
        &mut self,
        name: &str,
        module: &'static str,
        class: &'static str,
        options: Value,
        args: Vec<Arg>,
    ) -> Result<usize> {
        if self.generation != Generation::Keras3 {
            return Err(Error::unsupported("Keras 2 has no layer for this operator").found(class));
        }
        Ok(self.add(Request { name, class, module: Some(module), options, args }))
    }

    /// Reshapes a value to these lengths, of which the first is the batch.
    pub(super) fn reshaped(&mut self, name: &str, held: &Held, dims: Vec<Option<u64>>) -> Result<Held> {
        let rest = dims.get(1..).unwrap_or_default();
        if rest.iter().filter(|len| len.is_none()).count() > 1 {
            return Err(Error::unsupported(
                "Keras's layer reshapes to at most one length that depends on the input",
            ));
        }
        let target: Vec<Value> = rest.iter().map(|len| len.map_or(json!(-1), |len| json!(len))).collect();
        let layer = self.layer(name, "Reshape", json!({ "target_shape": target }), held);
        Ok(Held::plain(layer, 0, dims))
    }

    /// Lowers a node that moves elements; `None` if it is another one.
    pub(super) fn moved(&mut self, node: &Node) -> Result<Option<Item>> {
        let stored = node.inputs.first().and_then(|name| self.values.get(name.as_str()));
        // Constants are taken with all their axes; Keras has its own for them.
        if let (Some(item @ (Item::Stored(_) | Item::Number(_))), Op::Unsqueeze | Op::Squeeze) =
            (stored, &node.op)
        {
            return Ok(Some(item.clone()));
        }
        let made = match &node.op {
            Op::Expand => self.expanded(node)?,
            Op::Transpose => {
                let held = self.input(node, 0)?;
                let rank = held.axes.len();
                let order: Vec<usize> = match node.ints("perm")? {
                    Some(order) => order.iter().filter_map(|axis| usize::try_from(*axis).ok()).collect(),
                    None => (0..rank).rev().collect(),
                };
                let axes: Option<Vec<_>> = order.iter().map(|axis| held.axes.get(*axis).copied()).collect();
                let axes = axes.filter(|axes| axes.len() == rank).ok_or_else(invalid)?;
                Held { axes, ..held }
            }
            Op::Unsqueeze => {
                let mut held = self.input(node, 0)?;
                let added = node.ints("axes")?.unwrap_or_default();
                let mut places = added
                    .iter()
                    .map(|axis| place(*axis, held.axes.len() + added.len()))
                    .collect::<Result<Vec<_>>>()?;
                places.sort_unstable();
                for at in places {
                    held.axes.insert(at.min(held.axes.len()), None);
                }
                held
            }
            Op::Squeeze => self.squeezed(node)?,
            Op::Flatten => {
                let held = self.input(node, 0)?;
                let len =
                    held.dims.iter().skip(1).try_fold(1u64, |product, len| product.checked_mul((*len)?));
                if node.int("axis", 1)? != 1 {
                    return Err(Error::unsupported("Keras's layer flattens all axes but the batch"));
                }
                let is_pixel = held.is_channels_first()
                    && (1..held.dims.len() - 1).all(|axis| held.len(axis) == Some(1));
                let x = if is_pixel { held } else { self.materialized(&node.name, &held)? };
                let layer = self.layer(&node.name, "Flatten", json!({}), &x);
                Held::plain(layer, 0, vec![None, len])
            }
            Op::Reshape => self.reshape(node)?,
            Op::Gather if !node.parameters.contains_key("weight") => self.taken(node)?,
            Op::Slice => self.slice(node)?,
            Op::Tile => {
                let held = self.input(node, 0)?;
                let repeats = node.ints("repeats")?.unwrap_or_default();
                let ([1, count, 1], [Some(0), None, Some(1)]) = (repeats, &held.axes[..]) else {
                    return Err(Error::unsupported("Keras has no layer that repeats these axes"));
                };
                let count = u64::try_from(*count).map_err(|_| invalid())?;
                let layer = self.layer(&node.name, "RepeatVector", json!({ "n": count }), &held);
                Held::plain(layer, 0, vec![None, Some(count), held.len(1)])
            }
            _ => return Ok(None),
        };
        Ok(Some(Item::Value(made)))
    }

    /// Lowers a choice of constant places along an axis.
    fn taken(&mut self, node: &Node) -> Result<Held> {
        let index = node.inputs.get(1).and_then(|name| self.values.get(name.as_str()));
        let (shape, numbers) = match index.filter(|_| node.inputs.len() == 2) {
            Some(Item::Numbers(shape, numbers)) => (shape, numbers),
            Some(Item::Number(number)) => return self.taken_at(node, *number),
            _ => return Err(Error::unsupported("Keras's layer takes elements at places that are known")),
        };
        let [count] = shape[..] else {
            return Err(Error::unsupported("Keras's layer takes elements at a list of places"));
        };
        let places: Vec<Value> = numbers.iter().map(|number| json!(number)).collect();
        let held = self.input(node, 0)?;
        let held = self.materialized(&node.name, &held)?;
        let axis = held.axis(node.int("axis", 0)?)?;
        let index = json!({"class_name": "__numpy__", "config": {"value": places, "dtype": "int32"}});
        let args = vec![Arg::of(&held), Arg::Constant(index)];
        let layer =
            self.operation(&node.name, "keras.src.ops.numpy", "Take", json!({ "axis": axis }), args)?;
        let mut dims = held.dims.clone();
        *dims.get_mut(axis).ok_or_else(invalid)? = Some(count);
        Ok(Held { layer, result: 0, dims, ..held })
    }

    /// Lowers a choice of one place along an axis, which the result lacks.
    fn taken_at(&mut self, node: &Node, number: f64) -> Result<Held> {
        let held = self.input(node, 0)?;
        let held = self.forwards(&node.name, &held)?;
        let at = place(node.int("axis", 0)?, held.axes.len())?;
        // `as` saturates, and what is no whole number is no place.
        let start = number as i64;
        let axis = held.axis(i64::try_from(at).map_err(|_| invalid())?)?;
        let end = if start == -1 { i64::MAX } else { start.saturating_add(1) };
        let mut part = self.part(&node.name, &held, &[Part { axis, start, end, step: 1 }])?;
        if let Some(len) = part.dims.get_mut(axis) {
            *len = Some(1);
        }
        self.without_axes(&format!("{}/reshape", node.name), part, &[at])
    }

    fn squeezed(&mut self, node: &Node) -> Result<Held> {
        let held = self.input(node, 0)?;
        let rank = held.axes.len();
        let removed: Vec<usize> = match node.ints("axes")? {
            Some(axes) => axes.iter().map(|axis| place(*axis, rank)).collect::<Result<_>>()?,
            None => return Err(Error::unsupported("the axes that are removed are not stated")),
        };
        self.without_axes(&node.name, held, &removed)
    }

    /// Removes axes of length 1 of the graph's value.
    pub(super) fn without_axes(&mut self, name: &str, mut held: Held, removed: &[usize]) -> Result<Held> {
        let real: Vec<usize> =
            removed.iter().filter_map(|at| held.axes.get(*at).copied().flatten()).collect();
        if real.contains(&0) {
            return Err(Error::unsupported("Keras has no layer that removes the batch"));
        }
        if !real.is_empty() {
            held = self.forwards(name, &held)?;
            let kept = |axis: &usize| !real.contains(axis);
            let dims = (0..held.dims.len()).filter(kept).map(|axis| held.len(axis)).collect();
            let place =
                |axis: usize| kept(&axis).then(|| axis - real.iter().filter(|own| **own < axis).count());
            let axes = held.axes.iter().map(|axis| axis.and_then(place)).collect();
            held = Held { axes, ..self.reshaped(name, &held, dims)? };
        }
        let kept = held.axes.iter().enumerate().filter(|(at, _)| !removed.contains(at));
        held.axes = kept.map(|(_, axis)| *axis).collect();
        Ok(held)
    }

    fn reshape(&mut self, node: &Node) -> Result<Held> {
        let held = self.input(node, 0)?;
        if let Some(made) = self.joined(node, &held)? {
            return Ok(made);
        }
        let held = self.materialized(&node.name, &held)?;
        let spec = self.target(node)?;
        let Some((batch, rest)) = spec.split_first() else { return Err(invalid()) };
        let total = held.dims.iter().skip(1).try_fold(1u64, |product, len| product.checked_mul((*len)?));
        let mut dims = vec![None];
        for (at, len) in rest.iter().enumerate() {
            dims.push(match len {
                0 => held.len(at + 1),
                len => u64::try_from(*len).ok(),
            });
        }
        let known = dims.iter().skip(1).flatten().try_fold(1u64, |product, len| product.checked_mul(*len));
        let keeps_batch = match batch {
            0 => true,
            -1 => total.is_some() && total == known && rest.iter().all(|len| *len >= 0),
            _ => false,
        };
        if !keeps_batch {
            self.keeps_batch = false;
            let layer = self.operation(
                &node.name,
                "keras.src.ops.numpy",
                "Reshape",
                json!({ "newshape": spec }),
                vec![Arg::of(&held)],
            )?;
            return Ok(Held::plain(layer, 0, dims));
        }
        if let Some(open) = dims.iter().skip(1).position(Option::is_none) {
            let rest = total.zip(known.filter(|known| *known > 0)).map(|(total, known)| total / known);
            if let (Some(len), Some(rest)) = (dims.get_mut(open + 1), rest) {
                *len = Some(rest);
            }
        }
        self.reshaped(&node.name, &held, dims)
    }

    /// Joins the last axes to one, and keeps those before them, whichever of them the batch is; `None` if the node does
    /// anything else.
    fn joined(&mut self, node: &Node, held: &Held) -> Result<Option<Held>> {
        let Ok(spec) = self.target(node) else { return Ok(None) };
        let Some((last, kept)) = spec.split_last() else { return Ok(None) };
        let is_kept = |(at, len): (usize, &i64)| match held.axes.get(at) {
            Some(axis) => {
                *len == 0 || u64::try_from(*len).ok() == axis.map_or(Some(1), |axis| held.len(axis))
            }
            None => false,
        };
        let (first, rest) = match held.axes.split_at_checked(kept.len()) {
            Some((first, rest)) if kept.iter().enumerate().all(is_kept) => (first, rest),
            _ => return Ok(None),
        };
        let real: Vec<usize> = rest.iter().copied().flatten().collect();
        let Some(from) = real.first().copied().filter(|from| *from > 0) else { return Ok(None) };
        let len = real.iter().try_fold(1u64, |product, axis| product.checked_mul(held.len(*axis)?));
        let is_tail = real.iter().copied().eq(from..held.dims.len());
        if !is_tail || len.is_none() || *last != -1 && u64::try_from(*last).ok() != len {
            return Ok(None);
        }
        let axes: Vec<Option<usize>> = first.iter().copied().chain([Some(from)]).collect();
        if real.len() == 1 {
            return Ok(Some(Held { axes, ..held.clone() }));
        }
        let held = self.forwards(&node.name, held)?;
        let dims = held.dims.iter().take(from).copied().chain([len]).collect();
        Ok(Some(Held { axes, ..self.reshaped(&node.name, &held, dims)? }))
    }

    fn slice(&mut self, node: &Node) -> Result<Held> {
        let held = self.input(node, 0)?;
        let list = |name: &str| node.ints(name).map(|list| list.map(<[i64]>::to_vec));
        let (Some(starts), Some(ends)) = (list("starts")?, list("ends")?) else { return Err(invalid()) };
        let count = starts.len();
        let axes = list("axes")?.unwrap_or_else(|| (0..i64::try_from(count).unwrap_or(0)).collect());
        let steps = list("steps")?.unwrap_or_else(|| vec![1; count]);
        if let ([-1], [end], [axis], [-1]) = (&starts[..], &ends[..], &axes[..], &steps[..])
            && *end <= -i64::from(u32::MAX)
            && held.axis(*axis)? == 1
            && held.dims.len() == 3
        {
            return Ok(Held { is_reversed: !held.is_reversed, ..held });
        }
        let len = |axis: &i64| {
            let at = place(*axis, held.axes.len()).ok()?;
            held.axes.get(at)?.map_or(Some(1), |axis| held.len(axis))
        };
        let is_whole = |((start, end), axis): ((&i64, &i64), &i64)| {
            *start == 0 && len(axis).is_some_and(|len| u64::try_from(*end).is_ok_and(|end| end >= len))
        };
        if starts.iter().zip(&ends).zip(&axes).all(is_whole) && steps.iter().all(|step| *step == 1) {
            return Ok(held);
        }
        let held = self.forwards(&node.name, &held)?;
        if let Some(crops) = crops(&held, &starts, &ends, &axes, &steps)? {
            return self.cropped(&node.name, held, &crops);
        }
        let mut parts = Vec::new();
        for (((start, end), axis), step) in starts.iter().zip(&ends).zip(&axes).zip(&steps) {
            parts.push(Part { axis: held.axis(*axis)?, start: *start, end: *end, step: *step });
        }
        self.part(&node.name, &held, &parts)
    }

    /// Lowers a node that cuts a value along an axis.
    pub(super) fn split(&mut self, node: &'a Node) -> Result<()> {
        let held = self.input(node, 0)?;
        let mut held = self.forwards(&node.name, &held)?;
        if held.axes.contains(&None) {
            held = self.materialized(&node.name, &held)?;
        }
        let axis = held.axis(node.int("axis", 0)?)?;
        let lens = match node.ints("split")? {
            Some(lens) => lens.to_vec(),
            None => equal_parts(held.len(axis), node.outputs.len())?,
        };
        let mut start = 0i64;
        for (at, len) in lens.iter().enumerate() {
            let end = start.checked_add(*len).ok_or_else(invalid)?;
            if self.is_used(node, at) {
                let part = Part { axis, start, end, step: 1 };
                let made = self.part(&format!("{}/{at}", node.name), &held, &[part])?;
                self.set(node, at, Item::Value(made));
            }
            start = end;
        }
        Ok(())
    }

    /// Takes parts of axes.
    fn part(&mut self, name: &str, held: &Held, parts: &[Part]) -> Result<Held> {
        let slice = |start: Option<i64>, stop: Option<i64>, step: Option<i64>| json!({"class_name": "__slice__", "config": {"start": start, "stop": stop, "step": step}});
        let mut keys = vec![slice(None, None, None); held.dims.len()];
        let mut dims = held.dims.clone();
        for Part { axis, start, end, step } in parts.iter().copied() {
            if axis == 0 {
                return Err(Error::unsupported("Keras has no layer that takes a part of the batch"));
            }
            let bound = i64::from(i32::MAX);
            let stop = Some(end).filter(|end| end.unsigned_abs() < bound.unsigned_abs());
            let first = Some(start).filter(|start| step > 0 || *start != -1);
            if let (Some(key), Some(len)) = (keys.get_mut(axis), dims.get_mut(axis)) {
                *key = slice(first, stop, Some(step));
                *len = part_len(*len, start, end, step);
            }
        }
        let args = vec![Arg::of(held), Arg::List(keys.into_iter().map(Arg::Constant).collect())];
        let layer = self.operation(name, "keras.src.ops.numpy", "GetItem", json!({}), args)?;
        Ok(Held { layer, result: 0, dims, ..held.clone() })
    }
}

/// A part of an axis.
#[derive(Clone, Copy)]
struct Part {
    axis: usize,
    start: i64,
    end: i64,
    step: i64,
}

/// Returns the lengths of equal parts, the last of which may be shorter.
fn equal_parts(len: Option<u64>, count: usize) -> Result<Vec<i64>> {
    let open = || Error::unsupported("Keras has no layer that cuts a length that depends on the input");
    let (len, count) = (len.ok_or_else(open)?, count.max(1) as u64);
    let each = len.div_ceil(count);
    let part =
        |at: u64| i64::try_from(each.min(len.saturating_sub(at.saturating_mul(each)))).map_err(|_| invalid());
    (0..count).map(part).collect()
}

/// Returns the length of a part of an axis; `None` if it is not known.
fn part_len(len: Option<u64>, start: i64, end: i64, step: i64) -> Option<u64> {
    let len = i64::try_from(len?).ok()?;
    let place = |at: i64| if at < 0 { at.saturating_add(len) } else { at }.clamp(0, len);
    let count = place(end).saturating_sub(place(start));
    u64::try_from(count.max(0)).ok().filter(|_| step == 1)
}

/// Returns the axis that a signed number states.
fn place(axis: i64, rank: usize) -> Result<usize> {
    let signed = i64::try_from(rank).map_err(|_| invalid())?;
    let at = if axis < 0 { axis.saturating_add(signed) } else { axis };
    usize::try_from(at).map_err(|_| invalid())
}

/// Returns what a slice removes before and after each side of an image; `None` if it takes another part.
fn crops(held: &Held, starts: &[i64], ends: &[i64], axes: &[i64], steps: &[i64]) -> Result<Option<Pairs>> {
    let rank = held.dims.len();
    if !(3..=5).contains(&rank) || steps.iter().any(|step| *step != 1) {
        return Ok(None);
    }
    let mut crops = vec![[0, 0]; rank - 2];
    for ((start, end), axis) in starts.iter().zip(ends).zip(axes) {
        let side = held.axis(*axis)?.checked_sub(1);
        let after = match *end {
            end if end >= i64::from(i32::MAX) => Some(0),
            end => end.checked_neg().filter(|after| *after > 0),
        };
        match (side.and_then(|side| crops.get_mut(side)), after) {
            (Some(crop), Some(after)) if *start >= 0 => *crop = [*start, after],
            _ => return Ok(None),
        }
    }
    Ok(Some(crops))
}
