//! Lowers convolutions and pooling: windows that move over images.

use super::attributes::lacks;
use super::copies::permuted;
use super::lowering::{Info, Lowering, Operand, elements, misfit};
use super::weight::{StridedAxis, Weight};
use crate::Kernel;
use crate::kernel::{Conv, Pool, PoolKind, Reduce, Reduction, Window};
use crate::value::Numbers;
use ckpt_api::{Attribute, Axis, Error, Result};

/// The axes of a window, of which one of fewer dimensions has the last ones.
pub(super) const KERNEL: [Axis; 3] = [Axis::KernelZ, Axis::KernelY, Axis::KernelX];

pub(super) fn conv(lowering: &mut Lowering) -> Result<()> {
    lowering.allow_attributes(&["strides", "pads", "dilations", "group", "auto_pad", "kernel_shape"])?;
    lowering.allow_roles(&["weight", "bias"])?;
    lowering.at_most(3)?;
    let x = lowering.input(0)?;
    let image = Image::of(x)?;
    let axes = [&[Axis::Out, Axis::In], image.kernel_axes()].concat();
    let weight = match lowering.computed("weight", 1, &axes, x.numbers)? {
        Some(weight) => weight,
        None => {
            let axes = [&axes[..], &[Axis::Multiplier]].concat();
            lowering.required_weight("weight", &axes, x.numbers)?
        }
    };
    let kernel = image.kernel_axes().iter().map(|axis| Ok(weight.axis(*axis)?.len));
    let kernel = kernel.collect::<Result<Vec<_>>>()?;
    check_kernel_shape(lowering, &kernel)?;
    let Filters { operand, groups, outputs, strides } = filters(lowering, &weight, &image)?;
    let bias = lowering.bias(x.numbers)?;
    if let Some(bias) = &bias {
        bias.axis_of(Axis::Out, outputs)?;
    }
    let (window, _) = window(lowering, &image, &kernel, false)?;
    let output = lowering.output(image.shape(outputs, window.output), x.numbers)?;
    let mut operands = vec![Operand::Input(0), operand];
    operands.extend(bias.as_ref().map(|bias| bias.operand));
    let Image { batch, channels: inputs, .. } = image;
    let kernel = Conv { batch, groups, inputs, outputs, window, weight: strides, bias: bias.is_some() };
    lowering.call(Kernel::Conv(kernel), operands, output);
    Ok(())
}

/// Fails if attribute `kernel_shape` states another kernel than the weight has.
pub(super) fn check_kernel_shape(lowering: &Lowering, kernel: &[usize]) -> Result<()> {
    match lowering.lengths("kernel_shape", kernel.len(), 1)?.filter(|stated| stated != kernel) {
        Some(stated) => {
            let stated = Attribute::Ints(signed(&stated));
            Err(stated.invalid("kernel_shape", format!("the weight's {kernel:?}")))
        }
        None => Ok(()),
    }
}

/// Images of one to three dimensions, with their channels first.
pub(super) struct Image {
    pub(super) batch: usize,
    pub(super) channels: usize,
    /// Planes, rows and columns; 1 for those that the image does not have.
    pub(super) sides: [usize; 3],
    /// Number of dimensions.
    pub(super) dimensions: usize,
}

impl Image {
    pub(super) fn of(x: &Info) -> Result<Self> {
        let (batch, channels, sides) = match x.shape[..] {
            [batch, channels, columns] => (batch, channels, [1, 1, columns]),
            [batch, channels, rows, columns] => (batch, channels, [1, rows, columns]),
            [batch, channels, planes, rows, columns] => (batch, channels, [planes, rows, columns]),
            _ => return Err(not_an_image(x)),
        };
        Ok(Image { batch, channels, sides, dimensions: x.shape.len() - 2 })
    }

