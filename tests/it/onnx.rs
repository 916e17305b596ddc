//! ONNX models through the engine: what other programs wrote is run, converted and given to other checkpoints.

use crate::common::{cases, convert, error, open, workplace::Workplace};
use ckpt::{Kind, OpenOptions, Registry, Source};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Models with inputs, and the outputs that onnxruntime computes.
fn models() -> Option<Vec<(PathBuf, Value)>> {
    let root = cases("onnx")?;
    let mut models = Vec::new();
    for entry in std::fs::read_dir(root).unwrap() {
        let path = entry.unwrap().path();
        if path.join("io.npz").exists() {
            let expected = std::fs::read_to_string(path.join("expected.json")).unwrap();
            models.push((path, serde_json::from_str(&expected).unwrap()));
        }
    }
    models.sort_by(|a, b| a.0.cmp(&b.0));
    Some(models)
}

fn ckpt(arguments: &[&str]) -> Result<(), String> {
    let output = Command::new(env!("CARGO_BIN_EXE_ckpt")).args(arguments).output().unwrap();
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn values(source: &Source, name: &str) -> Vec<f32> {
    let tensor = source.tensor(name).unwrap();
    match tensor.read::<f32>() {
        Ok(values) => values,
        Err(_) => tensor.read::<i64>().unwrap().into_iter().map(|value| value as f32).collect(),
    }
}

/// The largest error of a model's outputs; `Err` for one that cannot be run.
fn run(model: &Path, path: &Path, expected: &Value, extra: &[&str]) -> Result<f64, String> {
    let work = tempfile::tempdir().unwrap();
    let (io, outputs) = (path.join("io.npz"), work.path().join("o.npz"));
    let inputs: Vec<String> = expected["inputs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|name| format!("{0}={1}:{0}", name.as_str().unwrap(), text(&io)))
        .collect();
    let mut arguments = vec!["run", text(model), "-o", text(&outputs)];
    arguments.extend(inputs.iter().flat_map(|input| ["--input", input]));
    arguments.extend(extra);
    ckpt(&arguments)?;
    let (computed, known) = (open(&outputs, &[]), open(&io, &[]));
    let mut largest = 0f64;
    for name in expected["outputs"].as_array().unwrap() {
        let name = name.as_str().unwrap();
        let computed = values(&computed, name).into_iter().map(f64::from).collect::<Vec<_>>();
        let known = known.tensor(name).unwrap().read_as_f32();
        if !known.is_empty() {
            largest = largest.max(error(&computed, &known));
        }
    }
    Ok(largest)
}

trait ReadAsF32 {
    fn read_as_f32(&self) -> Vec<f32>;
}

impl ReadAsF32 for ckpt::TensorRef<'_> {
    /// Half floats and integers, too.
    fn read_as_f32(&self) -> Vec<f32> {
        match self.dtype().name() {
            "f32" => self.read::<f32>().unwrap(),
            "f16" => {
                let bytes = self.bytes().unwrap();
                let halves = bytes.chunks_exact(2).map(|half| u16::from_le_bytes([half[0], half[1]]));
                halves.map(|bits| half::f16::from_bits(bits).to_f32()).collect()
            }
            _ => self.read::<i64>().unwrap().into_iter().map(|value| value as f32).collect(),
        }
    }
}

fn name(path: &Path) -> &str {
    path.file_name().unwrap().to_str().unwrap()
}

#[test]
fn a_model_computes_what_onnxruntime_computes() {
    let Some(models) = models() else { return };
    let mut seen = 0;
    for (path, expected) in &models {
        let found = run(&path.join("model.onnx"), path, expected, &[])
            .unwrap_or_else(|why| panic!("{path:?}: {why}"));
        let bound = if name(path).contains("f16") { 1e-2 } else { 1e-5 };
        assert!(found <= bound, "{path:?}: {found:e}");
        seen += 1;
    }
    assert_eq!(seen, 31);
}

#[test]
fn a_model_without_a_readable_graph_names_the_operator_and_its_node() {
    let Some(root) = cases("onnx") else { return };
    let model = root.join("custom_operator/model.onnx");
    let why = ckpt(&["run", text(&model), "-o", "unused.npz", "--input", "x=x.npy"]).unwrap_err();
    assert!(why.contains("operator Mystery of 'com.example' (node 'r')"), "{why}");
}

#[test]
fn an_unmodified_model_keeps_its_bytes_but_for_the_names_of_the_files_beside_it() {
    let Some(models) = models() else { return };
    let sum = |path: &Path| ckpt::digest::digest(&open(path, &[]), 1).unwrap().sha256;
    let mut renamed = 0;
    for (path, _) in &models {
        let work = tempfile::tempdir().unwrap();
        let (model, output) = (path.join("model.onnx"), work.path().join("model.onnx"));
        convert(open(&model, &[]), &output, &ckpt::Conversion::new());
        let is_same = std::fs::read(&output).unwrap() == std::fs::read(&model).unwrap();
        // What the model calls the files beside it is data: they are named after the output.
        let beside = std::fs::read_dir(work.path()).unwrap().map(|entry| entry.unwrap().file_name());
        let beside: Vec<_> = beside.filter(|name| name != "model.onnx").collect();
        assert!(beside.iter().all(|name| name.to_str().unwrap().starts_with("model.onnx.")), "{beside:?}");
        assert_eq!(is_same, beside.iter().all(|name| path.join(name).exists()), "{path:?}");
        assert_eq!(sum(&output), sum(&model), "{path:?}");
        renamed += usize::from(!is_same);
    }
    assert_eq!((models.len(), renamed), (31, 2));
}

#[test]
fn numbers_in_varints_become_bytes_which_stay_as_they_are() {
    let Some(root) = cases("onnx") else { return };
    let work = tempfile::tempdir().unwrap();
    let [first, second] = ["a/model.onnx", "b/model.onnx"].map(|name| work.path().join(name));
    for name in ["a", "b"] {
        std::fs::create_dir(work.path().join(name)).unwrap();
    }
    let sum = |path: &Path| ckpt::digest::digest(&open(path, &[]), 1).unwrap().sha256;
    let model = root.join("dtypes_typed_fields/model.onnx");
    convert(open(&model, &[]), &first, &ckpt::Conversion::new());
    convert(open(&first, &[]), &second, &ckpt::Conversion::new());
    assert_eq!(sum(&first), sum(&model));
    assert!(std::fs::read(&first).unwrap() == std::fs::read(&second).unwrap());
}

#[test]
fn a_new_model_of_a_graph_computes_the_same() {
    let Some(models) = models() else { return };
    let mut seen = 0;
    for (path, expected) in &models {
        let work = tempfile::tempdir().unwrap();
        let output = work.path().join("new.onnx");
        // With tensors beside it, the model that was read does not serve.
        convert(
            open(&path.join("model.onnx"), &[]),
            &output,
            &ckpt::Conversion::new().set("external_data", "64"),
        );
        let found = run(&output, path, expected, &[]).unwrap_or_else(|why| panic!("{path:?}: {why}"));
        let bound = if name(path).contains("f16") { 1e-2 } else { 1e-5 };
        assert!(found <= bound, "{path:?}: {found:e}");
        seen += 1;
    }
    assert_eq!(seen, 31);
}

#[test]
fn a_model_gives_its_graph_to_a_checkpoint_of_the_same_names() {
    let Some(models) = models() else { return };
    let mut seen = 0;
    for (path, expected) in models.iter().filter(|(path, _)| name(path).starts_with("export_cnn")) {
        let work = tempfile::tempdir().unwrap();
        let (model, weights) = (path.join("model.onnx"), work.path().join("w.npz"));
        convert(open(&model, &[]), &weights, &ckpt::Conversion::new());
        run(&weights, path, expected, &[]).unwrap_err();
        assert!(run(&weights, path, expected, &["--arch", text(&model)]).unwrap() <= 1e-5, "{path:?}");
        ckpt(&["verify", text(&model), text(&weights), "--b-arch", text(&model)]).unwrap();
        let back = work.path().join("back.onnx");
        ckpt(&["convert", text(&weights), text(&back), "--arch", text(&model), "--no-sync"]).unwrap();
        assert!(run(&back, path, expected, &[]).unwrap() <= 1e-5, "{path:?}");
        seen += 1;
    }
    assert_eq!(seen, 3);
}

#[test]
fn a_graph_is_given_only_to_a_checkpoint_that_has_its_tensors() {
    let Some(root) = cases("onnx") else { return };
    let model = open(&root.join("export_mlp/model.onnx"), &[]);
    let options = OpenOptions::new().graph_of(&model);
    let other = root.join("scalars_empty/model.onnx");
    let why = Source::open(&Registry::builtin(), other.as_path(), &options).unwrap_err();
    assert_eq!(why.kind(), Kind::Usage);
    assert!(why.to_string().contains("lacks a tensor"), "{why}");
}

#[test]
fn a_checkpoint_without_a_graph_is_not_written() {
    let work = tempfile::tempdir().unwrap();
    let (weights, output) = (work.path().join("w.npz"), work.path().join("m.onnx"));
    ckpt::Writer::to(&weights).tensor("w", &[2], &[1f32, 2.0]).unwrap().finish().unwrap();
    let why = ckpt(&["convert", text(&weights), text(&output)]).unwrap_err();
    assert!(why.contains("needs a graph") && why.contains("--arch"), "{why}");
    assert!(!output.exists());
}

/// A checkpoint whose tensors have other names than those of the model, and the mapping to the model's.
fn renamed(work: &Path, model: &Path) -> (PathBuf, PathBuf) {
    let (weights, mapping) = (work.join("w.npz"), work.join("to_model.toml"));
    std::fs::write(&mapping, "[[rule]]\nfrom = \"mine/{name}\"\nto = \"{name}\"\n").unwrap();
    ckpt(&["convert", text(model), text(&weights), "--map", text(&mapping), "--inverse", "--no-sync"])
        .unwrap();
    (weights, mapping)
}

#[test]
fn a_mapping_leads_to_the_names_of_the_model_that_gives_the_graph() {
    let Some(root) = cases("onnx") else { return };
    let work = tempfile::tempdir().unwrap();
    let path = root.join("export_mlp");
    let expected: Value =
        serde_json::from_str(&std::fs::read_to_string(path.join("expected.json")).unwrap()).unwrap();
    let model = path.join("model.onnx");
    let (weights, mapping) = renamed(work.path(), &model);
    run(&weights, &path, &expected, &["--arch", text(&model)]).unwrap_err();
    let given = ["--arch", text(&model), "--map", text(&mapping)];
    assert!(run(&weights, &path, &expected, &given).unwrap() <= 1e-5);
    ckpt(&[&["inspect", text(&weights)][..], &given].concat()).unwrap();
    ckpt(&["verify", text(&weights), text(&model), "--a-arch", text(&model), "--map", text(&mapping)])
        .unwrap();
    ckpt(&[
        "verify",
        text(&model),
        text(&weights),
        "--b-arch",
        text(&model),
        "--map",
        text(&mapping),
        "--inverse",
    ])
    .unwrap();
    let back = work.path().join("back.onnx");
    ckpt(&[&["convert", text(&weights), text(&back), "--no-sync"][..], &given].concat()).unwrap();
    assert!(run(&back, &path, &expected, &[]).unwrap() <= 1e-5);
}

#[test]
fn a_receipt_and_a_plan_name_the_model_that_gave_the_graph() {
    let Some(root) = cases("onnx") else { return };
    let work = tempfile::tempdir().unwrap();
    let at = |name: &str| work.path().join(name);
    let model = at("graph.onnx");
    std::fs::copy(root.join("export_mlp/model.onnx"), &model).unwrap();
    let (weights, mapping) = renamed(work.path(), &model);
    let (back, receipt, plan) = (at("back.onnx"), at("receipt.json"), at("plan.json"));
    let given = ["--arch", text(&model), "--map", text(&mapping), "--no-sync"];
    ckpt(&[&["convert", text(&weights), text(&back), "--receipt", text(&receipt)][..], &given].concat())
        .unwrap();
    ckpt(&["verify", "--receipt", text(&receipt)]).unwrap();
    let planned = at("planned.onnx");
    ckpt(&[&["plan", text(&weights), text(&planned), "-o", text(&plan)][..], &given[..4]].concat()).unwrap();
    // Another file in the place of the model is found by both.
    std::fs::copy(root.join("export_residual/model.onnx"), &model).unwrap();
    let why = ckpt(&["verify", "--receipt", text(&receipt)]).unwrap_err();
    assert!(why.contains("graph.onnx"), "{why}");
    let items = at("items.json");
    let why = ckpt(&["run-plan", text(&plan), "--receipts", text(&items)]).unwrap_err();
    assert!(why.contains("graph.onnx") && why.contains("changed"), "{why}");
}

#[test]
fn small_integers_that_do_not_fill_their_last_byte_are_read_and_written() {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/corpus/onnx/accept/odd_count.onnx");
    let place = Workplace::new();
    for (from, to) in [(source, "odd.npz"), (source, "odd.onnx"), ("odd.onnx", "again.onnx")] {
        let output = place.ckpt(&["convert", from, to, "--verify", "--allow", "all"]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success() && !said.contains("weight-dropped"), "{to}: {said}");
    }
    let first = std::fs::read(place.path("odd.onnx")).unwrap();
    assert_eq!(first, std::fs::read(place.path("again.onnx")).unwrap());
    // Nine pairs and one number of -8 to 7, twice, and two bytes of four and one of 0 to 3.
    let packed = [0x10, 0x32, 0x54, 0x76, 0x98, 0xba, 0xdc, 0xfe, 0x10, 0x02];
    assert_eq!(first.windows(10).filter(|window| *window == packed).count(), 2);
}
