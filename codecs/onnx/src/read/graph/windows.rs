//! Reads pooling, normalizations, softmax and resizing.

use super::values::{Attributes, Read, Reader};
use crate::format::message::Node;
use ckpt_api::{Attribute, Axis, Node as Layer, Op};
use ckpt_graph::Length;
use ckpt_graph::shape::resolve;

impl<'a> Reader<'a> {
    /// Attributes of a window, as they are.
    pub(super) fn window(&mut self, node: &Node, names: &[&str]) -> Read<Attributes> {
        let mut attributes = Attributes::new();
        for name in names {
            if let Some(values) = node.ints(name) {
                attributes = attributes.ints(name, values.to_vec());
            }
        }
        match node.text("auto_pad") {
            None | Some("NOTSET" | "") => {}
            Some(mode @ ("SAME_UPPER" | "SAME_LOWER" | "VALID")) => {
                attributes = attributes.with("auto_pad", Attribute::Text(mode.to_owned()));
            }
            Some(mode) => return Err(format!("has the unknown auto_pad '{}'", mode.escape_debug())),
        }
        Ok(attributes)
    }

    pub(super) fn pool(&mut self, node: &'a Node) -> Read<()> {
        if node.outputs.get(1).is_some_and(|indices| self.uses(indices) > 0) {
            return Err("has indices that are taken".to_owned());
        }
        let mut attributes = self.window(node, &["kernel_shape", "strides", "pads", "dilations"])?;
        for name in ["ceil_mode", "count_include_pad"] {
            if let Some(value) = node.int(name).filter(|value| *value != 0) {
                attributes = attributes.int(name, value);
            }
        }
        let input = self.operand(node.input(0).ok_or("lacks its input")?)?;
        self.emit(node, Op::from(node.op.as_str()), vec![input], attributes)
    }

    pub(super) fn global_pool(&mut self, node: &'a Node) -> Read<()> {
        let input = self.operand(node.input(0).ok_or("lacks its input")?)?;
        self.emit(node, Op::from(node.op.as_str()), vec![input], Attributes::new())
    }

    /// A layer with tensors of one number for each channel in these roles, from the second input on.
    fn per_channel(&mut self, node: &'a Node, op: Op, roles: &[&str], attributes: Attributes) -> Read<()> {
        let x = node.input(0).ok_or("lacks its input")?;
        let mut layer = Layer::new(String::new(), op);
        for (at, role) in roles.iter().enumerate() {
            let Some(input) = node.input(at + 1) else { continue };
            let (id, tensor) = self.tensor(input).ok_or_else(|| format!("has a {role} that is no tensor"))?;
            let (name, rank) = (tensor.name.clone(), tensor.shape.rank());
            if rank != 1 || !self.claim(id, &[Axis::Out]) {
                return Err(format!("has a {role} that is not one number for each channel"));
            }
            layer = layer.parameter(role, name);
        }
        layer.attributes = attributes.0;
        layer.inputs = vec![self.operand(x)?];
        let output = node.outputs.first().ok_or("lacks its output")?;
        layer.outputs = vec![output.clone()];
        let shape = self.shape(x);
        self.push(node.layer(), layer);
        self.set_shape(output, shape);
        Ok(())
    }

    /// Whether the inputs after the first, as many as `count`, are tensors of one number for each channel.
    fn are_vectors(&self, node: &Node, count: usize) -> bool {
        let is_vector = |name: &str| self.tensor(name).is_some_and(|(_, tensor)| tensor.shape.rank() == 1);
        (1..=count).all(|at| node.input(at).is_none_or(is_vector))
    }

    fn epsilon(node: &Node) -> Attributes {
        Attributes::new().with("epsilon", Attribute::Float(node.float("epsilon").unwrap_or(1e-5).into()))
    }

    pub(super) fn batch_normalization(&mut self, node: &'a Node) -> Read<()> {
        let trains = node.int("training_mode") == Some(1);
        if trains || !self.are_vectors(node, 4) {
            return self.composed(node);
        }
        if node.outputs.iter().skip(1).any(|name| self.uses(name) > 0) {
            return Err("is in training mode".to_owned());
        }
        self.per_channel(
            node,
            Op::BatchNormalization,
            &["scale", "bias", "mean", "variance"],
            Self::epsilon(node),
        )
    }

