//! Whole conversions of files that the original programs wrote. `CKPT_CASES` names the folder that holds them.

use crate::common::{cases, convert, error, files, forward, npz, open};
use ckpt::Conversion;
use std::path::Path;

/// f32 arithmetic of the original programs against f64 here, relative to the largest output. Chosen, not derived: the
/// expected growth of the rounding errors over 784 products, √784 · 2⁻²⁴, times ten for intermediate values that
/// cancel.
const BOUND: f64 = 2e-5;

#[test]
fn datacode_models_survive_safetensors_byte_for_byte() {
    let mut seen = 0;
    for part in ["nn/real", "nn/current", "nn/v2_1_0"] {
        let Some(directory) = cases(part) else { return };
        for path in files(&directory, ".nn") {
            // DataCode stopped in the middle of saving this one.
            if path.ends_with("cur_nobias.nn") {
                continue;
            }
            let work = tempfile::tempdir().unwrap();
            let (middle, back) = (work.path().join("m.safetensors"), work.path().join("back.nn"));
            convert(open(&path, &[]), &middle, &Conversion::default());
            convert(open(&middle, &[]), &back, &Conversion::default());
            assert!(std::fs::read(&back).unwrap() == std::fs::read(&path).unwrap(), "{}", path.display());
            seen += 1;
        }
    }
    assert!(seen >= 8, "only {seen} files");
}

#[test]
fn logits_of_the_converted_safetensors_match() {
    let Some(directory) = cases("nn/real") else { return };
    let input: Vec<f32> = (0..784).map(|k| (f64::from(k) / 783.0) as f32).collect();
    let mut seen = 0;
    for path in files(&directory, ".nn") {
        let work = tempfile::tempdir().unwrap();
        let converted = work.path().join("m.safetensors");
        convert(open(&path, &[]), &converted, &Conversion::default());
        let json = std::fs::read_to_string(path.with_extension("forward.json")).unwrap();
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        let expected = json["logits_f32"].as_array().unwrap().iter();
        let expected: Vec<f32> = expected.map(|value| value.as_f64().unwrap() as f32).collect();
        let found = error(&forward(&open(&converted, &[]), &input), &expected);
        assert!(found < BOUND, "{}: {found:e}", path.display());
        seen += 1;
    }
    assert_eq!(seen, 2);
}

/// Converts a TensorFlow checkpoint to `.nn` and runs the batch that Keras ran.
fn keras_to_nn(case: &Path, input: &str, options: &[(&str, &str)]) {
    let work = tempfile::tempdir().unwrap();
    let output = work.path().join("m.nn");
    convert(open(&case.join(input), options), &output, &Conversion::default());
    let converted = open(&output, &[]);
    let (shape, x) = npz(&case.join("io.npz"), "x");
    let (_, y) = npz(&case.join("io.npz"), "y");
    let rows = x.chunks_exact(shape[1]).zip(y.chunks_exact(y.len() / shape[0]));
    let mut seen = 0;
    for (x, y) in rows {
        let found = error(&forward(&converted, x), y);
        assert!(found < BOUND, "{} row {seen}: {found:e}", case.display());
        seen += 1;
    }
    assert!(seen > 0 && seen == shape[0]);
}

#[test]
fn keras_models_compute_the_same_as_datacode_models() {
    let Some(directory) = cases("tf2") else { return };
    let given = ("activations", "relu,softmax");
    /// Case, input within it, options.
    type Row<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)]);
    let table: &[Row] = &[
        ("keras3_mlp", "", &[given]),
        ("keras3_mlp", "ckpt-1", &[given]),
        ("keras3_mlp_adam", "checkpoint", &[given]),
        ("keras3_export", "sm", &[]),
        ("keras2_saved_model", "sm", &[]),
        ("keras2_checkpoint", "ckpt-1.index", &[given]),
        ("keras2_legacy_adam", "", &[given]),
        ("keras2_weights", "w", &[given]),
    ];
    for (case, input, options) in table {
        keras_to_nn(&directory.join(case), input, options);
    }
}

#[test]
fn a_graph_given_by_an_architecture_file_computes_the_same() {
    let Some(directory) = cases("tf2") else { return };
    let case = directory.join("tf1_saver");
    let work = tempfile::tempdir().unwrap();
    let source = open(&case, &[]);
    let dense = source.checkpoint().tensors.iter().map(|tensor| tensor.name.as_str());
    let kernels: Vec<&str> = dense.filter(|name| name.ends_with("kernel")).collect();
    assert_eq!(kernels.len(), 2, "{kernels:?}");
    let json = r#"{"layers":[
        {"type":"dense","weight":"dense/kernel","bias":"dense/bias","activation":"relu"},
        {"type":"dense","weight":"dense_1/kernel","bias":"dense_1/bias","activation":"softmax"}]}"#;
    let options = ckpt::OpenOptions::new().architecture(ckpt_api::ArchitectureFile::from_json(json).unwrap());
    let source = ckpt::Source::open(&ckpt::Registry::builtin(), &case, &options).unwrap();
    let output = work.path().join("m.nn");
    // The partitioned embedding is no part of the network.
    let conversion = Conversion::new().exclude("emb");
    convert(source, &output, &conversion);
    let (shape, x) = npz(&case.join("io.npz"), "x");
    let (_, y) = npz(&case.join("io.npz"), "y");
    let found = error(&forward(&open(&output, &[]), &x[..shape[1]]), &y[..y.len() / shape[0]]);
    assert!(found < BOUND, "{found:e}");
}
