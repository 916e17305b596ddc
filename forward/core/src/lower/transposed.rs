//! Lowers transposed convolutions: convolutions of images between whose places zeros are inserted, with the taps of the
//! kernel in reverse order.
//!
//! Inserted zeros add nothing to a sum. So where a step is longer than 1, the outputs of each phase (those whose places
//! leave the same rest when divided by the step) are a convolution of the image itself with every `step`-th tap, whose
//! sums are in the same order.

use super::copies::{copy, permuted};
use super::lowering::{Info, Load, Lowering, Operand, elements, misfit};
use super::strides::row_major;
use super::weight::Weight;
use super::window::{Image, check_kernel_shape, kernel_axes, no_auto_pad, signed};
use crate::Kernel;
use crate::kernel::{Conv, Gather, View, Window};
use ckpt_api::{Attribute, Axis, Error, Result};

/// Lowers ONNX's `ConvTranspose`.
pub(super) fn conv_transpose(lowering: &mut Lowering) -> Result<()> {
    lowering.allow_attributes(&[
        "strides",
        "pads",
        "dilations",
        "group",
        "auto_pad",
        "kernel_shape",
        "output_padding",
        "output_shape",
    ])?;
    lowering.allow_roles(&["weight", "bias"])?;
    lowering.at_most(3)?;
    let x = lowering.input(0)?;
    let image = Image::of(x)?;
    let axes = [&[Axis::In, Axis::Out], image.kernel_axes()].concat();
    let weight = match lowering.computed("weight", 1, &axes, x.numbers)? {
        Some(weight) => weight,
        None => lowering.required_weight("weight", &axes, x.numbers)?,
    };
    let kernel = image.kernel_axes().iter().map(|axis| Ok(weight.axis(*axis)?.len));
    let kernel = kernel.collect::<Result<Vec<_>>>()?;
    check_kernel_shape(lowering, &kernel)?;
    if kernel.contains(&0) {
        return Err(Error::corrupt("a window must have elements").found(format!("{kernel:?}")));
    }
    let groups = lowering.group()?.unwrap_or(1);
    weight.axis_of(Axis::In, image.channels)?;
    if !image.channels.is_multiple_of(groups) {
        return Err(misfit(&x.shape, format!("a multiple of {groups} channels, for as many groups")));
    }
    let outputs = elements(&[groups, weight.axis(Axis::Out)?.len])?;
    let bias = lowering.bias(x.numbers)?;
    if let Some(bias) = &bias {
        bias.axis_of(Axis::Out, outputs)?;
    }
    let spread = Spread::of(lowering, &image, &kernel)?;
    let (strides, filters) = filters(lowering, &weight, groups, x)?;
    let output = lowering.output(image.shape(outputs, spread.window.output), x.numbers)?;
    let bias = bias.map(|bias| bias.operand);
    if let Some(phases) = spread.phases(&image) {
        let columns = elements(&[groups, weight.axis(Axis::Out)?.len, image.channels / groups])?;
        let product = Product { image: &image, x, groups, outputs, filters, strides, columns, bias };
        return phases.iter().try_for_each(|phase| product.phase(lowering, phase, &spread, output));
    }
    let spaced = spread.insert_zeros(lowering, &image, x)?;
    let mut operands = vec![spaced, filters];
    operands.extend(bias);
    let Image { batch, channels: inputs, .. } = image;
    let Spread { window, .. } = spread;
    let kernel = Conv { batch, groups, inputs, outputs, window, weight: strides, bias: bias.is_some() };
    lowering.call(Kernel::Conv(kernel), operands, output);
    Ok(())
}

/// Most phases, each of which takes three kernels.
const MOST_PHASES: usize = 64;

/// The outputs of one phase on one axis.
#[derive(Clone, Copy)]
struct Phase {
    /// The first output.
    first: usize,
    outputs: usize,
    /// The first tap that meets a place of the image.
    tap: usize,
    taps: usize,
    /// Places of the image before the first one that the first output's first tap meets.
    skipped: usize,
    /// Places before the image's first that it meets.
    before: usize,
}

