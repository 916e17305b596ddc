//! Numbers stored as integers: `integer = scale · number`, and back.

use super::simd::vectorized;
use ckpt_api::{DType, Error, Result, Rounding, Scaling};

/// Whether numbers can be stored as this type's integers.
pub fn quantizable(dtype: DType) -> bool {
    limits(dtype).is_some()
}

/// Stores little-endian 32-bit floats as `dtype`'s integers, in double precision. `first` is the position of the first
/// element in its tensor, for errors.
///
/// # Errors
/// [`ckpt_api::Kind::Lossy`] for a number that does not fit, NaN and infinities among them, naming the element, its
/// value and the largest that fits; [`ckpt_api::Kind::Unsupported`] for a dtype that is no integer of 8, 16 or 32 bits.
pub fn quantize(dtype: DType, scaling: Scaling, first: u64, source: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let (low, high, bytes) = limits(dtype).ok_or_else(|| unsupported(dtype))?;
    let numbers = source.as_chunks::<4>().0;
    out.resize(numbers.len() * bytes, 0);
    let range = [low, high];
    let fit = match bytes {
        1 => store::<1>(scaling, range, numbers, out),
        2 => store::<2>(scaling, range, numbers, out),
        _ => store::<4>(scaling, range, numbers, out),
    };
    match fit {
        true => Ok(()),
        false => Err(misfit(dtype, scaling, first, numbers)),
    }
}

/// Stores integers of `N` bytes; `false` if one is not in `range`.
fn store<const N: usize>(scaling: Scaling, range: [f64; 2], numbers: &[[u8; 4]], out: &mut [u8]) -> bool {
    let out = out.as_chunks_mut::<N>().0;
    // Each way is a loop of its own.
    vectorized(
        #[inline(always)]
        || match scaling.rounding {
            Rounding::Truncate => {
                store_as(Scaling { rounding: Rounding::Truncate, ..scaling }, range, numbers, out)
            }
            Rounding::Nearest => {
                store_as(Scaling { rounding: Rounding::Nearest, ..scaling }, range, numbers, out)
            }
        },
    )
}

#[inline(always)]
fn store_as<const N: usize>(
    scaling: Scaling,
    range: [f64; 2],
    numbers: &[[u8; 4]],
    out: &mut [[u8; N]],
) -> bool {
    let mut fit = true;
    for (number, out) in numbers.iter().zip(out) {
        let (integer, fits) = integer(scaling, range, f32::from_le_bytes(*number));
        fit &= fits;
        out.copy_from_slice(&low_bits(integer).to_le_bytes()[..N]);
    }
    fit
}

/// The integer that stands for a number, and whether it is in `range`.
#[inline(always)]
fn integer(scaling: Scaling, [low, high]: [f64; 2], number: f32) -> (f64, bool) {
    let integer = scaling.units(number);
    let fits = |integer| (integer >= low) & (integer <= high);
    let Some(limit) = scaling.limit else { return (integer, fits(integer)) };
    let limit = f64::from(limit.get());
    let integer = if integer > limit { limit } else { integer };
    let integer = if integer < -limit { -limit } else { integer };
    // What is no number is not clipped.
    (integer, fits(integer) & number.is_finite())
}

/// A whole number as an `i32`, for those that are one: where the last bit of a double is worth 1, its lowest bits are
/// the integer. A conversion by `as` checks the range once more, one number at a time.
#[inline(always)]
fn low_bits(integer: f64) -> i32 {
    const LAST_BIT_IS_ONE: f64 = (3u64 << 51) as f64;
    (integer + LAST_BIT_IS_ONE).to_bits() as i32
}

/// The error for the first number that does not fit.
fn misfit(dtype: DType, scaling: Scaling, first: u64, numbers: &[[u8; 4]]) -> Error {
    let error = Error::lossy("a value does not fit the target's integer type");
    let Some((low, high, _)) = limits(dtype) else { return error };
    let fits = |number: f32| integer(scaling, [low, high], number).1;
    let mut numbers = (first..).zip(numbers.iter().map(|number| f32::from_le_bytes(*number)));
    let Some((position, number)) = numbers.find(|(_, number)| !fits(*number)) else { return error };
    let scale = f64::from(scaling.scale.get());
    error
        .field(format!("element {position}"))
        .found(format!("{number}, which is {} at a scale of {scale}", scale * f64::from(number)))
        .expected(format!("{} to {} ({low} to {high} as {dtype})", low / scale, high / scale))
        .help("choose a smaller scale or a wider dtype, or clip the weights")
}

