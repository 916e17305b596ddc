//! Lowers convolutions and pooling: windows that move over images.

use super::lowering::{Info, Lowering, Operand, elements, misfit};
use super::moves::permuted;
use super::weight::Weight;
use crate::Kernel;
use crate::kernel::{Conv, Pool, PoolKind, Reduce, Reduction, Window};
use crate::value::Numbers;
use ckpt_api::{Attribute, Axis, Error, Result};

pub(super) fn conv(lowering: &mut Lowering) -> Result<()> {
    lowering.allow_attributes(&["strides", "pads", "dilations", "group", "auto_pad", "kernel_shape"])?;
    lowering.allow_roles(&["weight", "bias"])?;
    let [x] = lowering.exactly()?;
    let &[batch, channels, height, width] = &x.shape[..] else { return Err(image(x)) };
    let axes = [Axis::In, Axis::Out, Axis::Multiplier, Axis::KernelY, Axis::KernelX];
    let weight = lowering.required_weight("weight", &axes, x.numbers)?;
    let kernel = [weight.axis(Axis::KernelY)?.len, weight.axis(Axis::KernelX)?.len];
    if let Some(stated) = lowering.lengths::<2>("kernel_shape", 1)?.filter(|stated| *stated != kernel) {
        return Err(
            Attribute::Ints(signed(&stated)).invalid("kernel_shape", format!("the weight's {kernel:?}"))
        );
    }
    let Filters { operand, groups, outputs, strides } = filters(lowering, &weight, channels)?;
    let bias = lowering.weight("bias", &[Axis::Out], x.numbers)?;
    if let Some(bias) = &bias {
        bias.axis_of(Axis::Out, outputs)?;
    }
    let (window, _) = window(lowering, [height, width], kernel, false)?;
    let output = lowering.output(vec![batch, outputs, window.output[0], window.output[1]], x.numbers)?;
    let mut operands = vec![Operand::Input(0), operand];
    operands.extend(bias.as_ref().map(|bias| bias.operand));
    let kernel =
        Conv { batch, groups, inputs: channels, outputs, window, weight: strides, bias: bias.is_some() };
    lowering.call(Kernel::Conv(kernel), operands, output);
    Ok(())
}

/// The weight of a convolution, as its kernel needs it.
struct Filters {
    operand: Operand,
    groups: usize,
    outputs: usize,
    /// Output channel, input channel within the group, kernel row, kernel column.
    strides: [usize; 4],
}

fn filters(lowering: &mut Lowering, weight: &Weight, channels: usize) -> Result<Filters> {
    let stated = lowering.group()?;
    let [y, x] = [weight.axis(Axis::KernelY)?, weight.axis(Axis::KernelX)?];
    let input = weight.axis(Axis::In)?;
    if weight.find(Axis::Multiplier).is_none() {
        let out = weight.axis(Axis::Out)?;
        let groups = stated.unwrap_or(1);
        if !channels.is_multiple_of(groups)
            || !out.len.is_multiple_of(groups)
            || input.len != channels / groups
        {
            return Err(Error::corrupt("a convolution's channels do not fit its weight")
                .found(format!("{channels} channels in {groups} groups"))
                .expected(format!("{} in each group, and {} outputs", input.len, out.len)));
        }
        let strides = [out.stride, input.stride, y.stride, x.stride];
        return Ok(Filters { operand: weight.operand, groups, outputs: out.len, strides });
    }
    depthwise(lowering, weight, channels, stated)
}