    /// The axes of a window over the image.
    pub(super) fn kernel_axes(&self) -> &'static [Axis] {
        KERNEL.split_at_checked(KERNEL.len() - self.dimensions).map_or(&KERNEL, |(_, axes)| axes)
    }

    /// One number for each of three dimensions; `other` for those that the image does not have.
    pub(super) fn each(&self, own: &[usize], other: usize) -> [usize; 3] {
        let missing = 3 - self.dimensions;
        std::array::from_fn(|axis| {
            axis.checked_sub(missing).and_then(|axis| own.get(axis).copied()).unwrap_or(other)
        })
    }

    /// The shape of images of these channels and sides.
    pub(super) fn shape(&self, channels: usize, sides: [usize; 3]) -> Vec<usize> {
        [&[self.batch, channels], &sides[3 - self.dimensions..]].concat()
    }
}

/// The weight of a convolution, as its kernel needs it.
struct Filters {
    operand: Operand,
    groups: usize,
    outputs: usize,
    /// Output channel, input channel within the group, kernel plane, row, column.
    strides: [usize; 5],
}

/// The axes of a kernel; those that it lacks have the length 1.
pub(super) fn kernel_axes(weight: &Weight) -> [StridedAxis; 3] {
    KERNEL.map(|axis| weight.find(axis).unwrap_or(StridedAxis { len: 1, stride: 0 }))
}

fn filters(lowering: &mut Lowering, weight: &Weight, image: &Image) -> Result<Filters> {
    let (stated, channels) = (lowering.group()?, image.channels);
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
        let [z, y, x] = kernel_axes(weight).map(|axis| axis.stride);
        let strides = [out.stride, input.stride, z, y, x];
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
    let [z, y, x] = kernel_axes(weight);
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
        let strides = [step, 0, z.stride, y.stride, x.stride];
        return Ok(Filters { operand: weight.operand, groups, outputs, strides });
    }
    // Copy the outputs of each input channel side by side.
    let axes = [input, multiplier, z, y, x];
    let numbers = lowering.input(0)?.numbers;
    let operand = lowering.temporary(axes.map(|axis| axis.len).to_vec(), numbers)?;
    permuted(lowering, weight.operand, &axes.map(|axis| axis.len), &axes.map(|axis| axis.stride), operand)?;
    let strides = [z.len * y.len * x.len, 0, y.len * x.len, x.len, 1];
    Ok(Filters { operand, groups, outputs, strides })
}

impl Lowering<'_> {
    /// The bias of a convolution: a tensor or input 2.
    pub(super) fn bias(&mut self, numbers: Numbers) -> Result<Option<Weight>> {
        match self.computed("bias", 2, &[Axis::Out], numbers)? {
            Some(bias) => Ok(Some(bias)),
            None => self.weight("bias", &[Axis::Out], numbers),
        }
    }

    /// The number of groups that the node states.
    pub(super) fn group(&self) -> Result<Option<usize>> {
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
            padded: [0, 1, 2].map(|axis| window.before[axis] + window.input[axis] + after[axis]),
        },
        false => PoolKind::Average,
    })
}

fn pool(lowering: &mut Lowering, kind: impl Fn(&Window, [usize; 3]) -> PoolKind) -> Result<()> {
    lowering.allow_roles(&[])?;
    let [x] = lowering.exactly()?;
    lowering.real(0)?;
    let image = Image::of(x)?;
    let kernel =
        lowering.lengths("kernel_shape", image.dimensions, 1)?.ok_or_else(|| lacks("kernel_shape"))?;
    let ceil = lowering.node.flag("ceil_mode")?;
    let (window, after) = window(lowering, &image, &kernel, ceil)?;
    // A window in the padding has no maximum and no mean.
    let images = elements(&[image.batch, image.channels])?;
    if images > 0 && (0..3).any(|axis| misses(&window, axis)) {
        let before = &window.before[3 - image.dimensions..];
        return Err(Error::unsupported("a window of the pooling covers only padding")
            .found(format!("kernel {kernel:?}, padding {before:?}, image {:?}", &x.shape[2..])));
    }
    let output = lowering.output(image.shape(image.channels, window.output), Numbers::Real)?;
    let kernel = Pool { images, kind: kind(&window, after), window };
    lowering.call(Kernel::Pool(kernel), [Operand::Input(0)], output);
    Ok(())
}

