//! Whether boxes cover a tensor exactly.

use crate::{Error, Region, Result, Shape};
use std::collections::HashMap;

/// Axes along which boxes that are too many to compare may be cut.
const MOST_AXES: usize = 6;

/// Checks that every element of a tensor of this shape is in exactly one of the boxes. Takes time linear in their
/// number.
///
/// ```
/// use ckpt_api::{Region, Shape, check_cover};
/// let shape = Shape::new([2, 3])?;
/// let row = |start| Region { start: vec![start, 0], shape: Shape::new([1u64, 3]).unwrap() };
/// check_cover(&shape, &[&row(0), &row(1)])?;
/// assert!(check_cover(&shape, &[&row(0), &row(0)]).is_err());
/// # Ok::<(), ckpt_api::Error>(())
/// ```
///
/// # Errors
/// [`crate::Kind::Corrupt`] if a box is outside the tensor, if two overlap, or if they leave a gap;
/// [`crate::Kind::Unsupported`] if thousands of them are cut along more than six axes.
pub fn check_cover(shape: &Shape, boxes: &[&Region]) -> Result<()> {
    let mut covered = 0u64;
    for own in boxes {
        if !is_inside(&own.start, &own.shape, shape) {
            return Err(Error::corrupt("a slice lies outside its tensor")
                .found(shown(own))
                .expected(format!("inside {shape}")));
        }
        covered = covered.saturating_add(own.shape.elements());
    }
    if covered != shape.elements() {
        return Err(Error::corrupt("the slices do not cover the tensor exactly")
            .found(format!("{covered} elements in {} slices", boxes.len()))
            .expected(crate::count(shape.elements(), "element")));
    }
    let mut boxes: Vec<&Region> = boxes.iter().copied().filter(|own| own.shape.elements() > 0).collect();
    boxes.sort_by(|a, b| a.start.cmp(&b.start));
    match compare(&boxes) {
        Compared::Apart => Ok(()),
        Compared::Overlap(a, b) => Err(overlap().found(format!("{} and {}", shown(a), shown(b)))),
        Compared::TooMany => cancel(shape, &boxes),
    }
}

/// Whether a box is within a shape.
pub(crate) fn is_inside(start: &[u64], len: &Shape, whole: &Shape) -> bool {
    let fits = |(start, (len, whole)): (&u64, (&u64, &u64))| {
        start.checked_add(*len).is_some_and(|end| end <= *whole)
    };
    start.len() == whole.rank()
        && len.rank() == whole.rank()
        && start.iter().zip(len.iter().zip(whole.iter())).all(fits)
}

/// What comparing boxes by pairs gives.
enum Compared<'a> {
    Apart,
    Overlap(&'a Region, &'a Region),
    /// Boxes that begin alike on the first axis are so many that comparing them takes too long.
    TooMany,
}

/// Compares sorted boxes by pairs: each with those that begin on the first axis before it ends.
fn compare<'a>(boxes: &[&'a Region]) -> Compared<'a> {
    let mut left = boxes.len().saturating_mul(16).saturating_add(4096);
    for (i, a) in boxes.iter().enumerate() {
        let reach = a.start.first().zip(a.shape.first()).map_or(1, |(start, len)| start.saturating_add(*len));
        let later = boxes.get(i + 1..).unwrap_or_default();
        for b in later.iter().take_while(|b| b.start.first().is_none_or(|start| *start < reach)) {
            let Some(rest) = left.checked_sub(1) else { return Compared::TooMany };
            left = rest;
            if overlaps(a, b) {
                return Compared::Overlap(a, b);
            }
        }
    }
    Compared::Apart
}

fn overlaps(a: &Region, b: &Region) -> bool {
    let sides = a.start.iter().zip(a.shape.iter()).zip(b.start.iter().zip(b.shape.iter()));
    sides
        .into_iter()
        .all(|((a, a_len), (b, b_len))| *a < b.saturating_add(*b_len) && *b < a.saturating_add(*a_len))
}

