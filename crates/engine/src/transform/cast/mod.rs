//! Conversion between element types: round to nearest even, exact where the target holds every value.

mod held;
mod range;
#[cfg(test)]
mod tests;

pub use held::restorable;

pub use range::exact;
pub use range::power;

use super::simd::vectorized;
use ckpt_api::{DType, Error, Result};
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use range::{exponent_of, small_integer};

/// Whether [`cast`] converts between these.
pub fn castable(from: DType, to: DType) -> bool {
    from == to
        || restorable(from, to)
        || (reader(from).is_some()
            && writer(to).is_some()
            && !held::is_restored_only(to)
            && (from.is_float() == to.is_float() || exact(from, to)))
}

/// Converts little-endian whole-byte elements of `source` into `out`, and returns the largest absolute rounding error
/// among them: 0 if the target holds every value. `first` is the position of the first element in its tensor, for
/// errors. NaN and infinities stay what they are.
///
/// # Errors
/// [`ckpt_api::Kind::Unsupported`] for a pair that [`castable`] refuses; [`ckpt_api::Kind::Lossy`] for a finite number
/// beyond the target's largest, and for an integer or a restored small float that the target lacks, naming the element
/// and its value.
pub fn cast(from: DType, to: DType, first: u64, source: &[u8], out: &mut Vec<u8>) -> Result<f64> {
    let error = match (from, to) {
        _ if from == to => {
            out.clear();
            out.extend_from_slice(source);
            0.0
        }
        (DType::F16, DType::F32) => f16_to_f32(source, out),
        (DType::Bf16, DType::F32) => widen(source, out, |b| bf16::from_le_bytes(b).to_f32().to_le_bytes()),
        (DType::F32, DType::F64) => widen(source, out, |b| f64::from(f32::from_le_bytes(b)).to_le_bytes()),
        (DType::F32, DType::F16) => narrow(source, out, |b| to_f16(f32::from_le_bytes(b))),
        (DType::F32, DType::Bf16) => narrow(source, out, |b| to_bf16(f32::from_le_bytes(b))),
        (DType::Bf16, DType::F16) => narrow(source, out, |b| to_f16(bf16::from_le_bytes(b).to_f32())),
        (DType::F16, DType::Bf16) => narrow(source, out, |b| to_bf16(from_f16(b))),
        (DType::F64, DType::F32) => narrow(source, out, |b| {
            let (number, stored) = (f64::from_le_bytes(b), to_f32(f64::from_le_bytes(b)));
            (stored.to_le_bytes(), number - f64::from(stored))
        }),
        (_, DType::F32) if is_worth_a_table(from, to, source) => by_table::<4>(from, to, source, out)?,
        (_, DType::F16 | DType::Bf16) if is_worth_a_table(from, to, source) => {
            by_table::<2>(from, to, source, out)?
        }
        _ => {
            out.clear();
            cast_any(from, to, source, out)?
        }
    };
    match error.is_infinite() {
        true => Err(overflow(from, to, first, source, out)),
        false => Ok(error),
    }
}

/// Elements of one byte for which it is worth to convert all 256 first.
const WORTH_A_TABLE: usize = 1024;

fn is_worth_a_table(from: DType, to: DType, source: &[u8]) -> bool {
    from.bytes() == Some(1) && source.len() >= WORTH_A_TABLE && exact(from, to)
}

/// Elements of one byte, each of which has an exact value in a float of `N` bytes.
fn by_table<const N: usize>(from: DType, to: DType, source: &[u8], out: &mut Vec<u8>) -> Result<f64> {
    let all: Vec<u8> = (0..=u8::MAX).collect();
    let mut values = Vec::with_capacity(256 * N);
    cast_any(from, to, &all, &mut values)?;
    let mut table = [[0; N]; 256];
    for (entry, value) in table.iter_mut().zip(values.as_chunks::<N>().0) {
        *entry = *value;
    }
    out.resize(source.len() * N, 0);
    for (element, stored) in source.iter().zip(out.as_chunks_mut::<N>().0) {
        *stored = table[usize::from(*element)];
    }
    Ok(0.0)
}

#[inline]
fn widen<const A: usize, const B: usize>(
    source: &[u8],
    out: &mut Vec<u8>,
    convert: impl Fn([u8; A]) -> [u8; B],
) -> f64 {
    narrow(source, out, |element| (convert(element), 0f32))
}

