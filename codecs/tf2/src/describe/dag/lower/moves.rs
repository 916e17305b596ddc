//! Lowers operations that move elements, and tables.

use super::super::super::no_chain::NoChain;
use super::super::super::node::{flag, text};
use super::super::facts::{Selection, int, selections, squeezed};
use super::super::reach::Edge;
use super::super::value::{Dims, Int, resolve};
use super::cubic::Weights;
use super::lowering::{Lowering, lost, refuse};
use super::values::{Layout, Val, ints};
use crate::proto::NodeDef;
use ckpt_api::{Attribute, Axis, Node, Op};

impl Lowering<'_> {
    /// Lowers an operation that moves elements; `None` if it is another one.
    pub(super) fn moved(&mut self, op: &NodeDef, edge: Edge, inputs: &[Val]) -> Result<Option<Val>, NoChain> {
        let made = match (op.op.as_str(), inputs) {
            ("Reshape", [x]) => {
                let dims = self.dims(edge)?;
                self.values.reshape(x, &dims)?
            }
            ("Transpose", [x]) => self.transpose(edge, x)?,
            ("ExpandDims", [x]) => {
                let axis = self.axis(edge, 1, x.rank() + 1)?;
                self.unsqueeze(x, &[axis])?
            }
            ("Squeeze", [x]) => {
                let kept = squeezed(op, &x.dims).ok_or_else(lost)?;
                self.squeeze(x, &kept)?
            }
            ("ConcatV2", all) => self.concat(op, edge, all)?,
            ("Pack", all) => {
                let rank = all.first().map_or(0, Val::rank);
                let axis = resolve(int(op, "axis").unwrap_or(0), rank + 1).ok_or_else(lost)?;
                let items =
                    all.iter().map(|item| self.unsqueeze(item, &[axis])).collect::<Result<Vec<_>, _>>()?;
                self.join(axis, &items)?
            }
            ("StridedSlice", [x]) => self.strided_slice(op, edge, x)?,
            ("Slice", [x]) => {
                let (begins, sizes) = (self.list(edge, 1)?, self.list(edge, 2)?);
                let ranges = begins.iter().zip(&sizes).enumerate().map(|(axis, (begin, size))| Range {
                    axis,
                    begin: *begin,
                    end: if *size < 0 { i64::MAX } else { begin.saturating_add(*size) },
                    step: 1,
                });
                let dims = self.dims(edge)?;
                self.slice(x, ranges.collect(), dims)?
            }
            ("GatherV2" | "ResourceGather", all) => self.gather(op, edge, all)?,
            ("Pad" | "PadV2" | "MirrorPad", [x]) => self.pad(op, edge, x)?,
            ("Tile", [x]) => self.tile(edge, x)?,
            ("BroadcastTo" | "Fill", [x]) => {
                let dims = self.dims(edge)?;
                let is_real = matches!(super::super::facts::dtype(op, "T"), Some(1 | 2 | 14 | 19) | None);
                self.values.expand(x, &dims, is_real)?
            }
            ("TensorListStack", items) => self.stacked(edge, items)?,
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
                let axes = self.list(edge, 1)?;
                let range = |axis: &i64| {
                    let axis = resolve(*axis, x.rank())?;
                    Some(Range { axis, begin: -1, end: i64::MIN, step: -1 })
                };
                let ranges = axes.iter().map(range).collect::<Option<Vec<_>>>().ok_or_else(lost)?;
                self.slice(x, ranges, x.dims.clone())?
            }
            ("DepthToSpace" | "SpaceToDepth", [x]) if super::super::facts::is_channels_last(op) => {
                let size = int(op, "block_size").ok_or_else(lost)?;
                let dims = self.dims(edge)?;
                let x = self.values.first(x)?;
                let node = self.values.node(&op.op).attribute("blocksize", Attribute::Int(size));
                let name = self.values.push(node, vec![x.name])?;
                Val { name, layout: Layout::First, dims, layer: None }
            }
            ("Cumsum", [x]) => {
                let axis = self.axis(edge, 1, x.rank())?;
                let node =
                    self.values.node("CumSum").attribute("axis", Attribute::Int(position(x.axis(axis))?));
                let set = |name: &str| Attribute::Int(i64::from(flag(op, name)));
                let node = node.attribute("exclusive", set("exclusive")).attribute("reverse", set("reverse"));
                let name = self.values.push(node, vec![x.name.clone()])?;
                Val { name, layer: None, ..x.clone() }
            }
            _ => return Ok(None),
        };
        Ok(Some(made))
    }

    /// Joins the items of a list, or takes the list that a recurrent layer makes, which is joined already.
    fn stacked(&mut self, edge: Edge, items: &[Val]) -> Result<Val, NoChain> {
        let is_made = self.view.inputs(edge).first().is_some_and(|list| self.view.items(*list).is_some());
        match items {
            [made] if !is_made => Ok(made.clone()),
            items => {
                let items =
                    items.iter().map(|item| self.unsqueeze(item, &[0])).collect::<Result<Vec<_>, _>>()?;
                self.join(0, &items)
            }
        }
    }

    /// Takes one row of what a list is made of.
    fn row(&mut self, edge: Edge, rows: &Val) -> Result<Val, NoChain> {
        let [at] = self.list(edge, 1)?[..] else { return Err(lost()) };
        let end = at.checked_add(1).filter(|_| at >= 0).ok_or_else(lost)?;
        let mut dims = rows.dims.clone();
        *dims.first_mut().ok_or_else(lost)? = Int::Known(1);
        let row = self.slice(rows, vec![Range { axis: 0, begin: at, end, step: 1 }], dims)?;
        let kept: Vec<usize> = (1..row.rank()).collect();
        self.squeeze(&row, &kept)
    }

    fn transpose(&mut self, edge: Edge, x: &Val) -> Result<Val, NoChain> {
        let perm = self.list(edge, 1)?;
        let order = perm.iter().map(|axis| resolve(*axis, x.rank())).collect::<Option<Vec<_>>>();
        let order = order.filter(|order| order.len() == x.rank()).ok_or_else(lost)?;
        let dims: Dims = order.iter().map(|axis| x.dims[*axis]).collect();
        let own: Vec<usize> = order.iter().map(|axis| x.axis(*axis)).collect();
        if own.is_sorted() {
            return Ok(Val { name: x.name.clone(), layout: Layout::Last, dims, layer: None });
        }
        let node = self.values.node("Transpose").attribute("perm", ints(&own)?);
        self.values.plain(node, &[x], dims)
    }

    pub(super) fn unsqueeze(&mut self, x: &Val, axes: &[usize]) -> Result<Val, NoChain> {
        let x = self.values.last(x)?;
        let mut dims = x.dims.clone();
        for axis in axes {
            dims.insert((*axis).min(dims.len()), Int::Known(1));
        }
        let node = self.values.node("Unsqueeze").attribute("axes", ints(axes)?);
        self.values.plain(node, &[&x], dims)
    }

    pub(super) fn squeeze(&mut self, x: &Val, kept: &[usize]) -> Result<Val, NoChain> {
        let x = self.values.last(x)?;
        let removed: Vec<usize> = (0..x.rank()).filter(|axis| !kept.contains(axis)).collect();
        if removed.is_empty() {
            return Ok(x);
        }
        let dims = kept.iter().map(|axis| x.dims[*axis]).collect();
        let node = self.values.node("Squeeze").attribute("axes", ints(&removed)?);
        self.values.plain(node, &[&x], dims)
    }

    fn concat(&mut self, _op: &NodeDef, edge: Edge, all: &[Val]) -> Result<Val, NoChain> {
        let rank = all.first().map_or(0, Val::rank);
        let axis = self.axis(edge, all.len(), rank)?;
        self.join(axis, all)
    }

    fn join(&mut self, axis: usize, all: &[Val]) -> Result<Val, NoChain> {
        if let [only] = all {
            return Ok(only.clone());
        }
        let is_first = all.iter().any(|val| val.layout == Layout::First);
        let turned =
            all.iter().map(|val| if is_first { self.values.first(val) } else { self.values.last(val) });
        let turned = turned.collect::<Result<Vec<_>, _>>()?;
        let first = turned.first().ok_or_else(lost)?;
        let mut dims = first.dims.clone();
        if axis >= dims.len() || turned.iter().any(|val| val.rank() != dims.len()) {
            return Err(NoChain::unsupported("it joins values of different numbers of axes"));
        }
        for val in &turned[1..] {
            dims[axis] = dims[axis].add(val.dims[axis]);
        }
        let node = self.values.node("Concat").attribute("axis", Attribute::Int(position(first.axis(axis))?));
        let name = self.values.push(node, turned.iter().map(|val| val.name.clone()).collect())?;
        Ok(Val { name, layout: first.layout, dims, layer: None })
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
                    let end = if at == -1 { i64::MAX } else { at.saturating_add(1) };
                    ranges.push(Range { axis, begin: at, end, step: 1 });
                    dims[axis] = Int::Known(1);
                }
                Selection::Range { axis, begin, end, step } => {
                    kept.push(axis);
                    if (begin.unwrap_or(0), end, step) == (0, None, 1) {
                        continue;
                    }
                    let open = if step > 0 { (0, i64::MAX) } else { (-1, i64::MIN) };
                    dims[axis] = match dims[axis].known() {
                        Some(len) => Int::Known(super::super::facts::range(len, begin, end, step).1),
                        None => Int::Unknown,
                    };
                    ranges.push(Range {
                        axis,
                        begin: begin.unwrap_or(open.0),
                        end: end.unwrap_or(open.1),
                        step,
                    });
                }
            }
        }
        let stated = self.dims(edge)?;
        // Lengths that are free are those of the result.
        let mut result = stated.iter().enumerate().filter(|(at, _)| !new.contains(at)).map(|(_, len)| *len);
        for axis in &kept {
            dims[*axis] = result.next().unwrap_or(Int::Unknown);
        }
        let sliced = if ranges.is_empty() { x.clone() } else { self.slice(x, ranges, dims)? };
        let squeezed = if kept.len() < x.rank() { self.squeeze(&sliced, &kept)? } else { sliced };
        if new.is_empty() { Ok(squeezed) } else { self.unsqueeze(&squeezed, &new) }
    }

    fn slice(&mut self, x: &Val, ranges: Vec<Range>, dims: Dims) -> Result<Val, NoChain> {
        let node = self.values.node("Slice");
        let list = |of: &dyn Fn(&Range) -> i64| Attribute::Ints(ranges.iter().map(of).collect());
        let axes = ranges.iter().map(|range| x.axis(range.axis)).collect::<Vec<_>>();
        let mut node = node
            .attribute("starts", list(&|range| range.begin))
            .attribute("ends", list(&|range| range.end))
            .attribute("axes", ints(&axes)?);
        if ranges.iter().any(|range| range.step != 1) {
            node = node.attribute("steps", list(&|range| range.step));
        }
        let name = self.values.push(node, vec![x.name.clone()])?;
        Ok(Val { name, layout: x.layout, dims, layer: None })
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
                self.values.plain(node, &[indices], dims)
            }
            (None, [data, indices]) => {
                let axis = if op.op == "ResourceGather" { 0 } else { self.axis(edge, 2, data.rank())? };
                let node = self.values.node("Gather").attribute("axis", Attribute::Int(position(axis)?));
                self.values.plain(node, &[data, indices], dims)
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
        let mut own = vec![0; pads.len()];
        for (axis, pair) in pads.chunks_exact(2).enumerate() {
            let at = x.axis(axis);
            own[at] = pair[0];
            own[at + x.rank()] = pair[1];
        }
        let mut node = self.values.node("Pad").attribute("pads", Attribute::Ints(own));
        node = node.attribute("mode", Attribute::Text(mode.unwrap_or("constant").into()));
        if let Some(value) = value.filter(|value| *value != 0.0) {
            node = node.attribute("value", Attribute::Float(value));
        }
        let name = self.values.push(node, vec![x.name.clone()])?;
        let lens = x.dims.iter().zip(pads.chunks_exact(2));
        let dims = lens.map(|(len, pair)| len.add(Int::Known(pair[0])).add(Int::Known(pair[1]))).collect();
        Ok(Val { name, layout: x.layout, dims, layer: None })
    }

    fn tile(&mut self, edge: Edge, x: &Val) -> Result<Val, NoChain> {
        let dims = self.dims(edge)?;
        let repeats = self.view.inputs(edge).get(1).and_then(|input| self.view.ints(*input));
        let x = self.values.last(x)?;
        match repeats {
            Some(repeats) => {
                let node = self.values.node("Tile").attribute("repeats", Attribute::Ints(repeats));
                self.values.plain(node, &[&x], dims)
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
        let name = self.values.push(node, vec![x.name])?;
        Ok(Val { name, layout: Layout::First, dims, layer: None })
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
        let mut node = self.values.node("Split").attribute("axis", Attribute::Int(position(x.axis(axis))?));
        let all: Vec<Dims> = (0..count)
            .map(|output| match op.op.as_str() {
                "Unpack" => {
                    let mut dims = x.dims.clone();
                    dims[axis] = Int::Known(1);
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
            let part = Val { name, layout: x.layout, dims, layer: None };
            let kept: Vec<usize> = (0..x.rank()).filter(|own| *own != axis).collect();
            parts.push(if op.op == "Unpack" { self.squeeze(&part, &kept)? } else { part });
        }
        Ok(parts)
    }
}

/// A range of an axis in TensorFlow's order.
struct Range {
    axis: usize,
    begin: i64,
    end: i64,
    step: i64,
}

fn position(axis: usize) -> Result<i64, NoChain> {
    i64::try_from(axis).map_err(|_| lost())
}
