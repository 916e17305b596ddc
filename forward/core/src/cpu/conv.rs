//! Convolutions.

use super::number::{Number, Stored};
use super::parallel;
use super::product::{Job, Lanes, Product, ROWS, Tile, pack};
use crate::kernel::{Conv, Window};
use std::ops::Range;

/// Outputs of a group below which tiles would hold more zeros than sums.
const FEW: usize = 4;

/// The operands of a [`Conv`].
pub(super) struct Operands<'a, T> {
    pub(super) x: &'a [T],
    pub(super) weight: &'a [T],
    pub(super) bias: Option<&'a [T]>,
}

pub(super) fn conv<T, A>(conv: &Conv, from: &Operands<T>, y: &mut [T]) -> Option<()>
where
    T: Stored<A> + Default,
    A: Product,
{
    let is_finite = |weight: &T| weight.widen().mul(A::ZERO) == A::ZERO;
    // Tiles multiply padding, too: a weight that is not finite would make NaN of it.
    match conv.outputs / conv.groups >= FEW && from.weight.iter().all(is_finite) {
        true => A::dispatch(Convolution::new(conv, from, y)),
        false => by_taps(conv, from, y),
    }
}

/// A product of the weight, a row for each output, and a matrix with a column for each place of an image.
struct Convolution<'a, T> {
    conv: &'a Conv,
    window: Window,
    from: &'a Operands<'a, T>,
    y: &'a mut [T],
    /// Distance of each tap of a weight from its first, in the order of the sum.
    taps: Vec<usize>,
}

impl<'a, T> Convolution<'a, T> {
    fn new(conv: &'a Conv, from: &'a Operands<'a, T>, y: &'a mut [T]) -> Self {
        let [_, input, plane, row, column] = conv.weight;
        let [planes, rows, columns] = conv.window.kernel;
        let inputs = 0..conv.inputs / conv.groups;
        let taps = inputs
            .flat_map(|i| (0..planes).map(move |kz| i * input + kz * plane))
            .flat_map(|at| (0..rows).map(move |ky| at + ky * row))
            .flat_map(|at| (0..columns).map(move |kx| at + kx * column));
        Convolution { conv, window: joined(&conv.window), from, y, taps: taps.collect() }
    }
}

/// A window that takes each place alone, as one row of places.
fn joined(window: &Window) -> Window {
    let ones = [1; 3];
    let is_pointwise = window.kernel == ones && window.stride == ones && window.before == [0; 3];
    match is_pointwise && window.input == window.output {
        true => {
            let places = [1, 1, window.places()];
            Window { input: places, output: places, ..window.clone() }
        }
        false => window.clone(),
    }
}

impl<T, A> Job<A> for Convolution<'_, T>
where
    T: Stored<A>,
    A: Product,
{
    fn run<const C: usize>(self) -> Option<()>
    where
        A: Tile<C>,
    {
        let Convolution { conv, window, from, y, taps } = self;
        let weights = pack_weights::<T, A>(conv, from.weight, &taps)?;
        let (places, each) = (window.places(), conv.outputs / conv.groups);
        let work = conv.batch.saturating_mul(conv.outputs).saturating_mul(places).saturating_mul(taps.len());
        let image = Image { conv, window: &window, x: from.x };
        // Whole images if there are enough for all threads: their places fill tiles together.
        let whole =
            conv.batch.is_multiple_of(parallel::most_threads()) || conv.batch > 4 * parallel::most_threads();
        let unit = if whole { conv.outputs } else { 1 };
        parallel::rows(y, unit * places, work, |first, y| {
            let mut columns = vec![[A::ZERO; C]; taps.len()];
            let planes = first * unit..first * unit + y.len() / places;
            for part in parts(conv, &planes) {
                let set = part.group * each.div_ceil(ROWS);
                let biases = from.bias.map(|bias| &bias[part.group * each..][..each]);
                let all = part.images.len() * places;
                for start in (0..all).step_by(C) {
                    let covered = start..all.min(start + C);
                    let segments = segments(&part.images, places, &covered);
                    image.pack(part.group, &segments, &mut columns);
                    for tile in part.outputs.start / ROWS..part.outputs.end.div_ceil(ROWS) {
                        let weights = &weights[(set + tile) * taps.len()..][..taps.len()];
                        let sums = A::tile(weights, &columns, covered.len());
                        let own =
                            (tile * ROWS..).zip(&sums).filter(|(output, _)| part.outputs.contains(output));
                        for (output, sums) in own {
                            let bias = biases.map(|biases| biases[output].widen());
                            for segment in &segments {
                                let plane = segment.image * conv.outputs + part.group * each + output;
                                let y = &mut y[(plane - planes.start) * places..][segment.places.clone()];
                                store(&sums[segment.lane..][..y.len()], bias, y)?;
                            }
                        }
                    }
                }
            }
            Some(())
        })
    }
}

