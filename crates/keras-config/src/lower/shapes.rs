//! Lowers layers that move elements.

use super::lowering::Lowering;
use super::values::{Val, Values};
use crate::kernels::sides;
use crate::layer::Reason;
use crate::model::Layer;
use crate::naming::shown_name;
use ckpt_api::{Attribute, Op};
use ckpt_graph::shape::show;
use ckpt_graph::{Dims, Length, Range, int, ints};
use serde_json::Value;

impl Lowering {
    /// Lowers a layer that moves elements; `None` if it is another one.
    pub(super) fn moved(&mut self, layer: &Layer, x: &Val) -> Result<Option<Val>, Reason> {
        let class = layer.class.as_str();
        Ok(Some(match class {
            "Flatten" => self.flatten(layer, x)?,
            "Reshape" => {
                let target = layer.ints("target_shape")?.ok_or("its option 'target_shape' is missing")?;
                self.reshape_to(x, &target)?
            }
            "Permute" => {
                let order = layer.ints("dims")?.ok_or("its option 'dims' is missing")?;
                let order =
                    order.iter().map(|axis| usize::try_from(*axis).ok()).collect::<Option<Vec<usize>>>();
                let order =
                    order.map(|order| [&[0], &order[..]].concat()).ok_or("its option 'dims' is not valid")?;
                self.permuted(x, &order)?
            }
            "RepeatVector" => {
                let count = layer.size("n")?;
                let x = self.values.unsqueeze(x, &[1])?;
                let node = self.values.node(Op::Tile).attribute("repeats", ints(&[1, count, 1])?);
                self.values.same(node, &x, vec![x.len(0), count.into(), x.len(2)])?
            }
            "ZeroPadding1D" | "ZeroPadding2D" | "ZeroPadding3D" => {
                let pairs = pairs(layer, "padding", sides(class).unwrap_or(2))?;
                self.images(layer, x, |lowering, x| lowering.pad(&x, &pairs))?
            }
            "Cropping1D" | "Cropping2D" | "Cropping3D" => {
                let pairs = pairs(layer, "cropping", sides(class).unwrap_or(2))?;
                self.images(layer, x, |lowering, x| lowering.crop(&x, &pairs))?
            }
            "UpSampling1D" | "UpSampling2D" | "UpSampling3D" => {
                self.images(layer, x, |lowering, x| lowering.upsample(layer, &x))?
            }
            "Resizing" => self.resize(layer, x)?,
            _ => return Ok(None),
        }))
    }

    /// Reorders all axes.
    pub(super) fn permuted(&mut self, x: &Val, order: &[usize]) -> Result<Val, Reason> {
        let mut sorted = order.to_vec();
        sorted.sort_unstable();
        if !sorted.into_iter().eq(0..x.rank()) {
            return Err(format!("it permutes {} axes, but its input is {}", order.len(), show(&x.dims)));
        }
        self.values.reorder(x, order)
    }

    fn flatten(&mut self, layer: &Layer, x: &Val) -> Result<Val, Reason> {
        // Keras transposes images whose channels are first before it flattens them.
        let x = match layer.is_channels_first() && x.rank() > 2 {
            true => {
                let order: Vec<usize> = [0].into_iter().chain(2..x.rank()).chain([1]).collect();
                self.values.transpose(x, &order)?
            }
            false => x.clone(),
        };
        if x.rank() == 1 {
            return self.values.unsqueeze(&x, &[1]);
        }
        let len = x.dims.iter().skip(1).product();
        self.reshape(&x, vec![x.len(0), len])
    }

    /// Reshapes a value. One of a known batch is not flattened, but gets the shape that Keras states.
    pub(super) fn reshape(&mut self, x: &Val, dims: Dims) -> Result<Val, Reason> {
        match x.rank() > 2 && dims.len() == 2 && x.len(0).known().is_some() {
            true => self.values.reshaped(x, dims),
            false => self.values.reshape(x, dims),
        }
    }

    /// Reshapes all axes but the batch; −1 is what remains.
    pub(super) fn reshape_to(&mut self, x: &Val, target: &[i64]) -> Result<Val, Reason> {
        let total: Length = x.dims.iter().skip(1).product();
        let known = target.iter().filter(|len| **len >= 0).try_fold(1i64, |all, len| all.checked_mul(*len));
        let rest = total.known().zip(known.filter(|known| *known > 0)).map(|(total, known)| total / known);
        let open = target.iter().filter(|len| **len < 0).count();
        let lens = target.iter().map(|len| match (*len >= 0, rest) {
            (true, _) => Length::Known(*len),
            (false, Some(rest)) if open == 1 => Length::Known(rest),
            _ => Length::Unknown,
        });
        let dims: Dims = [x.len(0)].into_iter().chain(lens).collect();
        if rest.is_some() {
            return self.reshape(x, dims);
        }
        // The batch is kept, and what remains is one of the other axes.
        let x = self.values.last(x)?;
        if open > 1 {
            return Err(format!("it reshapes {} to several lengths that depend on the input", show(&x.dims)));
        }
        let spec = [0].into_iter().chain(target.iter().copied()).collect();
        let node = self.values.node(Op::Reshape).attribute("shape", Attribute::Ints(spec));
        self.values.same(node, &x, dims)
    }