/// Reads little-endian integers as the 32-bit floats that they stand for.
///
/// # Errors
/// [`ckpt_api::Kind::Unsupported`] for a dtype that is no integer of 8, 16 or 32 bits.
pub fn dequantize(dtype: DType, scaling: Scaling, source: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let (_, _, bytes) = limits(dtype).ok_or_else(|| unsupported(dtype))?;
    match bytes {
        1 => load::<1>(scaling, source, out),
        2 => load::<2>(scaling, source, out),
        _ => load::<4>(scaling, source, out),
    }
    Ok(())
}

fn load<const N: usize>(scaling: Scaling, source: &[u8], out: &mut Vec<u8>) {
    let integers = source.as_chunks::<N>().0;
    out.resize(integers.len() * 4, 0);
    let (numbers, scale) = (out.as_chunks_mut::<4>().0, f64::from(scaling.scale.get()));
    vectorized(
        #[inline(always)]
        || {
            for (integer, number) in integers.iter().zip(numbers) {
                let mut wide = [0; 4];
                wide[4 - N..].copy_from_slice(integer);
                let integer = i32::from_le_bytes(wide) >> (32 - 8 * N);
                // One rounding: the quotient of doubles is closer to the true one than any two floats are to each
                // other.
                *number = ((f64::from(integer) / scale) as f32).to_le_bytes();
            }
        },
    );
}

/// Smallest and largest integer, and bytes.
fn limits(dtype: DType) -> Option<(f64, f64, usize)> {
    match dtype {
        DType::I8 => Some((f64::from(i8::MIN), f64::from(i8::MAX), 1)),
        DType::I16 => Some((f64::from(i16::MIN), f64::from(i16::MAX), 2)),
        DType::I32 => Some((f64::from(i32::MIN), f64::from(i32::MAX), 4)),
        _ => None,
    }
}

fn unsupported(dtype: DType) -> Error {
    Error::unsupported("scaled integers cannot have this dtype")
        .found(dtype.name())
        .expected("i8, i16 or i32")
}

#[cfg(test)]
mod tests {
    use super::*;
    use ckpt_api::{Kind, Rounding};
    use proptest::prelude::*;
    use std::num::NonZeroU32;

    fn scaling(scale: u32, rounding: Rounding) -> Scaling {
        Scaling { scale: scale.try_into().unwrap(), rounding, limit: None, each_term: false }
    }

    fn stored(dtype: DType, scale: u32, rounding: Rounding, numbers: &[f32]) -> Result<Vec<u8>> {
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        let mut out = Vec::new();
        quantize(dtype, scaling(scale, rounding), 10, &bytes, &mut out).map(|()| out)
    }

    #[test]
    fn fractions_are_cut_off_or_rounded_halves_away_from_zero() {
        let numbers = [0.5f32, -0.5, 0.4375, -0.4375, 0.5625];
        assert_eq!(stored(DType::I8, 4, Rounding::Truncate, &numbers).unwrap(), [2, 254, 1, 255, 2]);
        let numbers = [0.125f32, -0.125, 0.375, -0.375, 0.1];
        assert_eq!(stored(DType::I8, 4, Rounding::Nearest, &numbers).unwrap(), [1, 255, 2, 254, 0]);
    }

    #[test]
    fn the_largest_and_smallest_integers_fit_and_the_next_do_not() {
        for (dtype, high) in [(DType::I8, 127.0f32), (DType::I16, 32767.0)] {
            stored(dtype, 1, Rounding::Nearest, &[high, -high - 1.0]).unwrap();
            for number in [high + 1.0, -high - 2.0, f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                let error = stored(dtype, 1, Rounding::Nearest, &[0.0, number]).unwrap_err();
                assert_eq!(error.kind(), Kind::Lossy);
                let text = error.to_string();
                assert!(text.contains("element 11") && text.contains(&high.to_string()), "{text}");
            }
        }
        // Truncation brings back what is less than one outside.
        assert_eq!(stored(DType::I8, 1, Rounding::Truncate, &[127.9, -128.9]).unwrap(), [127, 128]);
    }