/// Lowers a depthwise weight: each input channel is a group of its own, with `multiplier` outputs.
fn depthwise(
    lowering: &mut Lowering,
    weight: &Weight,
    channels: usize,
    stated: Option<usize>,
) -> Result<Filters> {
    let [y, x] = [weight.axis(Axis::KernelY)?, weight.axis(Axis::KernelX)?];
    let (input, multiplier) = (weight.axis_of(Axis::In, channels)?, weight.axis(Axis::Multiplier)?);
    if weight.find(Axis::Out).is_some_and(|out| out.len != 1)
        || stated.is_some_and(|groups| groups != channels)
    {
        return Err(Error::corrupt("a depthwise convolution has a group for each input channel")
            .found(format!("group {}", stated.unwrap_or(1)))
            .expected(channels.to_string()));
    }
    let outputs = elements(&[channels, multiplier.len])?;
    let groups = channels.max(1);
    let even = multiplier.len == 1 || input.len <= 1 || input.stride == multiplier.stride * multiplier.len;
    if even {
        let step = if multiplier.len == 1 { input.stride } else { multiplier.stride };
        let strides = [step, 0, y.stride, x.stride];
        return Ok(Filters { operand: weight.operand, groups, outputs, strides });
    }
    // Copy the outputs of each input channel side by side.
    let shape = [channels, multiplier.len, y.len, x.len];
    let numbers = lowering.input(0)?.numbers;
    let operand = lowering.temporary(shape.to_vec(), numbers)?;
    let strides = [input.stride, multiplier.stride, y.stride, x.stride];
    permuted(lowering, weight.operand, &shape, &strides, operand)?;
    let strides = [y.len * x.len, 0, x.len, 1];
    Ok(Filters { operand, groups, outputs, strides })
}

impl Lowering<'_> {
    fn group(&self) -> Result<Option<usize>> {
        if !self.node.attributes.contains_key("group") {
            return Ok(None);
        }
        let group = self.node.int("group", 1)?;
        let valid = usize::try_from(group).ok().filter(|group| *group > 0);
        valid.map(Some).ok_or_else(|| Attribute::Int(group).invalid("group", "at least 1"))
    }
}

pub(super) fn max_pool(lowering: &mut Lowering) -> Result<()> {
    lowering.allow_attributes(&[
        "kernel_shape",
        "strides",
        "pads",
        "dilations",
        "auto_pad",
        "ceil_mode",
        "storage_order",
    ])?;
    pool(lowering, |_, _| PoolKind::Maximum)
}

pub(super) fn average_pool(lowering: &mut Lowering) -> Result<()> {
    lowering.allow_attributes(&[
        "kernel_shape",
        "strides",
        "pads",
        "dilations",
        "auto_pad",
        "ceil_mode",
        "count_include_pad",
    ])?;
    let padded = lowering.node.flag("count_include_pad")?;
    pool(lowering, |window, after| match padded {
        true => PoolKind::AveragePadded {
            padded: [0, 1].map(|axis| window.before[axis] + window.input[axis] + after[axis]),
        },
        false => PoolKind::Average,
    })
}

fn pool(lowering: &mut Lowering, kind: impl Fn(&Window, [usize; 2]) -> PoolKind) -> Result<()> {
    lowering.allow_roles(&[])?;
    let [x] = lowering.exactly()?;
    lowering.real(0)?;
    let &[batch, channels, height, width] = &x.shape[..] else { return Err(image(x)) };
    let kernel = lowering
        .lengths("kernel_shape", 1)?
        .ok_or_else(|| Error::corrupt("the layer lacks its attribute 'kernel_shape'"))?;
    let ceil = lowering.node.flag("ceil_mode")?;
    let (window, after) = window(lowering, [height, width], kernel, ceil)?;
    // A window in the padding has no maximum and no mean.
    let images = elements(&[batch, channels])?;
    if images > 0 && [0, 1].into_iter().any(|axis| misses(&window, axis)) {
        return Err(Error::unsupported("a window of the pooling covers only padding")
            .found(format!("kernel {kernel:?}, padding {:?}, image [{height}, {width}]", window.before)));
    }
    let output = lowering.output(vec![batch, channels, window.output[0], window.output[1]], Numbers::Real)?;
    let kernel = Pool { images, kind: kind(&window, after), window };
    lowering.call(Kernel::Pool(kernel), [Operand::Input(0)], output);
    Ok(())
}

/// Whether some window covers no place of the image on `axis`.
fn misses(window: &Window, axis: usize) -> bool {
    let dilation = window.dilation[axis];
    (0..window.output[axis]).any(|p| {
        // The first kernel element that is not before the image.
        let before = window.before[axis].saturating_sub(p * window.stride[axis]);
        let first = before.div_ceil(dilation);
        first >= window.kernel[axis] || window.place(axis, p, first).is_none()
    })
}

