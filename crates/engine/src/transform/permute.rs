//! Reordering the axes of an array in memory.

use fearless_simd::prelude::*;
use fearless_simd::{Level, Simd, dispatch, u8x16};

/// Writes into `out` the array `source` (row-major, `shape`, elements of `size` bytes) with its axes reordered: axis
/// `k` of the result is axis `order[k]` of the source.
///
/// `source` holds `shape`'s elements, `order` is a permutation of its axes.
pub fn permute(source: &[u8], shape: &[usize], order: &[usize], size: usize, out: &mut Vec<u8>) {
    let permuted: Vec<usize> = order.iter().map(|axis| shape[*axis]).collect();
    out.resize(source.len(), 0);
    permute_into(source, shape, order, size, out, 0, &strides(&permuted));
}

/// As [`permute`], into a part of a larger array: element 0 goes to element `first` of `out`, and `distances[k]`
/// elements are between neighbors along axis `k` of the result.
pub(crate) fn permute_into(
    source: &[u8],
    shape: &[usize],
    order: &[usize],
    size: usize,
    out: &mut [u8],
    first: usize,
    distances: &[usize],
) {
    if source.is_empty() {
        return;
    }
    let (mut axes, mut first, mut size) = (merged(shape, order, distances), first, size);
    // What stays together is moved as one.
    let together = axes.last().filter(|axis| axis.source == 1 && axis.target == 1).map_or(1, |axis| axis.len);
    let divides = |axis: &AxisStride| axis.target.is_multiple_of(together);
    let outer = axes.len().saturating_sub(1);
    if is_element(size * together) && axes[..outer].iter().all(divides) && first.is_multiple_of(together) {
        if together > 1 {
            axes.pop();
        }
        for axis in &mut axes {
            (axis.source, axis.target) = (axis.source / together, axis.target / together);
        }
        (size, first) = (size * together, first / together);
    }
    let out = &mut out[first * size..];
    match size {
        1 => permute_as::<1, 32, 0>(source, &axes, out),
        2 => permute_as::<2, 32, 8>(source, &axes, out),
        4 => permute_as::<4, 16, 4>(source, &axes, out),
        8 => permute_as::<8, 8, 0>(source, &axes, out),
        16 => permute_as::<16, 4, 0>(source, &axes, out),
        _ => {}
    }
}

fn is_element(bytes: usize) -> bool {
    [1, 2, 4, 8, 16].contains(&bytes)
}

/// An axis of the result: its length and how far apart its elements are, in elements.
#[derive(Clone, Copy, Debug, PartialEq)]
struct AxisStride {
    len: usize,
    source: usize,
    target: usize,
}

/// How far apart neighbors are along each axis of a row-major array, in elements.
pub(crate) fn strides(shape: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; shape.len()];
    for k in (1..shape.len()).rev() {
        strides[k - 1] = strides[k] * shape[k];
    }
    strides
}

/// The result's axes, slowest first, with neighbors merged where they are neighbors on both sides.
fn merged(shape: &[usize], order: &[usize], distances: &[usize]) -> Vec<AxisStride> {
    let strides = strides(shape);
    let mut axes: Vec<AxisStride> = Vec::new();
    for (axis, target) in order.iter().zip(distances).filter(|(axis, _)| shape[**axis] != 1) {
        let next = AxisStride { len: shape[*axis], source: strides[*axis], target: *target };
        match axes.last_mut() {
            Some(last) if last.source == next.len * next.source && last.target == next.len * next.target => {
                *last = AxisStride { len: last.len * next.len, ..next }
            }
            _ => axes.push(next),
        }
    }
    axes
}

/// Blocks have `B` elements on a side: a cache line or half of one, so that a line is read and written once while it is
/// in the cache.
fn permute_as<const N: usize, const B: usize, const K: usize>(
    source: &[u8],
    axes: &[AxisStride],
    out: &mut [u8],
) {
    let (source, out) = (source.as_chunks::<N>().0, out.as_chunks_mut::<N>().0);
    match axes.split_last() {
        None => out[..1].copy_from_slice(source),
        Some((run, outer)) if run.source == 1 && run.target == 1 => {
            Steps::new(outer).for_each(|[from, to]| {
                out[to..to + run.len].copy_from_slice(&source[from..from + run.len]);
            })
        }
        Some(_) => {
            let Core { across, along, outer } = Core::new(axes, B);
            Steps::new(&outer).for_each(|[from, to]| {
                transpose::<N, B, K>(&source[from..], &mut out[to..], &across, &along);
            });
        }
    }
}

