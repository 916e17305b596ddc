//! Pooling over windows, whose sizes are rounded down (`valid`) or up (`full`).

use crate::attributes::wrong;
use crate::layers::pads;
use crate::lowering::{Lowering, Val};
use crate::stated::Read;
use crate::symbol::Step;
use ckpt_api::{Attribute, Op};
use ckpt_graph::{Length, Window, ints};

impl Lowering<'_> {
    pub(crate) fn pooling(&mut self, step: &Step) -> Read<Val> {
        let x = self.take(step, 0)?;
        let kind = step.text("pool_type").unwrap_or("max");
        if step.flag("global_pool", false)? {
            let op = match kind {
                "max" => Op::GlobalMaxPool,
                "avg" => Op::GlobalAveragePool,
                other => return Err(wrong("pool_type", other)),
            };
            let mut dims = x.dims.clone();
            dims.iter_mut().skip(2).for_each(|len| *len = Length::Known(1));
            return self.builder.plain(self.builder.node(op), &[&x], dims);
        }
        let (sides, kernel) = Self::kernel(step, &x)?;
        let window = Self::window(step, sides)?;
        let is_full = match step.text("pooling_convention").unwrap_or("valid") {
            "valid" => false,
            "full" => true,
            other => return Err(wrong("pooling_convention", other)),
        };
        let (op, times) = match kind {
            "max" => (Op::MaxPool, None),
            "avg" => (Op::AveragePool, None),
            // The mean of windows that all have as many places, padding included.
            "sum" if !is_full => (Op::AveragePool, Some(kernel.iter().product::<u64>())),
            other => return Err(wrong("pool_type", other)),
        };
        let is_average = op == Op::AveragePool;
        let pads = pads(&window);
        // The operator of before 0.12 adds zeros to images, and divides by all places of a window that reaches over the end.
        if step.op == "Pooling_v1" && (if is_average { is_full } else { pads.iter().any(|pad| *pad > 0) }) {
            return Err("takes what is outside an image as zeros, which is not supported".to_owned());
        }
        let mut node = self.builder.node(op).attribute("kernel_shape", ints(&kernel)?);
        node = node.attribute("strides", ints(&window.strides)?);
        node = node.attribute("pads", ints(&[&pads[..], &pads].concat())?);
        if is_average && (times.is_some() || step.flag("count_include_pad", true)?) {
            node = node.attribute("count_include_pad", Attribute::Int(1));
        }
        if is_full {
            node = node.attribute("ceil_mode", Attribute::Int(1));
        }
        let mut dims = vec![x.len(0), x.len(1)];
        for (at, kernel) in kernel.iter().enumerate() {
            dims.push(side(&window, at, *kernel, x.len(at.saturating_add(2)), is_full)?);
        }
        let made = self.builder.plain(node, &[&x], dims)?;
        match times {
            Some(times) => {
                let times = u32::try_from(times).map_err(|_| "has a window that is too large")?;
                let times = self.builder.scalar(times.into())?;
                self.builder.apply(Op::Mul, &[&made, &times])
            }
            None => Ok(made),
        }
    }
}

/// The number of windows on a side.
fn side(window: &Window, at: usize, kernel: u64, len: Length, is_full: bool) -> Read<Length> {
    let own = window.side(at, kernel, len).ok_or("has a window that is larger than the image")?;
    let stride = window.strides.get(at).copied().unwrap_or(1);
    match (is_full, len.size()) {
        (false, _) => Ok(own.out),
        (true, Some(len)) => {
            let pad = pads(window).get(at).copied().unwrap_or_default();
            let free = pad.saturating_mul(2).saturating_add(len).saturating_sub(kernel);
            // A last window that begins in the padding is left out by ONNX, and counts in MXNet.
            match free.div_ceil(stride).saturating_mul(stride) >= len.saturating_add(pad) {
                true => Err("has a last window that covers only padding".to_owned()),
                false => Ok(Length::from(free.div_ceil(stride).saturating_add(1))),
            }
        }
        (true, None) if stride == 1 => Ok(own.out),
        // Where the last window begins depends on the size of the image.
        (true, None) if stride.saturating_add(pads(window).get(at).copied().unwrap_or_default()) > kernel => {
            Err("may have a last window that covers only padding, as the size of the image says".to_owned())
        }
        (true, None) => Ok(Length::Unknown),
    }
}
