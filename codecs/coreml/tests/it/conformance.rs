//! The kit's checks, on the corpus, which plain Python makes.

use ckpt_api::DType;
use ckpt_conformance::{Sample, check};
use ckpt_coreml::CoreMl;
use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

const WEIGHTS: &str = "Data/com.apple.CoreML/weights/weight.bin";

fn corpus(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/coreml/accept").join(name)
}

/// A package of the corpus.
fn package(name: &'static str) -> Sample {
    let (root, mut files) = (corpus(name), BTreeMap::new());
    let model = "Data/com.apple.CoreML/model.mlmodel";
    for name in ["Manifest.json", model, WEIGHTS] {
        if let Ok(bytes) = fs::read(root.join(name)) {
            files.insert(name.to_owned(), bytes);
        }
    }
    Sample::new(name, "", files)
        .written_as("")
        .ignoring("Manifest.json", .., "other members of the manifest mean nothing")
        .ignoring(model, .., "other fields of the model mean nothing")
        .open_ended(WEIGHTS, "blobs are found by their offsets")
        .sharing("constants may share a blob")
}

/// A package whose files are not kept, because its weights are stored in another way: bytes that mean nothing are in none.
fn unkept(name: &'static str, unused: &[Range<usize>]) -> Sample {
    let all = [0..4, 8..64].into_iter().chain(unused.iter().cloned());
    all.fold(package(name), |sample, range| sample.ignoring(WEIGHTS, range, "nothing depends on them"))
}

/// A model of the corpus in one file.
fn file(name: &'static str) -> Sample {
    let bytes = fs::read(corpus(&format!("{name}.mlmodel"))).unwrap();
    Sample::new(name, "m.mlmodel", [("m.mlmodel".to_owned(), bytes)].into()).ignoring(
        "m.mlmodel",
        ..,
        "other fields of the model mean nothing",
    )
}

/// The values of the matrix that the corpus has everywhere.
fn ramp() -> Vec<f32> {
    (0..15u8).map(|index| (f32::from(index) - 7.5) / 8.0).collect()
}

#[test]
fn the_codec_keeps_the_contract() {
    let bias = [0.5, -1.0, f32::NAN];
    let samples = [
        package("package").floats("kernel", &[3, 5], &ramp()).floats("bias", &[3], &bias),
        unkept("few_bits", &[96..128, 131..192, 224..256])
            .tensor("three", DType::U8, &[10], [3, 0, 1, 7, 5, 3, 0, 1, 7, 5])
            .tensor("four", DType::I4, &[12], (0..12).collect::<Vec<u8>>())
            .rewritten("integers of 3 bits are stored as bytes"),
        unkept("sparse", &[88..192, 216..256])
            .floats("w", &[2, 3], &[1.0, 0.0, 0.0, 2.0, 0.0, 3.0])
            .rewritten("it is stored dense"),
        file("layers")
            .floats("bn/gamma", &[2], &[1.0, 2.0])
            .floats("bn/mean", &[2], &[3.0, 4.0])
            .floats("emb/weights", &[2, 3], &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0])
            .floats("prelu/alpha", &[2], &[0.1, 0.2])
            .floats("const/data", &[1, 1, 2], &[8.0, 9.0])
            .floats("lstm/forward/inputGateWeightMatrix", &[1, 1], &[1.0])
            .floats("lstm/forward/inputGateBiasVector", &[1], &[2.0])
            .floats("lstm/backward/inputGateWeightMatrix", &[1, 1], &[3.0]),
    ];
    check(&CoreMl, &samples);
}