/// What the convolutions of all phases share.
struct Product<'a> {
    image: &'a Image,
    x: &'a Info,
    groups: usize,
    outputs: usize,
    /// The taps in reverse order, each with its `columns` numbers, and their strides.
    filters: Operand,
    strides: [usize; 5],
    columns: usize,
    bias: Option<Operand>,
}

impl Product<'_> {
    /// Convolves the image with the taps of a phase, and copies the result to the phase's places.
    fn phase(
        &self,
        lowering: &mut Lowering,
        phase: &[Phase; 3],
        spread: &Spread,
        output: Operand,
    ) -> Result<()> {
        let Image { batch, channels, sides, .. } = *self.image;
        let (kernel, lens) = (phase.map(|axis| axis.taps), phase.map(|axis| axis.outputs));
        let [_, inner, of_taps @ ..] = self.strides;
        let steps: [usize; 3] = std::array::from_fn(|axis| of_taps[axis] * spread.step[axis]);
        let taps = [&kernel[..], &[self.columns]].concat();
        let filters = lowering.temporary(taps.clone(), self.x.numbers)?;
        let from = View {
            offset: offset(&of_taps, &phase.map(|axis| axis.tap)),
            strides: [&steps[..], &[1]].concat(),
        };
        let to = View { offset: 0, strides: row_major(&taps) };
        copy(lowering, &taps, (self.filters, from), (filters, to))?;
        let strides = row_major(&taps);
        let weight = [self.strides[0], inner, strides[0], strides[1], strides[2]];

        let left: [usize; 3] = std::array::from_fn(|axis| sides[axis] - phase[axis].skipped);
        let images = elements(&[batch, channels])?;
        let mut x = Operand::Input(0);
        if left != sides {
            let (all, part) = ([&[images], &sides[..]].concat(), [&[images], &left[..]].concat());
            let own = row_major(&all);
            x = lowering.temporary(part.clone(), self.x.numbers)?;
            let from = View { offset: offset(&own[1..], &phase.map(|axis| axis.skipped)), strides: own };
            let to = View { offset: 0, strides: row_major(&part) };
            copy(lowering, &part, (Operand::Input(0), from), (x, to))?;
        }
        let planes = elements(&[batch, self.outputs])?;
        let made = [&[planes], &lens[..]].concat();
        let sums = lowering.temporary(made.clone(), self.x.numbers)?;
        let (stride, dilation) = ([1; 3], spread.window.dilation);
        let before = phase.map(|axis| axis.before);
        let window = Window { input: left, output: lens, kernel, stride, dilation, before };
        let (groups, inputs, outputs) = (self.groups, channels, self.outputs);
        let conv = Conv { batch, groups, inputs, outputs, window, weight, bias: self.bias.is_some() };
        let operands = [x, filters].into_iter().chain(self.bias).collect::<Vec<_>>();
        lowering.call(Kernel::Conv(conv), operands, sums);

        let places = row_major(&[&[planes], &spread.window.output[..]].concat());
        let steps = places.iter().zip([1].iter().chain(&spread.step)).map(|(stride, step)| stride * step);
        let to =
            View { offset: offset(&places[1..], &phase.map(|axis| axis.first)), strides: steps.collect() };
        let from = View { offset: 0, strides: row_major(&made) };
        copy(lowering, &made, (sums, from), (output, to))
    }
}

/// The position of an index.
fn offset(strides: &[usize], index: &[usize; 3]) -> usize {
    strides.iter().zip(index).map(|(stride, i)| stride * i).sum()
}

