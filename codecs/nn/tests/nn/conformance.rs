//! The kit's checks on one sample of every sort.

use crate::build;
use ckpt_conformance::{Sample, check};
use ckpt_nn::Nn;
use std::collections::BTreeMap;

/// A sample whose tensors are given in the order of the file; [`build::file`] numbers their values on.
fn sample(name: &'static str, bytes: Vec<u8>, tensors: &[(&str, &[u32])]) -> Sample {
    let sample = Sample::new(name, "m.nn", BTreeMap::from([("m.nn".to_owned(), bytes)])).without_tensors();
    let mut first = 0;
    tensors.iter().fold(sample, |sample, (name, dims)| {
        let count: u32 = dims.iter().product();
        let values: Vec<f32> = (first..first + count).map(|k| k as f32 + 0.5).collect();
        first += count;
        sample.floats(name, &dims.iter().map(|dim| u64::from(*dim)).collect::<Vec<_>>(), &values)
    })
}

#[test]
fn the_codec_keeps_the_contract() {
    let trained = build::JSON_B.replace(
        r#""stages":[]"#,
        r#""stages":[{"accuracy_history":null,"epochs":3,"lr_history":null,"optimizer_params":{"lr":0.0010000000474974513},"optimizer_type":"adam"}]"#,
    );
    let tensors: [(&str, &[u32]); 4] = [
        ("layer0.weight", &[4, 3]),
        ("layer0.bias", &[4]),
        ("layer1.weight", &[2, 4]),
        ("layer1.bias", &[2]),
    ];
    let other: [(&str, &[u32]); 4] = [
        ("layer0.weight", &[3, 4]),
        ("layer0.bias", &[1, 4]),
        ("layer2.weight", &[4, 2]),
        ("layer2.bias", &[1, 2]),
    ];
    let convolution: [(&str, &[u32]); 4] = [
        ("layer0.weight", &[2, 1, 3, 3]),
        ("layer0.bias", &[2]),
        ("layer1.weight", &[2, 8]),
        ("layer1.bias", &[2]),
    ];
    let small: [(&str, &[u32]); 2] = [("layer0.weight", &[2, 3]), ("layer0.bias", &[2])];
    let bias_first: [(&str, &[u32]); 2] = [("layer0.bias", &[2]), ("layer0.weight", &[2, 3])];
    let activations = r#"{"layers":[{"type":"Flatten"},{"type":"Sigmoid"},{"type":"Tanh"}]}"#;
    let samples = [
        sample("dialect b", build::mlp_b(), &tensors),
        sample("dialect a", build::mlp_a(), &other),
        sample("trained", build::file(&trained, &tensors), &tensors),
        sample("a convolution stored as Linear", build::convolution(), &convolution),
        sample("minimal JSON", build::file(build::JSON_SMALL, &small), &small),
        sample("bias first", build::file(build::JSON_SMALL, &bias_first), &bias_first),
        sample("no tensors", build::file(activations, &[]), &[]),
    ];
    check(&Nn, &samples);
}
