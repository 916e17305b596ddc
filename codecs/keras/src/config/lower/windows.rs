//! Windows that move over images: convolutions, pooling.

use super::lowering::Lowering;
use super::values::{Dims, Layout, Val, int, ints, show};
use crate::config::kernels::sides;
use crate::config::layer::Reason;
use crate::config::model::Layer;
use crate::config::naming::shown_name;
use ckpt_api::{Attribute, Node, Op};

/// Sizes, strides, dilations and padding.
pub(super) struct Window {
    pub kernel: Vec<u64>,
    pub strides: Vec<u64>,
    pub dilations: Vec<u64>,
    /// Whether the input is padded so that the output has ⌈input / stride⌉ places on each side.
    pub is_same: bool,
    /// Whether the input is padded at its begin alone.
    pub is_causal: bool,
}

impl Window {
    /// A window of one place.
    pub fn single(sides: usize) -> Window {
        let ones = || vec![1; sides];
        Window { kernel: ones(), strides: ones(), dilations: ones(), is_same: false, is_causal: false }
    }

    /// Reads the options of a convolution.
    pub fn of_convolution(layer: &Layer, sides: usize) -> Result<Window, Reason> {
        let kernel = match (layer.option("nb_row"), layer.option("filter_length")) {
            (Some(_), _) => vec![layer.size("nb_row")?, layer.size("nb_col")?],
            (_, Some(_)) => vec![layer.size("filter_length")?],
            _ => layer.sides("kernel_size", sides, None)?,
        };
        let strides = if layer.option("subsample").is_some() { "subsample" } else { "strides" };
        let strides = layer.sides(strides, sides, Some(1))?;
        Window {
            kernel,
            strides,
            dilations: layer.sides("dilation_rate", sides, Some(1))?,
            is_same: false,
            is_causal: false,
        }
        .padded(layer)
    }

    fn of_pooling(layer: &Layer, sides: usize) -> Result<Window, Reason> {
        let kernel = layer.sides("pool_size", sides, Some(2))?;
        let strides = match layer.option("strides") {
            Some(_) => layer.sides("strides", sides, None)?,
            None => kernel.clone(),
        };
        Window { kernel, strides, dilations: vec![1; sides], is_same: false, is_causal: false }.padded(layer)
    }

    fn padded(mut self, layer: &Layer) -> Result<Window, Reason> {
        match layer.text("padding").or(layer.text("border_mode")).unwrap_or("valid") {
            "valid" => {}
            "same" => self.is_same = true,
            "causal" => self.is_causal = true,
            other => return Err(format!("its padding '{}' is not supported", shown_name(other))),
        }
        Ok(self)
    }

    /// The length that the window spans on a side.
    fn reach(&self, side: usize) -> Result<u64, Reason> {
        let (kernel, dilation) = (at(&self.kernel, side), at(&self.dilations, side));
        (kernel.saturating_sub(1))
            .checked_mul(dilation)
            .and_then(|len| len.checked_add(1))
            .ok_or_else(too_large)
    }

    /// Returns the padding before and after a side of this length, and the length of the result; `None` for a padding
    /// that depends on the input.
    fn side(&self, side: usize, len: Option<u64>) -> Result<(Option<[u64; 2]>, Option<u64>), Reason> {
        let (reach, stride) = (self.reach(side)?, at(&self.strides, side));
        let pads = match (self.is_same, self.is_causal, len) {
            (false, true, _) => Some([reach - 1, 0]),
            (false, false, _) => Some([0, 0]),
            (true, _, Some(len)) => {
                let covered =
                    len.div_ceil(stride).saturating_sub(1).saturating_mul(stride).saturating_add(reach);
                let total = covered.saturating_sub(len);
                Some([total / 2, total - total / 2])
            }
            (true, _, None) if stride == 1 => Some([(reach - 1) / 2, reach - 1 - (reach - 1) / 2]),
            (true, _, None) => None,
        };
        let out = match (len, pads) {
            (Some(len), Some([before, after])) => {
                let free = len.saturating_add(before).saturating_add(after).checked_sub(reach);
                Some(free.ok_or("its window is larger than the image")? / stride + 1)
            }
            _ => None,
        };
        Ok((pads, out))
    }