/// Copies the weight with its taps in reverse order, and returns its strides: output channel, input channel within the
/// group, kernel plane, row, column.
fn filters(
    lowering: &mut Lowering,
    weight: &Weight,
    groups: usize,
    x: &Info,
) -> Result<([usize; 5], Operand)> {
    let (input, out) = (weight.axis(Axis::In)?, weight.axis(Axis::Out)?);
    let kernel = kernel_axes(weight);
    let [z, y, k] = kernel.map(|axis| axis.len);
    let inside = input.len / groups;
    let shape = [z, y, k, groups, out.len, inside];
    let [from_z, from_y, from_x] = kernel.map(|axis| axis.stride);
    let strides = [from_z, from_y, from_x, inside * input.stride, out.stride, input.stride];
    let taps = elements(&[z, y, k])?;
    let columns = elements(&[groups, out.len, inside])?;
    let forwards = lowering.temporary(vec![taps, columns], x.numbers)?;
    permuted(lowering, weight.operand, &shape, &strides, forwards)?;
    let backwards = lowering.temporary(vec![taps, columns], x.numbers)?;
    let last = i64::try_from(taps).unwrap_or(i64::MAX) - 1;
    let indices = lowering.load(Load::Range { first: last, step: -1, len: taps });
    let reverse = Gather { rows: taps, columns, table: taps, strides: [columns, 1] };
    lowering.call(Kernel::Gather(reverse), [forwards, indices], backwards);
    Ok(([inside, 1, y * k * columns, k * columns, columns], backwards))
}

/// How the places of an image are spread, and the window over them.
struct Spread {
    /// Steps between the places.
    step: [usize; 3],
    /// Places that are left out on each axis, at its begin.
    skipped: [usize; 3],
    /// Places that are kept.
    kept: [usize; 3],
    /// Zeros before the first place that is kept.
    first: [usize; 3],
    /// The window over the places and the zeros.
    window: Window,
}

impl Spread {
    /// ONNX's formulas: `output = stride·(input − 1) + output_padding + reach − pads`.
    fn of(lowering: &Lowering, image: &Image, kernel: &[usize]) -> Result<Self> {
        let dimensions = image.dimensions;
        let each = |name, least, other| {
            let stated = lowering.lengths(name, dimensions, least)?;
            Ok::<_, Error>(image.each(&stated.unwrap_or_default(), other))
        };
        let (step, dilation) = (each("strides", 1, 1)?, each("dilations", 1, 1)?);
        let more = each("output_padding", 0, 0)?;
        let kernel = image.each(kernel, 1);
        let pads = paddings(lowering, image, [step, dilation, more, kernel])?;
        let (mut output, mut before, mut input) = ([0; 3], [0; 3], [0; 3]);
        let (mut skipped, mut kept, mut first) = ([0; 3], [0; 3], [0; 3]);
        for axis in 0..3 {
            let (begin, len) = pads[axis];
            output[axis] = len;
            let reach = (kernel[axis] - 1) * dilation[axis];
            // The window's first place is `begin − reach` of the spread image; what is before it is left out.
            let cut = begin.saturating_sub(reach);
            skipped[axis] = cut.div_ceil(step[axis]).min(image.sides[axis]);
            first[axis] = (skipped[axis] * step[axis]).saturating_sub(cut);
            before[axis] = reach.saturating_sub(begin);
            // The window ends there; what is behind it is left out, too.
            let end = (len + reach).saturating_sub(before[axis]);
            let places = end.saturating_sub(first[axis]).div_ceil(step[axis]);
            kept[axis] = places.min(image.sides[axis] - skipped[axis]);
            input[axis] = match kept[axis] {
                0 => end.min(1),
                kept => first[axis] + (kept - 1) * step[axis] + 1,
            };
        }
        let window = Window { input, output, kernel, stride: [1; 3], dilation, before };
        Ok(Spread { step, skipped, kept, first, window })
    }

    /// Returns the phases of all axes; `None` if zeros are inserted instead: for steps of 1, if there are none, and
    /// for dilated or short kernels.
    fn phases(&self, image: &Image) -> Option<Vec<[Phase; 3]>> {
        let Window { kernel, dilation, output, before, .. } = &self.window;
        let is_plain =
            |axis: usize| self.step[axis] == 1 || dilation[axis] == 1 && kernel[axis] >= self.step[axis];
        let count = self.step.iter().try_fold(1usize, |count, step| count.checked_mul(*step));
        let is_few = count.is_some_and(|count| (2..=MOST_PHASES).contains(&count));
        if !is_few || !(0..3).all(is_plain) || output.contains(&0) {
            return None;
        }
        let of = |axis: usize, first: usize| {
            let step = self.step[axis];
            // The first output meets the place that is here, counted from the first that is kept.
            let lead = before[axis] + self.first[axis];
            let tap = (lead + step - first % step) % step;
            // Of the image, in steps: negative where the first tap meets a place before it.
            let place = (first + tap + self.skipped[axis] * step).checked_sub(lead).map(|place| place / step);
            let before = lead.saturating_sub(first + tap + self.skipped[axis] * step) / step;
            Phase {
                first,
                outputs: (output[axis] - first).div_ceil(step),
                tap,
                taps: (kernel[axis] - tap).div_ceil(step),
                skipped: place.unwrap_or(0).min(image.sides[axis]),
                before,
            }
        };
        let [planes, rows, columns] =
            [0, 1, 2].map(|axis| (0..self.step[axis].min(output[axis])).map(move |first| (axis, first)));
        let pairs = planes.flat_map(|plane| rows.clone().map(move |row| (plane, row)));
        let all = pairs.flat_map(|(plane, row)| columns.clone().map(move |column| [plane, row, column]));
        Some(all.map(|phase| phase.map(|(axis, first)| of(axis, first))).collect())
    }

