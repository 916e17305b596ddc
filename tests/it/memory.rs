//! `--max-memory` and `-j` are kept, and no result depends on them.

use crate::common::confined::{MIB, ckpt, said};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Conversions of one kind each: their options, and what becomes of them.
const KINDS: [(&str, &[&str]); 5] = [
    ("streamed", &["--to", "safetensors"]),
    ("indexed", &["--to", "tf2"]),
    ("transposed", &["--to", "safetensors", "--transform", "**: transpose"]),
    ("cast", &["--to", "safetensors", "--dtype", "f16", "--allow", "narrowed"]),
    ("both", &["--to", "tf2", "--transform", "**: transpose", "--dtype", "bf16", "--allow", "narrowed"]),
];

#[test]
fn a_conversion_maps_no_more_than_its_budget_whatever_it_does() {
    let folder = tempfile::tempdir().unwrap();
    // What holds a tensor and its result needs 12 MiB.
    let source = matrices(folder.path(), 2, 1024, 1536);
    for (kind, options) in KINDS {
        let expected = folder.path().join(kind);
        converted(&convert(&source, &expected, options, plain));
        for (budget, threads) in [(8, 4), (9, 1), (80, 2)] {
            let name = format!("{kind}-{budget}-{threads}");
            let output = folder.path().join(&name);
            let limits = [format!("{budget}m"), threads.to_string()];
            let limits = ["--max-memory", &limits[0], "-j", &limits[1]];
            let done = convert(&source, &output, &[options, &limits].concat(), |all| ckpt(budget * MIB, all));
            assert!(done.status.success(), "{name}: {:?} {}", done.status, said(&done));
            assert!(contents(folder.path(), &name) == contents(folder.path(), kind), "{name} is other bytes");
            remove(folder.path(), &name);
        }
    }
}

#[test]
fn less_memory_than_possible_is_refused_with_the_least_that_does() {
    let folder = tempfile::tempdir().unwrap();
    for (tensors, rows, columns) in [(2, 512, 512), (2000, 2, 3)] {
        let source = matrices(folder.path(), tensors, rows, columns);
        for (kind, options) in KINDS {
            let name = format!("{kind}-{tensors}");
            let run = |budget: u64, confined: bool| {
                let output = folder.path().join(&name);
                let given = format!("{budget}m");
                let limits = [&["--format", "json", "--max-memory", &given], options].concat();
                convert(&source, &output, &limits, |all| {
                    if confined { ckpt(budget * MIB, all) } else { plain(all) }
                })
            };
            let refused = run(1, false);
            let error: serde_json::Value = serde_json::from_str(&said(&refused)).unwrap();
            assert_eq!(
                (refused.status.code(), error["error"]["kind"].as_str()),
                (Some(1), Some("limit")),
                "{error}"
            );
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "a refusal leaves nothing");
            let help = error["error"]["help"].as_str().unwrap();
            let least = help.split("--max-memory ").nth(1).and_then(|rest| rest.split('m').next());
            let least: u64 = least.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{help}"));
            assert_eq!(
                run(least - 1, false).status.code(),
                Some(1),
                "{name}: less than the least of {least}"
            );
            converted(&run(least, true));
            remove(folder.path(), &name);
        }
        fs::remove_file(source).unwrap();
    }
}

#[test]
fn threads_are_as_many_as_were_asked_for_where_they_have_room() {
    let folder = tempfile::tempdir().unwrap();
    let source = matrices(folder.path(), 8, 16, 16);
    let threads = |output: Output| {
        let plan: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        plan["estimate"]["threads"].as_u64().unwrap()
    };
    let arguments = |threads: &'static str| {
        [
            "plan",
            source.to_str().unwrap(),
            "x.safetensors",
            "--format",
            "json",
            "--item-size",
            "1",
            "-j",
            threads,
        ]
    };
    for (asked, expected) in [("1", 1), ("3", 3), ("5", 5), ("100", 8)] {
        assert_eq!(threads(plain(&arguments(asked))), expected, "-j {asked}, of 8 tensors");
    }
    for (beyond, expected) in [(16 * MIB, 1), (100 * MIB, 2), (1024 * MIB, 5)] {
        assert_eq!(threads(ckpt(beyond, &arguments("5"))), expected, "in {beyond} bytes");
    }
}

/// A safetensors file of matrices of f32, all distinct.
fn matrices(folder: &Path, tensors: u64, rows: u64, columns: u64) -> PathBuf {
    let len = rows * columns * 4;
    let entry = |k: u64| {
        let offsets = [k * len, (k + 1) * len];
        (
            format!("m{k}"),
            serde_json::json!({ "dtype": "F32", "shape": [rows, columns], "data_offsets": offsets }),
        )
    };
    let header: serde_json::Map<_, _> = (0..tensors).map(entry).collect();
    let header = serde_json::to_vec(&header).unwrap();
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header);
    for tensor in 0..tensors {
        let values =
            (0..rows * columns).map(|k| (k.wrapping_mul(2_654_435_761) % 20_011) as f32 + tensor as f32);
        bytes.extend(values.flat_map(f32::to_le_bytes));
    }
    let path = folder.join("source.safetensors");
    fs::write(&path, bytes).unwrap();
    path
}

fn plain(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ckpt")).args(arguments).output().unwrap()
}

fn convert(source: &Path, output: &Path, options: &[&str], run: impl Fn(&[&str]) -> Output) -> Output {
    let paths = [source.to_str().unwrap(), output.to_str().unwrap(), "--no-sync", "--from", "safetensors"];
    run(&[&["convert"], &paths[..], options].concat())
}

fn converted(output: &Output) {
    assert!(output.status.success(), "{:?} {}", output.status, said(output));
}

/// The bytes of every file whose name is `name` or begins with it and a full stop, in order.
fn contents(folder: &Path, name: &str) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<_> = named(folder, name)
        .into_iter()
        .map(|path| {
            (path.file_name().unwrap().to_string_lossy()[name.len()..].to_owned(), fs::read(path).unwrap())
        })
        .collect();
    files.sort();
    assert!(!files.is_empty(), "{name} is nowhere");
    files
}

fn remove(folder: &Path, name: &str) {
    named(folder, name).into_iter().for_each(|path| fs::remove_file(path).unwrap());
}

fn named(folder: &Path, name: &str) -> Vec<PathBuf> {
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let ours = |path: &PathBuf| {
        let found = path.file_name().unwrap().to_string_lossy().into_owned();
        found.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    paths.filter(ours).collect()
}
