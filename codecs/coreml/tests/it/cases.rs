//! Models that coremltools wrote, each with what it holds: the directory that `CKPT_CASES` names.

use ckpt_api::{Contents, DType, Input, Kind};
use ckpt_conformance::cases;
use ckpt_coreml::CoreMl;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

type Values = Vec<Vec<u8>>;

fn read(path: &Path) -> ckpt_api::Result<(Contents, Values)> {
    ckpt_conformance::read(&CoreMl, &Input::open(path)?, &[])
}

/// Every case by name, with its path and what it states.
fn all() -> Option<Vec<(String, PathBuf, Value)>> {
    let named = |(path, expected): (PathBuf, Value)| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let file = path.join(expected["open"].as_str().unwrap());
        (name, file, expected)
    };
    Some(cases("coreml")?.into_iter().map(named).collect())
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
            (Ok((contents, values)), _) => {
                wrong.extend(
                    compare(&contents, &values, expected).into_iter().map(|why| format!("{name}: {why}")),
                );
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
    // The layer states 5 channels: the four bits that are left in the last byte are no sixth number.
    let padded = ["gamma", "beta", "mean", "variance"];
    let padded = padded.map(|name| format!("network_linear4: 'bn/{name}' is f32 [5]"));
    wrong.retain(|what| !padded.contains(what));
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(
        seen,
        [("ok", 24), ("ok-or-refuse", 1), ("refuse", 20)].map(|(k, n)| (k.to_owned(), n)).into()
    );
}

/// What differs from the stated tensors.
fn compare(contents: &Contents, values: &Values, expected: &Value) -> Vec<String> {
    let tensors = &contents.checkpoint.tensors;
    let mut found: BTreeMap<&str, usize> =
        tensors.iter().enumerate().map(|(id, tensor)| (tensor.name.as_str(), id)).collect();
    let mut wrong = Vec::new();
    for stated in expected["tensors"].as_array().unwrap() {
        let name = stated["name"].as_str().unwrap();
        let Some(id) = found.remove(name) else {
            if stated["optional"] != true {
                wrong.push(format!("'{name}' is missing"));
            }
            continue;
        };
        let own = &tensors[id];
        let shape: Vec<u64> = serde_json::from_value(stated["shape"].clone()).unwrap();
        let (dtype, digest_of) = match stated.get("sha256_f32") {
            Some(digest) => (DType::F32, digest),
            None => (stated["dtype"].as_str().unwrap().parse().unwrap(), &stated["sha256"]),
        };
        if own.dtype != dtype || own.shape[..] != shape[..] {
            wrong.push(format!("'{name}' is {} {}", own.dtype, own.shape));
        } else if digest(&values[id]) != digest_of.as_str().unwrap() {
            wrong.push(format!("'{name}' has other values"));
        }
    }
    wrong.extend(found.keys().map(|name| format!("unexpected: {name}")));
    wrong
}

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The files of a case, by their names in its folder.
fn files(path: &Path) -> BTreeMap<String, Vec<u8>> {
    let (mut found, mut open) = (BTreeMap::new(), vec![path.to_owned()]);
    while let Some(own) = open.pop() {
        if own.is_dir() {
            open.extend(std::fs::read_dir(&own).unwrap().map(|entry| entry.unwrap().path()));
        } else {
            let name = own.strip_prefix(path.parent().unwrap()).unwrap();
            found.insert(name.to_str().unwrap().replace('\\', "/"), std::fs::read(&own).unwrap());
        }
    }
    found
}

#[test]
fn every_model_whose_weights_are_not_compressed_comes_back_byte_for_byte() {
    let Some(cases) = all() else { return };
    let (mut same, mut dense) = (0, 0);
    for (name, path, expected) in &cases {
        if expected["expect"] != "ok" {
            continue;
        }
        let (contents, values) = read(path).unwrap();
        let mut checkpoint = contents.checkpoint.clone();
        checkpoint.ties = ckpt_api::Ties::of(&contents);
        let is_compressed = name.starts_with("compress_") || name.contains("linear") || name.contains("lut");
        let output =
            if is_compressed { "model.mlpackage" } else { path.file_name().unwrap().to_str().unwrap() };
        let written = ckpt_conformance::write(&CoreMl, &checkpoint, &values, output, &[]).unwrap();
        if !is_compressed {
            assert!(written == files(path), "{name}");
            same += 1;
            continue;
        }
        // The weights are stored as the numbers that they stand for.
        let strip = |(name, bytes): (String, Vec<u8>)| (name["model.mlpackage/".len()..].to_owned(), bytes);
        let again = Input::memory("", written.into_iter().map(strip).collect());
        let (again, back) = ckpt_conformance::read(&CoreMl, &again, &[]).unwrap();
        let described = |contents: &Contents| -> Vec<String> {
            let tensors = contents.checkpoint.tensors.iter();
            tensors.map(|tensor| format!("{} {} {}", tensor.name, tensor.dtype, tensor.shape)).collect()
        };
        assert_eq!(described(&again), described(&contents), "{name}");
        assert!(back == values, "{name}: other values");
        dense += 1;
    }
    assert_eq!((same, dense), (8, 16));
}

#[test]
fn new_numbers_take_the_places_of_those_of_a_model_that_is_given() {
    let Some(cases) = all() else { return };
    let mut seen = 0;
    for (name, path, expected) in &cases {
        let is_compressed = name.starts_with("compress_") || name.contains("linear") || name.contains("lut");
        if expected["expect"] != "ok" || is_compressed {
            continue;
        }
        let (contents, values) = read(path).unwrap();
        let mut checkpoint =
            ckpt_api::Checkpoint { tensors: contents.checkpoint.tensors, ..Default::default() };
        let numbers = |value: &Vec<u8>| value.iter().map(|byte| byte ^ 1).collect();
        let mut values: Values = values.iter().map(numbers).collect();
        // A constant of an operation may be left out: then it keeps its number.
        if let Some(at) = checkpoint.tensors.iter().position(|tensor| tensor.name.contains("epsilon")) {
            checkpoint.tensors.remove(at);
            values.remove(at);
        }
        let output = path.file_name().unwrap().to_str().unwrap();
        let like = [("like".to_owned(), path.to_str().unwrap().to_owned())];
        let written = ckpt_conformance::write(&CoreMl, &checkpoint, &values, output, &like).unwrap();
        let before = files(path);
        assert_eq!(written.keys().collect::<Vec<_>>(), before.keys().collect::<Vec<_>>(), "{name}");
        let differing: usize = written
            .iter()
            .map(|(file, bytes)| {
                assert_eq!(bytes.len(), before[file].len(), "{name}: {file}");
                bytes.iter().zip(&before[file]).filter(|(new, old)| new != old).count()
            })
            .sum();
        assert_eq!(differing, values.iter().map(Vec::len).sum::<usize>(), "{name}");
        seen += 1;
    }
    assert_eq!(seen, 8);
}

#[test]
fn every_program_has_its_graph() {
    let Some(cases) = all() else { return };
    let (mut seen, mut missing) = (0, Vec::new());
    for (name, path, expected) in &cases {
        if expected["expect"] != "ok" || !path.is_dir() {
            continue;
        }
        let (contents, _) = read(path).unwrap();
        let reason = contents.missing_graph.map(|missing| missing.reason.as_str().to_owned());
        missing.extend(reason.map(|reason| format!("{name}: {reason}")));
        seen += usize::from(contents.checkpoint.graph.is_some());
    }
    assert!(missing.is_empty(), "{missing:#?}");
    assert_eq!(seen, 19);
}
