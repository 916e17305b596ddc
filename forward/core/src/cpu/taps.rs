//! The taps of a kernel, and the places that they cover.

use super::number::{Number, Stored};
use crate::kernel::{Conv, Window};

/// The taps of a kernel, in the order of the sum: the same for all planes.
pub(super) struct Taps<'a> {
    taps: Vec<Tap>,
    window: &'a Window,
}

/// An element of the kernel.
struct Tap {
    /// Its distance in the weight from the first one of the plane.
    weight: usize,
    /// The places that it covers on each axis.
    reach: [Reach; 3],
}

/// Neighboring places of the output, and the place of the input that is covered at the first one.
#[derive(Clone, Copy)]
struct Reach {
    output: usize,
    len: usize,
    input: usize,
}

impl<'a> Taps<'a> {
    pub(super) fn new(conv: &'a Conv) -> Self {
        let window = &conv.window;
        let [_, _, by_plane, by_row, by_column] = conv.weight;
        let [planes, rows, columns] = window.kernel;
        let lines = (0..planes).flat_map(|kz| (0..rows).map(move |ky| (kz, ky)));
        let all = lines.flat_map(|(kz, ky)| (0..columns).map(move |kx| [kz, ky, kx]));
        let taps = all.filter_map(|[kz, ky, kx]| {
            let weight = kz * by_plane + ky * by_row + kx * by_column;
            let reach = [reach(window, 0, kz)?, reach(window, 1, ky)?, reach(window, 2, kx)?];
            Some(Tap { weight, reach })
        });
        Taps { taps: taps.collect(), window }
    }

    pub(super) fn len(&self) -> usize {
        self.taps.len()
    }

    /// Adds the elements of a plane that each tap covers, times the weight of the tap.
    #[inline(always)]
    pub(super) fn add<T: Stored<A>, A: Number>(&self, sums: &mut [A], x: &[T], weight: &[T]) {
        let Window { input: [_, height, width], output: [_, rows, columns], stride, .. } = *self.window;
        for Tap { weight: at, reach: [planes, lines, run] } in &self.taps {
            let by = weight[*at].widen();
            for (z, y) in (0..planes.len).flat_map(|z| (0..lines.len).map(move |y| (z, y))) {
                let line = (planes.output + z) * rows + lines.output + y;
                let sums = &mut sums[line * columns + run.output..][..run.len];
                let line = (planes.input + z * stride[0]) * height + lines.input + y * stride[1];
                let x = &x[line * width + run.input..];
                // Vector instructions read neighboring elements.
                match stride[2] {
                    1 => {
                        let x = &x[..run.len];
                        for place in 0..run.len {
                            sums[place] = sums[place].add(x[place].widen().mul(by));
                        }
                    }
                    stride => {
                        for (sum, x) in sums.iter_mut().zip(x.iter().step_by(stride.max(1))) {
                            *sum = sum.add(x.widen().mul(by));
                        }
                    }
                }
            }
        }
    }
}

/// What an element of the kernel covers on an axis; `None` for nothing but padding.
fn reach(window: &Window, axis: usize, k: usize) -> Option<Reach> {
    let covered = window.covered(axis, k);
    let input = window.place(axis, covered.start, k).filter(|_| !covered.is_empty())?;
    Some(Reach { output: covered.start, len: covered.len(), input })
}