    fn pad(&mut self, x: &Val, pairs: &[[u64; 2]]) -> Result<Val, Reason> {
        let sides = pairs.iter().map(|[before, after]| Ok([int(*before)?, int(*after)?]));
        let pairs = [Ok([0, 0])].into_iter().chain(sides).collect::<Result<Vec<[i64; 2]>, Reason>>()?;
        let mut dims = x.dims.clone();
        for (len, [before, after]) in dims.iter_mut().zip(&pairs) {
            *len = *len + *before + *after;
        }
        let node = self.values.node(Op::Pad).attribute("pads", Values::pads(x, pairs.into_iter()));
        self.values.same(node, x, dims)
    }

    fn crop(&mut self, x: &Val, pairs: &[[u64; 2]]) -> Result<Val, Reason> {
        let mut ranges = Vec::new();
        for (side, [before, after]) in pairs.iter().enumerate().filter(|(_, pair)| **pair != [0, 0]) {
            let end = if *after == 0 { i64::MAX } else { int(*after)?.saturating_neg() };
            ranges.push(Range::new(side + 1, int(*before)?, end));
        }
        self.values.slice(x, &ranges)
    }

    fn upsample(&mut self, layer: &Layer, x: &Val) -> Result<Val, Reason> {
        let count = sides(&layer.class).unwrap_or(2);
        let key = if layer.option("length").is_some() { "length" } else { "size" };
        let factors = layer.sides(key, count, Some(2))?;
        let mode = layer.text("interpolation").unwrap_or("nearest");
        let mut dims = x.dims.clone();
        for (len, factor) in dims.iter_mut().skip(1).zip(&factors) {
            *len = *len * int(*factor)?;
        }
        #[expect(clippy::cast_precision_loss, reason = "factors are small")]
        let scales = [1.0, 1.0].into_iter().chain(factors.iter().map(|factor| *factor as f64)).collect();
        self.resized(x, dims, mode, ("scales", Attribute::Floats(scales)))
    }

    fn resize(&mut self, layer: &Layer, x: &Val) -> Result<Val, Reason> {
        for key in ["crop_to_aspect_ratio", "pad_to_aspect_ratio", "antialias"] {
            if layer.flag(key, false) {
                return Err(format!("its option '{key}' is not supported"));
            }
        }
        if x.rank() != 4 {
            return Err(format!("it takes images, but its input is {}", show(&x.dims)));
        }
        let (rows, columns) = (layer.size("height")?, layer.size("width")?);
        let is_first = layer.is_channels_first();
        let x = if is_first { self.values.as_channels_last(x)? } else { x.clone() };
        let sizes = Attribute::Ints(vec![-1, -1, int(rows)?, int(columns)?]);
        let dims = vec![x.len(0), rows.into(), columns.into(), x.len(3)];
        let mode = layer.text("interpolation").unwrap_or("bilinear");
        let made = self.resized(&x, dims, mode, ("sizes", sizes))?;
        if is_first { self.values.restored_first(&made) } else { Ok(made) }
    }

    fn resized(
        &mut self,
        x: &Val,
        dims: Dims,
        mode: &str,
        (key, sizes): (&str, Attribute),
    ) -> Result<Val, Reason> {
        let x = self.values.first(x)?;
        let text = |text: &str| Attribute::Text(text.to_owned());
        let node = self.values.node(Op::Resize).attribute(key, sizes);
        let node = node.attribute("coordinate_transformation_mode", text("half_pixel"));
        let node = match mode {
            "nearest" => {
                node.attribute("mode", text("nearest")).attribute("nearest_mode", text("round_prefer_ceil"))
            }
            "bilinear" => node.attribute("mode", text("linear")),
            other => return Err(format!("its interpolation '{}' is not supported", shown_name(other))),
        };
        self.values.same(node, &x, dims)
    }
}

/// Reads what is added or removed before and after each side: a number, one for each side, or two for each.
fn pairs(layer: &Layer, key: &str, sides: usize) -> Result<Vec<[u64; 2]>, Reason> {
    let invalid = || format!("its option '{key}' is not a size for each of {sides} sides");
    let Some(value) = layer.option(key) else { return Ok(vec![[1, 1]; sides]) };
    let number = |value: &Value| value.as_u64();
    let pair = |value: &Value| match value {
        Value::Array(items) => match &items[..] {
            [before, after] => Some([number(before)?, number(after)?]),
            _ => None,
        },
        value => number(value).map(|size| [size, size]),
    };
    let found = match value {
        Value::Array(items) if sides == 1 && items.iter().all(Value::is_number) => {
            pair(value).map(|pair| vec![pair])
        }
        Value::Array(items) => items.iter().map(pair).collect(),
        value => number(value).map(|size| vec![[size, size]; sides]),
    };
    found.filter(|found: &Vec<[u64; 2]>| found.len() == sides).ok_or_else(invalid)
}