fn store<T: Stored<A>, A: Number>(sums: &[A], bias: Option<A>, y: &mut [T]) -> Option<()> {
    for (y, sum) in y.iter_mut().zip(sums) {
        *y = T::narrow(bias.map_or(*sum, |bias| sum.add(bias)))?;
    }
    Some(())
}

/// Output channels of one group, of some images.
struct Part {
    images: Range<usize>,
    group: usize,
    /// Within the group.
    outputs: Range<usize>,
}

/// Divides planes, counted over all images, into parts: whole images together, or else those of each group.
fn parts(conv: &Conv, planes: &Range<usize>) -> Vec<Part> {
    let each = conv.outputs / conv.groups;
    if planes.start.is_multiple_of(conv.outputs) && planes.end.is_multiple_of(conv.outputs) {
        let images = planes.start / conv.outputs..planes.end / conv.outputs;
        return (0..conv.groups)
            .map(|group| Part { images: images.clone(), group, outputs: 0..each })
            .collect();
    }
    let groups = planes.start / each..planes.end.div_ceil(each);
    let part = |counted: usize| {
        let outputs = planes.start.max(counted * each)..planes.end.min((counted + 1) * each);
        let (image, group) = (counted / conv.groups, counted % conv.groups);
        let outputs = outputs.start - counted * each..outputs.end - counted * each;
        Part { images: image..image + 1, group, outputs }
    };
    groups.map(part).collect()
}

/// Neighboring places of one image, in neighboring lanes of a tile.
struct Segment {
    image: usize,
    lane: usize,
    places: Range<usize>,
}

/// Divides places, counted over some images, where an image ends.
fn segments(images: &Range<usize>, places: usize, covered: &Range<usize>) -> Vec<Segment> {
    let counted = covered.start / places..covered.end.div_ceil(places);
    let segment = |image: usize| {
        let (start, end) = (covered.start.max(image * places), covered.end.min((image + 1) * places));
        let places = start - image * places..end - image * places;
        Segment { image: images.start + image, lane: start - covered.start, places }
    };
    counted.map(segment).collect()
}

/// Packs the weights of each group in tiles of [`ROWS`] outputs.
fn pack_weights<T: Stored<A>, A: Number>(
    conv: &Conv,
    weight: &[T],
    taps: &[usize],
) -> Option<Vec<[A; ROWS]>> {
    let each = conv.outputs / conv.groups;
    let tiles = each.div_ceil(ROWS);
    let mut packed = vec![[A::ZERO; ROWS]; conv.groups * tiles * taps.len()];
    let work = packed.len() * ROWS;
    parallel::rows(&mut packed, taps.len(), work, |first, packed| {
        for (set, packed) in (first..).zip(packed.chunks_exact_mut(taps.len())) {
            let (group, output) = (set / tiles, set % tiles * ROWS);
            let stride = conv.weight[0];
            let first = (group * each + output) * stride;
            pack(packed, weight, &Lanes { first, lane: stride, count: each - output, steps: taps });
        }
        Some(())
    })?;
    Some(packed)
}

/// The images, from which matrices of taps by places are made.
struct Image<'a, T> {
    conv: &'a Conv,
    window: &'a Window,
    x: &'a [T],
}

impl<T> Image<'_, T> {
    /// Fills `columns[tap][lane]` for the places of `segments`.
    fn pack<A: Number, const C: usize>(&self, group: usize, segments: &[Segment], columns: &mut [[A; C]])
    where
        T: Stored<A>,
    {
        let inputs = self.conv.inputs / self.conv.groups;
        let plane = self.window.input.iter().product::<usize>();
        // What a tap covers is the same in every channel.
        let taps: Vec<Vec<Run>> = taps(self.window).map(|tap| self.runs(tap, plane, segments)).collect();
        let stride = self.window.stride[2];
        for (input, columns) in columns.chunks_exact_mut(taps.len().max(1)).enumerate() {
            let x = &self.x[(group * inputs + input) * plane..];
            for (runs, columns) in taps.iter().zip(columns) {
                if runs.iter().map(|run| run.len).sum::<usize>() < C {
                    *columns = [A::ZERO; C];
                }
                for run in runs {
                    let (lanes, x) = (&mut columns[run.lane..][..run.len], &x[run.at..]);
                    // A stride of 1 allows vector instructions.
                    match stride {
                        1 => lanes.iter_mut().zip(&x[..run.len]).for_each(|(lane, x)| *lane = x.widen()),
                        _ => lanes
                            .iter_mut()
                            .zip(x.iter().step_by(stride))
                            .for_each(|(lane, x)| *lane = x.widen()),
                    }
                }
            }
        }
    }

    /// Returns the lanes whose places a tap covers, and which elements of the first channel these are.
    fn runs(&self, [kz, ky, kx]: [usize; 3], plane: usize, segments: &[Segment]) -> Vec<Run> {
        let window = self.window;
        let [_, height, width] = window.output;
        let reach = window.covered(2, kx);
        let mut runs = Vec::new();
        for Segment { image, lane, places } in segments {
            for row in places.start / width..places.end.div_ceil(width) {
                let (start, end) = (places.start.max(row * width), places.end.min((row + 1) * width));
                let columns = reach.start.max(start - row * width)..reach.end.min(end - row * width);
                let line = window.place(0, row / height, kz).zip(window.place(1, row % height, ky));
                let Some((z, y)) = line.filter(|_| !columns.is_empty()) else { continue };
                let Some(x) = window.place(2, columns.start, kx) else { continue };
                runs.push(Run {
                    lane: lane + row * width + columns.start - places.start,
                    at: image * self.conv.inputs * plane + (z * window.input[1] + y) * window.input[2] + x,
                    len: columns.len(),
                });
            }
        }
        runs
    }
}

