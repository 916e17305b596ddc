//! Models that other programs wrote, each with what it holds: the directory that `CKPT_CASES` names.

use ckpt_api::{Codec, Contents, DType, Input, Kind, LossKind, Options, Shape, Tensor};
use ckpt_conformance::cases;
use ckpt_tflite::Tflite;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::path::Path;

type Values = Vec<Vec<u8>>;

fn read(path: &Path) -> ckpt_api::Result<(Contents, Values)> {
    ckpt_conformance::read(&Tflite, &Input::open(path)?, &[])
}

/// Every case by name, with its path and what it states.
fn all() -> Option<Vec<(String, std::path::PathBuf, Value)>> {
    let named = |(path, expected): (std::path::PathBuf, Value)| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let file = path.join(expected["open"].as_str().unwrap());
        (name, file, expected)
    };
    Some(cases("tflite")?.into_iter().map(named).collect())
}

#[test]
fn every_case_is_read_with_its_values_or_refused() {
    let Some(cases) = all() else { return };
    let (mut seen, mut wrong) = (BTreeMap::<String, usize>::new(), Vec::new());
    for (name, path, expected) in &cases {
        let expect = expected["expect"].as_str().unwrap();
        *seen.entry(expect.to_owned()).or_default() += 1;
        match (read(path), expect) {
            (Err(error), "ok") => wrong.push(format!("{name}: {error}")),
            (Ok(_), "refuse") => wrong.push(format!("{name}: read, though {}", expected["why"])),
            // What it holds is only stated of the others.
            (Ok(_), "ok-or-refuse") if expected["tensors"].as_array().is_none_or(Vec::is_empty) => {}
            (Ok((contents, values)), _) => {
                if let Err(why) = compare(&contents, &values, expected) {
                    wrong.push(format!("{name}: {why}"));
                }
            }
            (Err(error), _) => {
                let context = error.context();
                let is_placed = context.offset.is_some() || context.field.is_some();
                let is_known = matches!(error.kind(), Kind::Corrupt | Kind::Unsupported);
                if !is_placed || !is_known || context.found.is_none() || context.expected.is_none() {
                    wrong.push(format!("{name}: does not say where, what and what else: {error}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(
        seen,
        [("ok", 31), ("ok-or-refuse", 2), ("refuse", 28)].map(|(k, n)| (k.to_owned(), n)).into()
    );
}

fn compare(contents: &Contents, values: &Values, expected: &Value) -> Result<(), String> {
    let tensors = &contents.checkpoint.tensors;
    let mut found: BTreeMap<&str, usize> =
        tensors.iter().enumerate().map(|(id, tensor)| (tensor.name.as_str(), id)).collect();
    for stated in expected["tensors"].as_array().unwrap() {
        let name = stated["name"].as_str().unwrap();
        let id = found.remove(name).ok_or_else(|| format!("'{name}' is missing"))?;
        let own = &tensors[id];
        let shape: Vec<u64> = serde_json::from_value(stated["shape"].clone()).unwrap();
        let dtype = stated["dtype"].as_str().unwrap().to_lowercase();
        if own.dtype.name() != dtype || own.shape[..] != shape[..] {
            return Err(format!("'{name}' is {} {}", own.dtype, own.shape));
        }
        let value = extended(own.dtype, &values[id]);
        if digest(&value) != stated["sha256"].as_str().unwrap() {
            return Err(format!("'{name}' has other values"));
        }
        match stated.get("quantised") {
            Some(quantized)
                if digest(&numbers(own, &value)?) != quantized["sha256_f32"].as_str().unwrap() =>
            {
                return Err(format!("'{name}' stands for other numbers"));
            }
            None if own.quantization.is_some() => return Err(format!("'{name}' has scales")),
            _ => {}
        }
    }
    if found.is_empty() { Ok(()) } else { Err(format!("unexpected: {:?}", found.keys())) }
}

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
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
    let Some(cases) = all() else { return };
    let (mut same, mut others) = (0, Vec::new());
    for (name, path, expected) in &cases {
        if expected["expect"] != "ok" {
            continue;
        }
        let (contents, values) = read(path).unwrap();
        let mut checkpoint = contents.checkpoint.clone();
        checkpoint.ties = ckpt_api::Ties::of(&contents);
        let files = ckpt_conformance::write(&Tflite, &checkpoint, &values, "out.tflite", &[]).unwrap();
        let mut expected = std::fs::read(path).unwrap();
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
