//! Integers with a scale and a zero point: quantization, and what is computed with such integers.
//!
//! Sums of products are integers, so that they are exact. What becomes of them is computed as onnxruntime does, in real
//! numbers: times the product of the scales divided by the result's scale, rounded to even, plus the zero point.

use super::super::values::Read;
use super::parts::{Parts, range};
use crate::format::dtype;
use ckpt_api::{DType, Op};
use ckpt_graph::shape::resolve;

/// The least and the greatest number of a type of integers that values are quantized to.
fn bounds(dtype: DType) -> Option<(f64, f64)> {
    Some(match dtype {
        DType::U8 => (0.0, 255.0),
        DType::I8 => (-128.0, 127.0),
        DType::U16 => (0.0, 65535.0),
        DType::I16 => (-32768.0, 32767.0),
        DType::U4 => (0.0, 15.0),
        DType::I4 => (-8.0, 7.0),
        DType::U2 => (0.0, 3.0),
        DType::I2 => (-2.0, 1.0),
        _ => return None,
    })
}

impl<'a> Parts<'_, 'a> {
    /// `clip(round(x / scale) + zero)`.
    pub(super) fn quantize(&mut self) -> Read<()> {
        let stated = self.node.int("output_dtype").filter(|number| *number != 0);
        let made = match (self.given(2), stated) {
            (_, Some(number)) => dtype(number),
            (Some(_), None) => self.dtype(2),
            (None, None) => Some(DType::U8),
        };
        let made = made.ok_or("makes numbers of a type that the model does not state")?;
        let (x, scale) = (self.input(0)?, self.along_axis(1)?);
        let scaled = self.div(&x, &scale);
        let value = match bounds(made) {
            Some(bounds) => {
                let zero = if self.is_zero(2) {
                    None
                } else {
                    self.given(2).map(|_| self.along_axis(2)).transpose()?
                };
                self.saturated(&scaled, zero.as_deref(), bounds)
            }
            None => {
                let kind = super::floats::short(made)
                    .ok_or_else(|| format!("makes numbers of type {made}, which is not supported"))?;
                let saturate = self.node.int("saturate").unwrap_or(1);
                self.with(Op::Cast, &[&scaled], super::floats::to(kind, saturate))
            }
        };
        self.finish(0, &value);
        Ok(())
    }

    /// `(x − zero) · scale`.
    pub(super) fn dequantize(&mut self) -> Read<()> {
        let x = self.input(0)?;
        let mut value = self.cast(&x, "float");
        if self.given(2).is_some() && !self.is_zero(2) {
            let zero = self.along_axis(2)?;
            let real = self.cast(&zero, "float");
            value = self.sub(&value, &real);
        }
        let scale = self.along_axis(1)?;
        value = self.mul(&value, &scale);
        self.finish(0, &value);
        Ok(())
    }

    /// The smallest range that has 0 and all numbers, in 8 bits.
    pub(super) fn quantize_dynamically(&mut self) -> Read<()> {
        let x = self.input(0)?;
        let (scale, zero) = self.range_of(&x);
        let scaled = self.div(&x, &scale);
        let value = self.saturated(&scaled, Some(&zero), (0.0, 255.0));
        self.finish(0, &value);
        self.finish(1, &scale);
        self.finish(2, &zero);
        Ok(())
    }

    /// The scale and the zero point by which all numbers of a value become unsigned integers of 8 bits.
    pub(super) fn range_of(&mut self, x: &str) -> (String, String) {
        let nothing = self.number(0.0);
        let (most, least) =
            (self.reduce(Op::ReduceMax, x, &[], false), self.reduce(Op::ReduceMin, x, &[], false));
        let (most, least) =
            (self.apply(Op::Max, &[&most, &nothing]), self.apply(Op::Min, &[&least, &nothing]));
        let (span, steps) = (self.sub(&most, &least), self.number(255.0));
        let scale = self.div(&span, &steps);
        // A value of zeros has the scale 1.
        let (is_nothing, one) = (self.apply(Op::Equal, &[&span, &nothing]), self.number(1.0));
        let scale = self.choose(&is_nothing, &one, &scale);
        let below = self.sub(&nothing, &least);
        let places = self.div(&below, &scale);
        let zero = self.saturated(&places, None, (0.0, 255.0));
        (scale, zero)
    }

    /// `clip(round(x) + zero)` as integers.
    pub(super) fn saturated(&mut self, x: &str, zero: Option<&str>, (least, most): (f64, f64)) -> String {
        let mut value = self.apply(Op::Round, &[x]);
        if let Some(zero) = zero {
            let real = self.cast(zero, "float");
            value = self.add(&value, &real);
        }
        let value = self.clip(&value, least, most);
        self.cast(&value, "int")
    }

    /// Whether an input is left out, or known to be 0 at every place.
    fn is_zero(&self, at: usize) -> bool {
        let Some(name) = self.given(at) else { return true };
        let ints = self.reader.ints(name);
        ints.is_some_and(|ints| ints.values.iter().all(|value| value.known() == Some(0)))
    }

    /// A scale or a zero point: one for all numbers, one for each place of the axis that the node names, or one for each
    /// block of that axis, in a shape that broadcasts to that of the first input.
    fn along_axis(&mut self, at: usize) -> Read<String> {
        let value = self.input(at)?;
        let rank = self.rank(&value)?;
        if rank == 0 {
            return Ok(value);
        }
        let x = self.input(0)?;
        let axes = self.rank(&x)?;
        let axis = resolve(self.node.int("axis").unwrap_or(1), axes);
        let block = self.node.int("block_size").unwrap_or(0);
        if rank == 1 && block == 0 {
            if self.dims(&value)?.first().and_then(|len| len.known()) == Some(1) {
                return Ok(value);
            }
            let axis = axis.ok_or("has a scale that does not fit an axis of its input")?;
            let mut shape = vec![1; axes - axis];
            if let Some(first) = shape.first_mut() {
                *first = -1;
            }
            return Ok(self.reshape(&value, &shape));
        }
        let axis = axis.filter(|_| rank == axes && block > 0);
        let axis = axis.ok_or("has a scale that does not fit an axis of its input")?;
        let len = self.len(&x, axis)?;
        // Each number of a block has the block's place; the last block may be shorter.
        let places = range(0, len)?.map(|place| place / block).collect();
        let places = self.integers(places, &[len]);
        Ok(self.gather(&value, &places, i64::try_from(axis).unwrap_or(0)))
    }

    /// Integers without their zero point, which is one for all, or one for each row or column of matrices.
    pub(super) fn centered(&mut self, at: usize, zero: usize, is_rows: bool) -> Read<String> {
        let x = self.input(at)?;
        if self.is_zero(zero) {
            return Ok(x);
        }
        let zero = self.input(zero)?;
        let zero = match self.rank(&zero)? {
            1 if is_rows && self.dims(&zero)?.first().and_then(|len| len.known()) != Some(1) => {
                self.reshape(&zero, &[-1, 1])
            }
            _ => zero,
        };
        Ok(self.sub(&x, &zero))
    }

    /// Products of matrices of integers.
    pub(super) fn multiply_integers(&mut self) -> Read<()> {
        let (a, b) = (self.centered(0, 2, true)?, self.centered(1, 3, false)?);
        let value = self.apply(Op::MatMul, &[&a, &b]);
        self.finish(0, &value);
        Ok(())
    }

    /// Products of quantized matrices: a, its scale and zero point, b, its scale and zero point, those of the result.
    pub(super) fn multiply_quantized(&mut self) -> Read<()> {
        let (a, b) = (self.centered(0, 2, true)?, self.centered(3, 5, false)?);
        let sums = self.apply(Op::MatMul, &[&a, &b]);
        let rows = self.input(1)?;
        let rows = if self.rank(&rows)? == 1 { self.reshape(&rows, &[-1, 1]) } else { rows };
        let columns = self.input(4)?;
        let scale = self.mul(&rows, &columns);
        self.requantized(&sums, &scale, 6, 7)
    }

    /// Sums of products as quantized numbers: times `scale`, divided by the scale of input `at`, with the zero point of
    /// input `zero`.
    pub(super) fn requantized(&mut self, sums: &str, scale: &str, at: usize, zero: usize) -> Read<()> {
        let result = self.input(at)?;
        let factor = self.div(scale, &result);
        let real = self.cast(sums, "float");
        let scaled = self.mul(&real, &factor);
        self.shifted(&scaled, zero)
    }

    /// A number of steps as an integer of the type of the zero point, input `zero`, around which it lies.
    pub(super) fn shifted(&mut self, scaled: &str, zero: usize) -> Read<()> {
        let made = if self.given(zero).is_some() { self.dtype(zero) } else { Some(DType::U8) };
        let bounds = made.and_then(bounds).ok_or("makes numbers of a type that the model does not state")?;
        let zero = if self.is_zero(zero) { None } else { Some(self.input(zero)?) };
        let value = self.saturated(scaled, zero.as_deref(), bounds);
        self.finish(0, &value);
        Ok(())
    }

    /// A convolution of integers: x, weight, and their zero points.
    pub(super) fn convolve_integers(&mut self) -> Read<()> {
        let value = self.convolved([0, 2], [1, 3], None)?;
        self.finish(0, &value);
        Ok(())
    }

    /// A convolution of quantized numbers: x, its scale and zero point, the weight, its scale and zero point, the scale
    /// and zero point of the result, and the bias, whose scale is that of the products.
    pub(super) fn convolve_quantized(&mut self) -> Read<()> {
        let sums = self.convolved([0, 2], [3, 5], Some(8))?;
        let (x, filters) = (self.input(1)?, self.input(4)?);
        let filters = self.per_filter(&filters, &sums)?;
        let scale = self.mul(&x, &filters);
        self.requantized(&sums, &scale, 6, 7)
    }

    /// One number for all filters, or one for each, in a shape that broadcasts to images.
    fn per_filter(&mut self, value: &str, images: &str) -> Read<String> {
        let sides = self.rank(images)?.saturating_sub(2);
        Ok(match self.rank(value)? {
            1 => self.reshape(value, &[&[-1], &vec![1; sides][..]].concat()),
            _ => value.to_owned(),
        })
    }

    fn convolved(
        &mut self,
        [x, zero]: [usize; 2],
        [w, w_zero]: [usize; 2],
        bias: Option<usize>,
    ) -> Read<String> {
        let images = self.centered(x, zero, false)?;
        let mut weight = self.input(w)?;
        if !self.is_zero(w_zero) {
            let zero = self.input(w_zero)?;
            let rank = self.rank(&weight)?;
            let zero = match self.rank(&zero)? {
                1 => self.reshape(&zero, &[&[-1], &vec![1; rank.saturating_sub(1)][..]].concat()),
                _ => zero,
            };
            weight = self.sub(&weight, &zero);
        }
        let mut inputs = vec![images.clone(), weight.clone()];
        if let Some(bias) = bias.filter(|at| self.given(*at).is_some()) {
            inputs.push(self.input(bias)?);
        }
        let names: Vec<&str> = inputs.iter().map(String::as_str).collect();
        let mut attributes = self.reader.window(self.node, &["strides", "pads", "dilations"])?;
        if let Some(group) = self.node.int("group").filter(|group| *group != 1) {
            attributes = attributes.int("group", group);
        }
        let value = self.with(Op::Conv, &names, attributes);
        self.convolution_shape(&value, &images, &weight);
        Ok(value)
    }

    /// Notes the shape of a convolution whose weight the graph computes.
    fn convolution_shape(&mut self, value: &str, images: &str, weight: &str) {
        let (Some(mut dims), Some(filters)) = (self.reader.shape(images), self.reader.shape(weight)) else {
            return;
        };
        let Some(kernel) = super::parts::known(filters.get(2..).unwrap_or_default()) else { return };
        dims.resize(filters.len(), ckpt_graph::Length::Unknown);
        let Some(layer) = self.reader.nodes.last() else { return };
        let mut dims = ckpt_graph::infer::windowed(layer, dims, &kernel);
        if let (Some(channels), Some(own)) = (dims.as_mut().and_then(|dims| dims.get_mut(1)), filters.first())
        {
            *channels = *own;
        }
        self.reader.set_shape(value, dims);
    }
}