    /// Copies the places that are kept to a value of zeros.
    fn insert_zeros(&self, lowering: &mut Lowering, image: &Image, x: &Info) -> Result<Operand> {
        let images = elements(&[image.batch, image.channels])?;
        let shape = [&[images], &self.window.input[..]].concat();
        let spaced = lowering.temporary(shape.clone(), x.numbers)?;
        let own = row_major(&[&[images], &image.sides[..]].concat());
        let to = row_major(&shape);
        let kept = [&[images], &self.kept[..]].concat();
        if kept.contains(&0) {
            return Ok(spaced);
        }
        let steps: Vec<usize> =
            to.iter().zip([1].iter().chain(&self.step)).map(|(stride, step)| stride * step).collect();
        let from = View { offset: offset(&own[1..], &self.skipped), strides: own };
        let to = View { offset: offset(&to[1..], &self.first), strides: steps };
        copy(lowering, &kept, (Operand::Input(0), from), (spaced, to))?;
        Ok(spaced)
    }
}

/// The padding before the image and the output's length on each axis, from steps, dilations, more outputs and kernel.
fn paddings(
    lowering: &Lowering,
    image: &Image,
    [step, dilation, more, kernel]: [[usize; 3]; 4],
) -> Result<[(usize, usize); 3]> {
    let dimensions = image.dimensions;
    let mode = lowering.node.text("auto_pad")?.unwrap_or("NOTSET");
    if !["NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"].contains(&mode) {
        return Err(no_auto_pad(mode));
    }
    let pads = lowering.lengths("pads", 2 * dimensions, 0)?;
    let wanted = lowering.lengths("output_shape", dimensions, 1)?.map(|shape| image.each(&shape, 1));
    if let Some(pads) = pads.as_ref().filter(|pads| mode != "NOTSET" && pads.iter().any(|pad| *pad != 0)) {
        return Err(Attribute::Ints(signed(pads)).invalid("pads", "none beside auto_pad"));
    }
    let pads = pads.unwrap_or_else(|| vec![0; 2 * dimensions]);
    let (begins, ends) = pads.split_at(dimensions);
    let (begins, ends) = (image.each(begins, 0), image.each(ends, 0));
    let mut found = [(0, 0); 3];
    for axis in 0..3 {
        let places = elements(&[image.sides[axis].saturating_sub(1), step[axis]])?;
        let whole = places + (kernel[axis] - 1) * dilation[axis] + 1 + more[axis];
        let same = mode.starts_with("SAME").then(|| image.sides[axis] * step[axis]);
        found[axis] = match wanted.map(|wanted| wanted[axis]).or(same) {
            Some(len) => {
                let total = whole.saturating_sub(len);
                // The extra element of an odd padding is behind for SAME_UPPER, before otherwise.
                let begin = if mode == "SAME_UPPER" { total / 2 } else { total - total / 2 };
                (begin, len)
            }
            None => {
                let len = whole.checked_sub(begins[axis] + ends[axis]).ok_or_else(|| {
                    let expected = format!("at most {whole} on one axis, the length without padding");
                    Attribute::Ints(signed(&pads)).invalid("pads", expected)
                })?;
                (begins[axis], len)
            }
        };
    }
    Ok(found)
}
