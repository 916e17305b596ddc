//! Each case in `CKPT_CASES` is written again byte for byte.

use super::common::{Files, bundle, message, number, shape, slice_key};
use ckpt_api::{Codec, Input};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Cases that cannot be written byte for byte, each with the reason.
const DIFFERENT: &[(&str, &str)] = &[
    ("odd_shared_data", "tensors that share bytes are written separately"),
    ("swift_minigo", "the case has no data file"),
    ("swift_resnet", "the case has no data file"),
    ("swift_style", "the case has no data file"),
    ("swift_transformer", "the case has no data file"),
];

#[test]
fn every_case_is_written_again_byte_for_byte() {
    let Some(cases) = cases() else { return };
    let (mut same, mut default) = (0, 0);
    for (name, directory, expected) in cases {
        if DIFFERENT.iter().any(|(different, _)| *different == name) {
            continue;
        }
        let prefix = expected["prefix"].as_str().unwrap();
        let input = Input::open(directory.join(prefix)).unwrap();
        let (contents, values) = ckpt_conformance::read(&ckpt_tf2::Tf2, &input, &[]).unwrap();
        let written =
            ckpt_conformance::write(&ckpt_tf2::Tf2, &contents.checkpoint, &values, prefix, &[]).unwrap();
        compare(&name, &written, &files(&directory, prefix));
        let placed = ckpt_tf2::Tf2.place(&contents.checkpoint, prefix, &Default::default()).unwrap();
        assert_eq!(placed.losses, [], "{name}");
        same += 1;
        if expected["index"]["same_bytes_from_default_writer"] == true && expected["kind"] == "valid" {
            let metadata = &contents.checkpoint.metadata;
            assert!(metadata.value("tf2", "index").is_none(), "{name}: the index is recorded");
            assert!(
                metadata.value("tf2", "layout").is_none() || name == "shards2",
                "{name}: the layout is recorded: {:?}",
                metadata.value("tf2", "layout")
            );
            default += 1;
        }
    }
    assert_eq!((same, default), (43, 25));
}

/// A bundle of two files. The second one has both slices of a tensor, whose own entry names the data file `whole`.
fn partitioned_in_the_second_file(whole: u64) -> Files {
    let (left, right) = ([(0, 2), (0, 1)], [(0, 2), (1, 1)]);
    let second = bundle()
        .tensor(slice_key("v", &left), 4, &[2, 1], &[1, 3])
        .tensor(slice_key("v", &right), 4, &[2, 1], &[2, 4])
        .partitioned("v", 4, &[2, 2], &[&left, &right]);
    let mut all = bundle().tensor("a", 4, &[2], &[8, 9]);
    all.header = [number(1, 2), message(3, &number(1, 1))].concat();
    for (key, mut entry) in second.entries {
        let (dims, shard) = if key == b"v" { (&[2, 2], whole) } else { (&[2, 1], 1) };
        let at = number(1, 4).len() + message(2, &shape(dims)).len();
        entry.splice(at..at, if shard == 0 { Vec::new() } else { number(3, shard) });
        all = all.raw(key, entry);
    }
    Files::from([
        ("m.index".to_owned(), all.index()),
        ("m.data-00000-of-00002".to_owned(), all.data.clone()),
        ("m.data-00001-of-00002".to_owned(), second.data),
    ])
}

#[test]
fn the_entry_of_a_partitioned_tensor_keeps_its_data_file() {
    for whole in [1, 0] {
        let files = partitioned_in_the_second_file(whole);
        let input = Input::memory("m", files.clone());
        let (contents, values) = ckpt_conformance::read(&ckpt_tf2::Tf2, &input, &[]).unwrap();
        let written =
            ckpt_conformance::write(&ckpt_tf2::Tf2, &contents.checkpoint, &values, "m", &[]).unwrap();
        compare("partitioned", &written, &files);
        // TensorFlow names the first slice's data file; another one is recorded.
        let recorded = contents.checkpoint.tensor("v").unwrap().1.metadata.value("tf2", "whole_shard");
        assert_eq!(recorded.is_some(), whole == 0);
    }
}

fn compare(name: &str, written: &Files, expected: &Files) {
    let names: (Vec<_>, Vec<_>) = (written.keys().collect(), expected.keys().collect());
    assert_eq!(names.0, names.1, "{name}");
    for (file, bytes) in written {
        let at = bytes.iter().zip(&expected[file]).position(|(a, b)| a != b);
        assert!(
            *bytes == expected[file],
            "{name}: {file} differs at {at:?}, {} bytes instead of {}",
            bytes.len(),
            expected[file].len()
        );
    }
}

/// The files of one checkpoint, by their names relative to `directory`.
fn files(directory: &Path, prefix: &str) -> Files {
    let path = directory.join(prefix);
    let (parent, stem) = (path.parent().unwrap(), path.file_name().unwrap().to_string_lossy().into_owned());
    let mut files = Files::new();
    for entry in std::fs::read_dir(parent).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().to_string_lossy().into_owned();
        if let Some(rest) = name.strip_prefix(&stem)
            && (rest == ".index" || rest.starts_with(".data-"))
        {
            files.insert(format!("{prefix}{rest}"), std::fs::read(entry.path()).unwrap());
        }
    }
    files
}

fn cases() -> Option<Vec<(String, PathBuf, Value)>> {
    Some(
        super::common::cases()?
            .into_iter()
            .filter(|(_, _, e)| matches!(e["kind"].as_str(), Some("valid" | "odd")))
            .collect(),
    )
}
