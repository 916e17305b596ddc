//! Files that Keras and h5py wrote, each with what it holds: the directory that `CKPT_CASES` names.

use ckpt_api::{Contents, Input};
use ckpt_conformance::{case_folder, cases};
use ckpt_keras::Keras;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The folder of a report from outside; `None` without the cases.
pub(super) fn reports(name: &str) -> Option<PathBuf> {
    case_folder("reports").map(|reports| reports.join(name))
}

fn name(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().into_owned()
}

fn open(path: &Path, expected: &Value) -> (String, Input) {
    let entry = expected["open"].as_str().unwrap();
    (entry.to_owned(), Input::open(path.join(entry)).unwrap())
}

#[test]
fn every_case_is_read_with_its_values_or_refused() {
    let Some(cases) = cases("keras") else { return };
    let (mut seen, mut wrong) = (BTreeMap::<String, usize>::new(), Vec::new());
    for (path, expected) in &cases {
        let name = name(path);
        let expect = expected["expect"].as_str().unwrap();
        let outcome = ckpt_conformance::read(&Keras, &open(path, expected).1, &[]);
        let read = if outcome.is_ok() { "read" } else { "refused" };
        *seen.entry(format!("{expect}: {read}")).or_default() += 1;
        match (outcome, expect) {
            (Err(error), "ok") => wrong.push(format!("{name}: {error}")),
            (Ok(_), "refuse") => wrong.push(format!("{name}: read, though {}", expected["why"])),
            (Ok((contents, values)), _) => {
                if let Err(why) = compare(&contents, &values, expected) {
                    wrong.push(format!("{name}: {why}"));
                }
            }
            (Err(error), _) => println!("{name}: {error}"),
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    let expected =
        [("ok-or-refuse: read", 7), ("ok-or-refuse: refused", 1), ("ok: read", 37), ("refuse: refused", 20)];
    assert_eq!(seen, expected.map(|(sort, count)| (sort.to_owned(), count)).into());
}

fn compare(contents: &Contents, values: &[Vec<u8>], expected: &Value) -> Result<(), String> {
    let tensors = contents.checkpoint.tensors.iter().zip(values);
    let mut found: BTreeMap<&str, _> = tensors.map(|pair| (pair.0.name.as_str(), pair)).collect();
    for tensor in expected["tensors"].as_array().unwrap() {
        let name = tensor["name"].as_str().unwrap();
        let (own, value) = found.remove(name).ok_or_else(|| format!("'{name}' is missing"))?;
        let shape: Vec<u64> = serde_json::from_value(tensor["shape"].clone()).unwrap();
        let dtype = tensor["dtype"].as_str().unwrap().to_lowercase();
        if own.dtype.name() != dtype || own.shape[..] != shape[..] {
            return Err(format!("'{name}' is {} {}", own.dtype, own.shape));
        }
        let hex: String = Sha256::digest(value).iter().map(|byte| format!("{byte:02x}")).collect();
        if hex != tensor["sha256"].as_str().unwrap() {
            return Err(format!("'{name}' has other values"));
        }
    }
    if found.is_empty() { Ok(()) } else { Err(format!("unexpected: {:?}", found.keys())) }
}

#[test]
fn what_is_not_compressed_comes_back_byte_for_byte() {
    let Some(cases) = cases("keras") else { return };
    let (mut same, mut others) = (0, Vec::new());
    for (path, expected) in cases.iter().filter(|(_, expected)| expected["expect"] == "ok") {
        let (entry, input) = open(path, expected);
        let (contents, values) = ckpt_conformance::read(&Keras, &input, &[]).unwrap();
        let written = ckpt_conformance::write(&Keras, &contents.checkpoint, &values, &entry, &[]).unwrap();
        match written.iter().all(|(name, bytes)| *bytes == fs::read(path.join(name)).unwrap()) {
            true => same += 1,
            false => others.push(name(path)),
        }
    }
    // Chunks that reach beyond the dataset, elements that were never written, and compressed chunks.
    let expected = [
        "h5_chunked_no_filter",
        "h5_fill_values",
        "h5_fletcher32",
        "h5_gzip_shuffle",
        "h5_latest_chunk_indexes",
    ];
    assert_eq!((same, others), (32, expected.map(str::to_owned).into()));
}
