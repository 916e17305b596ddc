//! The kit's checks on samples that Python made: `corpus/make_torch.py`.

use ckpt_api::DType;
use ckpt_conformance::{Sample, check};
use ckpt_torch::Torch;

const MATRIX: [f32; 6] = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0];

const REWRITTEN: &str = "files are written as a later PyTorch lays them out: write/tests.rs compares those";

fn sample(name: &'static str, entry: &str) -> Sample {
    let path = format!("{}/../../corpus/torch/accept/{entry}", env!("CARGO_MANIFEST_DIR"));
    Sample::new(name, entry, [(entry.to_owned(), std::fs::read(path).unwrap())].into())
}

fn one(name: &'static str, entry: &str) -> Sample {
    sample(name, entry).floats("w", &[2, 3], &MATRIX)
}

#[test]
fn the_codec_keeps_the_contract() {
    let header = "times, versions and attributes of an archive mean nothing; the other samples show the rest";
    let follow = "PyTorch ignores what follows the end of an archive, and a note says so";
    let samples = [
        one("a zip archive", "one.pt").open_ended("one.pt", follow).ignoring("one.pt", .., header),
        sample("several dtypes", "dtypes.pt")
            .floats("w", &[2, 3], &MATRIX)
            .tensor("n", DType::I64, &[2], [1i64, -2].map(i64::to_le_bytes).concat())
            .floats("e", &[0, 3], &[])
            .tensor("z", DType::C64, &[], [1f32, 2.0].map(f32::to_le_bytes).concat())
            .tensor("b", DType::Bool, &[2], [0, 1])
            .tensor("h", DType::Bf16, &[1], [0x80, 0x3f])
            .open_ended("dtypes.pt", follow)
            .ignoring("dtypes.pt", .., header),
        sample("views", "views.pt")
            .floats("base", &[2, 3], &MATRIX)
            .floats("turned", &[3, 2], &[0.0, 3.0, 1.0, 4.0, 2.0, 5.0])
            .floats("row", &[3], &[3.0, 4.0, 5.0])
            .floats("column", &[2], &[1.0, 4.0])
            .floats("square", &[2, 2], &[1.0, 2.0, 4.0, 5.0])
            .floats("repeated", &[2, 3], &[0.0, 1.0, 2.0, 0.0, 1.0, 2.0])
            .floats("windows", &[3, 2], &MATRIX)
            .sharing("views share their storage")
            .open_ended("views.pt", follow)
            .ignoring("views.pt", .., header),
        one("the old format", "legacy.pt").ignoring("legacy.pt", .., "names of other classes mean the same"),
        one("a big-endian machine", "legacy_big_endian.pt").ignoring("legacy_big_endian.pt", .., "as above"),
        sample("the tar archive", "tar.pt")
            .floats("w", &[2, 3], &MATRIX)
            .floats("tail", &[2], &[4.0, 5.0])
            .floats("turned", &[3, 2], &[0.0, 3.0, 1.0, 4.0, 2.0, 5.0])
            .floats("again", &[2, 3], &MATRIX)
            .sharing("views share their storage")
            .ignoring("tar.pt", .., "owners, times and paddings of an archive mean nothing"),
        sample("nested values", "nested.pt")
            .floats("model.w", &[2, 3], &MATRIX)
            .floats("list.0", &[1], &[9.0])
            .metadata("torch", "epoch", 7i64)
            .open_ended("nested.pt", follow)
            .ignoring("nested.pt", .., header),
    ];
    check(&Torch, &samples.map(|sample| sample.rewritten(REWRITTEN)));
}
