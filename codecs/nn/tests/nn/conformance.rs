//! The kit's checks on one sample of every sort.

use crate::build;
use ckpt_api::conformance::{Sample, check};
use ckpt_nn::Nn;
use std::collections::BTreeMap;

fn sample(name: &'static str, bytes: Vec<u8>) -> Sample {
    Sample::new(name, "m.nn", BTreeMap::from([("m.nn".to_owned(), bytes)]))
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
    let activations = r#"{"layers":[{"type":"Flatten"},{"type":"Sigmoid"},{"type":"Tanh"}]}"#;
    let samples = [
        sample("dialect b", build::mlp_b()),
        sample("dialect a", build::mlp_a()),
        sample("trained", build::file(&trained, &tensors)),
        sample("a convolution stored as Linear", build::convolution()),
        sample(
            "minimal JSON",
            build::file(build::JSON_SMALL, &[("layer0.weight", &[2, 3]), ("layer0.bias", &[2])]),
        ),
        sample(
            "bias first",
            build::file(build::JSON_SMALL, &[("layer0.bias", &[2]), ("layer0.weight", &[2, 3])]),
        ),
        sample("no tensors", build::file(activations, &[])),
    ];
    check(&Nn, &samples);
}
