//! Models of Darknet and Caffe compute what OpenCV's readers of them compute.

use crate::common::{cases, error, open};
use serde_json::Value;
use std::fs;
use std::process::Command;

/// Runs the cases of a folder that have inputs; returns how many there are.
fn computed_alike(folder: &str, model: &str, bound: f64) -> Option<usize> {
    let mut seen = 0;
    for case in fs::read_dir(cases(folder)?).unwrap() {
        let path = case.unwrap().path();
        let io = path.join("io.npz");
        if !io.exists() {
            continue;
        }
        let expected = fs::read_to_string(path.join("expected.json")).unwrap();
        let expected: Value = serde_json::from_str(&expected).unwrap();
        let work = tempfile::tempdir().unwrap();
        let outputs = work.path().join("outputs.npz");
        let known = open(&io, &[]);
        let (program, input) = (env!("CARGO_BIN_EXE_ckpt"), format!("data={}:data", io.display()));
        let mut run = Command::new(program);
        run.arg("run").arg(path.join(model)).args(["--input", &input, "-o"]);
        let done = run.arg(&outputs).output().unwrap();
        assert!(done.status.success(), "{path:?}: {}", String::from_utf8_lossy(&done.stderr));
        let computed = open(&outputs, &[]);
        for name in expected["outputs"].as_array().unwrap() {
            let values =
                |source: &ckpt::Source| source.tensor(name.as_str().unwrap()).unwrap().read::<f32>().unwrap();
            let found: Vec<f64> = values(&computed).into_iter().map(f64::from).collect();
            let found = error(&found, &values(&known));
            assert!(found <= bound, "{path:?}: {found:e}");
        }
        seen += 1;
    }
    Some(seen)
}

#[test]
fn models_of_caffe_compute_what_opencv_computes() {
    assert!(computed_alike("caffe", "model.caffemodel", 1e-5).is_none_or(|seen| seen == 5));
}

#[test]
fn weights_of_darknet_compute_what_opencv_computes() {
    // OpenCV fused normalizations into convolutions.
    assert!(computed_alike("darknet", "model.weights", 1e-4).is_none_or(|seen| seen == 6));
}
