//! The conformance kit, on one sample of each kind of file.

use crate::build::{MIXED, Parts};
use ckpt_api::DType;
use ckpt_cnn2::Cnn2;
use ckpt_conformance::{Sample, check};
use std::collections::BTreeMap;

fn sample(name: &'static str, parts: &Parts) -> Sample {
    let files = BTreeMap::from([("cnn.bin".to_owned(), parts.bytes())]);
    let sample = Sample::new(name, "cnn.bin", files);
    parts.table.iter().enumerate().fold(sample, |sample, (k, [kernel, inputs, outputs, first, count])| {
        let shape = [*outputs, *inputs, *kernel, *kernel].map(u64::from);
        let values: Vec<u8> =
            (*first..first + count).flat_map(|k| (0x3c00 + k as u16).to_le_bytes()).collect();
        sample.tensor(&format!("layer{}.weight", k + 1), DType::F16, &shape, values)
    })
}

#[test]
fn the_codec_keeps_the_contract() {
    // The kit expects an error from every file that is cut short, but a padded file without its padding is valid.
    let samples = [
        sample("version 1", &Parts::of(&[[3, 8, 2], [1, 2, 3]])),
        sample("version 2", &Parts::of(&[[1, 15, 2], [3, 10, 1]]).version_2(2)),
        sample("an odd number of weights", &Parts::of(&MIXED).unpadded()),
        sample("activations and border", &Parts::of(&MIXED).unpadded())
            .reading("border", "clamp")
            .reading("activation", "sigmoid,relu,clamp"),
        sample("no activation", &Parts::of(&[[1, 8, 8]]))
            .reading("border", "zero")
            .reading("activation", "none"),
    ];
    check(&Cnn2, &samples);
}