/// `convert` returns what is stored and how far off it is. The difference of a number and what it is rounded to is
/// exact; it is infinite where a finite number became infinite, and NaN, which does not count, where nothing was
/// finite.
#[inline]
fn narrow<const A: usize, const B: usize, F: Float>(
    source: &[u8],
    out: &mut Vec<u8>,
    convert: impl Fn([u8; A]) -> ([u8; B], F),
) -> f64 {
    let elements = source.as_chunks::<A>().0;
    out.resize(elements.len() * B, 0);
    let stored = out.as_chunks_mut::<B>().0;
    vectorized(
        #[inline(always)]
        || {
            let mut worst = F::Magnitude::default();
            for (element, stored) in elements.iter().zip(stored) {
                let error;
                (*stored, error) = convert(*element);
                worst = worst.max(error.magnitude());
            }
            F::value(worst)
        },
    )
}

/// A float whose absolute value can be compared as an integer, which processors do for several at once.
trait Float: Copy {
    type Magnitude: Ord + Copy + Default;
    /// Its bits without the sign; 0 for NaN.
    fn magnitude(self) -> Self::Magnitude;
    fn value(magnitude: Self::Magnitude) -> f64;
}

impl Float for f32 {
    type Magnitude = u32;
    #[inline(always)]
    fn magnitude(self) -> u32 {
        let bits = self.to_bits() & 0x7fff_ffff;
        if bits > f32::INFINITY.to_bits() { 0 } else { bits }
    }
    #[inline(always)]
    fn value(magnitude: u32) -> f64 {
        f64::from(f32::from_bits(magnitude))
    }
}

impl Float for f64 {
    type Magnitude = u64;
    #[inline(always)]
    fn magnitude(self) -> u64 {
        let bits = self.to_bits() & (u64::MAX >> 1);
        if bits > f64::INFINITY.to_bits() { 0 } else { bits }
    }
    #[inline(always)]
    fn value(magnitude: u64) -> f64 {
        f64::from_bits(magnitude)
    }
}

/// Numbers converted at once where processors have an instruction for several.
const BLOCK: usize = 64;

fn f16_to_f32(source: &[u8], out: &mut Vec<u8>) -> f64 {
    let elements = source.as_chunks::<2>().0;
    out.resize(elements.len() * 4, 0);
    let (mut halves, mut numbers) = ([f16::ZERO; BLOCK], [0f32; BLOCK]);
    for (block, stored) in elements.chunks(BLOCK).zip(out.as_chunks_mut::<4>().0.chunks_mut(BLOCK)) {
        let len = block.len();
        halves.iter_mut().zip(block).for_each(|(half, bytes)| *half = f16::from_le_bytes(*bytes));
        halves[..len].convert_to_f32_slice(&mut numbers[..len]);
        stored.iter_mut().zip(&numbers).for_each(|(stored, number)| *stored = number.to_le_bytes());
    }
    0.0
}

/// The nearest bf16, ties to even, and how far off it is.
#[inline(always)]
fn to_bf16(number: f32) -> ([u8; 2], f32) {
    let stored = bf16::from_f32(number);
    (stored.to_le_bytes(), number - stored.to_f32())
}

/// The value of an f16, without a branch.
#[inline(always)]
fn from_f16(bytes: [u8; 2]) -> f32 {
    /// Two to the power of 112, by which the biases of the exponents differ.
    const REBIASED: f32 = f32::from_bits((112 + 127) << 23);
    let bits = u32::from(u16::from_le_bytes(bytes));
    let (sign, magnitude) = ((bits & 0x8000) << 16, bits & 0x7fff);
    let finite = f32::from_bits(magnitude << 13) * REBIASED;
    let special = 0x7f80_0000 | magnitude << 13;
    f32::from_bits(sign | if magnitude < 0x7c00 { finite.to_bits() } else { special })
}