/// Neighboring lanes that take elements in the steps of the window.
struct Run {
    lane: usize,
    at: usize,
    len: usize,
}

/// The kernel's elements in the order of the sum: plane, row, column.
fn taps(window: &Window) -> impl Iterator<Item = [usize; 3]> {
    let [planes, rows, columns] = window.kernel;
    let lines = (0..planes).flat_map(move |kz| (0..rows).map(move |ky| [kz, ky]));
    lines.flat_map(move |[kz, ky]| (0..columns).map(move |kx| [kz, ky, kx]))
}

/// Computes each plane of the output by itself, and multiplies no padding.
fn by_taps<T: Stored<A>, A: Number>(conv: &Conv, from: &Operands<T>, y: &mut [T]) -> Option<()> {
    let places = conv.window.places();
    let taps = conv.inputs / conv.groups * conv.window.kernel.iter().product::<usize>();
    let work = conv.batch.saturating_mul(conv.outputs).saturating_mul(places).saturating_mul(taps);
    parallel::rows(y, places, work, |first, y| {
        let mut sums = vec![A::ZERO; places];
        for (plane, y) in (first..).zip(y.chunks_exact_mut(places)) {
            let (image, output) = (plane / conv.outputs, plane % conv.outputs);
            sums.fill(A::ZERO);
            convolve(conv, from.x, from.weight, (image, output), &mut sums);
            store(&sums, from.bias.map(|bias| bias[output].widen()), y)?;
        }
        Some(())
    })
}

/// Computes one output channel of one image: the taps of the kernel in order, each on all places at once.
fn convolve<T: Stored<A>, A: Number>(
    conv: &Conv,
    x: &[T],
    weight: &[T],
    (image, output): (usize, usize),
    sums: &mut [A],
) {
    let window = &conv.window;
    let [planes, height, width] = window.input;
    let inputs = conv.inputs / conv.groups;
    let group = output / (conv.outputs / conv.groups);
    let [so, si, sz, sy, sx] = conv.weight;
    let [kernel_planes, kernel_rows, kernel_columns] = window.kernel;
    for input in 0..inputs {
        let image = (image * conv.inputs + group * inputs + input) * planes * height * width;
        for (kz, ky) in (0..kernel_planes).flat_map(|kz| (0..kernel_rows).map(move |ky| (kz, ky))) {
            for kx in 0..kernel_columns {
                let columns = window.covered(2, kx);
                let Some(first) = window.place(2, columns.start, kx).filter(|_| !columns.is_empty()) else {
                    continue;
                };
                let weight = weight[output * so + input * si + kz * sz + ky * sy + kx * sx].widen();
                let rows = window.covered(0, kz).flat_map(|z| window.covered(1, ky).map(move |y| (z, y)));
                for (plane, row) in rows {
                    let Some((pz, py)) = window.place(0, plane, kz).zip(window.place(1, row, ky)) else {
                        continue;
                    };
                    let x = &x[image + (pz * height + py) * width + first..];
                    let row = plane * window.output[1] + row;
                    let sums = &mut sums[row * window.output[2]..][columns.clone()];
                    // A stride of 1 allows vector instructions.
                    if window.stride[2] == 1 {
                        tap(sums, x.iter(), weight);
                    } else {
                        tap(sums, x.iter().step_by(window.stride[2]), weight);
                    }
                }
            }
        }
    }
}

fn tap<'x, T: Stored<A> + 'x, A: Number>(sums: &mut [A], x: impl Iterator<Item = &'x T>, weight: A) {
    for (sum, x) in sums.iter_mut().zip(x) {
        *sum = sum.add(x.widen().mul(weight));
    }
}
