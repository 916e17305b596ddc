//! Operators that move elements, and reductions.

use crate::model::Program;
use crate::operator::{Operator, Reduction};
use crate::unsupported;
use crate::values::{Builder, Kind, Val, physical};
use ckpt_api::{DType, Error, Node, Op, Result};
use ckpt_graph::order::{to_first, to_last};
use ckpt_graph::shape::{resolve, resolve_all};
use ckpt_graph::{Dims, Length};

impl Builder<'_> {
    /// Writes an operator that moves elements, or a reduction; `None` for another one.
    pub(super) fn moving_node(&mut self, node: &Node) -> Result<Option<Val>> {
        let reduction = match node.op {
            Op::ReduceMean => Some(Reduction::Mean),
            Op::ReduceSum => Some(Reduction::Sum),
            Op::ReduceProd => Some(Reduction::Prod),
            Op::ReduceMax => Some(Reduction::Max),
            Op::ReduceMin => Some(Reduction::Min),
            _ => None,
        };
        if let Some(by) = reduction {
            return self.reduced(node, by).map(Some);
        }
        Ok(Some(match node.op {
            Op::Reshape | Op::Flatten | Op::Squeeze | Op::Unsqueeze => {
                let x = self.input(node, 0)?;
                let x = self.plain(&x)?;
                let dims = self.result(node)?;
                self.reshaped(&x, dims)?
            }
            Op::Transpose => self.transpose(node)?,
            Op::Concat => self.joined(node)?,
            Op::Slice => self.slice(node)?,
            Op::Pad => {
                let x = self.input(node, 0)?;
                let pads =
                    node.ints("pads")?.ok_or_else(|| unsupported(node, "it states no padding"))?.to_vec();
                let (begins, ends) = pads.split_at(pads.len() / 2);
                if begins.len() != x.rank() || !matches!(node.text("mode")?, None | Some("constant")) {
                    return Err(unsupported(node, "it pads with other than a number"));
                }
                let mut pairs: Vec<[i64; 2]> =
                    begins.iter().zip(ends).map(|(begin, end)| [*begin, *end]).collect();
                if pairs.iter().flatten().any(|pad| *pad < 0) {
                    return Err(unsupported(node, "it cuts a value"));
                }
                pairs.truncate(x.rank());
                let value = node.float("value", 0.0)?;
                self.padded(node, &x, &pairs, value)?
            }
            Op::Tile => {
                let x = self.input(node, 0)?;
                let x = self.plain(&x)?;
                let repeats =
                    node.ints("repeats")?.ok_or_else(|| unsupported(node, "it states no repeats"))?.to_vec();
                let repeats = self.ints(&repeats)?;
                let dims = self.result(node)?;
                self.emit(Operator::Tile, &[x.tensor, repeats], (dims, false, x.kind))?
            }
            Op::Expand => {
                let x = self.input(node, 0)?;
                let x = self.plain(&x)?;
                let dims = self.result(node)?;
                let known = dims.iter().map(|len| len.known()).collect::<Option<Vec<i64>>>();
                let known = known.ok_or_else(|| unsupported(node, "its shape depends on a free length"))?;
                let shape = self.ints(&known)?;
                self.emit(Operator::BroadcastTo, &[x.tensor, shape], (dims, false, x.kind))?
            }
            Op::ArgMax => self.place(node, true)?,
            Op::ArgMin => self.place(node, false)?,
            Op::DepthToSpace if matches!(node.text("mode")?, None | Some("DCR")) => {
                let x = self.image_alone(node)?;
                let operator = Operator::DepthToSpace { size: block_size(node)? };
                self.emit(operator, &[x.tensor], (self.result(node)?, true, x.kind))?
            }
            Op::SpaceToDepth if matches!(node.text("mode")?, None | Some("DCR")) => {
                self.space_to_depth(node)?
            }
            Op::Resize => self.resize(node)?,
            _ => return Ok(None),
        }))
    }

    fn reduced(&mut self, node: &Node, by: Reduction) -> Result<Val> {
        let x = self.input(node, 0)?;
        let rank = x.rank();
        let axes = match node.ints("axes")? {
            Some(axes) => {
                resolve_all(axes, rank).ok_or_else(|| unsupported(node, "its axes do not exist"))?
            }
            None => (0..rank).collect(),
        };
        let keeps = node.int("keepdims", 1)? != 0;
        let dims = self.result(node)?;
        // Without the axes that are removed, the others must be in the graph's order.
        let left: Vec<usize> =
            (0..rank).filter(|axis| !axes.contains(axis)).map(|axis| x.place(axis)).collect();
        let x = if keeps || left.is_sorted() { x } else { self.plain(&x)? };
        let places: Vec<i64> = axes.iter().map(|axis| i64::try_from(x.place(*axis)).unwrap_or(0)).collect();
        let places = self.ints(&places)?;
        let is_turned = x.is_turned && keeps;
        self.emit(Operator::Reduce { by, keeps }, &[x.tensor, places], (dims, is_turned, x.kind))
    }

    fn transpose(&mut self, node: &Node) -> Result<Val> {
        let x = self.input(node, 0)?;
        let (rank, dims) = (x.rank(), self.result(node)?);
        let perm = match node.ints("perm")? {
            Some(perm) => {
                resolve_all(perm, rank).ok_or_else(|| unsupported(node, "its order is not valid"))?
            }
            None => (0..rank).rev().collect(),
        };
        // Between the two orders of images, the elements stay where they are.
        if rank > 2 && x.is_turned && perm == to_last(rank) {
            return Ok(Val { dims, is_turned: false, ..x });
        }
        if rank > 2 && !x.is_turned && perm == to_first(rank) {
            return Ok(Val { dims, is_turned: true, ..x });
        }
        let x = self.plain(&x)?;
        self.permuted(&x, &perm, (dims, false))
    }

    fn joined(&mut self, node: &Node) -> Result<Val> {
        let dims = self.result(node)?;
        let all = node.inputs.iter().map(|name| self.take(name)).collect::<Result<Vec<Val>>>()?;
        let is_turned = all.iter().any(|val| val.is_turned);
        let all = all.iter().map(|val| if is_turned { self.turned(val) } else { self.plain(val) });
        let all = all.collect::<Result<Vec<Val>>>()?;
        let first = all.first().ok_or_else(|| unsupported(node, "it joins nothing"))?;
        let axis = resolve(node.int("axis", 1)?, dims.len())
            .ok_or_else(|| unsupported(node, "its axis does not exist"))?;
        let axis = i32::try_from(first.place(axis)).unwrap_or(0);
        let (kind, inputs) = (first.kind, all.iter().map(|val| val.tensor).collect::<Vec<usize>>());
        self.emit(Operator::Concat { axis }, &inputs, (dims, is_turned, kind))
    }

    fn slice(&mut self, node: &Node) -> Result<Val> {
        let x = self.input(node, 0)?;
        let dims = self.result(node)?;
        let rank = x.rank();
        let list = |name: &str| node.ints(name).map(|all| all.map(<[i64]>::to_vec));
        let missing = || unsupported(node, "it lacks its bounds");
        let (starts, ends) = (list("starts")?.ok_or_else(missing)?, list("ends")?.ok_or_else(missing)?);
        let steps = list("steps")?.unwrap_or_else(|| vec![1; starts.len()]);
        let axes: Vec<i64> = match list("axes")? {
            Some(axes) => axes,
            None => (0..starts.len()).map(|axis| i64::try_from(axis).unwrap_or(0)).collect(),
        };
        let axes = resolve_all(&axes, rank).ok_or_else(|| unsupported(node, "its axes do not exist"))?;
        let (mut begin, mut end, mut step) = (vec![0i64; rank], vec![0i64; rank], vec![1i64; rank]);
        let (mut begin_mask, mut end_mask) = (0i32, 0i32);
        let is_cut: Vec<usize> = axes.iter().map(|axis| x.place(*axis)).collect();
        for at in (0..rank).filter(|at| !is_cut.contains(at)) {
            (begin_mask, end_mask) = (begin_mask | 1 << at.min(30), end_mask | 1 << at.min(30));
        }
        for ((at, start), (own_end, own_step)) in is_cut.iter().zip(&starts).zip(ends.iter().zip(&steps)) {
            let (Some(begin), Some(end), Some(step)) =
                (begin.get_mut(*at), end.get_mut(*at), step.get_mut(*at))
            else {
                continue;
            };
            (*begin, *end, *step) = (*start, *own_end, *own_step);
            // Ends beyond any length are the axis's own.
            if *own_end >= i64::from(i32::MAX) || *own_end <= i64::from(i32::MIN) {
                end_mask |= 1 << (*at).min(30);
                *end = 0;
            }
        }
        let (begin, end, step) = (self.ints(&begin)?, self.ints(&end)?, self.ints(&step)?);
        let operator = Operator::StridedSlice { begin_mask, end_mask };
        self.emit(operator, &[x.tensor, begin, end, step], (dims, x.is_turned, x.kind))
    }

    /// A value with a number around it: pairs for each axis of the graph.
    pub(super) fn padded(&mut self, node: &Node, x: &Val, pairs: &[[i64; 2]], value: f64) -> Result<Val> {
        let mut placed = vec![[0i64; 2]; x.rank()];
        let mut dims: Dims = x.dims.clone();
        for (axis, pair) in pairs.iter().enumerate() {
            if let Some(place) = placed.get_mut(x.place(axis)) {
                *place = *pair;
            }
            if let Some(len) = dims.get_mut(axis) {
                *len = *len + pair[0] + pair[1];
            }
        }
        if x.kind != Kind::Real {
            return Err(unsupported(node, "it pads integers"));
        }
        let elements: Vec<i64> = placed.into_iter().flatten().collect();
        let bytes: Vec<u8> =
            elements.iter().flat_map(|pad| i32::try_from(*pad).unwrap_or(i32::MAX).to_le_bytes()).collect();
        let pads = self.literal(bytes, vec![x.rank() as u64, 2], DType::I32)?;
        if value == 0.0 {
            return self.emit(Operator::Pad, &[x.tensor, pads], (dims, x.is_turned, x.kind));
        }
        let value = self.scalar(value)?;
        self.emit(Operator::PadWith, &[x.tensor, pads, value], (dims, x.is_turned, x.kind))
    }

    /// The place of the greatest or least element of an axis.
    fn place(&mut self, node: &Node, is_greatest: bool) -> Result<Val> {
        if node.flag("select_last_index")? {
            return Err(unsupported(node, "it takes the last of equal elements"));
        }
        let x = self.input(node, 0)?;
        let x = self.plain(&x)?;
        let axis = resolve(node.int("axis", 0)?, x.rank())
            .ok_or_else(|| unsupported(node, "its axis does not exist"))?;
        let dims = self.result(node)?;
        let removed = ckpt_graph::shape::reduced(&x.dims, &[axis], false);
        let axis = self.ints(&[i64::try_from(axis).unwrap_or(0)])?;
        let operator = Operator::Place { is_greatest };
        let made = self.emit(operator, &[x.tensor, axis], (removed, false, Kind::Int))?;
        if node.int("keepdims", 1)? == 0 { Ok(made) } else { self.reshaped(&made, dims) }
    }

    /// The input of an operator on images alone, with its channels last.
    fn image_alone(&mut self, node: &Node) -> Result<Val> {
        let x = self.input(node, 0)?;
        match x.rank() {
            4 => self.turned(&x),
            _ => Err(unsupported(node, "only images of rows and columns are written")),
        }
    }

    /// Blocks of pixels as channels: by moves of elements if the program has no operator for it.
    fn space_to_depth(&mut self, node: &Node) -> Result<Val> {
        let x = self.image_alone(node)?;
        let (dims, size) = (self.result(node)?, block_size(node)?);
        if self.program == Program::Lite {
            return self.emit(Operator::SpaceToDepth { size }, &[x.tensor], (dims, true, x.kind));
        }
        let [batch, channels, rows, columns] = x.dims[..] else {
            return Err(unsupported(node, "it takes no image"));
        };
        let size = Length::Known(size.into());
        let (rows, columns) = (rows.floor_div(size), columns.floor_div(size));
        let stored = Val { dims: Vec::new(), is_turned: false, ..x };
        let blocks = self.reshaped(&stored, vec![batch, rows, size, columns, size, channels])?;
        let moved = vec![batch, rows, columns, size, size, channels];
        let moved = self.permuted(&blocks, &[0, 1, 3, 2, 4, 5], (moved, false))?;
        let made = self.reshaped(&moved, ckpt_graph::order::rotated(&dims, true))?;
        Ok(Val { dims, is_turned: true, ..made })
    }

    fn resize(&mut self, node: &Node) -> Result<Val> {
        let x = self.image_alone(node)?;
        let dims = self.result(node)?;
        let (Some(rows), Some(columns)) =
            (dims.get(2).and_then(|len| len.known()), dims.get(3).and_then(|len| len.known()))
        else {
            return Err(unsupported(node, "the size of its result is not known"));
        };
        let coordinates = node.text("coordinate_transformation_mode")?.unwrap_or("half_pixel");
        let (corners, half) = match coordinates {
            "half_pixel" => (false, true),
            "align_corners" => (true, false),
            "asymmetric" => (false, false),
            _ => return Err(unsupported(node, "its coordinates are of another kind")),
        };
        let has_length = |at: usize| dims.get(at).zip(x.dims.get(at)).is_some_and(|(to, from)| to.is(*from));
        if !has_length(0) || !has_length(1) {
            return Err(unsupported(node, "it resizes more than rows and columns"));
        }
        // The programs go by the two lengths.
        if let (None, Some(scales), false) = (node.ints("sizes")?, node.floats("scales")?, corners) {
            let is_exact = |at: usize| {
                let len = x
                    .dims
                    .get(at)
                    .and_then(|len| len.size())
                    .map(|len| f64::from(u32::try_from(len).unwrap_or(u32::MAX)));
                len.zip(scales.get(at)).is_some_and(|(len, scale)| {
                    let to = len * scale;
                    (to - to.round()).abs() < 1e-4
                })
            };
            if !is_exact(2) || !is_exact(3) {
                return Err(unsupported(node, "its scale is not the quotient of its lengths"));
            }
        }
        let nearest = node.text("nearest_mode")?.unwrap_or("round_prefer_floor");
        let is_linear = match (node.text("mode")?.unwrap_or("nearest"), corners || half) {
            ("linear", _) => true,
            ("nearest", true) if nearest == "round_prefer_ceil" => false,
            ("nearest", false) if nearest == "floor" => false,
            _ => return Err(unsupported(node, "its interpolation is of another kind")),
        };
        let size = self.ints(&[rows, columns])?;
        let operator = Operator::Resize { is_linear, corners, half };
        self.emit(operator, &[x.tensor, size], (dims, true, x.kind))
    }

    /// Parts along an axis.
    pub(super) fn split(&mut self, node: &Node) -> Result<()> {
        let x = self.input(node, 0)?;
        let axis = resolve(node.int("axis", 0)?, x.rank())
            .ok_or_else(|| unsupported(node, "its axis does not exist"))?;
        let mut results = Vec::new();
        for output in &node.outputs {
            let dims = self.dims.get(output).cloned();
            let dims = dims.ok_or_else(|| unsupported(node, "the shape of a part is not known"))?;
            results.push((dims, x.is_turned, x.kind));
        }
        let parts = self.parts(&x, x.place(axis), &results)?;
        for (output, part) in node.outputs.iter().zip(parts) {
            self.set(output, part);
        }
        Ok(())
    }

    /// Parts of a value along an axis of its tensor.
    pub(super) fn parts(
        &mut self,
        x: &Val,
        place: usize,
        results: &[(Dims, bool, Kind)],
    ) -> Result<Vec<Val>> {
        let (mut sizes, mut parts) = (Vec::new(), Vec::new());
        let name = self.layer.clone();
        for (dims, is_turned, kind) in results {
            let len = physical(dims, *is_turned).get(place).and_then(|len| len.known());
            sizes.push(len.ok_or_else(|| Error::unsupported("the length of a part is not known"))?);
            parts.push(self.value(&name, dims.clone(), *is_turned, *kind)?);
        }
        let sizes = self.ints(&sizes)?;
        let place = i32::try_from(place).unwrap_or(0).to_le_bytes().to_vec();
        let place = self.literal(place, Vec::new(), DType::I32)?;
        let outputs = parts.iter().map(|part| part.tensor).collect();
        self.step(Operator::Split, vec![Some(x.tensor), Some(sizes), Some(place)], outputs);
        Ok(parts)
    }
}

fn block_size(node: &Node) -> Result<i32> {
    Ok(i32::try_from(node.int("blocksize", 1)?).unwrap_or(1))
}
