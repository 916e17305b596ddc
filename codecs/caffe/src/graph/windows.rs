//! Layers with windows, and inner products.

use super::builder::{Builder, Val};
use super::layers::Made;
use super::net::Layer;
use ckpt_api::{Attribute, Op};
use ckpt_containers::protobuf::Message;
use ckpt_graph::{int, ints};

/// A window that moves over rows and columns.
struct Window {
    kernel: [u64; 2],
    strides: [u64; 2],
    pads: [u64; 2],
    dilations: [u64; 2],
}

impl Window {
    /// Reads the options of a layer: one number for both sides, or two, or those of rows and columns.
    fn of(options: Message<'_>, kernel: &str) -> Result<Window, String> {
        let pair = |name: &str, stem: &str, default: u64| -> Result<[u64; 2], String> {
            let size = |number: i64| {
                u64::try_from(number)
                    .ok()
                    .filter(|own| *own < 1 << 31)
                    .ok_or_else(|| format!("has {name}: {number}"))
            };
            let sides = ["h", "w"].map(|side| format!("{stem}_{side}"));
            let both = options.ints(name)?;
            Ok(match both[..] {
                [] => {
                    let default = i64::try_from(default).unwrap_or(0);
                    let [rows, columns] = sides.map(|side| options.int(&side, default));
                    [size(rows?)?, size(columns?)?]
                }
                [one] => [size(one)?; 2],
                [rows, columns] => [size(rows)?, size(columns)?],
                _ => return Err(format!("has {name} of {} sides, which is not supported", both.len())),
            })
        };
        let window = Window {
            kernel: pair(kernel, "kernel", 0)?,
            strides: pair("stride", "stride", 1)?,
            pads: pair("pad", "pad", 0)?,
            dilations: pair("dilation", "dilation", 1)?,
        };
        let moves = [window.kernel, window.strides, window.dilations].concat();
        if moves.contains(&0) {
            return Err("has a window that is empty or does not move".to_owned());
        }
        Ok(window)
    }

    /// Places from the first to the last element of the kernel, and one more.
    fn reach(&self, side: usize) -> u64 {
        let [kernel, dilation] = [self.kernel, self.dilations].map(|own| own.get(side).copied().unwrap_or(1));
        dilation.saturating_mul(kernel.saturating_sub(1)).saturating_add(1)
    }

    /// What a window leaves of a side.
    fn side(&self, side: usize, len: u64) -> Result<u64, String> {
        let [stride, pad] = [self.strides, self.pads].map(|own| own.get(side).copied().unwrap_or(1));
        let free = len.checked_add(pad.saturating_mul(2)).and_then(|len| len.checked_sub(self.reach(side)));
        let free = free.ok_or_else(|| format!("has a window larger than its image, of {len}"))?;
        Ok(free.checked_div(stride).unwrap_or(0).saturating_add(1))
    }

    /// What a transposed window makes of a side.
    fn transposed(&self, side: usize, len: u64) -> Result<u64, String> {
        let [stride, pad] = [self.strides, self.pads].map(|own| own.get(side).copied().unwrap_or(0));
        let long = len.saturating_sub(1).saturating_mul(stride).saturating_add(self.reach(side));
        long.checked_sub(pad.saturating_mul(2)).ok_or_else(|| "leaves nothing of its image".to_owned())
    }

