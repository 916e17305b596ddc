//! Operators that move elements, and reductions.

use super::super::flat::Field;
use super::unsupported;
use super::values::{Builder, Kind, NewOperator, Val, number, options};
use ckpt_api::{DType, Node, Op, Result};
use ckpt_graph::Dims;
use ckpt_graph::order::{to_first, to_last};
use ckpt_graph::shape::{resolve, resolve_all};

impl Builder<'_> {
    /// Writes an operator that moves elements, or a reduction; `None` for another one.
    pub(super) fn moving_node(&mut self, node: &Node) -> Result<Option<Val>> {
        let reduction = match node.op {
            Op::ReduceMean => Some(40),
            Op::ReduceSum => Some(74),
            Op::ReduceProd => Some(81),
            Op::ReduceMax => Some(82),
            Op::ReduceMin => Some(89),
            _ => None,
        };
        if let Some(code) = reduction {
            return self.reduced(node, code).map(Some);
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
                self.emit(69, &[x.tensor, repeats], options(51, []), (dims, false, x.kind))?
            }
            Op::Expand => {
                let x = self.input(node, 0)?;
                let x = self.plain(&x)?;
                let dims = self.result(node)?;
                let known = dims.iter().map(|len| len.known()).collect::<Option<Vec<i64>>>();
                let known = known.ok_or_else(|| unsupported(node, "its shape depends on a free length"))?;
                let shape = self.ints(&known)?;
                self.emit(130, &[x.tensor, shape], options(104, []), (dims, false, x.kind))?
            }
            Op::ArgMax => self.place(node, 56, 40)?,
            Op::ArgMin => self.place(node, 79, 57)?,
            Op::DepthToSpace if matches!(node.text("mode")?, None | Some("DCR")) => {
                self.blocks(node, 5, 94)?
            }
            Op::SpaceToDepth if matches!(node.text("mode")?, None | Some("DCR")) => {
                self.blocks(node, 26, 19)?
            }
            Op::Resize => self.resize(node)?,
            _ => return Ok(None),
        }))
    }

    fn reduced(&mut self, node: &Node, code: i32) -> Result<Val> {
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
        self.emit(
            code,
            &[x.tensor, places],
            options(27, [(0, Field::Flag(keeps))]),
            (dims, is_turned, x.kind),
        )
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
        let inputs: Vec<Option<usize>> = inputs.into_iter().map(Some).collect();
        self.emit_active(2, &inputs, (options(10, [(0, Field::I32(axis))]), 1), (dims, is_turned, kind))
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
        let masks = [(0, Field::I32(begin_mask)), (1, Field::I32(end_mask))];
        self.emit(45, &[x.tensor, begin, end, step], options(32, masks), (dims, x.is_turned, x.kind))
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
            return self.emit(34, &[x.tensor, pads], options(22, []), (dims, x.is_turned, x.kind));
        }
        let value = self.scalar(value)?;
        self.emit(60, &[x.tensor, pads, value], options(43, []), (dims, x.is_turned, x.kind))
    }

    /// The place of the greatest or least element of an axis.
    fn place(&mut self, node: &Node, code: i32, kind: u8) -> Result<Val> {
        let x = self.input(node, 0)?;
        let x = self.plain(&x)?;
        let axis = resolve(node.int("axis", 0)?, x.rank())
            .ok_or_else(|| unsupported(node, "its axis does not exist"))?;
        let dims = self.result(node)?;
        let removed = ckpt_graph::shape::reduced(&x.dims, &[axis], false);
        let axis = self.ints(&[i64::try_from(axis).unwrap_or(0)])?;
        // The type of the result is I32.
        let made = self.emit(
            code,
            &[x.tensor, axis],
            options(kind, [(0, Field::I8(2))]),
            (removed, false, Kind::Int),
        )?;
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

    fn blocks(&mut self, node: &Node, code: i32, kind: u8) -> Result<Val> {
        let x = self.image_alone(node)?;
        let dims = self.result(node)?;
        let size = i32::try_from(node.int("blocksize", 1)?).unwrap_or(1);
        self.emit(code, &[x.tensor], options(kind, [(0, Field::I32(size))]), (dims, true, x.kind))
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
        let nearest = node.text("nearest_mode")?.unwrap_or("round_prefer_floor");
        let (code, kind, first) = match (node.text("mode")?.unwrap_or("nearest"), corners || half) {
            ("linear", _) => (23, 15, 2),
            ("nearest", true) if nearest == "round_prefer_ceil" => (97, 74, 0),
            ("nearest", false) if nearest == "floor" => (97, 74, 0),
            _ => return Err(unsupported(node, "its interpolation is of another kind")),
        };
        let size = self.ints(&[rows, columns])?;
        let flags = [(first, Field::Flag(corners)), (first + 1, Field::Flag(half))];
        self.emit(code, &[x.tensor, size], options(kind, flags), (dims, true, x.kind))
    }

    /// Parts along an axis.
    pub(super) fn split(&mut self, node: &Node) -> Result<()> {
        let x = self.input(node, 0)?;
        let axis = resolve(node.int("axis", 0)?, x.rank())
            .ok_or_else(|| unsupported(node, "its axis does not exist"))?;
        let mut sizes = Vec::new();
        let mut parts = Vec::new();
        for output in &node.outputs {
            let dims = self.dims.get(output).cloned();
            let dims = dims.ok_or_else(|| unsupported(node, "the shape of a part is not known"))?;
            let len = dims.get(axis).and_then(|len| len.known());
            sizes.push(len.ok_or_else(|| unsupported(node, "the length of a part is not known"))?);
            parts.push(self.value(output, dims, x.is_turned, x.kind)?);
        }
        let place = i64::try_from(x.place(axis)).unwrap_or(0);
        let count = i32::try_from(parts.len()).unwrap_or(i32::MAX);
        let sizes = self.ints(&sizes)?;
        let place =
            self.literal(i32::try_from(place).unwrap_or(0).to_le_bytes().to_vec(), Vec::new(), DType::I32)?;
        let inputs = [x.tensor, sizes, place].into_iter().map(number).collect::<Result<Vec<i32>>>()?;
        let outputs = parts.iter().map(|part| number(part.tensor)).collect::<Result<Vec<i32>>>()?;
        let options = options(79, [(0, Field::I32(count))]);
        self.model.operators.push(NewOperator { code: 102, inputs, outputs, options, activation: None });
        for (output, part) in node.outputs.iter().zip(parts) {
            self.set(output, part);
        }
        Ok(())
    }
}
