//! Shapes that follow from other shapes.

use crate::length::Length;

/// The lengths of a value's axes.
pub type Dims = Vec<Length>;

/// The most axes of a value.
pub const MAX_RANK: usize = 32;

/// Returns the axis that a number states, which counts from the end if it is negative; `None` if there is none.
pub fn resolve(axis: i64, rank: usize) -> Option<usize> {
    let len = i64::try_from(rank).ok()?;
    let axis = if axis < 0 { axis.checked_add(len)? } else { axis };
    usize::try_from(axis).ok().filter(|_| axis < len)
}

/// Returns the axes that numbers state; `None` if one of them does not exist.
pub fn resolve_all(axes: &[i64], rank: usize) -> Option<Vec<usize>> {
    axes.iter().map(|axis| resolve(*axis, rank)).collect()
}

/// Returns the lengths of a shape whose lengths are all known.
pub fn of_sizes(shape: &[u64]) -> Dims {
    shape.iter().map(|len| Length::from(*len)).collect()
}

/// Shows lengths, with `?` for those that are not known.
pub fn show(dims: &[Length]) -> String {
    let shown: Vec<String> =
        dims.iter().map(|len| len.known().map_or("?".to_owned(), |len| len.to_string())).collect();
    format!("[{}]", shown.join(", "))
}

/// Returns the shape of values that are broadcast with each other; `None` if they do not fit.
///
/// A free length is taken to be other than 1, as programs take it.
pub fn broadcast(a: &[Length], b: &[Length]) -> Option<Dims> {
    let rank = a.len().max(b.len());
    let at = |dims: &[Length], axis: usize| {
        let own = (axis + dims.len()).checked_sub(rank);
        own.and_then(|own| dims.get(own).copied()).unwrap_or(Length::Known(1))
    };
    let axis = |axis| match (at(a, axis), at(b, axis)) {
        (Length::Known(1), other) | (other, Length::Known(1)) => Some(other),
        (Length::Known(a), Length::Known(b)) => (a == b).then_some(Length::Known(a)),
        (known @ Length::Known(_), _) | (_, known @ Length::Known(_)) => Some(known),
        (Length::Unknown, other) | (other, _) => Some(other),
    };
    (0..rank).map(axis).collect()
}

/// Returns the shape of any number of values that are broadcast with each other.
pub fn broadcast_all<'a>(shapes: impl IntoIterator<Item = &'a [Length]>) -> Option<Dims> {
    shapes.into_iter().try_fold(Dims::new(), |all, shape| broadcast(&all, shape))
}

/// Returns the first index that a range selects of an axis, and how many; `None` for a step of 0.
///
/// As in ONNX, negative ends count from the end of the axis, and ends beyond the axis stand for its ends: `i64::MAX`
/// and, backwards, `i64::MIN` select all.
pub fn range(len: i64, begin: i64, end: i64, step: i64) -> Option<(i64, i64)> {
    let len = len.max(0);
    let (low, high) = if step > 0 { (0, len) } else { (-1, len - 1) };
    let place = |at: i64| if at < 0 { at.saturating_add(len) } else { at }.clamp(low, high);
    let (first, last) = (place(begin), place(end));
    let span = if step > 0 { last - first } else { first - last };
    let count = span.max(0).unsigned_abs().div_ceil(Some(step.unsigned_abs()).filter(|step| *step > 0)?);
    Some((first, i64::try_from(count).ok()?))
}

/// Returns the length of what a range selects of an axis.
pub fn sliced(len: Length, begin: i64, end: i64, step: i64) -> Length {
    match (len, begin, end, step) {
        (Length::Known(len), ..) => {
            range(len, begin, end, step).map_or(Length::Unknown, |(_, count)| Length::Known(count))
        }
        (free, 0, i64::MAX, 1) | (free, -1, i64::MIN, -1) => free,
        (free, 1.., i64::MAX, 1) => free - begin,
        (free, 0, ..0, 1) => free + end,
        _ => Length::Unknown,
    }
}

/// Returns the shape that is left if some axes become one number each.
pub fn reduced(dims: &[Length], axes: &[usize], keeps: bool) -> Dims {
    let len = |(axis, len): (usize, &Length)| match axes.contains(&axis) {
        false => Some(*len),
        true => keeps.then_some(Length::Known(1)),
    };
    dims.iter().enumerate().filter_map(len).collect()
}

/// Returns the shape with axes of length 1 at these positions of the result.
pub fn unsqueezed(dims: &[Length], axes: &[usize]) -> Dims {
    let mut own = dims.iter().copied();
    let rank = dims.len().saturating_add(axes.len());
    let len = |axis| match axes.contains(&axis) {
        true => Some(Length::Known(1)),
        false => own.next(),
    };
    (0..rank).map_while(len).collect()
}

/// Returns the shape of values that are joined along an axis; `None` if the axis does not exist.
pub fn joined<'a>(axis: usize, mut shapes: impl Iterator<Item = &'a [Length]>) -> Option<Dims> {
    let mut dims = shapes.next()?.to_vec();
    dims.get(axis)?;
    for shape in shapes {
        for (at, (own, other)) in dims.iter_mut().zip(shape).enumerate() {
            match *own {
                _ if at == axis => *own = *own + *other,
                Length::Unknown => *own = *other,
                _ => {}
            }
        }
    }
    Some(dims)
}

