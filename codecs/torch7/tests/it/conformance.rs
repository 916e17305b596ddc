//! The kit's checks, on the corpus, which plain Python makes.

use ckpt_api::{Axis, DType, Role};
use ckpt_conformance::{Sample, check};
use ckpt_torch7::Torch7;
use std::fs;
use std::path::Path;

const NUMBERS: &str =
    "numbers of objects, versions, and values beside tensors may be others, and the same tensors are read";

fn sample(name: &'static str) -> Sample {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/torch7/accept").join(name);
    let bytes = fs::read(path).unwrap();
    Sample::new(name, "m.t7", [("m.t7".to_owned(), bytes)].into()).ignoring("m.t7", .., NUMBERS)
}

/// The numbers that the corpus has everywhere.
fn numbers(count: u16) -> Vec<f32> {
    (0..count).map(|index| 0.25 + f32::from(index % 13) / 8.0).collect()
}

fn dense(name: &'static str) -> Sample {
    [("modules.1", [4, 3]), ("modules.3", [2, 4])].into_iter().fold(
        sample(name),
        |sample, (layer, [out, own])| {
            let weight = format!("{layer}.weight");
            let count = u16::try_from(out * own).unwrap();
            let sample = sample
                .floats(&weight, &[out, own], &numbers(count))
                .axes(&weight, [Axis::Out, Axis::In])
                .floats(&format!("{layer}.bias"), &[out], &numbers(u16::try_from(out).unwrap()));
            ["output", "gradInput"].into_iter().fold(sample, |sample, field| {
                let name = format!("{layer}.{field}");
                sample.floats(&name, &[0], &[]).role(&name, Role::Bookkeeping)
            })
        },
    )
}

#[test]
fn files_of_torch7_keep_the_contract() {
    let halves = |name| {
        let sample = sample(name).unknown_values("each type is compared elsewhere");
        sample.metadata("torch7", "done", true)
    };
    let matrix = |name| sample(name).tensor("value", DType::F32, &[3, 4], bytes(&numbers(12)));
    let table = halves("table.t7").sharing("one tensor has two names");
    check(
        &Torch7,
        &[
            matrix("matrix.t7"),
            matrix("matrix_ascii.t7").open_ended("m.t7", "space may follow"),
            matrix("matrix_long_4.t7"),
            matrix("matrix_no_version.t7"),
            dense("dense.t7"),
            dense("dense_ascii.t7").open_ended("m.t7", "space may follow"),
            table,
        ],
    );
}

fn bytes(numbers: &[f32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}
