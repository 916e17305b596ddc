//! Dequantized tensors, against plain loops over elements and scales.

use super::numbers::{SMALL, Stored, kinds, target};
use crate::recipe::{Dequantize, Division, Join, PartOf, Parts, ScaledFormat};
use crate::transform::cast;
use ckpt_api::{DType, Kind, LossKind};
use half::bf16;
use proptest::prelude::*;

fn scaled(block: Option<&[u64]>, dtype: DType) -> Join {
    Join::Dequantized(Dequantize {
        format: ScaledFormat::Scaled,
        block: block.map(<[u64]>::to_vec),
        dtype,
        split: None,
    })
}

fn mxfp4(dtype: DType) -> Join {
    Join::Dequantized(Dequantize { format: ScaledFormat::Mxfp4, block: None, dtype, split: None })
}

fn floats(dtype: DType, bytes: &[u8]) -> Vec<f32> {
    let mut out = Vec::new();
    cast(dtype, DType::F32, 0, bytes, &mut out).unwrap();
    out.as_chunks().0.iter().map(|number| f32::from_le_bytes(*number)).collect()
}

/// Every finite byte of f8_e4m3, over and over.
fn elements(count: u64) -> Vec<u8> {
    (0..=254u8).filter(|byte| byte & 0x7f != 0x7f).cycle().take(count as usize).collect()
}

proptest! {
    #[test]
    fn every_element_is_multiplied_by_the_scale_of_its_block(
        lens in prop::collection::vec((1u64..7, 1u64..4), 1..4), whole in any::<bool>(),
    ) {
        let shape: Vec<u64> = lens.iter().map(|(len, _)| *len).collect();
        let block: Vec<u64> = lens.iter().map(|(_, block)| *block).collect();
        let blocks: Vec<u64> = lens.iter().map(|(len, block)| len.div_ceil(*block)).collect();
        let bytes = elements(shape.iter().product());
        let count: u64 = blocks.iter().product();
        let scales: Vec<f32> = (0..count).map(|k| 0.1 + k as f32).collect();
        let mut stored =
            Stored::default().add("w", DType::F8E4m3, &shape, &bytes).floats("s", &blocks, &scales);
        stored.rebuilt(&[target("w", &["w", "s"], scaled(Some(&block), DType::F32), &[])]).unwrap();
        let scale_at = |mut position: u64| {
            let (mut number, mut stride) = (0, 1);
            for axis in (0..shape.len()).rev() {
                number += position % shape[axis] / block[axis] * stride;
                position /= shape[axis];
                stride *= blocks[axis];
            }
            scales[number as usize]
        };
        let numbers = floats(DType::F8E4m3, &bytes);
        let expected: Vec<f32> =
            numbers.iter().zip(0..).map(|(number, at)| number * scale_at(at)).collect();
        prop_assert_eq!(&stored.numbers("w").unwrap(), &expected);
        if whole && shape.len() == 2 {
            stored.rebuilt(&[target("t", &["w"], Join::One, &["transpose", "cast f32 -> bf16"])]).unwrap();
            let [rows, columns] = shape[..] else { unreachable!() };
            let turned = (0..columns).flat_map(|column| (0..rows).map(move |row| (row * columns + column) as usize));
            let turned: Vec<u8> = turned.flat_map(|at| bf16::from_f32(expected[at]).to_le_bytes()).collect();
            prop_assert_eq!(stored.bytes("t", SMALL).unwrap(), turned);
        }
    }
}

#[test]
fn numbers_are_split_after_they_are_made() {
    let bytes = elements(8);
    let numbers = floats(DType::F8E4m3, &bytes);
    let part = |axis: usize, number: usize, is_interleaved: bool| {
        let of = Parts { axis, parts: 2, sizes: None };
        let mut made = target("p", &["w", "s"], scaled(None, DType::F32), &[]);
        made.recipe.division =
            Division { is_interleaved, part: Some(PartOf { part: number, of }), ..Division::default() };
        made
    };
    let stored = || Stored::default().add("w", DType::F8E4m3, &[4, 2], &bytes).floats("s", &[1], &[2.0]);
    for (is_interleaved, rows) in [(true, [1, 3]), (false, [2, 3])] {
        let mut stored = stored();
        stored.rebuilt(&[part(0, 1, is_interleaved)]).unwrap();
        let expected: Vec<f32> =
            rows.iter().flat_map(|row| [numbers[2 * row] * 2.0, numbers[2 * row + 1] * 2.0]).collect();
        assert_eq!(stored.numbers("p").unwrap(), expected);
    }
    assert_eq!(stored().rebuilt(&[part(1, 0, true)]).unwrap_err().kind(), Kind::Unsupported);
}