/// The nearest f16, ties to even, as the crate `half` and processors give it, without a branch; and how far off it is.
#[inline(always)]
fn to_f16(number: f32) -> ([u8; 2], f32) {
    const SMALLEST_NORMAL: u32 = 0x3880_0000;
    const TOO_LARGE: u32 = 0x4780_0000;
    let bits = number.to_bits() & 0x7fff_ffff;
    let (sign, magnitude) = ((number.to_bits() ^ bits) >> 16, f32::from_bits(bits));
    // Beside 1/2, the last bit of a float is worth as much as that of a subnormal f16.
    let beside_half = magnitude + 0.5;
    let rounded = bits.wrapping_add(0xfff + (bits >> 13 & 1)) & !0x1fff;
    let (stored, value) = if bits > f32::INFINITY.to_bits() {
        (0x7e00 | bits >> 13 & 0x3ff, f32::NAN)
    } else if bits >= TOO_LARGE || rounded >= TOO_LARGE {
        (0x7c00, f32::INFINITY)
    } else if bits < SMALLEST_NORMAL {
        (beside_half.to_bits().wrapping_sub(0x3f00_0000), beside_half - 0.5)
    } else {
        (rounded.wrapping_sub(0x3800_0000) >> 13, f32::from_bits(rounded))
    };
    let [low, high, ..] = (sign | stored).to_le_bytes();
    ([low, high], magnitude - value)
}

/// The error for the first finite number of `source` that is not finite in `out`.
fn overflow(from: DType, to: DType, first: u64, source: &[u8], out: &[u8]) -> Error {
    if restorable(from, to) {
        return unrestorable(from, to, first, source, out);
    }
    let error = Error::lossy("a value is too large for the target's dtype");
    let (mut before, mut after) = (Vec::new(), Vec::new());
    for_each_number(from, source, |number| before.push(number));
    for_each_number(to, out, |number| after.push(number));
    let mut pairs = before.iter().zip(&after).enumerate();
    let is_lost = |before: &f64, after: &f64| match to.is_float() {
        true => before.is_finite() && !after.is_finite(),
        false => before != after,
    };
    let found = pairs.find(|(_, (before, after))| is_lost(before, after));
    let Some((k, (number, _))) = found else { return error };
    let error = error.field(format!("element {}", first.saturating_add(k as u64))).found(number.to_string());
    let error = match largest(to) {
        Some(largest) => error.expected(format!("at most {largest} and at least -{largest}, as {to}")),
        None => error,
    };
    error.help("choose a wider dtype, or clip the weights")
}

/// The error for the first number of `source` that is another one in `out`.
fn unrestorable(from: DType, to: DType, first: u64, source: &[u8], out: &[u8]) -> Error {
    let (mut before, mut after) = (Vec::new(), Vec::new());
    for_each_number(from, source, |number| before.push(number));
    for_each_number(to, out, |number| after.push(number));
    let error = Error::lossy(format!("the tensor is recorded as {to}, which lacks one of its values"))
        .help(format!("another program changed the values: store the tensor as {from}, without the record"));
    match before.iter().zip(&after).position(|(number, stored)| !held::is_same(*number, *stored)) {
        Some(at) => error
            .field(format!("element {}", first.saturating_add(at as u64)))
            .found(before.get(at).map(f64::to_string).unwrap_or_default()),
        None => error,
    }
}

/// The largest finite value of a float that is written.
fn largest(dtype: DType) -> Option<f64> {
    Some(match dtype {
        DType::F64 => f64::MAX,
        DType::F32 => f64::from(f32::MAX),
        DType::F16 => f16::MAX.to_f64(),
        DType::Bf16 => bf16::MAX.to_f64(),
        DType::F8E4m3 => small_float(0x7e, 3, 7, false),
        _ => return None,
    })
}

/// Calls `each` with every element of `source` as the nearest f64; `false` for a dtype that has no numbers.
pub fn for_each_number(dtype: DType, source: &[u8], mut each: impl FnMut(f64)) -> bool {
    if dtype == DType::F32 {
        source.as_chunks::<4>().0.iter().for_each(|bytes| each(f64::from(f32::from_le_bytes(*bytes))));
        return true;
    }
    let Some(read) = reader(dtype) else { return false };
    for element in source.chunks_exact(size_of_element(dtype)) {
        each(match read(element) {
            Number::Float(value) => value,
            Number::Int(value) => value as f64,
        });
    }
    true
}

fn size_of_element(dtype: DType) -> usize {
    usize::try_from(dtype.bytes().unwrap_or(1)).unwrap_or(1)
}

