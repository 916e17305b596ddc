//! Shapes of values, which other values are reshaped to.

use super::emitter::{Emitter, Held, Item, Len, invalid, lost};
use ckpt_api::{Error, Node, Op, Result, Value};

impl Emitter<'_> {
    /// Returns the lengths of a value, from the axis `start` up to `end`.
    pub(super) fn lens(&self, node: &Node) -> Result<Vec<Len>> {
        let held = self.input(node, 0)?;
        let rank = i64::try_from(held.axes.len()).map_err(|_| invalid())?;
        let at = |name: &str, default: i64| -> Result<usize> {
            let at = node.int(name, default)?;
            let at = if at < 0 { at.saturating_add(rank) } else { at };
            usize::try_from(at.clamp(0, rank)).map_err(|_| invalid())
        };
        let (start, end) = (at("start", 0)?, at("end", rank)?);
        let axes = held.axes.get(start..end.max(start)).ok_or_else(invalid)?;
        let len = |axis: &Option<usize>| match axis {
            None => Len::Known(1),
            Some(0) => Len::Batch,
            Some(axis) => held.len(*axis).map_or(Len::Open, Len::Known),
        };
        Ok(axes.iter().map(len).collect())
    }

    /// Whether a node joins lengths, and numbers, to a shape.
    pub(super) fn joins_lens(&self, node: &Node) -> bool {
        node.inputs.iter().any(|name| matches!(self.values.get(name.as_str()), Some(Item::Lens(_))))
    }

    pub(super) fn joined_lens(&self, node: &Node) -> Result<Vec<Len>> {
        let known = |number: &f64| {
            let is_len = number.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(number);
            is_len.then_some(Len::Known(*number as u64))
        };
        let mut lens = Vec::new();
        for name in &node.inputs {
            match self.values.get(name.as_str()).ok_or_else(lost)? {
                Item::Lens(own) => lens.extend(own),
                Item::Numbers(_, numbers) => {
                    lens.extend(numbers.iter().map(known).collect::<Option<Vec<_>>>().ok_or_else(|| {
                        Error::unsupported("Keras's layer reshapes to lengths").found(format!("{numbers:?}"))
                    })?);
                }
                _ => return Err(Error::unsupported("Keras has no layer that joins lengths and values")),
            }
        }
        Ok(lens)
    }

    /// Returns the lengths that a node's second input states; `None` if it has none, but an attribute.
    fn stated_lens(&self, node: &Node) -> Result<Option<&[Len]>> {
        match node.inputs.get(1).and_then(|name| self.values.get(name.as_str())) {
            None => Ok(None),
            Some(Item::Lens(lens)) if !lens.contains(&Len::Batch) || self.shares_batch() => Ok(Some(lens)),
            Some(Item::Lens(_)) => Err(Error::unsupported("Keras's layers have one batch")
                .help("give the first axes of all inputs one name")),
            Some(_) => Err(Error::unsupported("Keras's layer reshapes to lengths that follow from shapes")),
        }
    }

    /// Whether the first axis of all values is one batch.
    fn shares_batch(&self) -> bool {
        let batch = |input: &Value| {
            let axis = self.batch_axis(input);
            (input.shape.get(axis) == Some(&None), input.axes.get(axis).cloned())
        };
        let mut all = self.graph.inputs.iter().map(batch);
        let own = all.next();
        self.keeps_batch && own.is_some_and(|own| own.0 && all.all(|other| other == own))
    }

    /// Returns what a node reshapes a value to, as its attribute `shape` states it: 0 for its own batch, -1 for what is left.
    pub(super) fn target(&self, node: &Node) -> Result<Vec<i64>> {
        let Some(lens) = self.stated_lens(node)? else {
            return Ok(node.ints("shape")?.ok_or_else(invalid)?.to_vec());
        };
        let is_elsewhere = lens.iter().skip(1).any(|len| *len == Len::Batch);
        if is_elsewhere || lens.iter().filter(|len| **len == Len::Open).count() > 1 {
            return Err(Error::unsupported(
                "Keras's layer reshapes to at most one length that depends on the input, and keeps the batch",
            ));
        }
        let stated = |len: &Len| match len {
            Len::Batch => Ok(0),
            Len::Open => Ok(-1),
            Len::Known(len) => i64::try_from(*len).map_err(|_| invalid()),
        };
        lens.iter().map(stated).collect()
    }

    /// Leaves out the repetition of axes if all that takes the value repeats them, too.
    pub(super) fn expanded(&self, node: &Node) -> Result<Held> {
        let held = self.input(node, 0)?;
        let wanted = self.repeated_lens(node, &held)?;
        let mut repeated = wanted.iter().rev().enumerate().filter_map(|(from_end, wanted)| {
            let wanted = (*wanted)?;
            (wanted != 1 && len_from_end(&held, from_end) != Some(wanted)).then_some((from_end, wanted))
        });
        let result = node.outputs.first().map_or("", String::as_str);
        let takers = self.takers.get(result).map_or(&[][..], Vec::as_slice);
        let is_repeated = |(from_end, wanted): (usize, u64)| {
            let has_it = |taker: &usize| {
                let taker = self.graph.nodes.get(*taker).filter(|taker| is_binary(&taker.op));
                let inputs = taker.map_or(&[][..], |taker| &taker.inputs);
                let mut others = inputs.iter().filter(|input| !node.outputs.contains(input));
                others.any(|input| match self.values.get(input.as_str()) {
                    Some(Item::Value(other)) => len_from_end(other, from_end) == Some(wanted),
                    _ => false,
                })
            };
            !self.results.contains(result) && takers.iter().all(has_it)
        };
        if wanted.len() <= held.axes.len() && repeated.all(is_repeated) {
            return Ok(held);
        }
        Err(Error::unsupported("Keras has no layer that repeats these axes").field(&node.name))
    }

    /// Returns the lengths to which a value is repeated; `None` for an axis that keeps its own.
    fn repeated_lens(&self, node: &Node, held: &Held) -> Result<Vec<Option<u64>>> {
        let Some(lens) = self.stated_lens(node)? else {
            let lens = node.ints("shape")?.ok_or_else(invalid)?;
            return Ok(lens.iter().map(|len| u64::try_from(*len).ok()).collect());
        };
        let count = lens.len();
        let own = |(at, len): (usize, &Len)| match len {
            Len::Known(len) => Ok(Some(*len)),
            // An axis of length 1 would be repeated.
            _ if len_from_end(held, count - 1 - at).is_none() => Ok(None),
            _ => Err(Error::unsupported("Keras has no layer that repeats an axis by a length of the input")),
        };
        lens.iter().enumerate().map(own).collect()
    }
}

/// Returns the length of an axis of the graph, counted from the last; 1 if the value has fewer.
fn len_from_end(held: &Held, from_end: usize) -> Option<u64> {
    let axis = held.axes.iter().rev().nth(from_end).copied().flatten();
    axis.map_or(Some(1), |axis| held.len(axis))
}

/// Whether an operator broadcasts two values.
fn is_binary(op: &Op) -> bool {
    matches!(op, Op::Add | Op::Sub | Op::Mul | Op::Div | Op::Max | Op::Min | Op::Pow)
}
