//! Operations that move elements.

use super::{Lowering, Read, Val};
use crate::read::Operation;
use ckpt_api::{Attribute, Op};
use ckpt_graph::shape::{remaining, resolve_all};
use ckpt_graph::{Dims, Length, Range, int, ints};

impl Lowering<'_, '_> {
    /// Lowers an operation that moves elements, or a reduction; `None` if it is another one.
    pub(super) fn moved(&mut self, operation: &Operation) -> Read<Option<Val>> {
        if let Some(made) = self.reduction(operation)? {
            return Ok(Some(made));
        }
        Ok(Some(match operation.op.as_str() {
            "reshape" => self.reshape(operation)?,
            "flatten2d" => {
                let x = self.take(operation, "x")?;
                let axis = self.axis(operation, x.rank().saturating_add(1), 1)?;
                let product = |dims: &[Length]| dims.iter().fold(Length::Known(1), |all, len| all * *len);
                let (rows, columns) = x.dims.split_at_checked(axis).ok_or("has no such axis")?;
                let dims = vec![product(rows), product(columns)];
                self.builder.reshape(&x, dims)?
            }
            "transpose" => {
                let x = self.take(operation, "x")?;
                let order = resolve_all(&self.ints(operation, "perm")?, x.rank());
                let order =
                    order.filter(|order| order.len() == x.rank()).ok_or("has an order of other axes")?;
                self.builder.transpose(&x, &order)?
            }
            "expand_dims" => {
                let x = self.take(operation, "x")?;
                let added = self.ints(operation, "axes")?.len();
                let axes = self.axes(operation, "axes", x.rank().saturating_add(added))?;
                self.builder.unsqueeze(&x, &axes)?
            }
            "squeeze" => {
                let x = self.take(operation, "x")?;
                let axes = match operation.argument("axes") {
                    Some(_) => self.axes(operation, "axes", x.rank())?,
                    None => (0..x.rank()).filter(|axis| x.len(*axis) == Length::Known(1)).collect(),
                };
                self.builder.squeeze(&x, &axes)?
            }
            "concat" => {
                if self.flag(operation, "interleave", false)? {
                    return Err("joins values by turns".to_owned());
                }
                let all = self.list(operation, "values")?;
                let axis = self.axis(operation, all.first().map_or(0, Val::rank), 0)?;
                self.builder.join(axis, &all)?
            }
            "stack" => {
                let all = self.list(operation, "values")?;
                let axis = self.axis(operation, all.first().map_or(0, Val::rank).saturating_add(1), 0)?;
                let all =
                    all.iter().map(|own| self.builder.unsqueeze(own, &[axis])).collect::<Read<Vec<_>>>()?;
                self.builder.join(axis, &all)?
            }
            "slice_by_index" => self.slice_by_index(operation)?,
            "slice_by_size" => {
                let x = self.take(operation, "x")?;
                let (begins, sizes) = (self.ints(operation, "begin")?, self.ints(operation, "size")?);
                // A part that begins below zero may reach the end, and one without a size does.
                let range = |(axis, (begin, size)): (usize, (&i64, &i64))| {
                    let end = begin.saturating_add(*size);
                    let is_last = *size <= 0 || (*begin < 0 && end >= 0);
                    Range::new(axis, *begin, if is_last { i64::MAX } else { end })
                };
                let ranges: Vec<Range> = begins.iter().zip(&sizes).enumerate().map(range).collect();
                self.builder.slice(&x, &ranges)?
            }
            "pad" => self.pad(operation)?,
            "tile" => {
                let x = self.take(operation, "x")?;
                let repeats = self.ints(operation, "reps")?;
                let dims: Dims = x.dims.iter().zip(&repeats).map(|(len, times)| *len * *times).collect();
                let node = self.builder.node(Op::Tile).attribute("repeats", Attribute::Ints(repeats));
                self.builder.plain(node, &[&x], dims)?
            }
            "reverse" => {
                let x = self.take(operation, "x")?;
                let axes = match operation.argument("axes") {
                    Some(_) => self.axes(operation, "axes", x.rank())?,
                    None => (0..x.rank()).collect(),
                };
                let ranges: Vec<Range> = axes.into_iter().map(Range::backwards).collect();
                self.builder.slice_of(&x, &ranges, x.dims.clone())?
            }
            "upsample_nearest_neighbor" => self.upsample(operation)?,
            "depth_to_space" | "pixel_shuffle" => {
                let x = self.take(operation, "x")?;
                let is_shuffle = operation.op == "pixel_shuffle";
                let (name, mode) = if is_shuffle { ("upscale_factor", "CRD") } else { ("block_size", "DCR") };
                let node = self.builder.node(Op::DepthToSpace);
                let node = node.attribute("blocksize", Attribute::Int(self.int_or(operation, name, 1)?));
                let node = node.attribute("mode", Attribute::Text(mode.into()));
                let dims = self.made(operation);
                self.builder.plain(node, &[&x], dims)?
            }
            "einsum" => {
                let all = self.list(operation, "values")?;
                let equation = self.text(operation, "equation");
                let node = self.builder.node(Op::Einsum).attribute("equation", Attribute::Text(equation));
                let dims = self.made(operation);
                self.builder.plain(node, &all.iter().collect::<Vec<_>>(), dims)?
            }
            "cumsum" => {
                let x = self.take(operation, "x")?;
                let axis = self.axis(operation, x.rank(), 0)?;
                let node = self.builder.node(Op::CumSum).attribute("axis", Attribute::Int(int(axis)?));
                let flags = [("exclusive", "exclusive"), ("reverse", "reverse")];
                let mut node = node;
                for (own, name) in flags {
                    let flag = self.flag(operation, own, false)?;
                    node = node.attribute(name, Attribute::Int(i64::from(flag)));
                }
                self.builder.map(node, &x)?
            }
            _ => return Ok(None),
        }))
    }

