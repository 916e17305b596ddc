//! Models that other programs wrote, each with what it holds: the directory that `CKPT_CASES` names.

use ckpt_api::{Codec, Contents, DType, Input, Kind, LossKind, Options, Shape, Tensor};
use ckpt_conformance::{Case, sha256};
use ckpt_tflite::Tflite;
use std::collections::BTreeMap;

#[test]
fn every_case_is_read_with_its_values_or_refused() {
    let Some(cases) = Case::all("tflite") else { return };
    let seen = Case::try_all(&cases, &Tflite, compare, |error| {
        let context = error.context();
        let is_placed = context.offset.is_some() || context.field.is_some();
        let is_known = matches!(error.kind(), Kind::Corrupt | Kind::Unsupported);
        is_placed && is_known && context.found.is_some() && context.expected.is_some()
    });
    let expected = [("ok: read", 31), ("ok-or-refuse: read", 2), ("refuse: refused", 28)];
    assert_eq!(seen, expected.map(|(k, n)| (k.to_owned(), n)).into());
}

fn compare(case: &Case, contents: &Contents, values: &[Vec<u8>]) -> Vec<String> {
    let stated = case.expected["tensors"].as_array().unwrap();
    // What it holds is only stated of the others.
    if case.expect() == "ok-or-refuse" && stated.is_empty() {
        return Vec::new();
    }
    let tensors = &contents.checkpoint.tensors;
    let values: Vec<Vec<u8>> =
        tensors.iter().zip(values).map(|(tensor, value)| extended(tensor.dtype, value)).collect();
    let mut wrong = case.differences(contents, &values);
    for (tensor, value) in tensors.iter().zip(&values) {
        let own = stated.iter().find(|stated| tensor.name == stated["name"].as_str().unwrap());
        match own.and_then(|own| own.get("quantised")) {
            Some(quantized)
                if numbers(tensor, value).map(|all| sha256(&all)).as_deref()
                    != Ok(quantized["sha256_f32"].as_str().unwrap()) =>
            {
                wrong.push(format!("'{}' stands for other numbers", tensor.name));
            }
            None if tensor.quantization.is_some() => wrong.push(format!("'{}' has scales", tensor.name)),
            _ => {}
        }
    }
    wrong
}

/// Small integers with their signs in the whole byte.
fn extended(dtype: DType, value: &[u8]) -> Vec<u8> {
    let unused = match dtype {
        DType::I4 => 4,
        DType::I2 => 6,
        _ => 0,
    };
    value.iter().map(|byte| ((byte << unused).cast_signed() >> unused).cast_unsigned()).collect()
}

/// The numbers that integers stand for, computed by the format's definition.
fn numbers(tensor: &Tensor, value: &[u8]) -> Result<Vec<u8>, String> {
    let affine = tensor.quantization.as_ref().and_then(|own| own.affine());
    let affine = affine.ok_or_else(|| format!("'{}' has no scale", tensor.name))?;
    let bytes = usize::try_from(tensor.dtype.bytes().unwrap()).unwrap();
    let integers = value.chunks(bytes).map(|bytes| match (tensor.dtype, bytes) {
        (DType::U8 | DType::U4, [byte]) => i64::from(*byte),
        (_, [byte]) => i64::from(byte.cast_signed()),
        (_, [a, b]) => i16::from_le_bytes([*a, *b]).into(),
        (_, [a, b, c, d]) => i32::from_le_bytes([*a, *b, *c, *d]).into(),
        _ => i64::from_le_bytes(bytes.try_into().unwrap()),
    });
    let after: u64 = affine.axis().map_or(1, |axis| tensor.shape[axis + 1..].iter().product());
    let number = |(at, integer): (u64, i64)| {
        let index = usize::try_from(at / after).unwrap();
        let index = if affine.axis().is_some() { index % affine.scales().len() } else { 0 };
        (affine.scales()[index] as f32 * (integer as f64 - affine.zero_points()[index]) as f32).to_le_bytes()
    };
    Ok((0..).zip(integers).flat_map(number).collect())
}

#[test]
fn every_model_that_is_read_comes_back_byte_for_byte() {
    let Some(cases) = Case::all("tflite") else { return };
    let (mut same, mut others) = (0, Vec::new());
    for case in &cases {
        let name = &case.name;
        if case.expect() != "ok" {
            continue;
        }
        let (contents, values) = case.read(&Tflite).unwrap();
        let mut checkpoint = contents.checkpoint.clone();
        checkpoint.ties = ckpt_api::Ties::of(&contents);
        let files = ckpt_conformance::write(&Tflite, &checkpoint, &values, "out.tflite", &[]).unwrap();
        let mut expected = std::fs::read(&case.path).unwrap();
        for (tensor, placement) in contents.checkpoint.tensors.iter().zip(&contents.placements) {
            // What fills up the last byte means nothing.
            let bits = tensor.shape.elements() * u64::from(tensor.dtype.bits().unwrap());
            if bits % 8 > 0 {
                let last = placement.extents[0].offset + bits / 8;
                expected[usize::try_from(last).unwrap()] &= (1 << (bits % 8)) - 1;
            }
        }
        if files["out.tflite"] == expected {
            same += 1;
            continue;
        }
        let layout = Tflite.place(&checkpoint, "out.tflite", &Options::default()).unwrap();
        let lost = layout.losses.iter().any(|loss| loss.kind == LossKind::LayerDropped);
        let has_operators = checkpoint.metadata.value("tflite", "operators").is_some();
        // The graph is written anew.
        assert_eq!(lost, has_operators && checkpoint.graph.is_none(), "{name}");
        let (again, back) =
            ckpt_conformance::read(&Tflite, &Input::memory("out.tflite", files), &[]).unwrap();
        // The tensors of operators come in the order of these.
        let described =
            |contents: &Contents, values: &[Vec<u8>]| -> BTreeMap<String, (DType, Shape, Vec<u8>)> {
                let tensors = contents.checkpoint.tensors.iter().zip(values);
                tensors
                    .map(|(own, value)| (own.name.to_string(), (own.dtype, own.shape.clone(), value.clone())))
                    .collect()
            };
        assert_eq!(again.checkpoint.graph.is_some(), checkpoint.graph.is_some(), "{name}");
        assert!(described(&again, &back) == described(&contents, &values), "{name}: other tensors");
        others.push(name.as_str());
    }
    // Only some of their elements are stored.
    assert_eq!(others, ["hand_sparse_csr", "sparse"]);
    assert_eq!(same, 29);
}
