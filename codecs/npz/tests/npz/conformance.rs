//! The kit's checks on one sample of every sort.

use crate::build::{Member, archive, matrix, sample, turned, with_end64};
use ckpt_api::conformance::{Sample, check};
use ckpt_npz::Npz;
use std::collections::BTreeMap;

fn sample_of(name: &'static str, entry: &str, bytes: Vec<u8>) -> Sample {
    Sample::new(name, entry, BTreeMap::from([(entry.to_owned(), bytes)]))
}

#[test]
fn the_codec_keeps_the_contract() {
    let samples = [
        sample_of("an archive", "m.npz", archive(&sample())),
        sample_of("deflated members", "m.npz", archive(&sample().map(Member::deflated))),
        sample_of("64-bit numbers", "m.npz", with_end64(archive(&sample()))),
        sample_of("an array", "w.npy", matrix()),
        sample_of("a big-endian, column-major array", "w.npy", turned()),
        sample_of("no arrays", "m.npz", archive(&[])).headerless(),
    ];
    check(&Npz, &samples);
}
