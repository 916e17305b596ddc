//! Lowers operations that move elements, and tables.

use super::super::super::no_chain::NoChain;
use super::super::super::node::{flag, text};
use super::super::facts::{int, selections, squeezed};
use super::super::reach::Edge;
use super::cubic::Weights;
use super::lowering::{Lowering, lost, refuse};
use super::values::{Maker, Val};
use crate::proto::NodeDef;
use ckpt_api::{Attribute, Axis, Node, Op};
use ckpt_graph::integers::Selection;
use ckpt_graph::shape::{resolve, resolve_all};
use ckpt_graph::{Builder, Dims, Length, Range, int as size};

impl Lowering<'_> {
    /// Lowers an operation that moves elements; `None` if it is another one.
    pub(super) fn moved(&mut self, op: &NodeDef, edge: Edge, inputs: &[Val]) -> Result<Option<Val>, NoChain> {
        let made = match (op.op.as_str(), inputs) {
            ("Reshape", [x]) => {
                let dims = self.dims(edge)?;
                self.values.reshape(x, dims)?
            }
            ("Transpose", [x]) => self.transpose(edge, x)?,
            ("ExpandDims", [x]) => {
                let axis = self.axis(edge, 1, x.rank() + 1)?;
                self.values.unsqueeze(x, &[axis])?
            }
            ("Squeeze", [x]) => {
                let kept = squeezed(op, &x.dims).ok_or_else(lost)?;
                let removed: Vec<usize> = (0..x.rank()).filter(|axis| !kept.contains(axis)).collect();
                self.values.squeeze(x, &removed)?
            }
            ("ConcatV2", all) => {
                let axis = self.axis(edge, all.len(), all.first().map_or(0, Val::rank))?;
                self.values.join(axis, all)?
            }
            ("Pack", all) => {
                let rank = all.first().map_or(0, Val::rank);
                let axis = resolve(int(op, "axis").unwrap_or(0), rank + 1).ok_or_else(lost)?;
                self.stacked(axis, all)?
            }
            ("StridedSlice", [x]) => self.strided_slice(op, edge, x)?,
            ("Slice", [x]) => {
                let (begins, sizes) = (self.list(edge, 1)?, self.list(edge, 2)?);
                let range = |(axis, (begin, size)): (usize, (&i64, &i64))| {
                    Range::new(axis, *begin, if *size < 0 { i64::MAX } else { begin.saturating_add(*size) })
                };
                let ranges: Vec<Range> = begins.iter().zip(&sizes).enumerate().map(range).collect();
                let dims = self.dims(edge)?;
                self.values.slice_of(x, &ranges, dims)?
            }
            ("GatherV2" | "ResourceGather", all) => self.gather(op, edge, all)?,
            ("Pad" | "PadV2" | "MirrorPad", [x]) => self.pad(op, edge, x)?,
            ("Tile", [x]) => self.tile(edge, x)?,
            ("BroadcastTo" | "Fill", [x]) => {
                let dims = self.dims(edge)?;
                let is_real = matches!(super::super::facts::dtype(op, "T"), Some(1 | 2 | 14 | 19) | None);
                self.values.expand(x, &dims, is_real)?
            }
            ("TensorListStack", items) => self.list_items(edge, items)?,
            ("TensorListGetItem", [rows]) => self.row(edge, rows)?,
            ("OnesLike" | "ZerosLike", [x]) => {
                let one = self.values.scalar(if op.op == "OnesLike" { 1.0 } else { 0.0 })?;
                self.values.expand(&one, &x.dims, true)?
            }
            ("ResizeBilinear" | "ResizeNearestNeighbor", [x]) => self.resize(op, edge, x)?,
            ("ResizeBicubic", [x]) => {
                let (half, corners) = (flag(op, "half_pixel_centers"), flag(op, "align_corners"));
                self.weighted_resize(op, edge, x, Weights::Cubic { half, corners })?
            }
            ("ResizeArea", [x]) => {
                let corners = flag(op, "align_corners");
                self.weighted_resize(op, edge, x, Weights::Area { corners })?
            }
            ("ReverseV2", [x]) => {
                let axes = resolve_all(&self.list(edge, 1)?, x.rank()).ok_or_else(lost)?;
                let ranges: Vec<Range> = axes.into_iter().map(Range::backwards).collect();
                self.values.slice_of(x, &ranges, x.dims.clone())?
            }
            ("DepthToSpace" | "SpaceToDepth", [x]) if super::super::facts::is_channels_last(op) => {
                let size = int(op, "block_size").ok_or_else(lost)?;
                let dims = self.dims(edge)?;
                let x = self.values.first(x)?;
                let node = self.values.node(op.op.as_str()).attribute("blocksize", Attribute::Int(size));
                self.values.same(node, &x, dims)?
            }
            ("Cumsum", [x]) => {
                let axis = self.axis(edge, 1, x.rank())?;
                let node = self.values.node("CumSum").attribute("axis", Attribute::Int(size(x.axis(axis))?));
                let set = |name: &str| Attribute::Int(i64::from(flag(op, name)));
                let node = node.attribute("exclusive", set("exclusive")).attribute("reverse", set("reverse"));
                self.values.map(node, x)?
            }
            _ => return Ok(None),
        };
        Ok(Some(made))
    }

    /// Joins values along a new axis.
    fn stacked(&mut self, axis: usize, items: &[Val]) -> Result<Val, NoChain> {
        let items = items.iter().map(|item| self.values.unsqueeze(item, &[axis]));
        let items = items.collect::<Result<Vec<_>, _>>()?;
        Ok(self.values.join(axis, &items)?)
    }

    /// Joins the items of a list, or takes the list that a recurrent layer makes, which is joined already.
    fn list_items(&mut self, edge: Edge, items: &[Val]) -> Result<Val, NoChain> {
        let is_made = self.view.inputs(edge).first().is_some_and(|list| self.view.items(*list).is_some());
        match items {
            [made] if !is_made => Ok(made.clone()),
            items => self.stacked(0, items),
        }
    }

    /// Takes one row of what a list is made of.
    fn row(&mut self, edge: Edge, rows: &Val) -> Result<Val, NoChain> {
        let [at] = self.list(edge, 1)?[..] else { return Err(lost()) };
        let end = at.checked_add(1).filter(|_| at >= 0).ok_or_else(lost)?;
        let mut dims = rows.dims.clone();
        *dims.first_mut().ok_or_else(lost)? = Length::Known(1);
        let row = self.values.slice_of(rows, &[Range::new(0, at, end)], dims)?;
        Ok(self.values.squeeze(&row, &[0])?)
    }

    fn transpose(&mut self, edge: Edge, x: &Val) -> Result<Val, NoChain> {
        let order = resolve_all(&self.list(edge, 1)?, x.rank());
        let order = order.filter(|order| order.len() == x.rank()).ok_or_else(lost)?;
        Ok(self.values.transpose(x, &order)?)
    }

    fn strided_slice(&mut self, op: &NodeDef, edge: Edge, x: &Val) -> Result<Val, NoChain> {
        let facts: Vec<_> = self.view.inputs(edge).iter().map(|input| self.view.facts.get(*input)).collect();
        let selections = selections(op, &x.dims, &facts);
        let selections = selections.ok_or_else(|| NoChain::unsupported("its bounds depend on the input"))?;
        let mut ranges = Vec::new();
        let (mut kept, mut new, mut dims) = (Vec::new(), Vec::new(), x.dims.clone());
        for selection in selections {
            match selection {
                Selection::New => new.push(kept.len() + new.len()),
                Selection::Index { axis, at } => {
                    ranges.push(Range::index(axis, at));
                    dims[axis] = Length::Known(1);
                }
                Selection::Range { axis, begin, end, step } => {
                    kept.push(axis);
                    if (begin, end, step) != (0, i64::MAX, 1) {
                        ranges.push(Range { axis, begin, end, step });
                    }
                }
            }
        }
        let stated = self.dims(edge)?;
        // Lengths that are free are those of the result.
        let mut result = stated.iter().enumerate().filter(|(at, _)| !new.contains(at)).map(|(_, len)| *len);
        for axis in &kept {
            dims[*axis] = result.next().unwrap_or(Length::Unknown);
        }
        let sliced = self.values.slice_of(x, &ranges, dims)?;
        let removed: Vec<usize> = (0..x.rank()).filter(|axis| !kept.contains(axis)).collect();
        let squeezed = if removed.is_empty() { sliced } else { self.values.squeeze(&sliced, &removed)? };
        Ok(if new.is_empty() { squeezed } else { self.values.unsqueeze(&squeezed, &new)? })
    }

    /// Returns the key of the matrix whose rows a gather takes.
    pub(super) fn table(&self, edge: Edge) -> Option<&str> {
        let view = self.view;
        let data = view.inputs(edge).first()?;
        let key = view.variable(*data)?;
        let is_rows = match view.inputs(edge).get(2) {
            Some(axis) => view.ints(*axis)? == [0],
            None => true,
        };
        let is_table = view.context.catalog.get(key)?.shape.rank() == 2 && view.batch_dims(edge) == 0;
        (is_rows && is_table).then_some(key)
    }

    fn gather(&mut self, op: &NodeDef, edge: Edge, inputs: &[Val]) -> Result<Val, NoChain> {
        let dims = self.dims(edge)?;
        if self.view.batch_dims(edge) != 0 {
            return self.gather_batched(edge, inputs);
        }
        let inputs = inputs.iter().map(|val| self.values.last(val)).collect::<Result<Vec<_>, _>>()?;
        match (self.table(edge).map(str::to_owned), &inputs[..]) {
            (Some(key), [indices]) => {
                self.values.shape(&key)?;
                let name = self.values.layer(&key, "embedding");
                if !self.values.axes.contains_key(&key) {
                    self.values.axes.insert(key.clone(), vec![Axis::Feature, Axis::Out]);
                } else if self.values.axes.get(&key) != Some(&vec![Axis::Feature, Axis::Out]) {
                    return Err(refuse(
                        op,
                        "takes rows of a matrix that is multiplied, too, which is not supported",
                    ));
                }
                let node = Node::new(name, Op::Gather).parameter("weight", key);
                Ok(self.values.plain(node, &[indices], dims)?)
            }
            (None, [data, indices]) => {
                let axis = if op.op == "ResourceGather" { 0 } else { self.axis(edge, 2, data.rank())? };
                let node = self.values.node("Gather").attribute("axis", Attribute::Int(size(axis)?));
                Ok(self.values.plain(node, &[data, indices], dims)?)
            }
            _ => Err(lost()),
        }
    }

    fn pad(&mut self, op: &NodeDef, edge: Edge, x: &Val) -> Result<Val, NoChain> {
        let pads = self.list(edge, 1)?;
        if pads.len() != 2 * x.rank() {
            return Err(lost());
        }
        let value = match self.view.inputs(edge).get(2) {
            Some(value) if op.op == "PadV2" => Some(self.view.number(*value).ok_or_else(lost)?),
            _ => None,
        };
        let mode = match (op.op.as_str(), text(op, "mode")) {
            ("MirrorPad", Some("REFLECT")) => Some("reflect"),
            ("MirrorPad", _) => return Err(NoChain::unsupported("its mode of padding is not supported")),
            _ => None,
        };
        let pairs = pads.as_chunks().0;
        let mut node = self.values.node("Pad").attribute("pads", Builder::pads(x, pairs.iter().copied()));
        node = node.attribute("mode", Attribute::Text(mode.unwrap_or("constant").into()));
        if let Some(value) = value.filter(|value| *value != 0.0) {
            node = node.attribute("value", Attribute::Float(value));
        }
        let dims = x.dims.iter().zip(pairs).map(|(len, [begin, end])| *len + *begin + *end).collect();
        Ok(self.values.same(node, x, dims)?)
    }

    fn tile(&mut self, edge: Edge, x: &Val) -> Result<Val, NoChain> {
        let dims = self.dims(edge)?;
        let repeats = self.view.inputs(edge).get(1).and_then(|input| self.view.ints(*input));
        let x = self.values.last(x)?;
        match repeats {
            Some(repeats) => {
                let node = self.values.node("Tile").attribute("repeats", Attribute::Ints(repeats));
                Ok(self.values.plain(node, &[&x], dims)?)
            }
            // An axis of length 1 that is repeated as often as the input is long.
            None => {
                let fits = x.dims.iter().zip(&dims).all(|(own, len)| own.known() == Some(1) || own.is(*len));
                if !fits || x.rank() != dims.len() {
                    return Err(NoChain::unsupported("it repeats a value as often as the input is long"));
                }
                self.values.expand(&x, &dims, true)
            }
        }
    }

    fn resize(&mut self, op: &NodeDef, edge: Edge, x: &Val) -> Result<Val, NoChain> {
        let [rows, columns] = self.list(edge, 1)?[..] else { return Err(lost()) };
        let dims = self.dims(edge)?;
        let x = self.values.first(x)?;
        let (half, corners) = (flag(op, "half_pixel_centers"), flag(op, "align_corners"));
        let coordinates = match (half, corners) {
            (true, false) => "half_pixel",
            (false, true) => "align_corners",
            (false, false) => "asymmetric",
            (true, true) => return Err(NoChain::unsupported("it aligns both corners and centers")),
        };
        let mode = match op.op.as_str() {
            "ResizeBilinear" => "linear",
            _ => "nearest",
        };
        let is_known = |axis: usize| matches!(x.dims[axis].known(), Some(len) if len > 0);
        if x.rank() != 4 || !is_known(1) || !is_known(2) || rows < 1 || columns < 1 {
            return Err(NoChain::unsupported("its size depends on the input"));
        }
        let mut node = self.values.node("Resize").attribute("mode", Attribute::Text(mode.into()));
        node = node
            .attribute("sizes", Attribute::Ints(vec![-1, -1, rows, columns]))
            .attribute("coordinate_transformation_mode", Attribute::Text(coordinates.into()));
        if mode == "nearest" {
            let nearest = match (half, corners) {
                (false, false) => "floor",
                _ => "round_prefer_ceil",
            };
            node = node.attribute("nearest_mode", Attribute::Text(nearest.into()));
        }
        Ok(self.values.same(node, &x, dims)?)
    }

    /// Lowers an operation with several results: parts of a value along an axis.
    pub(super) fn parts(&mut self, op: &NodeDef, edge: Edge, inputs: &[Val]) -> Result<Vec<Val>, NoChain> {
        let [x] = inputs else { return Err(lost()) };
        let count = match op.op.as_str() {
            "Unpack" => int(op, "num"),
            _ => int(op, "num_split"),
        };
        let count =
            count.and_then(|count| usize::try_from(count).ok()).filter(|count| (1..=1 << 12).contains(count));
        let count = count
            .ok_or_else(|| NoChain::unsupported("the number of its parts is not stated, or too large"))?;
        let axis = match op.op.as_str() {
            "Unpack" => resolve(int(op, "axis").unwrap_or(0), x.rank()).ok_or_else(lost)?,
            "Split" => self.axis(edge, 0, x.rank())?,
            _ => self.axis(edge, 2, x.rank())?,
        };
        let x = if op.op == "Unpack" { self.values.last(x)? } else { x.clone() };
        let mut node = self.values.node("Split").attribute("axis", Attribute::Int(size(x.axis(axis))?));
        let all: Vec<Dims> = (0..count)
            .map(|output| match op.op.as_str() {
                "Unpack" => {
                    let mut dims = x.dims.clone();
                    dims[axis] = Length::Known(1);
                    Ok(dims)
                }
                _ => self.dims(Edge { node: edge.node, output }),
            })
            .collect::<Result<_, _>>()?;
        let lens =
            all.iter().map(|dims| dims.get(axis).and_then(|len| len.known())).collect::<Option<Vec<i64>>>();
        node = node.attribute(
            "split",
            Attribute::Ints(lens.ok_or_else(|| NoChain::unsupported("its parts have free lengths"))?),
        );
        let base = self.values.node("Split").name;
        node.outputs = (0..count).map(|output| self.values.unique(&format!("{base}:{output}"))).collect();
        let names = node.outputs.clone();
        self.values.push(node, vec![x.name.clone()])?;
        let mut parts = Vec::with_capacity(count);
        for (name, dims) in names.into_iter().zip(all) {
            let part = self.values.val(name, x.layout, dims, Maker::default());
            parts.push(if op.op == "Unpack" { self.values.squeeze(&part, &[axis])? } else { part });
        }
        Ok(parts)
    }
}
