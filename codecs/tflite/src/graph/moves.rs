//! Operators that move elements, and reductions.

use super::known::Val;
use super::lowering::{Lowering, Read};
use super::step::Operation;
use ckpt_api::{Attribute, Op};
use ckpt_graph::integers::Selection;
use ckpt_graph::selection::StridedSlice;
use ckpt_graph::shape::{MAX_RANK, remaining, resolve, resolve_all};
use ckpt_graph::{Builder, Dims, Integers, Length, Range, ints};

/// What a strided slice selects of axes of these lengths; `None` if its bounds do not fit them.
pub(super) fn selections(
    operation: &Operation<'_>,
    bounds: &[Integers],
    dims: &[Length],
) -> Read<Option<Vec<Selection>>> {
    let [begins, ends, steps] = bounds else { return Err("lacks its bounds".to_owned()) };
    let mask = |number: u64| operation.int(number).map(i64::from);
    let slice = StridedSlice {
        begins,
        ends,
        steps,
        begin_mask: mask(0)?,
        end_mask: mask(1)?,
        ellipsis_mask: mask(2)?,
        new_axis_mask: mask(3)?,
        shrink_axis_mask: mask(4)?,
    };
    Ok(slice.selections(dims))
}

impl Lowering<'_> {
    /// Lowers an operator that moves elements, or a reduction; `None` if it is another one.
    pub(super) fn moved(&mut self, operation: &Operation<'_>) -> Read<Option<Val>> {
        let reduction = match operation.name.as_str() {
            "MEAN" => Some(Op::ReduceMean),
            "SUM" => Some(Op::ReduceSum),
            "REDUCE_MAX" => Some(Op::ReduceMax),
            "REDUCE_MIN" => Some(Op::ReduceMin),
            "REDUCE_PROD" => Some(Op::ReduceProd),
            _ => None,
        };
        if let Some(op) = reduction {
            let x = self.take(operation, 0)?;
            let axes = self.axes(operation, 1, x.rank())?;
            return self.builder.reduce(op, &x, &axes, operation.flag(0)?).map(Some);
        }
        Ok(Some(match operation.name.as_str() {
            "RESHAPE" => self.reshape(operation)?,
            "TRANSPOSE" => {
                let x = self.take(operation, 0)?;
                let order = resolve_all(&self.ints(operation, 1)?, x.rank());
                let order =
                    order.filter(|order| order.len() == x.rank()).ok_or("has an order of other axes")?;
                self.builder.transpose(&x, &order)?
            }
            "EXPAND_DIMS" => {
                let x = self.take(operation, 0)?;
                let axes = self.axes(operation, 1, x.rank().saturating_add(1))?;
                self.builder.unsqueeze(&x, &axes)?
            }
            "SQUEEZE" => self.squeeze(operation)?,
            "CONCATENATION" => {
                let all = self.all(operation)?;
                let rank = all.first().map_or(0, Val::rank);
                let axis =
                    resolve(operation.int(0)?.into(), rank).ok_or("joins an axis that does not exist")?;
                let made = self.builder.join(axis, &all)?;
                self.activated(made, operation.code(1)?)?
            }
            "PACK" => {
                let all = self.all(operation)?;
                let rank = all.first().map_or(0, Val::rank).saturating_add(1);
                let axis = resolve(operation.int(1)?.into(), rank).ok_or("makes an axis that cannot be")?;
                let all =
                    all.iter().map(|own| self.builder.unsqueeze(own, &[axis])).collect::<Read<Vec<_>>>()?;
                self.builder.join(axis, &all)?
            }
            "STRIDED_SLICE" => self.strided_slice(operation)?,
            "SLICE" => {
                let x = self.take(operation, 0)?;
                let (begins, sizes) = (self.ints(operation, 1)?, self.ints(operation, 2)?);
                let range = |(axis, (begin, size)): (usize, (&i64, &i64))| {
                    Range::new(axis, *begin, if *size < 0 { i64::MAX } else { begin.saturating_add(*size) })
                };
                let ranges: Vec<Range> = begins.iter().zip(&sizes).enumerate().map(range).collect();
                self.builder.slice(&x, &ranges)?
            }
            "PAD" | "PADV2" | "MIRROR_PAD" => self.pad(operation)?,
            "TILE" => {
                let x = self.take(operation, 0)?;
                let x = self.builder.last(&x)?;
                let repeats = self.ints(operation, 1)?;
                let dims: Dims = x.dims.iter().zip(&repeats).map(|(len, times)| *len * *times).collect();
                let node = self.builder.node(Op::Tile).attribute("repeats", Attribute::Ints(repeats));
                self.builder.plain(node, &[&x], dims)?
            }
            "FILL" | "BROADCAST_TO" => self.expand(operation)?,
            "REVERSE_V2" => {
                let x = self.take(operation, 0)?;
                let ranges: Vec<Range> =
                    self.axes(operation, 1, x.rank())?.into_iter().map(Range::backwards).collect();
                self.builder.slice_of(&x, &ranges, x.dims.clone())?
            }
            _ => return Ok(None),
        }))
    }

    /// The values of all inputs.
    fn all(&mut self, operation: &Operation<'_>) -> Read<Vec<Val>> {
        (0..operation.step.inputs.len()).map(|index| self.take(operation, index)).collect()
    }

    fn reshape(&mut self, operation: &Operation<'_>) -> Read<Val> {
        let x = self.take(operation, 0)?;
        let stated = match operation.input(1) {
            Some(shape) => {
                let known = self.known_ints(shape).filter(|ints| ints.values.len() <= MAX_RANK);
                known.ok_or("takes its shape from what the model computes")?.values
            }
            None => operation.ints(0)?.into_iter().map(|len| Length::Known(len.into())).collect(),
        };
        let is_open = |len: &Length| matches!(len, Length::Known(len) if *len < 0);
        let others: Vec<Length> = stated.iter().filter(|len| !is_open(len)).copied().collect();
        let rest = remaining(&x.dims, &others);
        let mut dims: Dims = stated.iter().map(|len| if is_open(len) { rest } else { *len }).collect();
        self.follow_batch(&x, &mut dims);
        self.builder.reshape(&x, dims)
    }

    /// Models that were converted with a free batch state shapes of one example: the first axis is as free as the
    /// input's, if the others have all other elements.
    fn follow_batch(&self, x: &Val, dims: &mut Dims) {
        let product = |dims: &[Length]| dims.iter().fold(Length::Known(1), |product, len| product * *len);
        let (Some((first, own)), Some((batch, others))) = (x.dims.split_first(), dims.split_first_mut())
        else {
            return;
        };
        if first.known().is_none() && *batch == Length::Known(1) && product(own).is(product(others)) {
            *batch = *first;
        }
    }

    fn squeeze(&mut self, operation: &Operation<'_>) -> Read<Val> {
        let x = self.take(operation, 0)?;
        let stated: Vec<i64> = operation.ints(0)?.into_iter().map(i64::from).collect();
        let axes = match stated[..] {
            [] => (0..x.rank()).filter(|axis| x.len(*axis) == Length::Known(1)).collect(),
            _ => resolve_all(&stated, x.rank()).ok_or("removes axes that do not exist")?,
        };
        self.builder.squeeze(&x, &axes)
    }

    fn strided_slice(&mut self, operation: &Operation<'_>) -> Read<Val> {
        let x = self.take(operation, 0)?;
        let bounds = [1, 2, 3].map(|index| self.known_ints(operation.required(index).ok()?));
        let bounds = bounds.into_iter().collect::<Option<Vec<Integers>>>();
        let bounds = bounds.ok_or("takes its bounds from what the model computes")?;
        let all = selections(operation, &bounds, &x.dims)?.ok_or("has bounds that do not fit its input")?;
        let (mut ranges, mut removed, mut new, mut kept) = (Vec::new(), Vec::new(), Vec::new(), 0usize);
        for selection in all {
            match selection {
                Selection::New => new.push(kept.saturating_add(new.len())),
                Selection::Index { axis, at } => {
                    ranges.push(Range::index(axis, at));
                    removed.push(axis);
                }
                Selection::Range { axis, begin, end, step } => {
                    kept = kept.saturating_add(1);
                    if (begin, end, step) != (0, i64::MAX, 1) {
                        ranges.push(Range { axis, begin, end, step });
                    }
                }
            }
        }
        let sliced = self.builder.slice(&x, &ranges)?;
        let squeezed = if removed.is_empty() { sliced } else { self.builder.squeeze(&sliced, &removed)? };
        if new.is_empty() { Ok(squeezed) } else { self.builder.unsqueeze(&squeezed, &new) }
    }

    fn pad(&mut self, operation: &Operation<'_>) -> Read<Val> {
        let x = self.take(operation, 0)?;
        let pads = self.ints(operation, 1)?;
        let pairs = pads.as_chunks::<2>().0;
        if pads.len() != x.rank().saturating_mul(2) {
            return Err("pads other axes than its input has".to_owned());
        }
        let mode = match (operation.name.as_str(), operation.code(0)?) {
            ("MIRROR_PAD", 0) => "reflect",
            ("MIRROR_PAD", _) => {
                return Err("pads with the edge itself mirrored, which is not supported".to_owned());
            }
            _ => "constant",
        };
        let mut node = self.builder.node(Op::Pad).attribute("pads", Builder::pads(&x, pairs.iter().copied()));
        node = node.attribute("mode", Attribute::Text(mode.into()));
        if let Some(value) = operation.input(2).filter(|_| operation.name == "PADV2") {
            let value = self.number(value).ok_or("pads with a number that is not a constant")?;
            node = node.attribute("value", Attribute::Float(value));
        }
        let dims = x.dims.iter().zip(pairs).map(|(len, [begin, end])| *len + *begin + *end).collect();
        self.builder.same(node, &x, dims)
    }

    /// A value that is repeated along axes of length 1.
    fn expand(&mut self, operation: &Operation<'_>) -> Read<Val> {
        let (x, shape) = if operation.name == "FILL" { (1, 0) } else { (0, 1) };
        let wanted = self
            .known_ints(operation.required(shape)?)
            .ok_or("takes its shape from what the model computes")?;
        let x = self.take(operation, x)?;
        let x = self.builder.last(&x)?;
        match wanted.known() {
            Some(known) => {
                let node = self.builder.node(Op::Expand).attribute("shape", Attribute::Ints(known));
                self.builder.plain(node, &[&x], wanted.values)
            }
            // One number broadcasts with whatever has the shape.
            None if x.rank() == 0 => Ok(x),
            None => Err("repeats a value as often as the input is long".to_owned()),
        }
    }

    /// Lowers an operator with several results; `None` if it is another one.
    pub(super) fn several(&mut self, operation: &Operation<'_>) -> Read<Option<Vec<Val>>> {
        match operation.name.as_str() {
            "SPLIT" => {
                let x = self.take(operation, 1)?;
                let axis = *self.axes(operation, 0, x.rank())?.first().ok_or("names no axis")?;
                self.parts(operation, &x, axis, None).map(Some)
            }
            "SPLIT_V" => {
                let x = self.take(operation, 0)?;
                let axis = *self.axes(operation, 2, x.rank())?.first().ok_or("names no axis")?;
                let sizes = self.ints(operation, 1)?;
                self.parts(operation, &x, axis, Some(sizes)).map(Some)
            }
            "UNPACK" => {
                let x = self.take(operation, 0)?;
                let axis =
                    resolve(operation.int(1)?.into(), x.rank()).ok_or("takes an axis that does not exist")?;
                let parts = self.parts(operation, &x, axis, None)?;
                parts.iter().map(|part| self.builder.squeeze(part, &[axis])).collect::<Read<_>>().map(Some)
            }
            "TOPK_V2" => self.greatest(operation).map(Some),
            "UNIDIRECTIONAL_SEQUENCE_LSTM" => self.lstm(operation).map(Some),
            _ => Ok(None),
        }
    }

    /// Parts along an axis, one for each result: of these lengths, or equal ones.
    fn parts(
        &mut self,
        operation: &Operation<'_>,
        x: &Val,
        axis: usize,
        sizes: Option<Vec<i64>>,
    ) -> Read<Vec<Val>> {
        let count = operation.step.outputs.len();
        let own = match (&sizes, x.len(axis).size()) {
            (Some(sizes), _) if sizes.len() == count => sizes.clone(),
            (None, Some(len)) => {
                let part = len.checked_div(count as u64).and_then(|part| i64::try_from(part).ok());
                vec![part.unwrap_or_default(); count]
            }
            _ => return Err("divides an axis whose length is not known".to_owned()),
        };
        if own.iter().any(|size| *size < 0) {
            return Err("leaves the length of a part open".to_owned());
        }
        if count == 1 {
            return Ok(vec![x.clone()]);
        }
        let mut node =
            self.builder.node(Op::Split).attribute("axis", Attribute::Int(ckpt_graph::int(x.axis(axis))?));
        node.name = self.builder.unique(&node.name);
        if sizes.is_some() {
            node = node.attribute("split", ints(&own)?);
        }
        let mut made = Vec::with_capacity(count);
        for (number, size) in own.iter().enumerate() {
            let name = self.builder.unique(&format!("{}/{number}", node.name));
            node.outputs.push(name.clone());
            let mut dims = x.dims.clone();
            if let Some(len) = dims.get_mut(axis) {
                *len = Length::Known(*size);
            }
            made.push(self.builder.val(name, x.layout, dims, ()));
        }
        self.builder.add(node, vec![x.name.clone()])?;
        Ok(made)
    }

    /// The greatest elements of the last axis, and their places.
    fn greatest(&mut self, operation: &Operation<'_>) -> Read<Vec<Val>> {
        let x = self.take(operation, 0)?;
        let x = self.builder.last(&x)?;
        let count = *self.ints(operation, 1)?.first().ok_or("states no number of elements")?;
        let mut node = self.builder.node(Op::TopK).attribute("k", Attribute::Int(count));
        node.name = self.builder.unique(&node.name);
        let mut dims = x.dims.clone();
        if let Some(last) = dims.last_mut() {
            *last = Length::Known(count);
        }
        let places = self.builder.unique(&format!("{}/places", node.name));
        node.outputs = vec![node.name.clone(), places.clone()];
        let made = node.name.clone();
        self.builder.add(node, vec![x.name.clone()])?;
        Ok(vec![
            self.builder.val(made, x.layout, dims.clone(), ()),
            self.builder.val(places, x.layout, dims, ()),
        ])
    }
}
