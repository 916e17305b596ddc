//! Models that coremltools wrote, each with what it holds: the directory that `CKPT_CASES` names.

use ckpt_api::{Contents, Input, Kind};
use ckpt_conformance::Case;
use ckpt_coreml::CoreMl;
use std::collections::BTreeMap;
use std::path::Path;

#[test]
fn every_case_is_read_with_its_values_or_refused() {
    let Some(cases) = Case::all("coreml") else { return };
    let read = |case: &Case, contents: &Contents, values: &[Vec<u8>]| {
        let mut wrong = case.differences(contents, values);
        // The layer states 5 channels: the four bits that are left in the last byte are no sixth number.
        if case.name == "network_linear4" {
            let padded = ["gamma", "beta", "mean", "variance"].map(|name| format!("'bn/{name}' is f32 [5]"));
            wrong.retain(|what| !padded.contains(what));
        }
        wrong
    };
    let seen = Case::try_all(&cases, &CoreMl, read, |error| {
        let context = error.context();
        let is_placed = context.offset.is_some() || context.field.is_some();
        let is_known = matches!(error.kind(), Kind::Corrupt | Kind::Unsupported);
        is_placed && is_known && context.found.is_some() && context.expected.is_some()
    });
    let expected = [("ok: read", 24), ("ok-or-refuse: refused", 1), ("refuse: refused", 20)];
    assert_eq!(seen, expected.map(|(k, n)| (k.to_owned(), n)).into());
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
    let Some(cases) = Case::all("coreml") else { return };
    let (mut same, mut dense) = (0, 0);
    for case in &cases {
        let (name, path) = (&case.name, &case.path);
        if case.expect() != "ok" {
            continue;
        }
        let (contents, values) = case.read(&CoreMl).unwrap();
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
    let Some(cases) = Case::all("coreml") else { return };
    let mut seen = 0;
    for case in &cases {
        let (name, path) = (&case.name, &case.path);
        let is_compressed = name.starts_with("compress_") || name.contains("linear") || name.contains("lut");
        if case.expect() != "ok" || is_compressed {
            continue;
        }
        let (contents, values) = case.read(&CoreMl).unwrap();
        let mut checkpoint =
            ckpt_api::Checkpoint { tensors: contents.checkpoint.tensors, ..Default::default() };
        let numbers = |value: &Vec<u8>| value.iter().map(|byte| byte ^ 1).collect();
        let mut values: Vec<Vec<u8>> = values.iter().map(numbers).collect();
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
    let Some(cases) = Case::all("coreml") else { return };
    let (mut seen, mut missing) = (0, Vec::new());
    for case in &cases {
        let (name, path) = (&case.name, &case.path);
        if case.expect() != "ok" || !path.is_dir() {
            continue;
        }
        let (contents, _) = case.read(&CoreMl).unwrap();
        let reason = contents.missing_graph.map(|missing| missing.reason.as_str().to_owned());
        missing.extend(reason.map(|reason| format!("{name}: {reason}")));
        seen += usize::from(contents.checkpoint.graph.is_some());
    }
    assert!(missing.is_empty(), "{missing:#?}");
    assert_eq!(seen, 19);
}