    fn reshape(&mut self, operation: &Operation) -> Read<Val> {
        let x = self.take(operation, "x")?;
        let stated = self.made(operation);
        if stated.iter().all(|len| len.known().is_some()) {
            return self.builder.reshape(&x, stated);
        }
        let shape = self.ints(operation, "shape")?;
        let mut dims = Dims::with_capacity(shape.len());
        for (axis, len) in shape.iter().enumerate() {
            dims.push(match len {
                0 => x.len(axis),
                -1 => Length::Unknown,
                len => Length::Known(*len),
            });
        }
        if let Some(at) = shape.iter().position(|len| *len == -1) {
            let others: Dims =
                dims.iter().enumerate().filter(|(axis, _)| *axis != at).map(|(_, len)| *len).collect();
            if let Some(len) = dims.get_mut(at) {
                *len = remaining(&x.dims, &others);
            }
        }
        self.builder.reshape(&x, dims)
    }

    fn slice_by_index(&mut self, operation: &Operation) -> Read<Val> {
        let x = self.take(operation, "x")?;
        let rank = x.rank();
        let (begins, ends) = (self.ints(operation, "begin")?, self.ints(operation, "end")?);
        let list = |name: &str, default: i64| -> Read<Vec<i64>> {
            Ok(self.optional_ints(operation, name)?.unwrap_or_else(|| vec![default; rank]))
        };
        let (steps, begin_mask, end_mask) =
            (list("stride", 1)?, list("begin_mask", 0)?, list("end_mask", 0)?);
        let squeezed = list("squeeze_mask", 0)?;
        let (mut ranges, mut removed) = (Vec::new(), Vec::new());
        for axis in 0..rank {
            let of = |all: &[i64], default: i64| all.get(axis).copied().unwrap_or(default);
            let (begin, step) = (of(&begins, 0), of(&steps, 1));
            if of(&squeezed, 0) != 0 {
                ranges.push(Range::index(axis, begin));
                removed.push(axis);
                continue;
            }
            let is_back = step < 0;
            let begin = match of(&begin_mask, 0) {
                0 => begin,
                _ => {
                    if is_back {
                        -1
                    } else {
                        0
                    }
                }
            };
            let end = match of(&end_mask, 0) {
                0 => of(&ends, i64::MAX),
                _ => {
                    if is_back {
                        i64::MIN
                    } else {
                        i64::MAX
                    }
                }
            };
            if (begin, end, step) != (0, i64::MAX, 1) {
                ranges.push(Range { axis, begin, end, step });
            }
        }
        let made = self.builder.slice(&x, &ranges)?;
        self.builder.squeeze(&made, &removed)
    }

