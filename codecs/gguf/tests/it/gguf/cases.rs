//! Files that other programs wrote or damaged, each with what it holds: the directory that `CKPT_CASES` names.

use ckpt_api::{Codec, Contents, Endian, Input, Limits, MetadataValue, Options, TensorId};
use ckpt_conformance::cases;
use ckpt_gguf::Gguf;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Reads a model, and checks what the engine checks before a conversion.
fn read(path: &Path) -> ckpt_api::Result<(Input, Contents)> {
    let input = Input::open(path)?;
    let limits = Limits::default();
    let contents = Gguf.read(&input, &Options::default(), &limits)?;
    contents.check(&limits)?;
    contents.check_data(&input, (0..contents.placements.len()).map(TensorId))?;
    Ok((input, contents))
}

#[test]
fn every_case_is_read_with_its_values_or_refused() {
    let Some(cases) = cases("gguf") else { return };
    let (mut seen, mut wrong) = (BTreeMap::<String, usize>::new(), Vec::new());
    let mut decoded = 0;
    for (path, expected) in &cases {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let expect = expected["expect"].as_str().unwrap();
        *seen.entry(expect.to_owned()).or_default() += 1;
        match (read(&path.join(expected["open"].as_str().unwrap())), expect) {
            (Err(error), "ok") => wrong.push(format!("{name}: {error}")),
            (Ok(_), "refuse") => wrong.push(format!("{name}: read, though {}", expected["why"])),
            (Ok((input, contents)), _) => match compare(&input, &contents, expected) {
                Ok(blocks) => decoded += blocks,
                Err(why) => wrong.push(format!("{name}: {why}")),
            },
            (Err(_), _) => {}
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    let counts = [("ok", 36), ("ok-or-refuse", 5), ("refuse", 34)];
    assert_eq!(seen, counts.map(|(expect, count)| (expect.to_owned(), count)).into());
    assert_eq!(decoded, 37);
}

/// Compares tensors and metadata. Returns the number of tensors whose blocks were decoded.
fn compare(input: &Input, contents: &Contents, expected: &Value) -> Result<usize, String> {
    let listed = expected["tensors"].as_array().unwrap();
    if listed.len() != contents.placements.len() {
        return Err(format!("{} tensors, and {} are expected", contents.placements.len(), listed.len()));
    }
    let mut decoded = 0;
    for wanted in listed {
        let name = wanted["name"].as_str().unwrap();
        let id = contents.checkpoint.tensors.iter().position(|tensor| tensor.name == name);
        let id = id.ok_or_else(|| format!("no tensor '{name}'"))?;
        let (tensor, placement) = (&contents.checkpoint.tensors[id], &contents.placements[id]);
        let extent = &placement.extents[0];
        let file = input.file(&contents.files[extent.file.0]).unwrap();
        let mut bytes = file.bytes(extent.offset, extent.len).unwrap();
        if placement.encoding.endian == Endian::Big {
            bytes.chunks_exact_mut(tensor.dtype.component_bytes()).for_each(<[u8]>::reverse);
        }
        let dtype = match placement.encoding.blocks() {
            Some(blocks) => blocks.name().trim_start_matches("gguf.").to_owned(),
            None => tensor.dtype.name().to_uppercase(),
        };
        let shape: Vec<u64> =
            wanted["shape"].as_array().unwrap().iter().map(|dim| dim.as_u64().unwrap()).collect();
        if wanted["dtype"] != dtype || shape[..] != tensor.shape[..] || wanted["sha256"] != hash(&bytes) {
            return Err(format!(
                "'{name}' is {dtype} {} with {}; expected {wanted}",
                tensor.shape,
                hash(&bytes)
            ));
        }
        let numbers = placement.encoding.blocks().filter(|blocks| !blocks.is_opaque());
        if let Some(blocks) = numbers {
            let mut numbers = Vec::new();
            blocks.decode(&bytes, &mut numbers).unwrap();
            if wanted["sha256_f32"] != hash(&numbers) {
                return Err(format!("'{name}' of {dtype} is decoded to other numbers"));
            }
            decoded += 1;
        }
    }
    let Some(metadata) = expected["metadata"].as_object() else { return Ok(decoded) };
    let split = |key: &str| key.starts_with("split.");
    let own = contents.checkpoint.metadata.namespace("gguf").cloned().unwrap_or_default();
    let keys = metadata.keys().filter(|key| !split(key)).count();
    if own.len() != keys {
        return Err(format!("{} keys, and {keys} are expected", own.len()));
    }
    for (key, wanted) in metadata.iter().filter(|(key, _)| !split(key)) {
        let value = own.get(key).ok_or_else(|| format!("no key '{key}'"))?;
        let (kind, plain) = shown(value);
        if wanted["type"] != kind || wanted["value"] != plain {
            return Err(format!("'{key}' is {kind} {plain}; expected {wanted}"));
        }
    }
    Ok(decoded)
}

/// A value as the cases list it.
fn shown(value: &MetadataValue) -> (&'static str, Value) {
    let float = |number: f64| match number {
        nan if nan.is_nan() => "nan".into(),
        infinite if infinite.is_infinite() => if infinite > 0.0 { "inf" } else { "-inf" }.into(),
        finite => finite.into(),
    };
    match value {
        MetadataValue::Bool(truth) => ("BOOL", (*truth).into()),
        MetadataValue::U8(number) => ("UINT8", (*number).into()),
        MetadataValue::U16(number) => ("UINT16", (*number).into()),
        MetadataValue::U32(number) => ("UINT32", (*number).into()),
        MetadataValue::U64(number) => ("UINT64", (*number).into()),
        MetadataValue::I8(number) => ("INT8", (*number).into()),
        MetadataValue::I16(number) => ("INT16", (*number).into()),
        MetadataValue::I32(number) => ("INT32", (*number).into()),
        MetadataValue::I64(number) => ("INT64", (*number).into()),
        MetadataValue::F32(number) => ("FLOAT32", float((*number).into())),
        MetadataValue::F64(number) => ("FLOAT64", float(*number)),
        MetadataValue::Text(text) => ("STRING", text.as_str().into()),
        MetadataValue::Bytes(bytes) => ("ARRAY", bytes.clone().into()),
        MetadataValue::List(values) => ("ARRAY", values.iter().map(|value| shown(value).1).collect()),
        other => panic!("no value of a GGUF file: {other}"),
    }
}

fn hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn a_file_by_another_program_is_written_again_byte_for_byte() {
    let Some(cases) = cases("gguf") else { return };
    let mut seen = 0;
    for (path, expected) in cases.iter().filter(|(_, expected)| expected["expect"] == "ok") {
        let open = path.join(expected["open"].as_str().unwrap());
        let (input, contents) = read(&open).unwrap();
        if contents.files.len() > 1 {
            continue;
        }
        let placed = Gguf.place(&contents.checkpoint, "out.gguf", &Options::default()).unwrap();
        placed.check(&contents.checkpoint).unwrap();
        let mut written = vec![0; placed.files[0].len.unwrap() as usize];
        for literal in &placed.literals {
            written[literal.offset as usize..][..literal.bytes.len()].copy_from_slice(&literal.bytes);
        }
        for placement in &placed.placements {
            let from = &contents.placements[placement.tensor.0].extents[0];
            let to = &placement.extents[0];
            let bytes = input.file(&contents.files[0]).unwrap().bytes(from.offset, from.len).unwrap();
            written[to.offset as usize..][..to.len as usize].copy_from_slice(&bytes);
        }
        assert!(written == fs::read(&open).unwrap(), "{} differs", path.display());
        seen += 1;
    }
    assert_eq!(seen, 35);
}
