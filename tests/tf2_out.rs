//! TensorFlow checkpoints through the engine: written as they were, and by way of safetensors. `CKPT_CASES` names the
//! folder of real files.

mod common;

use ckpt::{Conversion, Resources};
use common::{cases, convert, open};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Cases that have no data, or whose tensors share bytes.
const LEFT_OUT: [&str; 5] =
    ["odd_shared_data", "swift_minigo", "swift_resnet", "swift_style", "swift_transformer"];

/// Cases with strings, variants or complex128, which safetensors has no place for.
const NOT_FOR_SAFETENSORS: [&str; 17] = [
    "all_dtypes",
    "odd_align4096",
    "odd_align42",
    "odd_base",
    "odd_big_endian",
    "odd_newer_producer",
    "odd_no_meta_block",
    "odd_no_shape",
    "odd_no_version",
    "odd_trailing_data",
    "odd_unknown_fields",
    "old_string_tensors_like",
    "partitioned_unrestorable_dtype",
    "shapes",
    "shards2",
    "strings",
    "variant_list",
];

#[test]
fn every_valid_checkpoint_comes_back_byte_for_byte_whatever_the_budget_and_threads() {
    let Some(all) = valid_cases() else { return };
    let mut seen = 0;
    for (name, prefix) in all {
        let work = tempfile::tempdir().unwrap();
        let small = Resources::new().max_memory(96 << 20).threads(3);
        for (number, resources) in [Resources::default(), small].into_iter().enumerate() {
            let output = work.path().join(format!("{number}")).join(prefix.file_name().unwrap());
            std::fs::create_dir(output.parent().unwrap()).unwrap();
            convert(open(&prefix, &[]), &output, &to_tf2(resources));
            compare(&name, &output, &prefix);
        }
        seen += 1;
    }
    assert_eq!(seen, 43);
}

#[test]
fn a_checkpoint_comes_back_byte_for_byte_by_way_of_safetensors() {
    let Some(all) = valid_cases() else { return };
    let mut seen = 0;
    for (name, prefix) in all {
        if NOT_FOR_SAFETENSORS.contains(&name.as_str()) {
            continue;
        }
        let work = tempfile::tempdir().unwrap();
        let middle = work.path().join("m.safetensors");
        let output = work.path().join(prefix.file_name().unwrap());
        convert(open(&prefix, &[]), &middle, &Conversion::default());
        convert(open(&middle, &[]), &output, &to_tf2(Resources::default()));
        compare(&name, &output, &prefix);
        seen += 1;
    }
    assert_eq!(seen, 26);
}

fn to_tf2(resources: Resources) -> Conversion {
    Conversion::new().to("tf2").resources(resources)
}

/// Valid cases and odd ones: their names and prefixes.
fn valid_cases() -> Option<Vec<(String, PathBuf)>> {
    let root = cases("tf2")?;
    let mut all = Vec::new();
    for entry in std::fs::read_dir(root).unwrap() {
        let directory = entry.unwrap().path();
        let name = directory.file_name().unwrap().to_string_lossy().into_owned();
        let Ok(text) = std::fs::read_to_string(directory.join("expected.json")) else { continue };
        let expected: serde_json::Value = serde_json::from_str(&text).unwrap();
        let valid = matches!(expected["kind"].as_str(), Some("valid" | "odd"));
        if valid && !LEFT_OUT.contains(&name.as_str()) {
            all.push((name, directory.join(expected["prefix"].as_str().unwrap())));
        }
    }
    all.sort();
    Some(all)
}

fn compare(case: &str, output: &Path, prefix: &Path) {
    let (found, expected) = (bundle(output), bundle(prefix));
    assert!(found.keys().eq(expected.keys()), "{case}: {:?}", found.keys());
    for (ending, bytes) in &found {
        assert!(*bytes == expected[ending], "{case}: {ending} differs");
    }
}

/// The files of a checkpoint by what follows the prefix.
fn bundle(prefix: &Path) -> BTreeMap<String, Vec<u8>> {
    let stem = prefix.file_name().unwrap().to_string_lossy().into_owned();
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(prefix.parent().unwrap()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let ending = name.strip_prefix(&stem).filter(|rest| *rest == ".index" || rest.starts_with(".data-"));
        if let Some(ending) = ending {
            files.insert(ending.to_owned(), std::fs::read(&path).unwrap());
        }
    }
    files
}