    fn pad(&mut self, operation: &Operation) -> Read<Val> {
        let x = self.take(operation, "x")?;
        let own = self.ints(operation, "pad")?;
        let pairs = own.as_chunks::<2>().0;
        let first = x.rank().checked_sub(pairs.len()).ok_or("pads axes that do not exist")?;
        let all = vec![[0, 0]; first].into_iter().chain(pairs.iter().copied());
        let pads = ckpt_graph::Builder::<()>::pads(&x, all);
        let mode = self.text(operation, "mode");
        let node = self.builder.node(Op::Pad).attribute("pads", pads);
        let node = match mode.as_str() {
            "constant" | "" => {
                let value = self.float_or(operation, "constant_val", 0.0)?;
                node.attribute("mode", Attribute::Text("constant".into()))
                    .attribute("value", Attribute::Float(value))
            }
            "reflect" => node.attribute("mode", Attribute::Text("reflect".into())),
            "replicate" => node.attribute("mode", Attribute::Text("edge".into())),
            other => return Err(format!("has the mode '{other}'")),
        };
        let dims = self.made(operation);
        self.builder.plain(node, &[&x], dims)
    }

    fn upsample(&mut self, operation: &Operation) -> Read<Val> {
        let x = self.take(operation, "x")?;
        let factors = ["scale_factor_height", "scale_factor_width"];
        let [height, width] = factors.map(|name| self.float_or(operation, name, 1.0));
        if x.rank() != 4 {
            return Err("takes no image".to_owned());
        }
        let scales = vec![1.0, 1.0, height?, width?];
        let node = self
            .builder
            .node(Op::Resize)
            .attribute("mode", Attribute::Text("nearest".into()))
            .attribute("coordinate_transformation_mode", Attribute::Text("asymmetric".into()))
            .attribute("nearest_mode", Attribute::Text("floor".into()))
            .attribute("scales", Attribute::Floats(scales));
        let dims = self.made(operation);
        self.builder.plain(node, &[&x], dims)
    }

    /// The parts of a value along an axis.
    pub(super) fn split(&mut self, operation: &Operation) -> Read<Vec<Val>> {
        let x = self.take(operation, "x")?;
        let axis = self.axis(operation, x.rank(), 0)?;
        let count = operation.outputs.len();
        let sizes = match self.optional_ints(operation, "split_sizes")? {
            Some(sizes) if sizes.len() == count => sizes,
            Some(_) => return Err("has as many sizes as it has no results".to_owned()),
            None => {
                let len = x.len(axis).known().ok_or("splits an axis whose length is not stated")?;
                let parts = int(count)?;
                let part = len.checked_div(parts).filter(|part| part.saturating_mul(parts) == len);
                vec![part.ok_or("splits an axis into parts of different lengths")?; count]
            }
        };
        let (mut made, mut begin) = (Vec::with_capacity(count), 0i64);
        let _ = ints::<i64>(&sizes)?;
        for size in sizes {
            let end = begin.saturating_add(size);
            made.push(self.builder.slice(&x, &[Range::new(axis, begin, end)])?);
            begin = end;
        }
        Ok(made)
    }
}