    #[test]
    fn what_lies_outside_a_limit_is_stored_as_the_limit_and_what_is_no_number_is_refused() {
        let scaling = Scaling { limit: NonZeroU32::new(100), ..scaling(64, Rounding::Nearest) };
        let stored = |numbers: &[f32]| {
            let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
            let mut out = Vec::new();
            quantize(DType::I8, scaling, 0, &bytes, &mut out).map(|()| out)
        };
        assert_eq!(stored(&[1.5, 1.5625, 1.6, 1e30, -1.6, -1e30]).unwrap(), [96, 100, 100, 100, 156, 156]);
        for number in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            assert_eq!(stored(&[number]).unwrap_err().kind(), Kind::Lossy);
        }
    }

    #[test]
    fn other_types_are_refused() {
        for dtype in [DType::F32, DType::U8, DType::I64, DType::I4, DType::String] {
            assert_eq!(stored(dtype, 1, Rounding::Truncate, &[]).unwrap_err().kind(), Kind::Unsupported);
            assert!(!quantizable(dtype));
        }
    }

    proptest! {
        #[test]
        fn every_i16_comes_back_exactly_at_any_scale(scale in 1u32..70_000, from in any::<i16>()) {
            let integers: Vec<u8> = (0..200).flat_map(|k| from.wrapping_add(k).to_le_bytes()).collect();
            let (mut numbers, mut back) = (Vec::new(), Vec::new());
            dequantize(DType::I16, scaling(scale, Rounding::Nearest), &integers, &mut numbers).unwrap();
            quantize(DType::I16, scaling(scale, Rounding::Nearest), 0, &numbers, &mut back).unwrap();
            prop_assert_eq!(back, integers);
        }

        #[test]
        fn many_at_once_become_what_the_definition_makes_of_each(
            numbers in prop::collection::vec(prop_oneof![4 => -140f32..140.0, 1 => any::<f32>(), 1 => (-600i32..600).prop_map(|n| n as f32 / 4.0)], 0..200),
            scale in 1u32..300, nearest: bool, limit in 0u32..200, dtype in 0usize..3,
        ) {
            let dtype = [DType::I8, DType::I16, DType::I32][dtype];
            let (low, high, size) = limits(dtype).unwrap();
            let rounding = if nearest { Rounding::Nearest } else { Rounding::Truncate };
            let scaling = Scaling { limit: NonZeroU32::new(limit), ..scaling(scale, rounding) };
            let (mut expected, mut misfit) = (Vec::new(), None);
            for (k, number) in numbers.iter().enumerate() {
                let scaled = f64::from(*number) * f64::from(scale);
                let mut integer = if nearest { scaled.round() } else { scaled.trunc() };
                if limit > 0 && number.is_finite() {
                    integer = integer.clamp(-f64::from(limit), f64::from(limit));
                }
                if !(integer >= low && integer <= high) {
                    misfit.get_or_insert(k);
                }
                expected.extend_from_slice(&(integer as i64).to_le_bytes()[..size]);
            }
            let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
            let mut out = vec![1; 5];
            match (quantize(dtype, scaling, 7, &bytes, &mut out), misfit) {
                (Ok(()), None) => prop_assert_eq!(out, expected),
                (Err(error), Some(k)) => prop_assert!(error.to_string().contains(&format!("element {})", 7 + k)), "{}", error),
                (result, misfit) => prop_assert!(false, "{:?}, {:?}", result, misfit),
            }
        }

        #[test]
        fn what_is_stored_is_off_by_less_than_one_unit_or_half_of_one(number in -100f32..100.0, scale in 1u32..300) {
            for (rounding, most) in [(Rounding::Truncate, 1.0), (Rounding::Nearest, 0.5)] {
                let bytes = stored(DType::I32, scale, rounding, &[number]).unwrap();
                let integer = i32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
                let off = (f64::from(integer) - f64::from(scale) * f64::from(number)).abs();
                prop_assert!(off <= most, "{} at {}: {}", number, scale, off);
            }
        }
    }
}