/// The axes, by what happens on them.
struct Core {
    /// Those along which the source is contiguous.
    across: Vec<AxisStride>,
    /// Those along which the result is contiguous.
    along: Vec<AxisStride>,
    outer: Vec<AxisStride>,
}

impl Core {
    /// Gives each side its fastest axes until they have `least` elements, or are needed by the other.
    fn new(axes: &[AxisStride], least: usize) -> Self {
        let mut outer = axes.to_vec();
        let (mut across, mut along) = (Vec::new(), Vec::new());
        let elements = |axes: &[AxisStride]| axes.iter().map(|axis| axis.len).product::<usize>();
        loop {
            let (source, target) = (elements(&across), elements(&along));
            // The axis that goes on where the side's own ones end.
            let next = outer.iter().position(|axis| match source <= target {
                true => axis.source == source,
                false => axis.target == target,
            });
            match next {
                Some(next) if source.min(target) < least => match source <= target {
                    true => across.insert(0, outer.remove(next)),
                    false => along.insert(0, outer.remove(next)),
                },
                _ => return Core { across, along, outer },
            }
        }
    }
}

/// Positions in the source and in the result, along some axes, the last one fastest.
struct Steps<'a> {
    axes: &'a [AxisStride],
    index: Vec<usize>,
    position: Option<[usize; 2]>,
}

impl<'a> Steps<'a> {
    fn new(axes: &'a [AxisStride]) -> Self {
        Steps { axes, index: vec![0; axes.len()], position: Some([0, 0]) }
    }

    fn advance(&mut self, [mut from, mut to]: [usize; 2]) -> Option<[usize; 2]> {
        for (index, axis) in self.index.iter_mut().zip(self.axes).rev() {
            *index += 1;
            (from, to) = (from + axis.source, to + axis.target);
            if *index < axis.len {
                return Some([from, to]);
            }
            (from, to) = (from - axis.source * axis.len, to - axis.target * axis.len);
            *index = 0;
        }
        None
    }
}

impl Iterator for Steps<'_> {
    type Item = [usize; 2];

    fn next(&mut self) -> Option<[usize; 2]> {
        let position = self.position?;
        self.position = self.advance(position);
        Some(position)
    }
}

/// Elements on a side of what is done at once: few enough pages for the processor to know them all.
const SIDE: usize = 128;

/// Reorders all of `across` and `along`.
fn transpose<const N: usize, const B: usize, const K: usize>(
    source: &[[u8; N]],
    out: &mut [[u8; N]],
    across: &[AxisStride],
    along: &[AxisStride],
) {
    let (mut rows, mut columns) = ([0; SIDE], [0; SIDE]);
    let mut down = Steps::new(along).map(|[from, _]| from);
    let mut first_row = 0;
    loop {
        let height = fill(&mut rows, &mut down);
        let mut right = Steps::new(across).map(|[_, to]| to);
        let mut first_column = 0;
        loop {
            let width = fill(&mut columns, &mut right);
            if width == 0 {
                break;
            }
            let (source, out) = (&source[first_column..], &mut out[first_row..]);
            square::<N, B, K>(source, out, &rows[..height], &columns[..width]);
            first_column += width;
        }
        if height < SIDE {
            return;
        }
        first_row += height;
    }
}

fn fill(places: &mut [usize], from: &mut impl Iterator<Item = usize>) -> usize {
    places.iter_mut().zip(from).map(|(place, next)| *place = next).count()
}

/// Element `c` of the source's row at `rows[r]` becomes element `r` of the result's row at `columns[c]`.
fn square<const N: usize, const B: usize, const K: usize>(
    source: &[[u8; N]],
    out: &mut [[u8; N]],
    rows: &[usize],
    columns: &[usize],
) {
    dispatch!(Level::new(), simd => square_with::<_, N, B, K>(simd, source, out, rows, columns));
}

