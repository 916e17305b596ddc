//! The kit's checks, on the corpus, which plain Python makes.

use ckpt_api::DType;
use ckpt_conformance::{Sample, check};
use ckpt_orbax::{Flax, Orbax};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// A folder of the corpus, or a file, as a sample of the tensors that most of it has.
fn corpus(name: &'static str, entry: &str) -> BTreeMap<String, Vec<u8>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus").join(name);
    if !entry.is_empty() {
        return [(entry.to_owned(), fs::read(root.join(entry)).unwrap())].into();
    }
    let mut files = BTreeMap::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root.join(&folder)).unwrap() {
            let path = folder.join(entry.unwrap().file_name());
            match root.join(&path).is_dir() {
                true => folders.push(path),
                false => {
                    drop(files.insert(path.to_str().unwrap().to_owned(), fs::read(root.join(&path)).unwrap()))
                }
            }
        }
    }
    files
}

/// The values of the matrix that the corpus has everywhere.
fn ramp() -> Vec<f32> {
    (0..15u8).map(|index| (f32::from(index) - 7.5) / 8.0).collect()
}

const BIAS: [u8; 12] = [0, 0, 0, 0x3f, 0, 0, 0x80, 0xbf, 0, 0, 0xc0, 0x7f];
const STEP: [u8; 8] = [7, 0, 0, 0, 0, 0, 0, 0];

fn dense(sample: Sample) -> Sample {
    sample.floats("dense.kernel", &[5, 3], &ramp()).tensor("dense.bias", DType::F32, &[3], BIAS).tensor(
        "step",
        DType::I64,
        &[],
        STEP,
    )
}

const DATA: &str = "d/00112233445566778899aabbccddeeff";

fn database(name: &'static str) -> Sample {
    dense(Sample::new(name, "", corpus(name, "")))
        .written_as("")
        .rewritten("databases are written in one layout, and values out of line")
        .ignoring("_METADATA", .., "names of entries, versions and kinds of arrays mean nothing")
        .open_ended(DATA, "a data file may hold what only other databases refer to")
}

#[test]
fn orbax_keeps_the_contract() {
    let folder = "orbax/accept/folder_fortran";
    let files = corpus(folder, "");
    let mut fortran = Sample::new(folder, "", files.clone())
        .floats("w", &[5, 3], &ramp())
        .written_as("")
        .rewritten("arrays are written to databases")
        .ignoring("_METADATA", .., "names of entries, versions and kinds of arrays mean nothing")
        .ignoring("w/.zarray", .., "the level of the compression and the fill value mean nothing");
    for chunk in ["w/0.0", "w/1.0"] {
        let end = files[chunk].len() - 8;
        fortran = fortran.ignoring(chunk, 3..10, "the flags, the time and the system of gzip").ignoring(
            chunk,
            end - 1..end,
            "the last byte of deflated data has unused bits",
        );
    }
    let samples = [
        database("orbax/accept/database_sorted"),
        database("orbax/accept/database_chunks")
            .ignoring(DATA, 72..84, "what a chunk at the edge has beyond the array")
            .writing("chunk", "20"),
        database("orbax/accept/database_inline").writing("layout", "v1"),
        fortran,
    ];
    check(&Orbax, &samples);
}

#[test]
fn flax_keeps_the_contract() {
    let sample = |name: &'static str| {
        let entry = format!("{name}.msgpack");
        let files = corpus("flax/accept", &entry);
        dense(Sample::new(
            name,
            "m.msgpack",
            files.into_values().map(|bytes| ("m.msgpack".to_owned(), bytes)).collect(),
        ))
    };
    let samples = [
        sample("tree").rewritten("scalars are arrays of rank 0, and numbers follow arrays"),
        sample("chunked").rewritten("only large arrays are cut"),
    ];
    check(&Flax, &samples);
}
