//! Arithmetic on many 32-bit floats at once.

use super::simd::vectorized;

/// Replaces each little-endian number by what `operation` makes of it. Returns whether a finite number became one that
/// is not.
#[inline]
pub(crate) fn each_number(numbers: &mut [[u8; 4]], operation: impl Fn(f32) -> f32) -> bool {
    vectorized(
        #[inline(always)]
        || {
            let mut overflows = false;
            for number in numbers {
                overflows |= replace(number, &operation);
            }
            overflows
        },
    )
}

/// Multiplies blocks of `block` neighboring numbers by a scale each; `before` of the first block's numbers lie before
/// `numbers`. Returns what [`each_number`] returns.
pub(crate) fn multiply_blocks(numbers: &mut [[u8; 4]], scales: &[f32], block: usize, before: usize) -> bool {
    vectorized(
        #[inline(always)]
        || {
            let mut overflows = false;
            let (first, others) = numbers.split_at_mut(block.saturating_sub(before).min(numbers.len()));
            let blocks = [first].into_iter().chain(others.chunks_mut(block.max(1)));
            for (numbers, scale) in blocks.zip(scales) {
                for number in numbers {
                    overflows |= replace(number, &|number| number * scale);
                }
            }
            overflows
        },
    )
}

#[inline(always)]
fn replace(number: &mut [u8; 4], operation: &impl Fn(f32) -> f32) -> bool {
    let before = f32::from_le_bytes(*number);
    let after = operation(before);
    *number = after.to_le_bytes();
    before.is_finite() & !after.is_finite()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(numbers: &[f32]) -> Vec<[u8; 4]> {
        numbers.iter().map(|number| number.to_le_bytes()).collect()
    }

    #[test]
    fn what_becomes_too_large_is_reported_and_what_was_infinite_is_not() {
        let mut numbers = bytes(&[1.0, f32::INFINITY, f32::NAN]);
        assert!(!each_number(&mut numbers, |number| number * 2.0));
        assert_eq!(numbers[..2], bytes(&[2.0, f32::INFINITY]));
        assert!(each_number(&mut bytes(&[1.0, f32::MAX]), |number| number * 2.0));
    }

    #[test]
    fn every_block_has_its_scale_and_the_first_may_have_begun_before() {
        let scaled = |before, count, scales: &[f32]| {
            let mut numbers = bytes(&vec![1.0; count]);
            assert!(!multiply_blocks(&mut numbers, scales, 3, before));
            numbers.into_iter().map(f32::from_le_bytes).collect::<Vec<f32>>()
        };
        assert_eq!(scaled(0, 5, &[2.0, 3.0]), [2.0, 2.0, 2.0, 3.0, 3.0]);
        assert_eq!(scaled(2, 5, &[2.0, 3.0, 4.0]), [2.0, 3.0, 3.0, 3.0, 4.0]);
        assert_eq!(scaled(1, 1, &[2.0]), [2.0]);
    }
}