fn cast_any(from: DType, to: DType, source: &[u8], out: &mut Vec<u8>) -> Result<f64> {
    let (Some(read), Some(write), Some(back), true) =
        (reader(from), writer(to), reader(to), castable(from, to))
    else {
        return Err(Error::unsupported(format!("no conversion from {from} to {to} exists")));
    };
    let rounds = !exact(from, to);
    let mut worst = 0f64;
    for element in source.chunks_exact(size_of_element(from)) {
        let (number, start) = (read(element), out.len());
        write(number, out);
        if !rounds {
            continue;
        }
        match (number, back(out.get(start..).unwrap_or_default())) {
            (Number::Float(number), Number::Float(stored)) if restorable(from, to) => {
                worst = if held::is_same(number, stored) { worst } else { f64::INFINITY };
            }
            // What is too large for a type without infinities is NaN there.
            (Number::Float(number), Number::Float(stored)) if number.is_finite() => {
                worst = worst.max(if stored.is_finite() { (number - stored).abs() } else { f64::INFINITY });
            }
            (Number::Int(number), Number::Int(stored)) if number != stored => worst = f64::INFINITY,
            _ => {}
        }
    }
    Ok(worst)
}

/// An element on its way from one type to another.
#[derive(Clone, Copy)]
enum Number {
    Int(i128),
    Float(f64),
}

type Reader = fn(&[u8]) -> Number;
type Writer = fn(Number, &mut Vec<u8>);

fn reader(dtype: DType) -> Option<Reader> {
    fn int(bytes: &[u8], signed: bool, bits: u32) -> Number {
        let mut wide = [0; 16];
        wide[..bytes.len()].copy_from_slice(bytes);
        let shift = 128 - bits;
        let raw = i128::from_le_bytes(wide) << shift;
        Number::Int(if signed { raw >> shift } else { (raw.cast_unsigned() >> shift).cast_signed() })
    }
    fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
        let mut array = [0; N];
        array.copy_from_slice(&bytes[..N]);
        array
    }
    Some(match dtype {
        DType::F64 => |b| Number::Float(f64::from_le_bytes(array(b))),
        DType::F32 => |b| Number::Float(f64::from(f32::from_le_bytes(array(b)))),
        DType::F16 => |b| Number::Float(f16::from_le_bytes(array(b)).to_f64()),
        DType::Bf16 => |b| Number::Float(bf16::from_le_bytes(array(b)).to_f64()),
        DType::F8E5m2 => |b| Number::Float(f16::from_le_bytes([0, b[0]]).to_f64()),
        DType::F8E4m3 => |b| Number::Float(small_float(b[0], 3, 7, b[0] & 0x7f == 0x7f)),
        DType::F8E4m3fnuz => |b| Number::Float(small_float(b[0], 3, 8, b[0] == 0x80)),
        DType::F8E4m3b11fnuz => |b| Number::Float(small_float(b[0], 3, 11, b[0] == 0x80)),
        DType::F8E5m2fnuz => |b| Number::Float(small_float(b[0], 2, 16, b[0] == 0x80)),
        DType::F8E8m0 => {
            |b| Number::Float(if b[0] == 0xff { f64::NAN } else { power(i32::from(b[0]) - 127) })
        }
        DType::F6E2m3 => |b| Number::Float(small_float((b[0] & 0x20) << 2 | b[0] & 0x1f, 3, 1, false)),
        DType::F6E3m2 => |b| Number::Float(small_float((b[0] & 0x20) << 2 | b[0] & 0x1f, 2, 3, false)),
        DType::F4E2m1 => |b| Number::Float(small_float((b[0] & 0x08) << 4 | b[0] & 0x07, 1, 1, false)),
        DType::I64 => |b| int(b, true, 64),
        DType::I32 | DType::Qi32 => |b| int(b, true, 32),
        DType::I16 | DType::Qi16 => |b| int(b, true, 16),
        DType::I8 | DType::Qi8 => |b| int(b, true, 8),
        DType::I4 => |b| int(b, true, 4),
        DType::I2 => |b| int(b, true, 2),
        DType::U64 => |b| int(b, false, 64),
        DType::U32 => |b| int(b, false, 32),
        DType::U16 | DType::Qu16 => |b| int(b, false, 16),
        DType::U8 | DType::Qu8 => |b| int(b, false, 8),
        DType::U4 => |b| int(b, false, 4),
        DType::U2 => |b| int(b, false, 2),
        _ => return None,
    })
}

