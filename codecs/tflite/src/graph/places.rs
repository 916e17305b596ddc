//! Operators on places: tables, greatest elements, images of other sizes.

use super::known::Val;
use super::lowering::{Lowering, Read};
use super::step::Operation;
use ckpt_api::{Attribute, Axis, Op};
use ckpt_graph::shape::resolve;
use ckpt_graph::{Dims, Length, int};

impl Lowering<'_> {
    /// Lowers an operator on places; `None` if it is another one.
    pub(super) fn placed(&mut self, operation: &Operation<'_>) -> Read<Option<Val>> {
        Ok(Some(match operation.name.as_str() {
            "GATHER" => self.gather(operation)?,
            "EMBEDDING_LOOKUP" => {
                self.rows_of_table(operation, 1, 0)?.ok_or("takes rows of what is no table")?
            }
            "ARG_MAX" => self.extreme(operation, Op::ArgMax)?,
            "ARG_MIN" => self.extreme(operation, Op::ArgMin)?,
            "RESIZE_BILINEAR" => self.resize(operation, "linear", [2, 3])?,
            "RESIZE_NEAREST_NEIGHBOR" => self.resize(operation, "nearest", [0, 1])?,
            "DEPTH_TO_SPACE" => self.blocks(operation, Op::DepthToSpace)?,
            "SPACE_TO_DEPTH" => self.blocks(operation, Op::SpaceToDepth)?,
            "CUMSUM" => {
                let x = self.take(operation, 0)?;
                let axis = *self.axes(operation, 1, x.rank())?.first().ok_or("names no axis")?;
                let set = |number: u64| operation.flag(number).map(|flag| Attribute::Int(i64::from(flag)));
                let node =
                    self.builder.node(Op::CumSum).attribute("axis", Attribute::Int(int(x.axis(axis))?));
                let node = node.attribute("exclusive", set(0)?).attribute("reverse", set(1)?);
                self.builder.map(node, &x)?
            }
            _ => return Ok(None),
        }))
    }

    fn gather(&mut self, operation: &Operation<'_>) -> Read<Val> {
        if operation.int(1)? != 0 {
            return Err("shares its first axes with its indices, which is not supported".to_owned());
        }
        if operation.int(0)? == 0
            && let Some(made) = self.rows_of_table(operation, 0, 1)?
        {
            return Ok(made);
        }
        let (data, indices) = (self.take(operation, 0)?, self.take(operation, 1)?);
        let (data, indices) = (self.builder.last(&data)?, self.builder.last(&indices)?);
        let axis =
            resolve(operation.int(0)?.into(), data.rank()).ok_or("takes an axis that does not exist")?;
        let (before, after) = data.dims.split_at(axis);
        let dims: Dims = [before, &indices.dims, after.get(1..).unwrap_or_default()].concat();
        let node = self.builder.node(Op::Gather).attribute("axis", Attribute::Int(int(axis)?));
        self.builder.plain(node, &[&data, &indices], dims)
    }

    /// Rows of a matrix that is a weight; `None` if it is something else.
    fn rows_of_table(
        &mut self,
        operation: &Operation<'_>,
        table: usize,
        indices: usize,
    ) -> Read<Option<Val>> {
        let table = operation.required(table)?;
        let is_table = self.weight(table).is_some_and(|(_, tensor)| {
            tensor.shape.rank() == 2 && (tensor.dtype.is_float() || tensor.quantization.is_some())
        });
        let is_free = self.weight(table).is_some_and(|(_, tensor)| {
            tensor.axes.as_deref().is_none_or(|axes| axes == [Axis::Feature, Axis::Out])
        });
        let is_node = self.constant(table).is_some_and(|constant| self.stored.contains_key(&constant));
        if !is_table || !is_free || is_node {
            return Ok(None);
        }
        let indices = self.take(operation, indices)?;
        let indices = self.builder.last(&indices)?;
        let (weight, shape) = self.claim(table, &[Axis::Feature, Axis::Out])?;
        let features = shape.last().copied();
        let dims: Dims = indices.dims.iter().copied().chain([Length::from(features)]).collect();
        let node = self.builder.node(Op::Gather).parameter("weight", weight);
        self.builder.plain(node, &[&indices], dims).map(Some)
    }

    fn extreme(&mut self, operation: &Operation<'_>, op: Op) -> Read<Val> {
        let x = self.take(operation, 0)?;
        let x = self.builder.last(&x)?;
        let axis = *self.axes(operation, 1, x.rank())?.first().ok_or("names no axis")?;
        let node = self.builder.node(op).attribute("axis", Attribute::Int(int(axis)?));
        let node = node.attribute("keepdims", Attribute::Int(0));
        let dims = ckpt_graph::shape::reduced(&x.dims, &[axis], false);
        self.builder.plain(node, &[&x], dims)
    }

    /// Images of another size; `flags` are the numbers of the options on corners and centers.
    fn resize(&mut self, operation: &Operation<'_>, mode: &str, flags: [u64; 2]) -> Read<Val> {
        let x = self.take(operation, 0)?;
        let [rows, columns] = self.ints(operation, 1)?[..] else {
            return Err("has no size of two sides".to_owned());
        };
        let [corners, half] = flags.map(|number| operation.flag(number));
        let (corners, half) = (corners?, half?);
        let coordinates = match (half, corners) {
            (true, false) => "half_pixel",
            (false, true) => "align_corners",
            (false, false) => "asymmetric",
            (true, true) => return Err("aligns both corners and centers".to_owned()),
        };
        let is_known = |axis: usize| matches!(x.len(axis).known(), Some(len) if len > 0);
        if x.rank() != 4 || !is_known(1) || !is_known(2) || rows < 1 || columns < 1 {
            return Err("makes an image whose size depends on the input".to_owned());
        }
        let x = self.builder.first(&x)?;
        let mut node = self.builder.node(Op::Resize).attribute("mode", Attribute::Text(mode.into()));
        node = node
            .attribute("sizes", Attribute::Ints(vec![-1, -1, rows, columns]))
            .attribute("coordinate_transformation_mode", Attribute::Text(coordinates.into()));
        if mode == "nearest" {
            let nearest = if half || corners { "round_prefer_ceil" } else { "floor" };
            node = node.attribute("nearest_mode", Attribute::Text(nearest.into()));
        }
        let mut dims = x.dims.clone();
        if let [_, height, width, _] = &mut dims[..] {
            (*height, *width) = (Length::Known(rows), Length::Known(columns));
        }
        self.builder.same(node, &x, dims)
    }

    fn blocks(&mut self, operation: &Operation<'_>, op: Op) -> Read<Val> {
        let size = i64::from(operation.int(0)?);
        let x = self.take(operation, 0)?;
        if x.rank() != 4 || size < 1 {
            return Err("takes what is no image, or has no size of blocks".to_owned());
        }
        let mut dims = x.dims.clone();
        if let [_, rows, columns, channels] = &mut dims[..] {
            let (block, area) = (Length::Known(size), Length::Known(size.saturating_mul(size)));
            (*rows, *columns, *channels) = match op {
                Op::DepthToSpace => (*rows * block, *columns * block, channels.floor_div(area)),
                _ => (rows.floor_div(block), columns.floor_div(block), *channels * area),
            };
        }
        let x = self.builder.first(&x)?;
        let node = self.builder.node(op).attribute("blocksize", Attribute::Int(size));
        self.builder.same(node, &x, dims)
    }
}
