//! The checkpoint in this repository computes, after its conversion, what Keras computed.

use crate::common::{convert, error, forward, open};
use ckpt::Conversion;
use std::path::Path;

const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/data");

/// f32 in Keras against f64 here, relative to the largest output: √64 · 2⁻²⁴ for the rounding errors of 64 products,
/// times ten for intermediate values that cancel. Chosen, not derived.
const BOUND: f64 = 5e-6;

fn numbers(value: &serde_json::Value) -> Vec<f32> {
    value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap() as f32).collect()
}

fn check(input: &str, options: &[(&str, &str)]) {
    let work = tempfile::tempdir().unwrap();
    let output = work.path().join("digits.nn");
    convert(open(&Path::new(DATA).join(input), options), &output, &Conversion::default());
    let model = open(&output, &[]);
    let json = std::fs::read_to_string(Path::new(DATA).join("digits_io.json")).unwrap();
    let io: serde_json::Value = serde_json::from_str(&json).unwrap();
    let rows = io["x"].as_array().unwrap().iter().zip(io["y"].as_array().unwrap());
    let mut seen = 0;
    for (x, y) in rows {
        let found = error(&forward(&model, &numbers(x)), &numbers(y));
        assert!(found < BOUND, "{input} row {seen}: {found:e}");
        seen += 1;
    }
    assert_eq!(seen, 16);
}

#[test]
fn a_bare_checkpoint_with_given_activations_computes_the_same() {
    check("digits", &[("activations", "relu,softmax")]);
}

#[test]
fn a_saved_model_needs_nothing_and_computes_the_same() {
    check("digits_saved_model", &[]);
}