/// A float of at most 8 bits: sign in the top bit, `mantissa` low bits, exponent between.
fn small_float(bits: u8, mantissa: u32, bias: i32, nan: bool) -> f64 {
    if nan {
        return f64::NAN;
    }
    let fraction = f64::from(bits & ((1 << mantissa) - 1)) * power(-mantissa.cast_signed());
    let exponent = i32::from((bits & 0x7f) >> mantissa);
    let magnitude =
        if exponent == 0 { fraction * power(1 - bias) } else { (1.0 + fraction) * power(exponent - bias) };
    if bits & 0x80 == 0 { magnitude } else { -magnitude }
}

fn writer(dtype: DType) -> Option<Writer> {
    fn float(number: Number) -> f64 {
        match number {
            Number::Float(value) => value,
            // Only reached where exact: at most 53 significant bits.
            Number::Int(value) => value as f64,
        }
    }
    fn int(number: Number, bytes: usize, out: &mut Vec<u8>) {
        if let Number::Int(value) = number {
            out.extend_from_slice(&value.to_le_bytes()[..bytes]);
        }
    }
    fn low_bits(number: Number, mask: u8, out: &mut Vec<u8>) {
        if let Number::Int(value) = number {
            out.push(value.to_le_bytes()[0] & mask);
        }
    }
    Some(match dtype {
        DType::F64 => |n, out| out.extend_from_slice(&float(n).to_le_bytes()),
        DType::F32 => |n, out| out.extend_from_slice(&to_f32(float(n)).to_le_bytes()),
        DType::F16 => |n, out| out.extend_from_slice(&f16::from_f32(to_odd_f32(float(n))).to_le_bytes()),
        DType::Bf16 => |n, out| out.extend_from_slice(&bf16::from_f32(to_odd_f32(float(n))).to_le_bytes()),
        DType::F8E4m3 => |n, out| out.push(small_bits(float(n))),
        DType::I64 | DType::U64 => |n, out| int(n, 8, out),
        DType::I32 | DType::U32 | DType::Qi32 => |n, out| int(n, 4, out),
        DType::I16 | DType::U16 | DType::Qi16 | DType::Qu16 => |n, out| int(n, 2, out),
        DType::I8 | DType::U8 | DType::Qi8 | DType::Qu8 => |n, out| int(n, 1, out),
        DType::F8E4m3b11fnuz => |n, out| out.push(held::code(DType::F8E4m3b11fnuz, float(n))),
        DType::F6E2m3 => |n, out| out.push(held::code(DType::F6E2m3, float(n))),
        DType::F6E3m2 => |n, out| out.push(held::code(DType::F6E3m2, float(n))),
        DType::F4E2m1 => |n, out| out.push(held::code(DType::F4E2m1, float(n))),
        DType::I4 | DType::U4 => |n, out| low_bits(n, 0x0f, out),
        DType::I2 | DType::U2 => |n, out| low_bits(n, 0x03, out),
        _ => return None,
    })
}

/// The f8_e4m3 whose value is nearest; ties to the even code; NaN for what is too large.
fn small_bits(value: f64) -> u8 {
    let sign = if value.is_sign_negative() { 0x80 } else { 0 };
    // Past the largest value (448) by half a step or more, the next code is NaN.
    if value.is_nan() || value.abs() >= 464.0 {
        return sign | 0x7f;
    }
    // Codes of one sign are numbered in the order of their values, and steps are equal within a power of two: the
    // code is the number of steps, and rounding up to the next power of two lands on the next exponent's first code.
    let exponent = exponent_of(value).max(-6);
    let steps = (value.abs() * power(3 - exponent)).round_ties_even();
    let first = if exponent == -6 { 0 } else { 8 * (exponent + 6) };
    sign | u8::try_from(first + small_integer(steps)).unwrap_or(0x7e)
}

/// The nearest f32 whose last bit tells whether anything was cut off: rounding that once more, to fewer bits, is
/// rounding once. Through the nearest f32 a value just above the middle between two f16 would go the wrong way.
fn to_odd_f32(value: f64) -> f32 {
    let near = to_f32(value);
    let back = f64::from(near);
    if back == value || value.is_nan() {
        return near;
    }
    let towards_zero = if back.abs() > value.abs() { near.to_bits() - 1 } else { near.to_bits() };
    f32::from_bits(towards_zero | 1)
}

/// Nearest-even narrowing that keeps a NaN's sign and the top of its payload.
#[expect(clippy::cast_possible_truncation, reason = "the language defines this cast as nearest-even")]
fn to_f32(value: f64) -> f32 {
    value as f32
}
