//! The kit's checks, on the corpus, which plain Python makes.

use ckpt_api::DType;
use ckpt_conformance::{Sample, check};
use ckpt_mxnet::Mxnet;
use std::fs;
use std::path::Path;

fn sample(name: &'static str) -> Sample {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/mxnet/accept");
    let bytes = fs::read(path.join(format!("{name}.params"))).unwrap();
    Sample::new(name, "m.params", [("m.params".to_owned(), bytes)].into())
}

/// The values of the matrix that the corpus has everywhere.
fn ramp() -> Vec<f32> {
    (0..6u8).map(|index| (f32::from(index) - 3.0) / 8.0).collect()
}

#[test]
fn the_codec_keeps_the_contract() {
    let matrix = |name: &'static str, tensor: &str| sample(name).floats(tensor, &[2, 3], &ramp());
    let samples = [
        matrix("dict", "arg:fc_weight").floats("aux:bn_moving_mean", &[2], &[1.0, -1.0]),
        matrix("list", "0").floats("1", &[1], &[2.0]),
        matrix("oldest", "w"),
        matrix("first", "w"),
        sample("numpy").floats("s", &[], &[5.0]).tensor("e", DType::F32, &[0, 3], []),
    ];
    check(&Mxnet, &samples);
}