#[inline(always)]
fn square_with<S: Simd, const N: usize, const B: usize, const K: usize>(
    simd: S,
    source: &[[u8; N]],
    out: &mut [[u8; N]],
    rows: &[usize],
    columns: &[usize],
) {
    let (row_blocks, last_rows) = rows.as_chunks::<B>();
    let (column_blocks, last_columns) = columns.as_chunks::<B>();
    // Made once: it is written from end to end for every block.
    let mut turned = [[[0; N]; B]; B];
    for (c, columns) in column_blocks.iter().enumerate() {
        for (r, rows) in row_blocks.iter().enumerate() {
            let (source, out) = (&source[c * B..], &mut out[r * B..]);
            block::<S, N, B, K>(simd, source, out, rows, columns, &mut turned);
        }
    }
    let (whole_rows, whole_columns) = (row_blocks.len() * B, column_blocks.len() * B);
    singly(&source[whole_columns..], out, &rows[..whole_rows], last_columns);
    singly(source, &mut out[whole_rows..], last_rows, columns);
}

#[inline(always)]
fn block<S: Simd, const N: usize, const B: usize, const K: usize>(
    simd: S,
    source: &[[u8; N]],
    out: &mut [[u8; N]],
    rows: &[usize; B],
    columns: &[usize; B],
    turned: &mut [[[u8; N]; B]; B],
) {
    if K == 0 {
        for (r, row) in rows.iter().enumerate() {
            let row = &source[*row..*row + B];
            turned.iter_mut().zip(row).for_each(|(turned, element)| turned[r] = *element);
        }
    } else {
        for r in (0..B).step_by(K) {
            for c in (0..B).step_by(K) {
                let vectors = std::array::from_fn(|k| {
                    let row = rows[r + k] + c;
                    u8x16::from_slice(simd, source[row..row + K].as_flattened())
                });
                for (turned, vector) in turned[c..c + K].iter_mut().zip(turn::<S, N, K>(simd, vectors)) {
                    vector.store_slice(turned[r..r + K].as_flattened_mut());
                }
            }
        }
    }
    for (turned, column) in turned.iter().zip(columns) {
        out[*column..*column + B].copy_from_slice(turned);
    }
}

/// Transposes `K` vectors of `K` elements of `N` bytes: every round doubles the length of what is together.
#[inline(always)]
fn turn<S: Simd, const N: usize, const K: usize>(simd: S, mut vectors: [u8x16<S>; K]) -> [u8x16<S>; K] {
    for _ in 0..K.ilog2() {
        vectors = std::array::from_fn(|k| {
            let (a, b) = (vectors[k / 2], vectors[k / 2 + K / 2]);
            match (N, k % 2) {
                (1, 0) => simd.zip_low_u8x16(a, b),
                (1, _) => simd.zip_high_u8x16(a, b),
                (2, 0) => simd.zip_low_u16x8(a.bitcast(), b.bitcast()).bitcast(),
                (2, _) => simd.zip_high_u16x8(a.bitcast(), b.bitcast()).bitcast(),
                (_, 0) => simd.zip_low_u32x4(a.bitcast(), b.bitcast()).bitcast(),
                (_, _) => simd.zip_high_u32x4(a.bitcast(), b.bitcast()).bitcast(),
            }
        });
    }
    vectors
}

