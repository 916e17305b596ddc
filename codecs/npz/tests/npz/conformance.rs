//! The kit's checks on one sample of every sort.

use crate::build::{Member, archive, matrix, sample, turned, with_end64};
use ckpt_api::DType;
use ckpt_conformance::{Sample, check};
use ckpt_npz::Npz;
use std::collections::BTreeMap;

fn sample_of(name: &'static str, entry: &str, bytes: Vec<u8>) -> Sample {
    Sample::new(name, entry, BTreeMap::from([(entry.to_owned(), bytes)]))
}

const MATRIX: [f32; 6] = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0];

/// An archive of the three arrays of [`sample`].
fn three(name: &'static str, bytes: Vec<u8>) -> Sample {
    sample_of(name, "m.npz", bytes)
        .floats("w", &[2, 3], &MATRIX)
        .floats("a/t", &[2, 3], &MATRIX)
        .tensor("ä", DType::I8, &[4], [1, 255, 3, 128])
        .ignoring("m.npz", .., "an archive's versions, times and attributes mean nothing; w.npy has the rest")
}

#[test]
fn the_codec_keeps_the_contract() {
    let samples = [
        three("an archive", archive(&sample())),
        three("deflated members", archive(&sample().map(Member::deflated)))
            .rewritten("members are stored, not deflated"),
        three("64-bit numbers", with_end64(archive(&sample())))
            .rewritten("a small archive needs no 64-bit numbers"),
        sample_of("an array", "w.npy", matrix()).floats("w", &[2, 3], &MATRIX),
        sample_of("a big-endian, column-major array", "w.npy", turned()).floats("w", &[2, 3], &MATRIX),
        sample_of("no arrays", "m.npz", archive(&[])).without_tensors().headerless(),
    ];
    check(&Npz, &samples);
}
