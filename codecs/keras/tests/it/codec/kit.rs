//! The conformance kit, on files of the corpus, which are made byte by byte without the codec.

use ckpt_api::{Axis, DType};
use ckpt_conformance::{Sample, check};
use ckpt_keras::Keras;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// A case of the corpus: a file, or the files of a directory.
fn files(name: &str) -> BTreeMap<String, Vec<u8>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/keras/accept").join(name);
    if path.is_file() {
        return [(name.to_owned(), fs::read(path).unwrap())].into();
    }
    let entries = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
    entries
        .map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), fs::read(path).unwrap()))
        .collect()
}

/// A file with a kernel [2, 3] and a bias [3].
fn dense(what: &'static str, case: &str, entry: &str) -> Sample {
    Sample::new(what, entry, files(case))
        .floats("layers/dense/vars/0", &[2, 3], &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0])
        .floats("layers/dense/vars/1", &[3], &[6.0, 7.0, 8.0])
}

fn described(sample: Sample) -> Sample {
    sample
        .axes("layers/dense/vars/0", [Axis::In, Axis::Out])
        .axes("layers/dense/vars/1", [Axis::Out])
        .tensor_metadata("layers/dense/vars/0", "keras", "path", "layers/dense/vars/0")
        .tensor_metadata("layers/dense/vars/1", "keras", "path", "layers/dense/vars/1")
}

const UNUSED: &str =
    "nodes of trees have room for children, which means nothing, and flags that nobody reads";

#[test]
fn the_codec_keeps_the_contract_for_hdf5_files() {
    let samples = [
        dense("weights", "weights.h5", "weights.h5").ignoring("weights.h5", .., UNUSED),
        dense("chunks", "chunked.h5", "chunked.h5")
            .ignoring("chunked.h5", .., UNUSED)
            .rewritten("chunks that reach beyond the dataset become one piece"),
        dense("deflated chunks", "deflated.h5", "deflated.h5")
            .ignoring("deflated.h5", .., UNUSED)
            .rewritten("compressed chunks become one piece"),
        Sample::new("bfloat16", "bfloat16.h5", files("bfloat16.h5"))
            .tensor("layers/dense/vars/0", DType::Bf16, &[2, 3], b"\x80\x3f\0\x40".repeat(3))
            .tensor("layers/dense/vars/1", DType::Bf16, &[3], *b"\0\x40\x80\x3f\0\0")
            .ignoring("bfloat16.h5", .., UNUSED),
        Sample::new("a file of the new style", "new_style.h5", files("new_style.h5"))
            .floats("w", &[2, 3], &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0])
            .ignoring("new_style.h5", .., UNUSED),
    ];
    check(&Keras, &samples);
}

#[test]
fn the_codec_keeps_the_contract_for_models() {
    let samples = [
        described(dense("an archive", "archive", "m.keras")).ignoring("m.keras", .., UNUSED),
        described(dense("a directory", "directory", ""))
            .written_as("")
            .ignoring("model.weights.h5", .., UNUSED)
            .ignoring("config.json", .., "a configuration is a text"),
    ];
    check(&Keras, &samples);
}

/// Each case of one half of the corpus: its name, and the entry.
fn corpus(half: &str) -> Vec<(String, ckpt_api::Input)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/keras").join(half);
    let mut cases: Vec<_> = fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()).collect();
    cases.sort();
    let entry = |path: &Path| match path.is_dir() {
        true => {
            ["m.keras", "m.weights.json"].map(|name| path.join(name)).into_iter().find(|path| path.exists())
        }
        false => None,
    };
    cases
        .into_iter()
        .map(|path| {
            let input = ckpt_api::Input::open(entry(&path).unwrap_or(path.clone())).unwrap();
            (path.file_name().unwrap().to_string_lossy().into_owned(), input)
        })
        .collect()
}

#[test]
fn the_corpus_is_read_or_refused() {
    let lenient = [("lenient".to_owned(), "true".to_owned())];
    let mut counts = (0, 0);
    for (name, input) in corpus("accept") {
        let options: &[(String, String)] = if name == "trailing.h5" { &lenient } else { &[] };
        if let Err(error) = ckpt_conformance::read(&Keras, &input, options) {
            panic!("{name}: {error}");
        }
        counts.0 += 1;
    }
    for (name, input) in corpus("reject") {
        match ckpt_conformance::read(&Keras, &input, &[]) {
            Err(error) => println!("{name}: {}: {error}", error.kind()),
            Ok(_) => panic!("{name} is read"),
        }
        counts.1 += 1;
    }
    assert_eq!(counts, (30, 50));
}