#[inline(always)]
fn singly<const N: usize>(source: &[[u8; N]], out: &mut [[u8; N]], rows: &[usize], columns: &[usize]) {
    for (c, column) in columns.iter().enumerate() {
        let out = &mut out[*column..*column + rows.len()];
        out.iter_mut().zip(rows).for_each(|(out, row)| *out = source[*row + c]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::inverse_permutation;
    use proptest::prelude::*;

    fn naive(source: &[u8], shape: &[usize], order: &[usize], size: usize) -> Vec<u8> {
        let permuted: Vec<usize> = order.iter().map(|axis| shape[*axis]).collect();
        let mut out = Vec::new();
        for k in 0..source.len() / size {
            let (mut rest, mut index) = (k, vec![0; shape.len()]);
            for axis in (0..shape.len()).rev() {
                index[order[axis]] = rest % permuted[axis];
                rest /= permuted[axis];
            }
            let flat = index.iter().zip(shape).fold(0, |flat, (i, len)| flat * len + i);
            out.extend_from_slice(&source[flat * size..][..size]);
        }
        out
    }

    fn cases() -> impl Strategy<Value = (Vec<usize>, Vec<usize>, usize)> {
        (0usize..6)
            .prop_flat_map(|rank| {
                let order: Vec<usize> = (0..rank).collect();
                (prop::collection::vec(0usize..8, rank), Just(order).prop_shuffle(), 0u32..5)
            })
            .prop_map(|(shape, order, log)| (shape, order, 1 << log))
    }

    proptest! {
        #[test]
        fn every_permutation_equals_the_naive_loops_and_is_undone_by_its_inverse((shape, order, size) in cases()) {
            let elements: usize = shape.iter().product();
            let source: Vec<u8> = (0..elements * size).map(|k| (k % 251) as u8).collect();
            let mut out = Vec::new();
            permute(&source, &shape, &order, size, &mut out);
            prop_assert_eq!(&out, &naive(&source, &shape, &order, size));
            let permuted: Vec<usize> = order.iter().map(|axis| shape[*axis]).collect();
            let mut back = Vec::new();
            permute(&out, &permuted, &inverse_permutation(&order), size, &mut back);
            prop_assert_eq!(back, source);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 48 }))]
        #[test]
        #[cfg_attr(miri, ignore = "up to a hundred thousand elements in each case")]
        fn axes_longer_than_blocks_and_squares_are_right_at_their_edges(
            (a, b, c) in (1usize..160, 1usize..160, 1usize..5), order in Just(vec![0, 1, 2]).prop_shuffle(), log in 0u32..5,
            turns in 0usize..3,
        ) {
            let mut shape = vec![a, b, c];
            shape.rotate_left(turns);
            let size = 1 << log;
            let source: Vec<u8> = (0..shape.iter().product::<usize>() * size).map(|k| (k % 251) as u8).collect();
            let mut out = Vec::new();
            permute(&source, &shape, &order, size, &mut out);
            prop_assert!(out == naive(&source, &shape, &order, size));
        }
    }

    proptest! {
        #[test]
        fn parts_put_into_a_larger_array_make_the_whole((shape, order, size) in cases(), cut in 0usize..8, axis in 0usize..5) {
            prop_assume!(axis < shape.len() && cut <= shape[axis]);
            let source: Vec<u8> = (0..shape.iter().product::<usize>() * size).map(|k| (k % 251) as u8).collect();
            let permuted: Vec<usize> = order.iter().map(|axis| shape[*axis]).collect();
            let distances = strides(&permuted);
            let mut out = vec![0; source.len()];
            for (start, len) in [(0, cut), (cut, shape[axis] - cut)] {
                let mut part = shape.clone();
                part[axis] = len;
                let inner = strides(&shape)[axis] * size;
                let rows = source.chunks_exact((shape[axis] * inner).max(1));
                let taken: Vec<u8> = rows.flat_map(|row| &row[start * inner..(start + len) * inner]).copied().collect();
                let place = order.iter().position(|other| *other == axis).unwrap();
                permute_into(&taken, &part, &order, size, &mut out, start * distances[place], &distances);
            }
            prop_assert_eq!(out, naive(&source, &shape, &order, size));
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "tens of thousands of elements")]
    fn blocks_larger_than_the_block_size_are_right_at_their_edges() {
        let shape = [70, 3, 65];
        let source: Vec<u8> = (0..70 * 3 * 65 * 4).map(|k| (k % 253) as u8).collect();
        for order in [[2, 1, 0], [1, 2, 0], [2, 0, 1], [0, 2, 1]] {
            let mut out = Vec::new();
            permute(&source, &shape, &order, 4, &mut out);
            assert_eq!(out, naive(&source, &shape, &order, 4), "{order:?}");
        }
    }
}
