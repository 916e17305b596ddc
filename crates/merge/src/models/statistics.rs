//! What whole tensors say: angles between them, and the sizes of their differences. Each is one value or two, found in a few
//! passes in bounded memory.

use crate::pairs::each_pair;
use ckpt_api::{Error, Kept, Result, Scalar};
use ckpt_engine::source::TensorRef;

/// Cosines above which both directions are taken for one: between such tensors, `slerp` is linear.
const ONE_DIRECTION: f64 = 0.9995;
/// The least length that has a direction.
const NO_LENGTH: f64 = 1e-8;
/// Sums of magnitudes that are too small to be divided by.
const NO_SIZE: f64 = 1e-7;
/// The bits of a magnitude, without its sign.
const MAGNITUDE_BITS: u32 = 31;
/// Those that the first pass counts by; the second one counts by the others.
const UPPER_BITS: u32 = 15;

/// The factors of two tensors that lead `t` of the way from one to the other, along the arc between their directions.
///
/// # Errors
/// Those of [`each_pair`].
pub(crate) fn arc(first: &TensorRef<'_>, second: &TensorRef<'_>, t: f64) -> Result<[f32; 2]> {
    let (mut dot, mut of_first, mut of_second) = (0.0, 0.0, 0.0);
    each_pair(first, second, |_, x, y| {
        let (x, y) = (f64::from(x), f64::from(y));
        dot += x * y;
        of_first += x * x;
        of_second += y * y;
    })?;
    let lengths: [f64; 2] = [of_first, of_second].map(f64::sqrt);
    // What has no length is not made longer, as mergekit does not.
    let [of_first, of_second] = lengths.map(|length| if length > NO_LENGTH { length } else { 1.0 });
    let cosine = (dot / (of_first * of_second)).clamp(-1.0, 1.0);
    Ok(between(cosine, t).map(|factor| factor as f32))
}

/// The factors that lead `t` of the way between directions with this cosine.
fn between(cosine: f64, t: f64) -> [f64; 2] {
    // What is no number is no direction.
    match cosine.abs() <= ONE_DIRECTION {
        true => {
            let angle = cosine.acos();
            [((1.0 - t) * angle).sin() / angle.sin(), (t * angle).sin() / angle.sin()]
        }
        false => [1.0 - t, t],
    }
}

/// The `count` elements of `tensor − base` that have the largest magnitudes; of those of one magnitude, the first.
///
/// # Errors
/// Those of [`each_pair`]; [`ckpt_api::Kind::Lossy`] if they are not finite.
pub(crate) fn largest(base: &TensorRef<'_>, tensor: &TensorRef<'_>, count: u64) -> Result<Kept> {
    let bits = |base: f32, number: f32| (number - base).abs().to_bits();
    let lower = MAGNITUDE_BITS - UPPER_BITS;
    // Of all magnitudes, by their upper bits; then of those with the upper bits of the least one that is kept.
    let mut counts = vec![0_u64; 1 << UPPER_BITS];
    each_pair(base, tensor, |_, x, y| count_in(&mut counts, bits(x, y) >> lower))?;
    let (upper, left) = from_above(&counts, count);
    let mut counts = vec![0_u64; 1 << lower];
    each_pair(base, tensor, |_, x, y| {
        let bits = bits(x, y);
        if bits >> lower == upper {
            count_in(&mut counts, bits & ((1 << lower) - 1));
        }
    })?;
    let (rest, left) = from_above(&counts, left);
    let threshold = f32::from_bits((upper << lower) | rest);
    let all = counts.get(rest as usize).copied().unwrap_or_default();
    let mut last = u64::MAX;
    if left < all {
        let mut seen = 0;
        each_pair(base, tensor, |element, x, y| {
            if bits(x, y) == threshold.to_bits() {
                seen += 1;
                if seen == left {
                    last = element;
                }
            }
        })?;
    }
    let threshold = Scalar::new(threshold).ok_or_else(|| {
        Error::lossy("the numbers that models differ by are not finite").tensor(tensor.name())
    })?;
    Ok(Kept::Largest { threshold, last })
}

fn count_in(counts: &mut [u64], index: u32) {
    if let Some(count) = counts.get_mut(index as usize) {
        *count += 1;
    }
}

/// The bin of the number that is number `count` from above, and which one it is in that bin.
fn from_above(counts: &[u64], count: u64) -> (u32, u64) {
    let mut left = count.max(1);
    for (bin, count) in counts.iter().enumerate().rev() {
        match left.checked_sub(*count) {
            Some(rest) if rest > 0 => left = rest,
            // There are at most 2^16 bins.
            _ => return (u32::try_from(bin).unwrap_or(u32::MAX), left),
        }
    }
    (0, left)
}

/// By what the elements of `tensor − base` that are kept must be multiplied so that their magnitudes have the sum that those of
/// all had.
///
/// # Errors
/// Those of [`each_pair`].
pub(crate) fn rescaling(base: &TensorRef<'_>, tensor: &TensorRef<'_>, kept: Kept) -> Result<f32> {
    let (mut all, mut of_kept) = (0.0, 0.0);
    each_pair(base, tensor, |element, x, y| {
        let change = y - x;
        let magnitude = f64::from(change.abs());
        all += magnitude;
        if kept.keeps(element, change) {
            of_kept += magnitude;
        }
    })?;
    Ok(if all < NO_SIZE || of_kept < NO_SIZE { 1.0 } else { (all / of_kept) as f32 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_are_counted_from_above() {
        let counts = [2, 0, 3, 1];
        let found = [1, 2, 4, 5, 6, 9].map(|count| from_above(&counts, count));
        assert_eq!(found, [(3, 1), (2, 1), (2, 3), (0, 1), (0, 2), (0, 3)]);
    }

    #[test]
    fn tensors_that_point_one_way_have_no_arc_between_them() {
        assert_eq!(between(0.9996, 0.25), [0.75, 0.25]);
        assert_eq!(between(f64::NAN, 0.25), [0.75, 0.25]);
        let [a, b] = between(0.0, 0.5);
        assert!((a - 0.5_f64.sqrt()).abs() < 1e-12 && (b - a).abs() < 1e-12);
    }
}
