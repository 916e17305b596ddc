//! Normalizations.

use super::builder::{Builder, Val};
use super::layers::Made;
use super::net::Layer;
use ckpt_api::{Attribute, Op};
use ckpt_graph::{int, ints};

impl Builder<'_> {
    /// `(x − mean/f) / √(variance/f + ε)`, where blob 2 is `f`, by which the sums that training keeps are divided.
    pub(super) fn batch_norm(&mut self, layer: &Layer<'_>, x: &Val) -> Made {
        let options = layer.options("batch_norm_param");
        if !options.flag("use_global_stats", true)? {
            return Err("normalizes by the batch itself, which is not supported".to_owned());
        }
        let epsilon = options.float("eps", 1e-5)?;
        let channels = *x.dims.get(1).ok_or("takes a value without channels")?;
        let shape = per_channel(x, 1, 1)?;
        let factor = match self.blob(2) {
            Ok(_) => self.number(2)?,
            Err(_) => 1.0,
        };
        let mut parts = Vec::with_capacity(2);
        for (number, suffix) in ["mean", "variance"].into_iter().enumerate() {
            let tensor = self.vector(number, channels)?;
            let mut value = self.nodes.tensor(suffix, &tensor, &shape)?;
            if factor != 1.0 {
                // Without any sum, Caffe takes 0 for both.
                let by = match factor {
                    0.0 => self.nodes.scalar(&format!("{suffix}_factor"), 0.0),
                    _ => {
                        let tensor = self.vector(2, 1)?;
                        let by = self.nodes.tensor(&format!("{suffix}_factor"), &tensor, &[1])?;
                        self.nodes.push(&format!("{suffix}_inverse"), Op::Reciprocal, &[&by], [])
                    }
                };
                value = self.nodes.push(&format!("{suffix}_scaled"), Op::Mul, &[&value, &by], []);
            }
            parts.push(value);
        }
        let [mean, variance] = &parts[..] else { return Err("has no statistics".to_owned()) };
        let centered = self.nodes.push("centered", Op::Sub, &[&x.name, mean], []);
        let epsilon = self.nodes.scalar("epsilon", epsilon);
        let variance = self.nodes.push("stable", Op::Add, &[variance, &epsilon], []);
        let deviation = self.nodes.push("deviation", Op::Sqrt, &[&variance], []);
        let name = self.nodes.push("", Op::Div, &[&centered, &deviation], []);
        Ok(Val { name, dims: x.dims.clone() })
    }

    /// The product with a blob, or with another value, along some axes.
    pub(super) fn scale(&mut self, layer: &Layer<'_>, inputs: &[Val]) -> Made {
        let options = layer.options("scale_param");
        let has_bias = options.flag("bias_term", false)?;
        let (factor, shape, len) =
            self.along(inputs, options.int("axis", 1)?, options.int("num_axes", 1)?)?;
        let x = inputs.first().ok_or("takes no value")?;
        let name = self.nodes.push("", Op::Mul, &[&x.name, &factor], []);
        if !has_bias {
            return Ok(Val { name, dims: x.dims.clone() });
        }
        // With the factor from another value, the bias is the only blob.
        let bias = self.vector(if inputs.len() > 1 { 0 } else { 1 }, len)?;
        let bias = self.nodes.tensor("bias", &bias, &shape)?;
        let name = self.nodes.push("biased", Op::Add, &[&name, &bias], []);
        Ok(Val { name, dims: x.dims.clone() })
    }

    /// The second value, or blob 0, in a shape that is broadcast with the first value; the shape, and how many numbers it has.
    fn along(&mut self, inputs: &[Val], axis: i64, axes: i64) -> Result<(String, Vec<u64>, u64), String> {
        let x = inputs.first().ok_or("takes no value")?;
        let axis = x.axis(axis)?;
        let own = match (inputs.get(1), usize::try_from(axes)) {
            (Some(other), _) => other.dims.len(),
            (None, Ok(count)) => count,
            (None, Err(_)) => x.dims.len().saturating_sub(axis),
        };
        let shape = per_channel(x, axis, own)?;
        let len = shape.iter().product();
        match inputs.get(1) {
            // The batch of both is free.
            Some(other) if axis == 0 && other.dims.len() <= x.dims.len() => {
                let missing = x.dims.len().saturating_sub(other.dims.len());
                let shape = [vec![0; other.dims.len()], vec![1; missing]].concat();
                Ok((self.nodes.reshaped("along", &other.name, &shape)?, shape, len))
            }
            Some(other) => Ok((self.nodes.reshaped("along", &other.name, &shape)?, shape, len)),
            None => {
                let tensor = self.vector(0, len)?;
                Ok((self.nodes.tensor("along", &tensor, &shape)?, shape, len))
            }
        }
    }

    pub(super) fn local_response(&mut self, layer: &Layer<'_>, x: &Val) -> Made {
        let options = layer.options("lrn_param");
        let size = u64::try_from(options.int("local_size", 5)?).unwrap_or(0);
        if size % 2 == 0 {
            return Err("has no middle of its channels".to_owned());
        }
        let [alpha, beta] = [options.float("alpha", 1.0)?, options.float("beta", 0.75)?];
        if !matches!(options.word("norm_region"), None | Some("ACROSS_CHANNELS" | "0")) {
            return Err("normalizes within channels, which is not supported".to_owned());
        }
        let attributes = [
            ("size", Attribute::Int(int(size)?)),
            ("alpha", Attribute::Float(alpha)),
            ("beta", Attribute::Float(beta)),
            ("bias", Attribute::Float(options.float("k", 1.0)?)),
        ];
        Ok(Val { name: self.nodes.push("", Op::LRN, &[&x.name], attributes), dims: x.dims.clone() })
    }

    /// SSD: `x / √(Σx² + ε)`, over the channels or all of an image, times a factor for each channel.
    pub(super) fn normalize(&mut self, layer: &Layer<'_>, x: &Val) -> Made {
        let options = layer.options("norm_param");
        let channels = *x.dims.get(1).ok_or("takes a value without channels")?;
        let last = match options.flag("across_spatial", true)? {
            true => x.dims.len(),
            false => 2,
        };
        let axes: Vec<u64> = (1..last as u64).collect();
        let squares = self.nodes.push("squares", Op::ReduceSumSquare, &[&x.name], [("axes", ints(&axes)?)]);
        let epsilon = options.float("eps", 1e-10)?;
        let epsilon = self.nodes.scalar("epsilon", epsilon);
        let sum = self.nodes.push("sum", Op::Add, &[&squares, &epsilon], []);
        let norm = self.nodes.push("norm", Op::Sqrt, &[&sum], []);
        let unit = self.nodes.push("unit", Op::Div, &[&x.name, &norm], []);
        let is_shared = options.flag("channel_shared", true)?;
        let shape = per_channel(x, 1, 1)?;
        let (len, shape) = if is_shared { (1, vec![1]) } else { (channels, shape) };
        let factor = self.vector(0, len)?;
        let factor = self.nodes.tensor("factor", &factor, &shape)?;
        Ok(Val { name: self.nodes.push("", Op::Mul, &[&unit, &factor], []), dims: x.dims.clone() })
    }
}

/// The lengths of some axes, with 1 for those behind: what is broadcast with the value.
pub(super) fn per_channel(x: &Val, axis: usize, axes: usize) -> Result<Vec<u64>, String> {
    let end = axis.saturating_add(axes);
    let own =
        x.dims.get(axis..end).ok_or_else(|| format!("names {axes} axes from {axis} of {}", x.dims.len()))?;
    Ok([own, &vec![1; x.dims.len().saturating_sub(end)]].concat())
}
