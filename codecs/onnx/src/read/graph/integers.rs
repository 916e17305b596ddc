//! Moves the elements of small arrays of integers, as arithmetic on shapes does.

use super::length::Length;
use super::shapes::resolve;

/// The shape that a reshape gives; `None` for one that does not fit.
pub(super) fn reshaped(own: &[u64], wanted: &[i64], copies: bool) -> Option<Vec<u64>> {
    let count = product(own)?;
    let mut shape = Vec::with_capacity(wanted.len());
    let mut open = None;
    for (at, len) in wanted.iter().enumerate() {
        shape.push(match *len {
            -1 => open.replace(at).is_none().then_some(1)?,
            0 if copies => own.get(at).copied()?,
            len => u64::try_from(len).ok()?,
        });
    }
    if let Some(open) = open {
        *shape.get_mut(open)? = count.checked_div(product(&shape)?)?;
    }
    (product(&shape)? == count).then_some(shape)
}

/// An array with its axes in another order: by default, the reverse one.
pub(super) fn transposed(
    ints: &[Length],
    shape: &[u64],
    perm: Option<&[i64]>,
) -> Option<(Vec<Length>, Vec<u64>)> {
    let order: Vec<usize> = match perm {
        Some(perm) => perm.iter().map(|axis| resolve(*axis, shape.len())).collect::<Option<_>>()?,
        None => (0..shape.len()).rev().collect(),
    };
    let lens: Vec<u64> = order.iter().map(|axis| shape.get(*axis).copied()).collect::<Option<_>>()?;
    (product(&lens)? == ints.len() as u64).then_some(())?;
    let own = strides(shape);
    let mut moved = Vec::with_capacity(ints.len());
    for number in 0..ints.len() as u64 {
        let (mut rest, mut place) = (number, 0u64);
        for (len, axis) in lens.iter().zip(&order).rev() {
            place = place.checked_add(rest.checked_rem(*len)?.checked_mul(*own.get(*axis)?)?)?;
            rest /= len;
        }
        moved.push(*ints.get(usize::try_from(place).ok()?)?);
    }
    Some((moved, lens))
}

/// A part of an axis: from a start up to an end, in steps, as ONNX counts them.
pub(super) fn sliced(
    ints: &[Length],
    shape: &[u64],
    at: usize,
    (start, end, step): (i64, i64, i64),
) -> Option<(Vec<Length>, Vec<u64>)> {
    let len = i64::try_from(*shape.get(at)?).ok()?;
    let from_end = |value: i64| if value < 0 { value.saturating_add(len) } else { value };
    // Backwards, an end may lie before the first element.
    let (first, last) = match step {
        1.. => (from_end(start).clamp(0, len), from_end(end).clamp(0, len)),
        ..0 => (from_end(start).clamp(-1, len.checked_sub(1)?), from_end(end).clamp(-1, len)),
        0 => return None,
    };
    let mut picked = Vec::new();
    let mut place = first;
    while (step > 0 && place < last) || (step < 0 && place > last) {
        picked.push(usize::try_from(place).ok()?);
        place = place.checked_add(step)?;
    }
    let inner = usize::try_from(product(shape.get(at + 1..)?)?).ok()?;
    let block = inner.checked_mul(usize::try_from(len).ok()?)?;
    let mut part = Vec::new();
    for outer in ints.chunks(block.max(1)) {
        for place in &picked {
            let first = place.checked_mul(inner)?;
            part.extend_from_slice(outer.get(first..first.checked_add(inner)?)?);
        }
    }
    let mut lens = shape.to_vec();
    *lens.get_mut(at)? = picked.len() as u64;
    Some((part, lens))
}

fn product(shape: &[u64]) -> Option<u64> {
    shape.iter().try_fold(1u64, |product, len| product.checked_mul(*len))
}

fn strides(shape: &[u64]) -> Vec<u64> {
    let mut strides = vec![1u64; shape.len()];
    let mut stride = 1u64;
    for (own, len) in strides.iter_mut().zip(shape).rev() {
        *own = stride;
        stride = stride.saturating_mul(*len);
    }
    strides
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(values: impl IntoIterator<Item = i64>) -> Vec<Length> {
        values.into_iter().map(Length::Known).collect()
    }

    /// The paddings that a program lists last axis first become those of ONNX: begins, then ends.
    #[test]
    fn pairs_that_are_reversed_and_transposed_are_the_pads_of_an_array() {
        let own = numbers([0, 0, 1, 2, 3, 4, 0, 0]);
        let shape = reshaped(&[8], &[-1, 2], true).unwrap();
        let (reversed, shape) = sliced(&own, &shape, 0, (-1, i64::MIN + 1, -1)).unwrap();
        let (turned, shape) = transposed(&reversed, &shape, Some(&[1, 0])).unwrap();
        assert_eq!((turned, shape), (numbers([0, 3, 1, 0, 0, 4, 2, 0]), vec![2, 4]));
    }

    #[test]
    fn a_reshape_that_does_not_fit_is_none() {
        assert_eq!(reshaped(&[6], &[4, -1], true), None);
        assert_eq!(reshaped(&[6], &[-1, -1], true), None);
        assert_eq!(reshaped(&[2, 3], &[0, -1], true), Some(vec![2, 3]));
        assert_eq!(reshaped(&[0], &[0, 5], false), Some(vec![0, 5]));
    }

    #[test]
    fn a_slice_clamps_its_ends() {
        let ints = numbers(0..6);
        assert_eq!(sliced(&ints, &[6], 0, (-2, 99, 1)).unwrap().0, numbers([4, 5]));
        assert_eq!(sliced(&ints, &[2, 3], 1, (2, -9, -2)).unwrap().0, numbers([2, 0, 5, 3]));
        assert_eq!(sliced(&ints, &[6], 0, (4, 2, 1)).unwrap(), (Vec::new(), vec![0]));
        assert_eq!(sliced(&ints, &[6], 0, (0, 6, 0)), None);
        assert_eq!(sliced(&[], &[0], 0, (-1, -9, -1)).unwrap().1, vec![0]);
    }
}
