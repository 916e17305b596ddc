//! The boxes in which a tensor is moved where its order changes.

use ckpt_api::{Region, Shape};

/// A grid of boxes ("tiles") that covers a box. It is walked, not held in memory.
#[derive(Clone, Debug)]
pub(crate) struct Tiles {
    wanted: Region,
    /// Axes in the order in which the grid is walked, slowest first.
    order: Vec<usize>,
    /// Lengths of a tile, in logical axis order; those at the far edges are shorter.
    lens: Vec<u64>,
    /// Elements of one.
    limit: u64,
    next: u64,
    count: u64,
}

impl Tiles {
    /// Tiles of at most `limit` elements (but at least one) that follow each other in the order in which a result
    /// stores its axes, each of them one run of it: axes before one are taken an index at a time, that one in runs,
    /// those after it whole.
    pub(crate) fn in_order(wanted: Region, order: &[usize], limit: u64) -> Self {
        let (mut lens, limit) = (vec![1; order.len()], limit.max(1));
        grow(&mut lens, &wanted.shape, order, limit);
        Self::new(wanted, order, limit, lens)
    }

    /// Tiles of at most `limit` elements (but at least one) whose runs are long both in `source` and in `target`, the
    /// orders in which the two sides store the axes. Walked in the source's order.
    pub(crate) fn in_place(wanted: Region, source: &[usize], target: &[usize], limit: u64) -> Self {
        let limit = limit.max(1);
        let lens = both_ways(&wanted.shape, source, target, limit);
        Self::new(wanted, source, limit, lens)
    }

    /// As [`Tiles::in_place`], of a source that can only be read from its beginning: few passes over it are worth short
    /// runs of the target. Walked so that a pass never steps back.
    pub(crate) fn in_passes(wanted: Region, source: &[usize], target: &[usize], limit: u64) -> Self {
        let limit = limit.max(1);
        let lens = few_passes(&wanted.shape, source, target, limit);
        let (mut order, rest) = split_at_pass(&lens, source);
        order.extend(rest);
        Self::new(wanted, &order, limit, lens)
    }

    /// Tiles of at most `limit` elements (but at least one) for moving a box within memory: runs of the target fill
    /// cache lines, those of the source go on as long as the rest allows.
    pub(crate) fn strips(wanted: Region, source: &[usize], target: &[usize], limit: u64) -> Self {
        const LINES: u64 = 32;
        let (mut lens, limit) = (vec![1; source.len()], limit.max(1));
        grow(&mut lens, &wanted.shape, target, limit.min(LINES));
        grow(&mut lens, &wanted.shape, source, limit);
        Self::new(wanted, source, limit, lens)
    }

    fn new(wanted: Region, order: &[usize], limit: u64, lens: Vec<u64>) -> Self {
        let counts = wanted.shape.iter().zip(&lens).map(|(dim, len)| dim.div_ceil(*len));
        // No more than there are elements.
        let count = counts.product();
        Tiles { wanted, order: order.to_vec(), lens, limit, next: 0, count }
    }

    /// Whether one tile is everything.
    pub(crate) fn is_one(&self) -> bool {
        self.count == 1
    }

    /// How many elements a tile may have.
    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    /// What the tiles cover.
    pub(crate) fn wanted(&self) -> &Region {
        &self.wanted
    }
}

impl Iterator for Tiles {
    type Item = Region;

    fn next(&mut self) -> Option<Region> {
        if self.next == self.count {
            return None;
        }
        let Region { mut start, shape } = self.wanted.clone();
        let (mut lens, mut rest) = (shape.to_vec(), self.next);
        for axis in self.order.iter().rev() {
            let count = shape[*axis].div_ceil(self.lens[*axis]);
            let first = rest % count * self.lens[*axis];
            start[*axis] += first;
            lens[*axis] = self.lens[*axis].min(shape[*axis] - first);
            rest /= count;
        }
        self.next += 1;
        // A part of a shape that fits fits too.
        Some(Region { start, shape: Shape::new(lens).unwrap_or_default() })
    }
}

/// Lengthens a tile along `order`'s axes, the fastest first, to at most `limit` elements.
fn grow(lens: &mut [u64], shape: &[u64], order: &[usize], limit: u64) {
    let mut elements: u64 = lens.iter().product();
    for axis in order.iter().rev() {
        let others = elements / lens[*axis];
        let len = shape[*axis].min(limit / others).max(lens[*axis]);
        elements = others * len;
        lens[*axis] = len;
        if len < shape[*axis] {
            return;
        }
    }
}

/// The tile whose runs cost least to read and to write.
fn both_ways(shape: &[u64], source: &[usize], target: &[usize], limit: u64) -> Vec<u64> {
    // What a further system call costs, in bytes copied; a write takes a lock, and finds or makes its pages.
    const READ: f64 = 1.0;
    const WRITE: f64 = 6.0;
    cheapest(shape, source, target, limit, |lens| {
        let elements = lens.iter().product::<u64>() as f64;
        let cost = READ / run(lens, shape, source) as f64 + WRITE / run(lens, shape, target) as f64;
        // Of tiles with equal runs, the larger.
        cost + 1e-3 / elements
    })
}

/// As [`both_ways`], where every pass over the source costs as much as the first.
fn few_passes(shape: &[u64], source: &[usize], target: &[usize], limit: u64) -> Vec<u64> {
    // What a write costs, where decompressing an element costs 1.
    const WRITE: f64 = 100.0;
    cheapest(shape, source, target, limit, |lens| {
        let (slowest, _) = split_at_pass(lens, source);
        let passes: f64 = slowest.iter().map(|axis| shape[*axis].div_ceil(lens[*axis]) as f64).product();
        passes + WRITE / run(lens, shape, target) as f64
    })
}