    pub(super) fn normalization(&mut self, node: &'a Node) -> Read<()> {
        let is_taken = node.outputs.iter().skip(1).any(|name| self.uses(name) > 0);
        if is_taken || !self.are_vectors(node, 2) {
            return self.composed(node);
        }
        let mut attributes = Self::epsilon(node);
        if matches!(node.op.as_str(), "LayerNormalization" | "RMSNormalization") {
            let axis = node.int("axis").unwrap_or(-1);
            let rank = |at: usize| node.input(at).and_then(|name| self.shape(name)).map(|shape| shape.len());
            let is_last = rank(0).is_none_or(|rank| resolve(axis, rank) == rank.checked_sub(1));
            if !is_last {
                return self.composed(node);
            }
            attributes = attributes.int("axis", axis);
        }
        if node.op == "GroupNormalization" {
            if self.opset < 21 {
                return Err("has scales for each group, as before operator set 21".to_owned());
            }
            attributes = attributes.int("num_groups", node.int("num_groups").ok_or("lacks its num_groups")?);
        }
        self.per_channel(node, Op::from(node.op.clone()), &["scale", "bias"], attributes)
    }

    /// Before operator set 13, softmax is over all axes from `axis` on.
    pub(super) fn softmax(&mut self, node: &'a Node) -> Read<()> {
        let x = node.input(0).ok_or("lacks its input")?;
        let op = Op::from(node.op.clone());
        let shape = self.shape(x);
        if self.opset >= 13 {
            let axis = node.int("axis");
            return self.plain(
                node,
                op,
                axis.map_or(Attributes::new(), |axis| Attributes::new().int("axis", axis)),
            );
        }
        let axis = node.int("axis").unwrap_or(1);
        let shape = match shape {
            None if axis == -1 => return self.plain(node, op, Attributes::new().int("axis", -1)),
            None => return Err("is over axes of a value of unknown rank".to_owned()),
            Some(shape) => shape,
        };
        let at = resolve(axis, shape.len()).ok_or("has an axis that does not exist")?;
        let behind = shape.get(at + 1..).unwrap_or_default();
        if behind.iter().all(|len| *len == Length::Known(1)) {
            return self.plain(node, op, Attributes::new().int("axis", axis));
        }
        let rows: Option<Vec<i64>> =
            shape.get(at..).unwrap_or_default().iter().map(|len| len.known()).collect();
        let row = rows.and_then(|rows| rows.iter().try_fold(1i64, |product, len| product.checked_mul(*len)));
        let row = row.ok_or("is over several axes, of which one is free")?;
        let mut back: Vec<i64> = Vec::with_capacity(shape.len());
        for len in &shape {
            back.push(len.known().unwrap_or(-1));
        }
        if back.iter().filter(|len| **len == -1).count() > 1 {
            return Err("is over several axes of a value with several free ones".to_owned());
        }
        let output = node.outputs.first().ok_or("lacks its output")?;
        let input = self.operand(x)?;
        let (flat, soft) =
            (self.fresh_value(&format!("{output}/flat")), self.fresh_value(&format!("{output}/rows")));
        self.emit_as(
            node.layer(),
            Op::Reshape,
            vec![input],
            vec![flat.clone()],
            Attributes::new().ints("shape", vec![-1, row]),
        );
        self.emit_as(node.layer(), op, vec![flat], vec![soft.clone()], Attributes::new().int("axis", -1));
        self.emit_one(node, Op::Reshape, vec![soft], Attributes::new().ints("shape", back), Some(shape))
    }

