//! Elements as numbers, many at a time.

use super::cast::for_each_number;
use super::moments::BLOCK;
use super::simd::vectorized;
use ckpt_api::DType;
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

/// Calls `each` with the elements of `source` as the nearest f64, some at a time, in order; `false` for a dtype that
/// has no numbers.
pub fn each_block(dtype: DType, source: &[u8], each: impl FnMut(&[f64])) -> bool {
    match dtype {
        DType::F64 => blocks(source, each, f64::from_le_bytes),
        DType::F32 => blocks(source, each, |b| f64::from(f32::from_le_bytes(b))),
        DType::F16 => halves(source, each),
        DType::Bf16 => blocks(source, each, |b| f64::from(bf16_to_f32(b))),
        DType::I64 => blocks(source, each, |b| i64::from_le_bytes(b) as f64),
        DType::U64 => blocks(source, each, |b| u64::from_le_bytes(b) as f64),
        DType::I32 | DType::Qi32 => blocks(source, each, |b| f64::from(i32::from_le_bytes(b))),
        DType::U32 => blocks(source, each, |b| f64::from(u32::from_le_bytes(b))),
        DType::I16 | DType::Qi16 => blocks(source, each, |b| f64::from(i16::from_le_bytes(b))),
        DType::U16 | DType::Qu16 => blocks(source, each, |b| f64::from(u16::from_le_bytes(b))),
        DType::I8 | DType::Qi8 => blocks(source, each, |[b]: [u8; 1]| f64::from(b.cast_signed())),
        DType::U8 | DType::Qu8 => blocks(source, each, |[b]: [u8; 1]| f64::from(b)),
        _ if dtype.bytes() == Some(1) && source.len() >= BLOCK => {
            let mut table = [0.0; 256];
            let mut entries = table.iter_mut();
            let all: [u8; 256] = std::array::from_fn(|byte| byte.to_le_bytes()[0]);
            let known = for_each_number(dtype, &all, |number| {
                entries.next().into_iter().for_each(|entry| *entry = number);
            });
            if known {
                blocks(source, each, |[b]: [u8; 1]| table[usize::from(b)]);
            }
            return known;
        }
        _ => return few(dtype, source, each),
    }
    true
}

/// `half` tests for NaN, to keep what it carries; a number needs that no more.
#[inline(always)]
fn bf16_to_f32(bytes: [u8; 2]) -> f32 {
    f32::from_bits(u32::from(bf16::from_le_bytes(bytes).to_bits()) << 16)
}

#[inline]
fn blocks<const N: usize>(source: &[u8], mut each: impl FnMut(&[f64]), number: impl Fn([u8; N]) -> f64) {
    let mut numbers = [0.0; BLOCK];
    for elements in source.as_chunks::<N>().0.chunks(BLOCK) {
        let numbers = &mut numbers[..elements.len()];
        vectorized(
            #[inline(always)]
            || numbers.iter_mut().zip(elements).for_each(|(to, element)| *to = number(*element)),
        );
        each(numbers);
    }
}

/// As [`each_block`], of elements for which nothing faster is worth its preparation.
fn few(dtype: DType, source: &[u8], mut each: impl FnMut(&[f64])) -> bool {
    let mut numbers = Vec::new();
    let known = for_each_number(dtype, source, |number| {
        numbers.push(number);
        if numbers.len() == BLOCK {
            each(&numbers);
            numbers.clear();
        }
    });
    each(&numbers);
    known
}

/// Processors have an instruction for several of these, which `half` uses.
fn halves(source: &[u8], mut each: impl FnMut(&[f64])) {
    let (mut stored, mut narrow, mut numbers) = ([f16::ZERO; BLOCK], [0f32; BLOCK], [0.0; BLOCK]);
    for elements in source.as_chunks::<2>().0.chunks(BLOCK) {
        let len = elements.len();
        stored.iter_mut().zip(elements).for_each(|(half, bytes)| *half = f16::from_le_bytes(*bytes));
        stored[..len].convert_to_f32_slice(&mut narrow[..len]);
        let (numbers, narrow) = (&mut numbers[..len], &narrow[..len]);
        vectorized(
            #[inline(always)]
            || numbers.iter_mut().zip(narrow).for_each(|(to, number)| *to = f64::from(*number)),
        );
        each(numbers);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dtype_has_the_numbers_that_it_has_one_by_one() {
        // Every byte at every place of an element, among them NaN, infinities, subnormals and both zeros.
        let len = if cfg!(miri) { BLOCK + 100 } else { 40_000 };
        let bytes: Vec<u8> =
            (0..).take(len).map(|k: u32| (k.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        let special =
            [0u8, 0, 0, 0, 0, 0, 0, 0x80, 0, 0, 0x80, 0x7f, 0, 0, 0, 0, 0, 0, 0xf0, 0xff, 1, 0, 0, 0];
        let source = [&bytes[..], &special].concat();
        let mut with_numbers = 0;
        for dtype in DType::ALL {
            for source in [&source[..], &source[..48], &[]] {
                let (mut one_by_one, mut together) = (Vec::new(), Vec::new());
                let known = for_each_number(*dtype, source, |number| one_by_one.push(number.to_bits()));
                let found = each_block(*dtype, source, |numbers| {
                    together.extend(numbers.iter().map(|number| number.to_bits()));
                });
                let quiet = |bits: &u64| if f64::from_bits(*bits).is_nan() { 0 } else { *bits };
                assert_eq!(found, known, "{dtype}");
                assert!(together.iter().map(quiet).eq(one_by_one.iter().map(quiet)), "{dtype}");
                with_numbers += usize::from(known);
            }
        }
        assert!(with_numbers > 3 * 25, "{with_numbers}");
    }
}