#[test]
fn without_blocks_a_scale_is_for_all_elements_or_for_each_index_of_an_axis() {
    let bytes = elements(12);
    let numbers = floats(DType::F8E4m3, &bytes);
    let cases: [(&[u64], usize); 5] = [(&[], 1), (&[1], 1), (&[1, 1], 1), (&[3, 1], 3), (&[1, 4], 4)];
    for (shape, count) in cases {
        let scales: Vec<f32> = (0..count).map(|k| 0.5 + k as f32).collect();
        let mut stored =
            Stored::default().add("w", DType::F8E4m3, &[3, 4], &bytes).floats("s", shape, &scales);
        stored.rebuilt(&[target("w", &["w", "s"], scaled(None, DType::F32), &[])]).unwrap();
        let of = |at: usize| if count == 3 { scales[at / 4] } else { scales[at % 4 % count] };
        let expected: Vec<f32> = numbers.iter().enumerate().map(|(at, number)| number * of(at)).collect();
        assert_eq!(stored.numbers("w").unwrap(), expected, "{shape:?}");
    }
}

#[test]
fn bytes_of_mxfp4_hold_two_elements_the_first_in_the_low_bits_times_a_power_of_two() {
    let bytes: Vec<u8> = (0..2 * 3 * 16).map(|k| (k * 37 + 11) as u8).collect();
    let exponents: Vec<u8> = vec![127, 120, 130, 1, 250, 128];
    let mut stored = Stored::default().add("w_blocks", DType::U8, &[1, 2, 3, 16], &bytes).add(
        "w_scales",
        DType::U8,
        &[1, 2, 3],
        &exponents,
    );
    let losses = stored.rebuilt(&[target("w", &["w_blocks", "w_scales"], mxfp4(DType::F32), &[])]).unwrap();
    assert_eq!(kinds(&losses), [LossKind::Dequantized]);
    let values = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0f32];
    let nibbles = bytes.iter().flat_map(|byte| [byte & 15, byte >> 4]);
    let expected: Vec<u32> = nibbles
        .enumerate()
        .map(|(at, nibble)| {
            let power = 2f64.powi(i32::from(exponents[at / 32]) - 127);
            ((f64::from(values[usize::from(nibble)]) * power) as f32).to_bits()
        })
        .collect();
    let found: Vec<u32> = stored.numbers("w").unwrap().iter().map(|number| number.to_bits()).collect();
    assert_eq!(found, expected);
    assert_eq!(stored.contents.checkpoint.tensors[0].shape[..], [1, 2, 96]);
}

#[test]
fn experts_that_were_dequantized_can_be_cut_and_transposed() {
    let bytes: Vec<u8> = (0..2 * 4 * 16).map(|k| (k * 7) as u8).collect();
    let mut stored = Stored::default().add("w_blocks", DType::U8, &[2, 4, 1, 16], &bytes).add(
        "w_scales",
        DType::U8,
        &[2, 4, 1],
        &[127, 128, 129, 130, 131, 132, 133, 134],
    );
    let whole = |steps: &[&str]| target("w", &["w_blocks", "w_scales"], mxfp4(DType::F32), steps);
    let mut plain = Stored { contents: stored.contents.clone(), file: stored.file.clone() };
    plain.rebuilt(&[whole(&[])]).unwrap();
    let numbers = plain.numbers("w").unwrap();
    stored.rebuilt(&[whole(&["permute 0 2 1"])]).unwrap();
    let element = Join::Element { axis: 0, index: 1, part: None };
    stored.rebuilt(&[target("second", &["w"], element, &[])]).unwrap();
    let expected: Vec<f32> = (0..32)
        .flat_map(|column| (0..4).map(move |row| 128 + row * 32 + column))
        .map(|at| numbers[at])
        .collect();
    assert_eq!(stored.numbers("second").unwrap(), expected);
}