/// Lowers a function of all places of each channel.
pub(super) fn global_pool(lowering: &mut Lowering, function: Reduction) -> Result<()> {
    lowering.allow_attributes(&[])?;
    lowering.allow_roles(&[])?;
    let [x] = lowering.exactly()?;
    lowering.real(0)?;
    let &[batch, channels, ref places @ ..] = &x.shape[..] else { return Err(image(x)) };
    let (rows, len) = (elements(&[batch, channels])?, elements(places)?);
    if len == 0 && rows > 0 {
        return Err(misfit(&x.shape, "an image with pixels"));
    }
    let mut shape = vec![batch, channels];
    shape.resize(x.shape.len(), 1);
    let output = lowering.output(shape, Numbers::Real)?;
    lowering.call(Kernel::Reduce(Reduce { rows, len, function }), [Operand::Input(0)], output);
    Ok(())
}

fn image(x: &Info) -> Error {
    misfit(&x.shape, "[N, C, H, W]: images with their channels first")
}

fn signed(lengths: &[usize]) -> Vec<i64> {
    lengths.iter().map(|len| i64::try_from(*len).unwrap_or(i64::MAX)).collect()
}

/// Returns the window and the padding behind the image, by ONNX's formulas.
fn window(
    lowering: &Lowering,
    input: [usize; 2],
    kernel: [usize; 2],
    ceil: bool,
) -> Result<(Window, [usize; 2])> {
    let stride = lowering.lengths("strides", 1)?.unwrap_or([1, 1]);
    let dilation = lowering.lengths("dilations", 1)?.unwrap_or([1, 1]);
    let pads = lowering.lengths::<4>("pads", 0)?;
    let mode = lowering.node.text("auto_pad")?.unwrap_or("NOTSET");
    if let Some(pads) = pads.filter(|pads| mode != "NOTSET" && *pads != [0; 4]) {
        return Err(Attribute::Ints(signed(&pads)).invalid("pads", "none beside auto_pad"));
    }
    let (mut output, mut before, mut after) = ([0; 2], [0; 2], [0; 2]);
    for axis in 0..2 {
        let side =
            Side { len: input[axis], kernel: kernel[axis], stride: stride[axis], dilation: dilation[axis] };
        let pads = match mode {
            "NOTSET" => pads.map_or((0, 0), |pads| (pads[axis], pads[axis + 2])),
            "VALID" => (0, 0),
            "SAME_UPPER" | "SAME_LOWER" => side.same(mode == "SAME_LOWER"),
            other => {
                let expected = "NOTSET, VALID, SAME_UPPER or SAME_LOWER";
                return Err(Attribute::Text(other.to_owned()).invalid("auto_pad", expected));
            }
        };
        (before[axis], after[axis]) = pads;
        output[axis] = side.output(pads, ceil).ok_or_else(|| {
            Error::usage("a window is larger than the padded image")
                .found(format!("an image of {input:?}, a kernel of {kernel:?}, dilations {dilation:?}"))
                .help("give larger images")
        })?;
    }
    if kernel.contains(&0) {
        return Err(Error::corrupt("a window must have elements").found(format!("{kernel:?}")));
    }
    Ok((Window { input, output, kernel, stride, dilation, before }, after))
}

/// One side of an image under a window.
struct Side {
    len: usize,
    kernel: usize,
    stride: usize,
    dilation: usize,
}

impl Side {
    /// The length that a window spans.
    fn reach(&self) -> usize {
        self.kernel.saturating_sub(1).saturating_mul(self.dilation).saturating_add(1)
    }

    /// The padding for `⌈len / stride⌉` outputs. The extra element of an odd padding is behind, or before for `lower`.
    fn same(&self, lower: bool) -> (usize, usize) {
        let outputs = self.len.div_ceil(self.stride);
        let covered = outputs.saturating_sub(1).saturating_mul(self.stride).saturating_add(self.reach());
        let total = covered.saturating_sub(self.len);
        let (less, more) = (total / 2, total - total / 2);
        if lower { (more, less) } else { (less, more) }
    }

    fn output(&self, (before, after): (usize, usize), ceil: bool) -> Option<usize> {
        let padded = self.len.checked_add(before)?.checked_add(after)?;
        let free = padded.checked_sub(self.reach())?;
        let steps = if ceil { free.div_ceil(self.stride) } else { free / self.stride };
        // A last window that would start in the padding behind the image is left out.
        let beyond = ceil && steps.saturating_mul(self.stride) >= self.len + before;
        Some(if beyond { steps } else { steps + 1 })
    }
}
