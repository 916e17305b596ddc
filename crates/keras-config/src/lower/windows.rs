//! Windows that move over images: convolutions, pooling.

use super::lowering::Lowering;
use super::values::{Val, Values};
use crate::kernels::sides;
use crate::layer::Reason;
use crate::model::Layer;
use crate::naming::shown_name;
use ckpt_api::Op;
use ckpt_graph::shape::show;
use ckpt_graph::{Length, Padding, Window, int, ints};

/// A window, and the sizes of its sides.
pub(super) struct Kernel {
    pub sizes: Vec<u64>,
    pub window: Window,
}

impl Kernel {
    /// Returns a kernel of one place.
    pub fn single(sides: usize) -> Kernel {
        Kernel { sizes: vec![1; sides], window: Window::single(sides) }
    }

    /// Reads the options of a convolution.
    pub fn of_convolution(layer: &Layer, sides: usize) -> Result<Kernel, Reason> {
        let sizes = match (layer.option("nb_row"), layer.option("filter_length")) {
            (Some(_), _) => vec![layer.size("nb_row")?, layer.size("nb_col")?],
            (_, Some(_)) => vec![layer.size("filter_length")?],
            _ => layer.sides("kernel_size", sides, None)?,
        };
        let strides = if layer.option("subsample").is_some() { "subsample" } else { "strides" };
        let strides = layer.sides(strides, sides, Some(1))?;
        Kernel::padded(layer, sizes, strides, layer.sides("dilation_rate", sides, Some(1))?)
    }

    fn of_pooling(layer: &Layer, sides: usize) -> Result<Kernel, Reason> {
        let sizes = layer.sides("pool_size", sides, Some(2))?;
        let strides = match layer.option("strides") {
            Some(_) => layer.sides("strides", sides, None)?,
            None => sizes.clone(),
        };
        Kernel::padded(layer, sizes, strides, vec![1; sides])
    }

    fn padded(
        layer: &Layer,
        sizes: Vec<u64>,
        strides: Vec<u64>,
        dilations: Vec<u64>,
    ) -> Result<Kernel, Reason> {
        let mut kernel = Kernel { sizes, window: Window { strides, dilations, padding: Padding::Valid } };
        kernel.window.padding = match layer.text("padding").or(layer.text("border_mode")).unwrap_or("valid") {
            "valid" => Padding::Valid,
            "same" => Padding::Same,
            // At the begin alone.
            "causal" => {
                let reach = |side| Ok::<_, Reason>([kernel.reach(side)?, 0]);
                Padding::Explicit((0..kernel.sizes.len()).map(reach).collect::<Result<_, _>>()?)
            }
            other => return Err(format!("its padding '{}' is not supported", shown_name(other))),
        };
        Ok(kernel)
    }

    fn reach(&self, side: usize) -> Result<u64, Reason> {
        let size = self.sizes.get(side).copied().unwrap_or(1);
        self.window.reach(side, size).ok_or_else(|| "a size is too large".to_owned())
    }

    /// Returns what is cut before and after a side of a transposed convolution's result, and added behind it; and the
    /// length of the side. `added` is what the layer states to be added.
    pub fn transposed(
        &self,
        side: usize,
        added: Option<i64>,
        len: Length,
    ) -> Result<([i64; 3], Length), Reason> {
        let is_same = match self.window.padding {
            Padding::Same => true,
            Padding::Valid => false,
            Padding::Explicit(_) => return Err("its padding 'causal' is not supported".to_owned()),
        };
        let reach = self.reach(side)?.checked_add(1).map(int).transpose()?;
        let stride = int(self.window.strides.get(side).copied().unwrap_or(1))?;
        let reach = reach.ok_or("a size is too large")?;
        let cut = match (is_same, added) {
            (true, None) => reach.checked_sub(stride),
            (true, Some(added)) => (2 * (reach / 2)).checked_sub(added),
            (false, None) => Some((reach - stride).min(0)),
            (false, Some(added)) => added.checked_neg(),
        };
        let cut = cut.ok_or("a size is too large")?;
        let total = cut.max(0);
        // What is cut of an image without padding is behind it.
        let begin = if is_same { total / 2 } else { 0 };
        let whole = match len {
            Length::Known(len) => Length::Known(len.saturating_sub(1).max(0)) * stride,
            free => (free - 1) * stride,
        };
        match whole + reach - cut {
            Length::Known(..0) => Err("its padding is larger than its result".to_owned()),
            out => Ok(([begin, total - begin, cut.saturating_neg().max(0)], out)),
        }
    }
}

impl Lowering {
    /// Lowers pooling over windows.
    pub(super) fn pool(&mut self, layer: &Layer, op: Op, x: &Val) -> Result<Val, Reason> {
        let kernel = Kernel::of_pooling(layer, sides(&layer.class).unwrap_or(2))?;
        self.images(layer, x, |lowering, x| {
            let x = lowering.values.first(&x)?;
            let node = lowering.values.node(op).attribute("kernel_shape", ints(&kernel.sizes)?);
            let (node, dims) = Values::windowed(node, &kernel.window, &kernel.sizes, &x)?;
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
            return self.values.reduce(op, x, &places, keeps);
        }
        let x = if is_first { self.values.as_channels_last(x)? } else { self.values.first(x)? };
        let pooled = self.values.pool_globally(op, &x)?;
        match (keeps, is_first) {
            (true, true) => self.values.restored_first(&pooled),
            (true, false) => Ok(pooled),
            (false, _) => {
                let dims = vec![pooled.len(0), pooled.features()];
                self.values.plain(self.values.node(Op::Flatten), &[&pooled], dims)
            }
        }
    }
}
