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
        let weights = pack_weights::<T, A>(conv, from.weight, &taps);
        let (places, each) = (window.places(), conv.outputs / conv.groups);
        let work = conv.batch.saturating_mul(conv.outputs).saturating_mul(places).saturating_mul(taps.len());
        let image = Image { conv, window: &window, x: from.x };
        parallel::rows(y, places, work, |first, y| {
            let mut columns = vec![[A::ZERO; C]; taps.len()];
            let planes = first..first + y.len() / places;
            for part in parts(&planes, each) {
                let (group, outputs) = (part.start / each, part.start % each..part.start % each + part.len());
                let y = &mut y[(part.start - first) * places..][..part.len() * places];
                for from_place in (0..places).step_by(C) {
                    let covered = from_place..places.min(from_place + C);
                    image.pack(group, &covered, &mut columns);
                    for tile in outputs.start / ROWS..outputs.end.div_ceil(ROWS) {
                        let set = group % conv.groups * each.div_ceil(ROWS) + tile;
                        let sums = A::tile(&weights[set * taps.len()..][..taps.len()], &columns);
                        for (output, sums) in (tile * ROWS..).zip(&sums).filter(|(o, _)| outputs.contains(o))
                        {
                            let bias =
                                from.bias.map(|bias| bias[group % conv.groups * each + output].widen());
                            let y = &mut y[(output - outputs.start) * places..][covered.clone()];
                            store(sums, bias, y)?;
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

/// Divides planes where a group of `each` planes ends.
fn parts(planes: &Range<usize>, each: usize) -> impl Iterator<Item = Range<usize>> {
    let (mut start, end) = (planes.start, planes.end);
    std::iter::from_fn(move || {
        let part = start..end.min((start / each + 1) * each);
        start = part.end;
        (!part.is_empty()).then_some(part)
    })
}

/// Packs the weights of each group in tiles of [`ROWS`] outputs.
fn pack_weights<T: Stored<A>, A: Number>(conv: &Conv, weight: &[T], taps: &[usize]) -> Vec<[A; ROWS]> {
    let each = conv.outputs / conv.groups;
    let tiles = each.div_ceil(ROWS);
    let mut packed = vec![[A::ZERO; ROWS]; conv.groups * tiles * taps.len()];
    for (set, packed) in packed.chunks_exact_mut(taps.len().max(1)).enumerate() {
        let (group, output) = (set / tiles, set % tiles * ROWS);
        let stride = conv.weight[0];
        let first = (group * each + output) * stride;
        pack(packed, weight, &Lanes { first, lane: stride, count: each - output, steps: taps });
    }
    packed
}

/// The images, from which matrices of taps by places are made.
struct Image<'a, T> {
    conv: &'a Conv,
    window: &'a Window,
    x: &'a [T],
}

impl<T> Image<'_, T> {
    /// Fills `columns[tap][place]` for the places of `covered`; `group` counts the groups of all images.
    fn pack<A: Number, const C: usize>(&self, group: usize, covered: &Range<usize>, columns: &mut [[A; C]])
    where
        T: Stored<A>,
    {
        let window = self.window;
        let inputs = self.conv.inputs / self.conv.groups;
        let plane = window.input.iter().product::<usize>();
        let [planes, rows, columns_of_kernel] = window.kernel;
        let runs = runs(window, covered);
        let reach: Vec<_> = (0..columns_of_kernel).map(|kx| window.covered(2, kx)).collect();
        let mut columns = columns.iter_mut();
        for input in group * inputs..(group + 1) * inputs {
            let x = &self.x[input * plane..][..plane];
            for (kz, ky) in (0..planes).flat_map(|kz| (0..rows).map(move |ky| (kz, ky))) {
                for ((kx, reach), columns) in reach.iter().enumerate().zip(&mut columns) {
                    *columns = [A::ZERO; C];
                    for run in &runs {
                        run.copy(window, x, [kz, ky, kx], reach, columns);
                    }
                }
            }
        }
    }
}

/// Neighboring output places of one row.
struct Run {
    lane: usize,
    /// Row, counted over all planes.
    row: usize,
    columns: Range<usize>,
}

/// The runs of some output places.
fn runs(window: &Window, covered: &Range<usize>) -> Vec<Run> {
    let width = window.output[2];
    let rows = covered.start / width..covered.end.div_ceil(width);
    rows.map(|row| {
        let start = covered.start.max(row * width);
        let end = covered.end.min((row + 1) * width);
        Run { lane: start - covered.start, row, columns: start - row * width..end - row * width }
    })
    .collect()
}

impl Run {
    /// Copies the elements that a tap covers; `reach` are the columns for which it lies within the image.
    fn copy<T: Stored<A>, A: Number>(
        &self,
        window: &Window,
        x: &[T],
        [kz, ky, kx]: [usize; 3],
        reach: &Range<usize>,
        lanes: &mut [A],
    ) {
        let columns = self.columns.start.max(reach.start)..self.columns.end.min(reach.end);
        if columns.is_empty() {
            return;
        }
        let height = window.output[1];
        let row = window.place(0, self.row / height, kz).zip(window.place(1, self.row % height, ky));
        let Some(((plane, row), column)) = row.zip(window.place(2, columns.start, kx)) else { return };
        let x = &x[(plane * window.input[1] + row) * window.input[2] + column..];
        let lanes = &mut lanes[self.lane + columns.start - self.columns.start..][..columns.len()];
        // A stride of 1 allows vector instructions.
        match window.stride[2] {
            1 => lanes.iter_mut().zip(x).for_each(|(lane, x)| *lane = x.widen()),
            stride => lanes.iter_mut().zip(x.iter().step_by(stride)).for_each(|(lane, x)| *lane = x.widen()),
        }
    }
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