/// The axes along which neighboring tiles are interleaved in the source, so that each of them takes a pass of its own,
/// and those along which they follow each other.
fn split_at_pass(lens: &[u64], source: &[usize]) -> (Vec<usize>, Vec<usize>) {
    let along = source.iter().position(|axis| lens[*axis] > 1).map_or(source.len(), |first| first + 1);
    (source[along..].to_vec(), source[..along].to_vec())
}

/// The tile that costs least, of those that begin with a run of the source of some length and go on with one of the
/// target as long as the rest allows.
fn cheapest(
    shape: &[u64],
    source: &[usize],
    target: &[usize],
    limit: u64,
    cost: impl Fn(&[u64]) -> f64,
) -> Vec<u64> {
    let tile = |first: u64| {
        let mut lens = vec![1; shape.len()];
        grow(&mut lens, shape, source, first);
        grow(&mut lens, shape, target, limit);
        grow(&mut lens, shape, source, limit);
        round(&mut lens, shape);
        (cost(&lens), lens)
    };
    let tiles = (0..=limit.ilog2()).map(|log| tile(1 << log));
    tiles.min_by(|(a, _), (b, _)| a.total_cmp(b)).map(|(_, lens)| lens).unwrap_or_default()
}

/// How many elements of a tile follow each other where axes are stored in `order`.
fn run(lens: &[u64], shape: &[u64], order: &[usize]) -> u64 {
    let mut run = 1;
    for axis in order.iter().rev() {
        run *= lens[*axis];
        if lens[*axis] < shape[*axis] {
            break;
        }
    }
    run
}

/// Shortens parts of axes to multiples of a cache line or a page, so that runs begin where those do.
fn round(lens: &mut [u64], shape: &[u64]) {
    for (len, dim) in lens.iter_mut().zip(shape).filter(|(len, dim)| **len < **dim) {
        let unit = [1024, 64].into_iter().find(|unit| *len >= 2 * unit).unwrap_or(1);
        *len = *len / unit * unit;
        debug_assert!(*len > 0 && *len < *dim);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    fn whole(shape: &[u64]) -> Region {
        Region { start: vec![0; shape.len()], shape: Shape::new(shape).unwrap() }
    }

    #[test]
    fn tiles_are_not_held_in_memory_however_many_they_are() {
        let mut tiles = Tiles::in_order(whole(&[1 << 40, 3]), &[1, 0], 1 << 10);
        assert_eq!(tiles.next().unwrap().shape[..], [1 << 10, 1]);
        assert_eq!(tiles.next().unwrap().start, [1 << 10, 0]);
    }

    #[test]
    fn a_transposed_matrix_is_read_and_written_in_long_runs() {
        let lens = |shape: &[u64], limit| both_ways(shape, &[0, 1], &[1, 0], limit);
        // A column of a vocabulary's embedding would be read 4 bytes at a time.
        assert_eq!(lens(&[50_257, 768], 1 << 20)[1], 768);
        assert_eq!(lens(&[768, 50_257], 1 << 20)[0], 768);
        for limit in [1 << 14, 1 << 20] {
            let [rows, columns] = lens(&[1 << 20, 1 << 20], limit)[..] else { panic!() };
            assert_eq!(rows * columns, limit);
            assert!(rows >= columns && rows <= 8 * columns, "{rows} x {columns}");
        }
        assert_eq!(lens(&[64, 64], 1 << 20), [64, 64]);
    }

    #[test]
    fn a_stream_is_read_once_unless_that_makes_too_many_writes() {
        let passes = |shape: &[u64], limit| {
            let mut end = 0;
            let tiles = Tiles::in_passes(whole(shape), &[0, 1], &[1, 0], limit);
            let steps_back = tiles.map(|Region { start, shape: lens }| {
                let first = start[0] * shape[1] + start[1];
                let back = first < end;
                end = (start[0] + lens[0] - 1) * shape[1] + start[1] + lens[1];
                usize::from(back)
            });
            1 + steps_back.sum::<usize>()
        };
        assert_eq!(passes(&[8192, 4096], 4 << 20), 1);
        assert_eq!(passes(&[1024, 32_768], 4 << 20), 1);
        // A row at a time would be written in runs of one element.
        assert_eq!(passes(&[8, 4 << 20], 4 << 20), 8);
    }

    proptest! {
        #[test]
        fn every_element_lies_in_exactly_one_tile_of_at_most_the_limit(
            shape in prop::collection::vec(0u64..6, 0..4), limit in 1u64..200, seed: u64,
        ) {
            let axes: Vec<usize> = (0..shape.len()).collect();
            let mut target = axes.clone();
            target.rotate_left(seed as usize % shape.len().max(1));
            let (all, elements) = (whole(&shape), shape.iter().product::<u64>());
            for tiles in [
                Tiles::in_order(all.clone(), &target, limit),
                Tiles::in_place(all.clone(), &axes, &target, limit),
                Tiles::in_passes(all.clone(), &axes, &target, limit),
                Tiles::strips(all.clone(), &axes, &target, limit),
            ] {
                prop_assert_eq!(tiles.is_one() && elements > 0, tiles.clone().count() == 1);
                let mut seen = HashSet::new();
                for tile in tiles {
                    prop_assert!(tile.shape.elements() <= limit);
                    for mut k in 0..tile.shape.elements() {
                        let mut index = tile.start.clone();
                        for axis in (0..index.len()).rev() {
                            index[axis] += k % tile.shape[axis];
                            k /= tile.shape[axis];
                        }
                        prop_assert!(seen.insert(index));
                    }
                }
                prop_assert_eq!(seen.len() as u64, elements);
            }
        }
    }
}