/// Whether some window covers no place of the image on `axis`.
fn misses(window: &Window, axis: usize) -> bool {
    let (dilation, outputs) = (window.dilation[axis], window.output[axis]);
    // A window that begins within the image covers a place of it.
    let begins = window.before[axis].div_ceil(window.stride[axis]).min(outputs);
    let ends = (window.before[axis] + window.input[axis]).div_ceil(window.stride[axis]).min(outputs);
    (0..begins).chain(ends.max(begins)..outputs).any(|p| {
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
    let &[batch, channels, ref places @ ..] = &x.shape[..] else { return Err(not_an_image(x)) };
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

fn not_an_image(x: &Info) -> Error {
    let expected = "[N, C, W], [N, C, H, W] or [N, C, D, H, W]: images with their channels first";
    misfit(&x.shape, expected)
}

pub(super) fn signed(lengths: &[usize]) -> Vec<i64> {
    lengths.iter().map(|len| i64::try_from(*len).unwrap_or(i64::MAX)).collect()
}

/// Returns the window and the padding behind the image, by ONNX's formulas.
fn window(lowering: &Lowering, image: &Image, kernel: &[usize], ceil: bool) -> Result<(Window, [usize; 3])> {
    let Image { sides: input, dimensions, .. } = *image;
    let each = |name| {
        let stated = lowering.lengths(name, dimensions, 1)?;
        Ok::<_, Error>(image.each(&stated.unwrap_or_default(), 1))
    };
    let (stride, dilation) = (each("strides")?, each("dilations")?);
    let pads = lowering.lengths("pads", 2 * dimensions, 0)?;
    let mode = lowering.node.text("auto_pad")?.unwrap_or("NOTSET");
    if let Some(pads) = pads.as_ref().filter(|pads| mode != "NOTSET" && pads.iter().any(|pad| *pad != 0)) {
        return Err(Attribute::Ints(signed(pads)).invalid("pads", "none beside auto_pad"));
    }
    let pads = pads.unwrap_or_else(|| vec![0; 2 * dimensions]);
    let (begins, ends) = pads.split_at(dimensions);
    let (begins, ends) = (image.each(begins, 0), image.each(ends, 0));
    let sizes = image.each(kernel, 1);
    let (mut output, mut before, mut after) = ([0; 3], [0; 3], [0; 3]);
    for axis in 0..3 {
        let side =
            Side { len: input[axis], kernel: sizes[axis], stride: stride[axis], dilation: dilation[axis] };
        (before[axis], after[axis]) = match mode {
            "NOTSET" => (begins[axis], ends[axis]),
            "VALID" => (0, 0),
            "SAME_UPPER" | "SAME_LOWER" => side.same(mode == "SAME_LOWER"),
            other => return Err(no_auto_pad(other)),
        };
        output[axis] = side.output((before[axis], after[axis]), ceil).ok_or_else(|| {
            let (input, dilation) = (&input[3 - dimensions..], &dilation[3 - dimensions..]);
            Error::usage("a window is larger than the padded image")
                .found(format!("an image of {input:?}, a kernel of {kernel:?}, dilations {dilation:?}"))
                .help("give larger images")
        })?;
    }
    if kernel.contains(&0) {
        return Err(Error::corrupt("a window must have elements").found(format!("{kernel:?}")));
    }
    Ok((Window { input, output, kernel: sizes, stride, dilation, before }, after))
}

/// The error for an unknown way of padding.
pub(super) fn no_auto_pad(found: &str) -> Error {
    let expected = "NOTSET, VALID, SAME_UPPER or SAME_LOWER";
    Attribute::Text(found.to_owned()).invalid("auto_pad", expected)
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