/// Checks a cover without comparing boxes. Each adds 1 at every second of its corners, and subtracts 1 at the others, as
/// in a sum of differences along each axis. Sums of this kind determine how often each element is covered: they are those
/// of the whole tensor if and only if every element is covered once.
fn cancel(shape: &Shape, boxes: &[&Region]) -> Result<()> {
    let is_cut = |axis: &usize| boxes.iter().any(|own| own.shape.get(*axis) != shape.get(*axis));
    let axes: Vec<usize> = (0..shape.rank()).filter(is_cut).collect();
    let too_many = || {
        Error::unsupported("the tensor has too many slices that are cut along too many axes to be checked")
    };
    if axes.len() > MOST_AXES {
        return Err(too_many()
            .found(format!("{} slices, {} axes", boxes.len(), axes.len()))
            .expected(format!("at most {MOST_AXES} axes")));
    }
    let mut sums: HashMap<u128, i64> = HashMap::new();
    let zeros = vec![0; shape.rank()];
    let whole = (&zeros[..], shape, -1);
    let own = boxes.iter().map(|own| (&own.start[..], &own.shape, 1));
    for (start, len, sign) in own.chain([whole]) {
        for corner in 0..1usize << axes.len() {
            let (mut at, mut sign) = (0u128, sign);
            for (bit, axis) in axes.iter().enumerate() {
                let number = |numbers: &[u64]| numbers.get(*axis).copied().unwrap_or(0);
                let is_end = corner >> bit & 1 == 1;
                let index = number(start) + if is_end { number(len) } else { 0 };
                sign = if is_end { -sign } else { sign };
                let places = u128::from(number(shape)) + 1;
                at = at.checked_mul(places).ok_or_else(too_many)? + u128::from(index);
            }
            let sum = sums.entry(at).or_insert(0);
            *sum += sign;
            if *sum == 0 {
                sums.remove(&at);
            }
        }
    }
    if sums.is_empty() { Ok(()) } else { Err(overlap().found(format!("{} slices", boxes.len()))) }
}

fn overlap() -> Error {
    Error::corrupt("two slices overlap")
}

fn shown(region: &Region) -> String {
    format!("{:?}+{}", region.start, region.shape)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(start: &[u64], len: &[u64]) -> Region {
        Region { start: start.to_vec(), shape: Shape::new(len).unwrap() }
    }

    fn check(dims: &[u64], boxes: &[Region]) -> Result<()> {
        check_cover(&Shape::new(dims).unwrap(), &boxes.iter().collect::<Vec<_>>())
    }

    #[test]
    fn boxes_outside_gaps_and_overlaps_are_refused() {
        let left = region(&[0, 0], &[2, 2]);
        check(&[2, 3], &[left.clone(), region(&[0, 2], &[2, 1])]).unwrap();
        let cases = [
            (region(&[0, 2], &[2, 2]), "outside"),
            (region(&[0, u64::MAX], &[2, 1]), "outside"),
            (region(&[0], &[2]), "outside"),
            (region(&[0, 2], &[1, 1]), "do not cover"),
            (region(&[0, 1], &[2, 1]), "overlap"),
        ];
        for (other, text) in cases {
            let error = check(&[2, 3], &[left.clone(), other]).unwrap_err().to_string();
            assert!(error.contains(text), "{error}");
        }
    }

    #[test]
    fn boxes_without_elements_cover_nothing() {
        check(&[0, 3], &[region(&[0, 0], &[0, 3])]).unwrap();
        check(&[2], &[region(&[0], &[2]), region(&[1], &[0]), region(&[2], &[0])]).unwrap();
        check(&[], &[region(&[], &[])]).unwrap();
        assert!(check(&[], &[region(&[], &[]), region(&[], &[])]).is_err());
    }

    #[test]
    #[cfg_attr(miri, ignore = "thousands of boxes")]
    fn many_boxes_that_begin_alike_are_checked_without_comparing_pairs() {
        const LEN: u64 = 20_000;
        let mut boxes: Vec<Region> =
            (0..2 * LEN).map(|number| region(&[0, number / 2, number % 2], &[3, 1, 1])).collect();
        check(&[3, LEN, 2], &boxes).unwrap();
        boxes[7].start[1] += 1;
        assert!(check(&[3, LEN, 2], &boxes).unwrap_err().to_string().contains("overlap"));
    }

    #[test]
    fn both_ways_of_checking_agree() {
        let shape = Shape::new([3u64, 4]).unwrap();
        let cut = |start: [u64; 2], len: [u64; 2]| region(&start, &len);
        let good = [cut([0, 0], [2, 3]), cut([2, 0], [1, 4]), cut([0, 3], [2, 1])];
        let bad = [cut([0, 0], [2, 3]), cut([1, 0], [1, 4]), cut([0, 3], [2, 1])];
        for (boxes, is_good) in [(good, true), (bad, false)] {
            let boxes: Vec<&Region> = boxes.iter().collect();
            assert_eq!(matches!(compare(&boxes), Compared::Apart), is_good);
            assert_eq!(cancel(&shape, &boxes).is_ok(), is_good);
        }
    }
}