    /// How much longer the result of a transposed convolution would be without padding than it is.
    pub fn transposed_cut(&self, side: usize, added: Option<i64>) -> Result<i64, Reason> {
        let (reach, stride) = (int(self.reach(side)?)?, int(at(&self.strides, side))?);
        let cut = match (self.is_same, added) {
            (true, None) => reach.checked_sub(stride),
            (true, Some(added)) => (2 * (reach / 2)).checked_sub(added),
            (false, None) => Some((reach - stride).min(0)),
            (false, Some(added)) => added.checked_neg(),
        };
        cut.ok_or_else(too_large)
    }

    /// The length of a side of a transposed convolution's result.
    pub fn transposed_len(&self, side: usize, len: u64, cut: i64) -> Result<u64, Reason> {
        let whole = len.saturating_sub(1).checked_mul(at(&self.strides, side));
        let whole =
            whole.and_then(|whole| whole.checked_add(self.reach(side).ok()?)).ok_or_else(too_large)?;
        u64::try_from(int(whole)?.saturating_sub(cut))
            .map_err(|_| "its padding is larger than its result".to_owned())
    }
}

fn at(sizes: &[u64], side: usize) -> u64 {
    sizes.get(side).copied().unwrap_or(1).max(1)
}

fn too_large() -> Reason {
    "a size is too large".to_owned()
}

/// Adds strides, pads and dilations to a node, and returns it with the lengths of its result.
pub(super) fn windowed(node: Node, window: &Window, x: &Val) -> Result<(Node, Dims), Reason> {
    let (mut begins, mut ends, mut dims) = (Vec::new(), Vec::new(), x.dims.clone());
    for side in 0..window.kernel.len() {
        let (pads, out) = window.side(side, x.len(side + 1))?;
        begins.push(pads.map(|pads| pads[0]));
        ends.push(pads.map(|pads| pads[1]));
        if let Some(len) = dims.get_mut(side + 1) {
            *len = out;
        }
    }
    let pads = begins.into_iter().chain(ends).collect::<Option<Vec<u64>>>();
    let mut node = node.attribute("strides", ints(&window.strides)?);
    node = match pads {
        Some(pads) => node.attribute("pads", ints(&pads)?),
        None => node.attribute("auto_pad", Attribute::Text("SAME_UPPER".into())),
    };
    if window.dilations.iter().any(|value| *value != 1) {
        node = node.attribute("dilations", ints(&window.dilations)?);
    }
    Ok((node, dims))
}

impl Lowering {
    /// Lowers pooling over windows.
    pub(super) fn pool(&mut self, layer: &Layer, op: Op, x: &Val) -> Result<Val, Reason> {
        let window = Window::of_pooling(layer, sides(&layer.class).unwrap_or(2))?;
        self.images(layer, x, |lowering, x| {
            let x = lowering.values.first(&x)?;
            let node = lowering.values.node(op).attribute("kernel_shape", ints(&window.kernel)?);
            let (node, dims) = windowed(node, &window, &x)?;
            lowering.values.same(node, &x, dims)
        })
    }

    /// Lowers pooling over all places.
    pub(super) fn global_pool(&mut self, layer: &Layer, op: Op, x: &Val) -> Result<Val, Reason> {
        let keeps = layer.flag("keepdims", false);
        let count = sides(&layer.class).unwrap_or(2);
        if x.rank() != count + 2 {
            return Err(format!("it takes images of {count} sides, but its input is {}", show(&x.dims)));
        }
        let is_first = layer.is_channels_first();
        let places: Vec<usize> = if is_first { (2..count + 2).collect() } else { (1..count + 1).collect() };
        if count != 2 {
            let op = if op == Op::GlobalMaxPool { Op::ReduceMax } else { Op::ReduceMean };
            return self.reduce(op, x, &places, keeps);
        }
        let x = if is_first { self.values.as_channels_last(x)? } else { self.values.first(x)? };
        let (batch, channels) = (x.len(0), x.features());
        let pooled = self.values.same(self.values.node(op), &x, vec![batch, Some(1), Some(1), channels])?;
        match (keeps, is_first) {
            (true, true) => self.values.restored_first(&pooled),
            (true, false) => Ok(pooled),
            (false, _) => {
                let node = self.values.node(Op::Flatten);
                let made = self.values.same(node, &pooled, vec![batch, channels])?;
                Ok(Val { layout: Layout::Last, ..made })
            }
        }
    }
}
