//! The kernels against loops over their definitions.

use crate::naive::{self, Float};
use arbitrary::{Result, Unstructured};
use ckpt::transform;
use ckpt_api::{DType, Kind, Rounding, Scaling};
use std::num::NonZeroU32;

pub(super) fn fuzz(data: &[u8]) {
    let _ = run(&mut Unstructured::new(data));
}

fn run(u: &mut Unstructured) -> Result<()> {
    match u.int_in_range(0..=4)? {
        0 => permute(u),
        1 => cast(u),
        2 => quantize(u),
        3 => dequantize(u),
        _ => pack(u),
    }
}

fn permute(u: &mut Unstructured) -> Result<()> {
    const MOST: usize = 1 << 16;
    let mut shape: Vec<usize> = Vec::new();
    for _ in 0..u.int_in_range(0..=5)? {
        // Beyond the sides of blocks, and short.
        let longest = *u.choose(&[3usize, 40, 300])?;
        let room = MOST / shape.iter().product::<usize>().max(1);
        shape.push(u.int_in_range(0..=longest)?.min(room));
    }
    let mut order: Vec<usize> = (0..shape.len()).collect();
    for k in 0..shape.len() {
        let other = u.int_in_range(k..=shape.len() - 1)?;
        order.swap(k, other);
    }
    let size = *u.choose(&[1usize, 2, 4, 8, 16])?;
    let source: Vec<u8> =
        (0..shape.iter().product::<usize>() * size).map(|k| ((k * 0x9e37) >> 8) as u8).collect();
    let mut out = vec![7; u.int_in_range(0..=9)?];
    transform::permute(&source, &shape, &order, size, &mut out);
    assert!(out == naive::permute(&source, &shape, &order, size), "{shape:?} {order:?} {size}");
    Ok(())
}

fn cast(u: &mut Unstructured) -> Result<()> {
    let dtypes = [DType::F64, DType::F32, DType::F16, DType::Bf16];
    let (from, to) = (*u.choose(&dtypes)?, *u.choose(&dtypes)?);
    let (Some(before), Some(after)) = (Float::of(from), Float::of(to)) else { return Ok(()) };
    let first = u.int_in_range(0..=9)?;
    let mut source = u.bytes(u.len())?.to_vec();
    source.truncate(source.len() / before.size() * before.size());
    let (mut worst, mut overflow, mut expected) = (0f64, None, Vec::new());
    for (k, element) in source.chunks(before.size()).enumerate() {
        let number = before.decode(bits(element));
        let stored = (!number.is_nan()).then(|| after.encode(number));
        if let (Some(stored), true) = (stored, number.is_finite()) {
            let stored = after.decode(stored);
            worst = worst.max((number - stored).abs());
            overflow = overflow.or(stored.is_infinite().then_some(k as u64 + first));
        }
        expected.push(stored);
    }
    let mut out = Vec::new();
    match (transform::cast(from, to, first, &source, &mut out), overflow) {
        (Ok(found), None) => assert_eq!(found, worst),
        (Err(error), Some(at)) => {
            assert_eq!(error.kind(), Kind::Lossy);
            assert_eq!(error.context().field, Some(format!("element {at}").as_str()), "{error}");
            return Ok(());
        }
        (found, overflow) => panic!("{found:?}, {overflow:?}"),
    }
    assert_eq!(out.len(), expected.len() * after.size());
    for (found, expected) in out.chunks(after.size()).zip(expected) {
        match expected {
            Some(expected) => assert_eq!(bits(found), expected),
            None => assert!(after.decode(bits(found)).is_nan()),
        }
    }
    Ok(())
}

/// Little-endian.
fn bits(element: &[u8]) -> u64 {
    element.iter().rev().fold(0, |bits, byte| bits << 8 | u64::from(*byte))
}

fn scaling(u: &mut Unstructured) -> Result<Scaling> {
    let scale = u.int_in_range(1..=70_000)?;
    Ok(Scaling {
        scale: NonZeroU32::new(scale).unwrap_or(NonZeroU32::MIN),
        rounding: *u.choose(&[Rounding::Truncate, Rounding::Nearest])?,
        limit: NonZeroU32::new(u.int_in_range(0..=300)?),
        each_term: false,
    })
}

fn integers(u: &mut Unstructured) -> Result<(DType, u32)> {
    u.choose(&[(DType::I8, 8), (DType::I16, 16), (DType::I32, 32)]).copied()
}

fn quantize(u: &mut Unstructured) -> Result<()> {
    let (scaling, (dtype, bits)) = (scaling(u)?, integers(u)?);
    let any = u.arbitrary()?;
    let mut source = Vec::new();
    while let (false, Ok(number)) = (u.is_empty(), u.arbitrary::<u32>()) {
        let near = number.cast_signed() as f32 / (u32::MAX >> 8) as f32 * 300.0 / scaling.scale.get() as f32;
        source.push(if any { f32::from_bits(number) } else { near });
    }
    let expected: Vec<Option<i64>> =
        source.iter().map(|number| naive::quantize(scaling, bits, *number)).collect();
    let bytes: Vec<u8> = source.iter().flat_map(|number| number.to_le_bytes()).collect();
    let mut out = Vec::new();
    let found = transform::quantize(dtype, scaling, 0, &bytes, &mut out);
    match (found, expected.iter().position(Option::is_none)) {
        (Ok(()), None) => {
            let stored = |integer: &i64| integer.to_le_bytes()[..bits as usize / 8].to_vec();
            assert_eq!(out, expected.iter().flatten().flat_map(stored).collect::<Vec<u8>>());
        }
        (Err(error), Some(_)) => assert_eq!(error.kind(), Kind::Lossy),
        (found, misfit) => panic!("{found:?}, {misfit:?}"),
    }
    Ok(())
}

fn dequantize(u: &mut Unstructured) -> Result<()> {
    let (scaling, (dtype, bits)) = (scaling(u)?, integers(u)?);
    let size = bits as usize / 8;
    let mut source = u.bytes(u.len())?.to_vec();
    source.truncate(source.len() / size * size);
    let number = |element: &[u8]| {
        let mut wide = [0; 8];
        wide[..size].copy_from_slice(element);
        let integer = i64::from_le_bytes(wide) << (64 - bits) >> (64 - bits);
        (integer as f64 / f64::from(scaling.scale.get())) as f32
    };
    let expected: Vec<u8> = source.chunks(size).flat_map(|element| number(element).to_le_bytes()).collect();
    let mut out = Vec::new();
    transform::dequantize(dtype, scaling, &source, &mut out).expect("an integer type");
    assert_eq!(out, expected);
    Ok(())
}

fn pack(u: &mut Unstructured) -> Result<()> {
    let (dtype, bits) =
        *u.choose(&[(DType::U2, 2), (DType::F4E2m1, 4), (DType::F6E3m2, 6), (DType::U8, 8)])?;
    let mut elements = u.bytes(u.len())?.to_vec();
    elements.truncate(elements.len() / 4 * 4);
    elements.iter_mut().for_each(|element| *element &= u8::MAX >> (8 - bits));
    let (mut packed, mut back) = (Vec::new(), Vec::new());
    transform::pack(dtype, &elements, &mut packed);
    assert_eq!(packed, naive::pack(bits, &elements));
    transform::unpack(dtype, &packed, &mut back);
    assert_eq!(back, elements);
    Ok(())
}