#[test]
fn what_the_dtype_of_the_result_cannot_hold_is_narrowed() {
    let losses = |scales: DType, bytes: usize, dtype| {
        let mut stored = Stored::default().add("w", DType::F8E4m3, &[4, 4], &elements(16)).add(
            "s",
            scales,
            &[1, 1],
            &vec![0x3f; bytes],
        );
        let losses = stored.rebuilt(&[target("w", &["w", "s"], scaled(None, dtype), &[])]).unwrap();
        kinds(&losses)
    };
    assert_eq!(losses(DType::F32, 4, DType::F32), [LossKind::Dequantized]);
    assert_eq!(losses(DType::F32, 4, DType::Bf16), [LossKind::Dequantized, LossKind::Narrowed]);
    assert_eq!(losses(DType::F8E8m0, 1, DType::Bf16), [LossKind::Dequantized]);
    assert_eq!(losses(DType::F8E8m0, 1, DType::F16), [LossKind::Dequantized, LossKind::Narrowed]);
}

#[test]
fn tensors_that_do_not_fit_the_format_are_refused_each_by_its_name() {
    type Tensors<'a> = [(&'a str, DType, &'a [u64]); 2];
    let block: Option<&[u64]> = Some(&[2, 2]);
    let f8 = DType::F8E4m3;
    let cases: [(Join, Tensors<'_>, &str, &str); 8] = [
        (
            scaled(block, DType::F32),
            [("w", f8, &[3, 4]), ("s", DType::F32, &[2, 3])],
            "s",
            "[2, 2], one scale for each block",
        ),
        (scaled(block, DType::F32), [("w", f8, &[3]), ("s", DType::F32, &[2])], "s", "at least 2 axes"),
        (
            scaled(None, DType::F32),
            [("w", f8, &[3, 4]), ("s", DType::F32, &[2, 2])],
            "s",
            "block = [128, 128]",
        ),
        (
            scaled(None, DType::F32),
            [("w", DType::F32, &[3, 4]), ("s", DType::F32, &[1])],
            "w",
            "not quantized",
        ),
        (scaled(None, DType::F32), [("w", f8, &[3, 4]), ("s", DType::I32, &[1])], "s", "the wrong dtype"),
        (
            mxfp4(DType::F32),
            [("w", DType::U8, &[3, 2, 8]), ("s", DType::U8, &[3, 2])],
            "w",
            "no blocks of MXFP4",
        ),
        (
            mxfp4(DType::F32),
            [("w", DType::U8, &[3, 2, 16]), ("s", DType::U8, &[2, 3])],
            "s",
            "[3, 2], one scale",
        ),
        (mxfp4(DType::F32), [("w", DType::I8, &[3, 2, 16]), ("s", DType::U8, &[3, 2])], "w", "not quantized"),
    ];
    for (join, tensors, blamed, says) in cases {
        let mut stored = Stored::default();
        for (name, dtype, shape) in tensors {
            let bytes = shape.iter().product::<u64>() * dtype.bytes().unwrap();
            stored = stored.add(name, dtype, shape, &vec![1; bytes as usize]);
        }
        let error = stored.rebuilt(&[target("y", &["w", "s"], join, &[])]).unwrap_err();
        assert_eq!(error.kind(), Kind::Mapping, "{error}");
        assert!(error.to_string().contains(says), "{says}: {error}");
        assert_eq!(error.context().tensor, Some(blamed), "{error}");
    }
    let mut turned = Stored::default().add("w", f8, &[2, 2], &elements(4)).floats("s", &[1], &[1.0]);
    turned
        .rebuilt(&[target("w", &["w"], Join::One, &["transpose"]), target("s", &["s"], Join::One, &[])])
        .unwrap();
    let error = turned.rebuilt(&[target("y", &["w", "s"], scaled(None, DType::F32), &[])]).unwrap_err();
    assert_eq!(error.kind(), Kind::Unsupported);
}