    pub(super) fn resize(&mut self, node: &'a Node) -> Read<()> {
        let x = node.input(0).ok_or("lacks its input")?;
        let is_old = node.op == "Upsample" || self.opset < 11;
        let mode = node.text("mode").unwrap_or("nearest");
        let (at_scales, at_sizes) = if is_old { (1, 3) } else { (2, 3) };
        let (mut sizes, mut factors) = (None, None);
        match node.input(at_sizes) {
            // A free axis keeps its length.
            Some(_) => {
                let lens = self.lengths(node, at_sizes, "sizes")?.unwrap_or_default();
                let own = self.shape(x).unwrap_or_default();
                let lens = self.for_all_axes(node, lens, vec![Length::Known(-1); own.len()])?;
                let size = |(at, len): (usize, Length)| match len {
                    Length::Known(len) => Ok(len),
                    free if own.get(at) == Some(&free) && free != Length::Unknown => Ok(-1),
                    _ => Err("has sizes that depend on a free axis".to_owned()),
                };
                let lens: Vec<i64> = lens.into_iter().enumerate().map(size).collect::<Read<_>>()?;
                sizes = Some(lens);
            }
            None => {
                let scales = match (node.input(at_scales), node.floats("scales")) {
                    (Some(input), _) => self.floats(input).map(|(floats, _)| floats),
                    (None, scales) => scales.map(|scales| scales.iter().copied().map(f64::from).collect()),
                };
                let scales = scales.ok_or("has scales that are not constants")?;
                let own = self.shape(x).unwrap_or_default();
                let scales = self.for_all_axes(node, scales, vec![1.0; own.len()])?;
                // ONNX's reference measures the distance of corners before it rounds, and onnxruntime afterwards.
                let is_whole = |(len, scale): (&Length, &f64)| {
                    len.known().is_none_or(|len| (len as f64 * scale).fract() == 0.0)
                };
                let aligns = node.text("coordinate_transformation_mode") == Some("align_corners");
                if aligns && !own.iter().zip(&scales).all(is_whole) {
                    return Err(
                        "aligns corners of lengths that it rounds, which programs do in different ways"
                            .to_owned(),
                    );
                }
                if is_old && mode == "nearest" && scales.iter().any(|scale| *scale < 1.0) {
                    return Err("makes images smaller, by the rule of an old operator set".to_owned());
                }
                factors = Some(scales);
            }
        }
        let mut attributes = self.resize_attributes(node)?;
        if let Some(sizes) = sizes {
            attributes = attributes.ints("sizes", sizes);
        } else if let Some(factors) = factors {
            attributes = attributes.with("scales", Attribute::Floats(factors));
        }
        let input = self.operand(x)?;
        self.emit(node, Op::Resize, vec![input], attributes)
    }
}

impl Reader<'_> {
    /// The attributes of a change of an image's size, but for the size.
    pub(super) fn resize_attributes(&self, node: &Node) -> Read<Attributes> {
        let is_old = node.op == "Upsample" || self.opset < 11;
        let mode = node.text("mode").unwrap_or("nearest").to_owned();
        if node.int("antialias").unwrap_or(0) != 0 {
            return Err("is antialiased".to_owned());
        }
        if node.text("coordinate_transformation_mode") == Some("tf_crop_and_resize") {
            return Err("resizes a region of its input".to_owned());
        }
        if node.text("keep_aspect_ratio_policy").is_some_and(|policy| policy != "stretch") {
            return Err("keeps the ratio of the lengths".to_owned());
        }
        let (transformation, nearest) = match is_old {
            true => ("asymmetric", "floor"),
            false => (
                node.text("coordinate_transformation_mode").unwrap_or("half_pixel"),
                node.text("nearest_mode").unwrap_or("round_prefer_floor"),
            ),
        };
        let text = |text: &str| Attribute::Text(text.to_owned());
        let mut attributes = Attributes::new()
            .with("coordinate_transformation_mode", text(transformation))
            .with("mode", text(if mode == "bilinear" || mode == "trilinear" { "linear" } else { &mode }));
        if mode == "nearest" {
            attributes = attributes.with("nearest_mode", text(nearest));
        }
        if mode == "cubic" {
            let a = f64::from(node.float("cubic_coeff_a").unwrap_or(-0.75));
            attributes = attributes.with("cubic_coeff_a", Attribute::Float(a));
        }
        if mode != "nearest" && node.int("exclude_outside").unwrap_or(0) != 0 {
            attributes = attributes.int("exclude_outside", 1);
        }
        Ok(attributes)
    }

    /// The entries of all axes, where a node has some for those that it lists.
    fn for_all_axes<T>(&self, node: &Node, listed: Vec<T>, mut all: Vec<T>) -> Read<Vec<T>> {
        let Some(axes) = node.ints("axes") else { return Ok(listed) };
        for (axis, entry) in axes.iter().zip(listed) {
            let at = resolve(*axis, all.len()).ok_or("has axes of a value of unknown rank")?;
            if let Some(own) = all.get_mut(at) {
                *own = entry;
            }
        }
        Ok(all)
    }
}
