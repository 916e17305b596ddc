//! Convolutions.

use super::number::{Number, Stored};
use super::parallel;
use super::planes::{self, Operands, store};
use super::product::{DEPTH, Job, Lanes, Product, Tile, pack};
use super::vectors::{ROWS, Used};
use crate::kernel::{Conv, Window};
use std::ops::Range;

/// Outputs of a group below which tiles would hold more zeros than sums.
const FEW: usize = 4;

pub(super) fn conv<T, A>(conv: &Conv, from: &Operands<T>, is_fused: bool, y: &mut [T]) -> Option<()>
where
    T: Stored<A> + Default,
    A: Product,
{
    let is_finite = |weight: &T| weight.widen().mul(A::ZERO) == A::ZERO;
    // Of each part all are looked at, which takes vector instructions.
    let are_finite = |part: &[T]| part.iter().fold(true, |all, weight| all & is_finite(weight));
    // Tiles multiply padding, too: a weight that is not finite would make NaN of it.
    match conv.outputs / conv.groups >= FEW && from.weight.chunks(1024).all(are_finite) {
        true => A::dispatch(Convolution::new(conv, from, is_fused, y)),
        false => planes::conv(conv, from, y),
    }
}

/// A product of the weight, a row for each output, and a matrix with a column for each place of an image.
struct Convolution<'a, T> {
    conv: &'a Conv,
    window: Window,
    from: &'a Operands<'a, T>,
    /// [`Used::is_fused`].
    is_fused: bool,
    y: &'a mut [T],
    /// Distance of each tap of a weight from its first, in the order of the sum.
    taps: Vec<usize>,
}

impl<'a, T> Convolution<'a, T> {
    fn new(conv: &'a Conv, from: &'a Operands<'a, T>, is_fused: bool, y: &'a mut [T]) -> Self {
        let [_, input, plane, row, column] = conv.weight;
        let [planes, rows, columns] = conv.window.kernel;
        let inputs = 0..conv.inputs / conv.groups;
        let taps = inputs
            .flat_map(|i| (0..planes).map(move |kz| i * input + kz * plane))
            .flat_map(|at| (0..rows).map(move |ky| at + ky * row))
            .flat_map(|at| (0..columns).map(move |kx| at + kx * column));
        Convolution { conv, window: joined(&conv.window), from, is_fused, y, taps: taps.collect() }
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
        let Convolution { conv, window, from, is_fused, y, taps } = self;
        let weights = pack_weights::<T, A>(conv, from.weight, &taps)?;
        let (places, each) = (window.places(), conv.outputs / conv.groups);
        let work = conv.batch.saturating_mul(conv.outputs).saturating_mul(places).saturating_mul(taps.len());
        let image = Image { conv, window: &window, x: from.x };
        // Whole channels of about `DEPTH` taps at a time.
        let of_channel: usize = window.kernel.iter().product();
        let channels = (DEPTH / of_channel.max(1)).max(1);
        // Whole images if there are enough for all threads: their places fill tiles together.
        let whole =
            conv.batch.is_multiple_of(parallel::most_threads()) || conv.batch > 4 * parallel::most_threads();
        let unit = if whole { conv.outputs } else { 1 };
        parallel::rows(y, unit * places, work, |first, y| {
            let mut columns = vec![[A::ZERO; C]; taps.len().min(channels * of_channel)];
            let mut sums = Vec::new();
            let planes = first * unit..first * unit + y.len() / places;
            for part in parts(conv, &planes) {
                let set = part.group * each.div_ceil(ROWS);
                let biases = from.bias.map(|bias| &bias[part.group * each..][..each]);
                let all = part.images.len() * places;
                for start in (0..all).step_by(C) {
                    let covered = start..all.min(start + C);
                    let segments = segments(&part.images, places, &covered);
                    let runs = image.runs(&segments);
                    let tiles = part.outputs.start / ROWS..part.outputs.end.div_ceil(ROWS);
                    sums.clear();
                    sums.resize(tiles.len(), [[A::ZERO; C]; ROWS]);
                    for at in (0..taps.len()).step_by(columns.len().max(1)) {
                        let columns = &mut columns[..(taps.len() - at).min(channels * of_channel)];
                        image.pack(part.group, at / of_channel, &runs, columns);
                        for (tile, sums) in tiles.clone().zip(&mut sums) {
                            let weights = &weights[(set + tile) * taps.len() + at..][..columns.len()];
                            let used = Used {
                                rows: part.outputs.end - tile * ROWS,
                                columns: covered.len(),
                                is_fused,
                            };
                            A::tile(weights, columns, used, sums);
                        }
                    }
                    for (tile, sums) in tiles.zip(&sums) {
                        let own =
                            (tile * ROWS..).zip(sums).filter(|(output, _)| part.outputs.contains(output));
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
    /// What each tap covers of the places of `segments`: the same in every channel.
    fn runs(&self, segments: &[Segment]) -> Vec<Vec<Run>> {
        let plane = self.window.input.iter().product::<usize>();
        taps(self.window).map(|tap| self.runs_of(tap, plane, segments)).collect()
    }

    /// Fills `columns[tap][lane]` for channels of a group, from channel `first` on.
    fn pack<A: Number, const C: usize>(
        &self,
        group: usize,
        first: usize,
        taps: &[Vec<Run>],
        columns: &mut [[A; C]],
    ) where
        T: Stored<A>,
    {
        let inputs = self.conv.inputs / self.conv.groups;
        let plane = self.window.input.iter().product::<usize>();
        let stride = self.window.stride[2];
        for (input, columns) in (first..).zip(columns.chunks_exact_mut(taps.len().max(1))) {
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
    fn runs_of(&self, [kz, ky, kx]: [usize; 3], plane: usize, segments: &[Segment]) -> Vec<Run> {
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