    fn attributes(&self) -> Result<[(&'static str, Attribute); 2], String> {
        let [rows, columns] = self.pads;
        Ok([("strides", ints(&self.strides)?), ("pads", ints(&[rows, columns, rows, columns])?)])
    }
}

/// Batch, channels, rows and columns.
fn image(x: &Val) -> Result<[u64; 4], String> {
    let dims = x.dims[..].try_into();
    dims.map_err(|_| format!("takes a value of {} axes, and needs an image", x.dims.len()))
}

impl Builder<'_> {
    /// Adds a node with the weight of the layer, and its bias.
    fn weighted<const N: usize>(
        &mut self,
        op: Op,
        x: &str,
        bias: Option<u64>,
        attributes: [(&'static str, Attribute); N],
    ) -> Result<String, String> {
        let (_, weight) = self.blob(0)?;
        let bias = bias.map(|len| self.vector(1, len)).transpose()?;
        let mut node = self.nodes.node("", op, &[x]).parameter("weight", weight);
        if let Some(bias) = bias {
            node = node.parameter("bias", bias);
        }
        Ok(self
            .nodes
            .add(attributes.into_iter().fold(node, |node, (name, value)| node.attribute(name, value))))
    }

    /// A convolution, or a transposed one.
    pub(super) fn convolution(&mut self, layer: &Layer<'_>, x: &Val) -> Made {
        let options = layer.options("convolution_param");
        let positive = |name: &str, default: i64| {
            let number = options.int(name, default)?;
            u64::try_from(number).ok().filter(|own| *own > 0).ok_or_else(|| format!("has {name}: {number}"))
        };
        if options.int("axis", 1)? != 1 {
            return Err("has channels on another axis than 1, which is not supported".to_owned());
        }
        let (outputs, groups) = (positive("num_output", 0)?, positive("group", 1)?);
        let window = Window::of(options, "kernel_size")?;
        let [batch, channels, rows, columns] = image(x)?;
        if !channels.is_multiple_of(groups) || !outputs.is_multiple_of(groups) {
            return Err(format!("has {groups} groups of {channels} channels and {outputs} outputs"));
        }
        let [down, right] = window.kernel;
        let (op, expected, dims) = match layer.kind {
            "Deconvolution" => {
                let sides = [window.transposed(0, rows)?, window.transposed(1, columns)?];
                (Op::ConvTranspose, [channels, outputs / groups, down, right], sides)
            }
            _ => {
                let sides = [window.side(0, rows)?, window.side(1, columns)?];
                (Op::Conv, [outputs, channels / groups, down, right], sides)
            }
        };
        let (blob, _) = self.blob(0)?;
        if blob.shape[..] != expected {
            return Err(format!("needs a weight of shape {expected:?}, and the model has {}", blob.shape));
        }
        let bias = options.flag("bias_term", true)?.then_some(outputs);
        let [strides, pads] = window.attributes()?;
        let group = ("group", Attribute::Int(int(groups)?));
        let attributes = [strides, pads, ("dilations", ints(&window.dilations)?), group];
        let name = self.weighted(op, &x.name, bias, attributes)?;
        let [rows, columns] = dims;
        Ok(Val { name, dims: vec![batch, outputs, rows, columns] })
    }

    /// Caffe rounds up: the last window may reach over the end of the image and its padding, and begins within both.
    pub(super) fn pooling(&mut self, layer: &Layer<'_>, x: &Val) -> Made {
        let options = layer.options("pooling_param");
        let is_mean = match options.word("pool").unwrap_or("MAX") {
            "MAX" | "0" => false,
            "AVE" | "1" => true,
            other => return Err(format!("pools by {}, which is not supported", other.escape_debug())),
        };
        let [batch, channels, rows, columns] = image(x)?;
        if options.flag("global_pooling", false)? {
            let op = if is_mean { Op::GlobalAveragePool } else { Op::GlobalMaxPool };
            let name = self.nodes.push("", op, &[&x.name], []);
            return Ok(Val { name, dims: vec![batch, channels, 1, 1] });
        }
        let is_ceil = match options.word("round_mode") {
            Some("FLOOR" | "1") => false,
            _ => options.flag("ceil_mode", true)?,
        };
        let window = Window::of(options, "kernel_size")?;
        let mut dims = vec![batch, channels];
        for (side, len) in [rows, columns].into_iter().enumerate() {
            let [stride, pad] = [window.strides, window.pads].map(|own| own.get(side).copied().unwrap_or(0));
            let mut out = window.side(side, len)?;
            let covered = out.saturating_sub(1).saturating_mul(stride).saturating_add(window.reach(side));
            let begins = out.saturating_mul(stride);
            if is_ceil && covered < len.saturating_add(pad.saturating_mul(2)) {
                match begins < len.saturating_add(pad) {
                    true => out = out.saturating_add(1),
                    false if pad > 0 => {}
                    false => return Err("has a window that begins behind its image".to_owned()),
                }
            }
            if pad >= window.reach(side) {
                return Err("has windows that cover only padding".to_owned());
            }
            dims.push(out);
        }
        let [strides, pads] = window.attributes()?;
        let shape = ("kernel_shape", ints(&window.kernel)?);
        let ceil = ("ceil_mode", Attribute::Int(i64::from(is_ceil)));
        let name = match is_mean {
            // A mean counts the padding, and not what is behind it.
            true => {
                let counted = ("count_include_pad", Attribute::Int(1));
                self.nodes.push("", Op::AveragePool, &[&x.name], [shape, strides, pads, ceil, counted])
            }
            false => self.nodes.push("", Op::MaxPool, &[&x.name], [shape, strides, pads, ceil]),
        };
        Ok(Val { name, dims })
    }

    pub(super) fn inner_product(&mut self, layer: &Layer<'_>, x: &Val) -> Made {
        let options = layer.options("inner_product_param");
        let axis = x.axis(options.int("axis", 1)?)?;
        let inputs = x.product(axis..x.dims.len())?;
        let outputs = u64::try_from(options.int("num_output", 0)?).ok().filter(|outputs| *outputs > 0);
        let outputs = outputs.ok_or("has no outputs")?;
        let is_transposed = options.flag("transpose", false)?;
        let (blob, _) = self.blob(0)?;
        let expected = if is_transposed { [inputs, outputs] } else { [outputs, inputs] };
        let units = blob.shape.len().saturating_sub(2);
        if blob.shape.get(units..) != Some(&expected[..])
            || blob.shape.iter().take(units).any(|len| *len != 1)
        {
            return Err(format!("needs a weight of shape {expected:?}, and the model has {}", blob.shape));
        }
        let is_flat = axis == x.dims.len().saturating_sub(1);
        let mut dims: Vec<u64> = x.dims.iter().take(axis).copied().collect();
        let flat = match (is_flat, axis) {
            (true, _) => x.name.clone(),
            (false, 1) => self.nodes.push("flatten", Op::Flatten, &[&x.name], []),
            // Axes of length 0 keep theirs.
            _ => self.nodes.reshaped("flatten", &x.name, &[vec![0; axis], vec![inputs]].concat())?,
        };
        let bias = options.flag("bias_term", true)?.then_some(outputs);
        let name = self.weighted(Op::Gemm, &flat, bias, [])?;
        dims.push(outputs);
        Ok(Val { name, dims })
    }
}