/// Returns the shape of products of matrices; `None` for values without matrices, or that do not fit.
pub fn product_of_matrices(a: &[Length], b: &[Length]) -> Option<Dims> {
    let ([outer_a @ .., rows, _], [outer_b @ .., _, columns]) = (a, b) else { return None };
    let mut dims = broadcast(outer_a, outer_b)?;
    dims.extend([*rows, *columns]);
    Some(dims)
}

/// Returns the length of the one axis of a reshaped value that is left open: `others` are the lengths of the others.
///
/// Lengths on both sides cancel, so that one that is free does not make the open one unknown.
pub fn remaining(dims: &[Length], others: &[Length]) -> Length {
    let mut own = dims.to_vec();
    let mut left = Vec::new();
    for len in others {
        match own.iter().position(|own| own.is(*len) && len.known().is_none()) {
            Some(at) => drop(own.remove(at)),
            None => left.push(*len),
        }
    }
    own.iter().product::<Length>().floor_div(left.iter().product())
}

#[cfg(test)]
mod tests {
    use super::*;

    const N: Length = Length::free(0);

    fn known<const COUNT: usize>(lens: [i64; COUNT]) -> Dims {
        lens.map(Length::Known).to_vec()
    }

    #[test]
    fn an_axis_below_zero_counts_from_the_end() {
        assert_eq!((resolve(-1, 3), resolve(2, 3)), (Some(2), Some(2)));
        assert_eq!([resolve(3, 3), resolve(-4, 3), resolve(i64::MIN, 0)], [None; 3]);
        assert_eq!(resolve_all(&[0, -1], 2), Some(vec![0, 1]));
    }

    #[test]
    fn lengths_of_one_take_those_of_the_other_value() {
        assert_eq!(broadcast(&[N, Length::Known(1)], &known([7])), Some(vec![N, Length::Known(7)]));
        assert_eq!(broadcast(&known([2, 3]), &known([2, 4])), None);
        assert_eq!(broadcast(&[N], &known([5])), Some(known([5])));
        assert_eq!(broadcast_all([&known([3])[..], &known([2, 1]), &[]]), Some(known([2, 3])));
    }

    #[test]
    fn a_range_clamps_its_ends_and_counts_from_the_end_below_zero() {
        assert_eq!(range(6, -2, 99, 1), Some((4, 2)));
        assert_eq!(range(6, -1, i64::MIN, -1), Some((5, 6)));
        assert_eq!(range(6, 4, 2, 1), Some((4, 0)));
        assert_eq!(range(3, 2, -9, -2), Some((2, 2)));
        assert_eq!(range(0, -1, -9, -1), Some((-1, 0)));
        assert_eq!(range(6, 0, 6, 0), None);
        assert_eq!(range(i64::MAX, 0, i64::MAX, i64::MAX), Some((0, 1)));
    }

    #[test]
    fn a_slice_of_a_free_axis_is_known_up_to_its_length() {
        assert_eq!(sliced(N, 0, i64::MAX, 1), N);
        assert_eq!(sliced(N, -1, i64::MIN, -1), N);
        assert_eq!(sliced(N, 2, i64::MAX, 1), N - 2);
        assert_eq!(sliced(N, 0, -1, 1), N - 1);
        assert_eq!(sliced(N, 0, 3, 1), Length::Unknown);
        assert_eq!(sliced(Length::Known(5), 1, -1, 2), Length::Known(2));
    }

    #[test]
    fn a_reduction_keeps_its_axes_or_removes_them() {
        let dims = [N, Length::Known(4), Length::Known(5)];
        assert_eq!(reduced(&dims, &[1], true), [N, Length::Known(1), Length::Known(5)]);
        assert_eq!(reduced(&dims, &[1, 2], false), [N]);
    }

    #[test]
    fn new_axes_stand_where_the_result_has_them() {
        assert_eq!(unsqueezed(&known([4, 5]), &[0, 3]), known([1, 4, 5, 1]));
        assert_eq!(unsqueezed(&[], &[0]), known([1]));
    }

    #[test]
    fn joined_values_are_as_long_as_all_together() {
        let (a, b) = ([N, Length::Known(3)], [Length::Unknown, Length::Known(4)]);
        assert_eq!(joined(1, [&a[..], &b].into_iter()), Some(vec![N, Length::Known(7)]));
        assert_eq!(joined(1, [&b[..], &a].into_iter()), Some(vec![N, Length::Known(7)]));
        assert_eq!(joined(2, [&a[..]].into_iter()), None);
    }

    #[test]
    fn matrices_are_multiplied_in_the_last_two_axes() {
        let a = [N, Length::Known(2), Length::Known(3)];
        let product = product_of_matrices(&a, &known([3, 4]));
        assert_eq!(product, Some(vec![N, Length::Known(2), Length::Known(4)]));
        assert_eq!(product_of_matrices(&a, &known([3])), None);
    }

    #[test]
    fn what_remains_of_a_reshape_cancels_free_lengths() {
        let dims = [N, Length::Known(4), Length::Known(6)];
        assert_eq!(remaining(&dims, &[N, Length::Known(3)]), Length::Known(8));
        assert_eq!(remaining(&dims, &known([8])), N * 3);
        assert_eq!(remaining(&dims, &known([0])), Length::Unknown);
    }
}
