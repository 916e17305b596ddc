//! The conformance kit, on one sample of each kind of file.

use crate::build::{MIXED, Parts, pairs};
use ckpt_api::conformance::{Sample, check};
use ckpt_cnn2::Cnn2;
use std::collections::BTreeMap;

fn sample(name: &'static str, parts: &Parts) -> Sample {
    Sample::new(name, "cnn.bin", BTreeMap::from([("cnn.bin".to_owned(), parts.bytes())]))
}

#[test]
fn the_codec_keeps_the_contract() {
    // The kit expects an error from every file that is cut short, but a padded file without its padding is valid.
    let samples = [
        sample("version 1", &Parts::of(&[[3, 8, 2], [1, 2, 3]])),
        sample("version 2", &Parts::of(&[[1, 15, 2], [3, 10, 1]]).version_2(2)),
        sample("an odd number of weights", &Parts::of(&MIXED).unpadded()),
        sample("activations and border", &Parts::of(&MIXED).unpadded())
            .with_read(pairs(&[("border", "clamp"), ("activation", "sigmoid,relu,clamp")])),
        sample("no activation", &Parts::of(&[[1, 8, 8]]))
            .with_read(pairs(&[("border", "zero"), ("activation", "none")])),
    ];
    check(&Cnn2, &samples);
}
