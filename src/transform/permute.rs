//! Reordering the axes of an array in memory.

/// Writes into `out` the array `source` (row-major, `shape`, elements of `size` bytes) with its axes reordered: axis
/// `k` of the result is axis `order[k]` of the source.
///
/// `source` holds `shape`'s elements, `order` is a permutation of its axes.
pub fn permute(source: &[u8], shape: &[usize], order: &[usize], size: usize, out: &mut Vec<u8>) {
    out.clear();
    out.resize(source.len(), 0);
    if source.is_empty() {
        return;
    }
    let axes = merged(shape, order);
    match size {
        1 => permute_as::<1>(source, &axes, out),
        2 => permute_as::<2>(source, &axes, out),
        4 => permute_as::<4>(source, &axes, out),
        8 => permute_as::<8>(source, &axes, out),
        16 => permute_as::<16>(source, &axes, out),
        _ => {}
    }
}

/// An axis of the result: its length and how far apart its elements lie, in elements.
#[derive(Clone, Copy, Debug, PartialEq)]
struct AxisStride {
    len: usize,
    source: usize,
    target: usize,
}

/// The result's axes, slowest first, with neighbours merged where they are neighbours in the source too.
fn merged(shape: &[usize], order: &[usize]) -> Vec<AxisStride> {
    let mut strides = vec![1; shape.len()];
    for k in (1..shape.len()).rev() {
        strides[k - 1] = strides[k] * shape[k];
    }
    let mut axes: Vec<AxisStride> = Vec::new();
    for axis in order.iter().filter(|axis| shape[**axis] != 1) {
        let (len, source) = (shape[*axis], strides[*axis]);
        match axes.last_mut() {
            Some(last) if last.source == len * source => {
                *last = AxisStride { len: last.len * len, source, target: 0 }
            }
            _ => axes.push(AxisStride { len, source, target: 0 }),
        }
    }
    let mut target = 1;
    for axis in axes.iter_mut().rev() {
        axis.target = target;
        target *= axis.len;
    }
    axes
}

fn permute_as<const N: usize>(source: &[u8], axes: &[AxisStride], out: &mut [u8]) {
    let (source, out) = (source.as_chunks::<N>().0, out.as_chunks_mut::<N>().0);
    let Some((inner, rest)) = axes.split_last() else {
        out.copy_from_slice(source);
        return;
    };
    // The axis along which the source is contiguous, unless the result's innermost is.
    let fast = rest.iter().position(|axis| axis.source == 1);
    let outer: Vec<AxisStride> =
        rest.iter().enumerate().filter(|(k, _)| Some(*k) != fast).map(|(_, axis)| *axis).collect();
    let mut index = vec![0; outer.len()];
    let (mut from, mut to) = (0, 0);
    loop {
        match fast {
            Some(fast) => transpose(source, from, out, to, rest[fast], *inner),
            None => copy_row(source, from, out, to, *inner),
        }
        let mut axis = outer.len();
        loop {
            if axis == 0 {
                return;
            }
            axis -= 1;
            index[axis] += 1;
            from += outer[axis].source;
            to += outer[axis].target;
            if index[axis] < outer[axis].len {
                break;
            }
            from -= outer[axis].source * outer[axis].len;
            to -= outer[axis].target * outer[axis].len;
            index[axis] = 0;
        }
    }
}

fn copy_row<const N: usize>(
    source: &[[u8; N]],
    from: usize,
    out: &mut [[u8; N]],
    to: usize,
    axis: AxisStride,
) {
    if axis.source == 1 {
        out[to..to + axis.len].copy_from_slice(&source[from..from + axis.len]);
    } else {
        let row = out[to..to + axis.len].iter_mut();
        row.zip(source[from..].iter().step_by(axis.source)).for_each(|(out, element)| *out = *element);
    }
}

/// Two axes at once in blocks that fit the cache: along `fast` the source is contiguous, along `inner` the result is.
fn transpose<const N: usize>(
    source: &[[u8; N]],
    from: usize,
    out: &mut [[u8; N]],
    to: usize,
    fast: AxisStride,
    inner: AxisStride,
) {
    const BLOCK: usize = 32;
    for i0 in (0..inner.len).step_by(BLOCK) {
        let width = BLOCK.min(inner.len - i0);
        for f0 in (0..fast.len).step_by(BLOCK) {
            for f in f0..(f0 + BLOCK).min(fast.len) {
                let start = to + f * fast.target + i0;
                let column = source[from + f + i0 * inner.source..].iter().step_by(inner.source);
                out[start..start + width].iter_mut().zip(column).for_each(|(out, element)| *out = *element);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transform::inverse_permutation;
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

    #[test]
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
