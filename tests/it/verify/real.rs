//! Files of the original programs, compared with what those programs computed. `CKPT_CASES` names their folder.

use super::support::{archive, check, relative_l2};
use crate::common::{cases, convert, open};
use ckpt::verify::chess::{self, Position};
use ckpt::verify::{DEFAULT_MEMORY, InputFile, Inputs, Options, RuleName, devices, largest, run};
use ckpt::{Conversion, Registry, Source};
use ckpt_forward::{Arithmetic, Array, Value};
use std::path::Path;

/// Bound on the relative L2 error of binary32, end to end.
const BOUND: f64 = 1e-5;

fn forward(source: &Source, inputs: &Inputs, arithmetic: Arithmetic, integers: Option<i32>) -> Value {
    let mut cpu = devices::open("cpu", arithmetic).unwrap();
    let ran = run(&Registry::builtin(), source, inputs, integers, &mut *cpu, DEFAULT_MEMORY).unwrap();
    assert_eq!(ran.outputs.len(), 1);
    ran.outputs.into_iter().next().unwrap().1
}

fn file(path: &Path, divide: Option<f32>) -> Inputs {
    let files = vec![InputFile { path: path.to_owned(), ..InputFile::default() }];
    Inputs { files, divide, ..Inputs::default() }
}

/// Decompresses with the system's `gunzip`.
fn gunzip(from: &Path, to: &Path) {
    let output = std::process::Command::new("gunzip").arg("-c").arg(from).output().unwrap();
    assert!(output.status.success());
    std::fs::write(to, output.stdout).unwrap();
}

/// The model itself, and converted to TensorFlow's format and to safetensors and back.
fn round_trips(path: &Path, work: &Path) -> Vec<Source> {
    let mut sources = vec![open(path, &[])];
    for (middle, set) in [("m", Some(("names", "keras3"))), ("m.safetensors", None)] {
        let to = if middle == "m" { "tf2" } else { "safetensors" };
        let conversion = Conversion::new().to(to).set_all(set);
        let (between, back) = (work.join(middle), work.join(format!("{to}.nn")));
        convert(open(path, &[]), &between, &conversion);
        let activations: &[(&str, &str)] = if to == "tf2" { &[("activations", "relu,linear")] } else { &[] };
        convert(open(&between, activations), &back, &Conversion::default());
        sources.push(open(&back, &[]));
    }
    sources
}

#[test]
fn datacode_models_give_the_measured_logits_and_accuracy_also_through_other_formats() {
    let (Some(models), Some(mnist)) = (cases("nn/real"), cases("mnist")) else { return };
    let work = tempfile::tempdir().unwrap();
    let path = |name: &str| work.path().join(name);
    gunzip(&mnist.join("t10k-images-idx3-ubyte.gz"), &path("images"));
    gunzip(&mnist.join("t10k-labels-idx1-ubyte.gz"), &path("labels"));
    let labels: Vec<u8> = std::fs::read(path("labels")).unwrap()[8..].to_vec();
    let line: Vec<f32> = (0..784).map(|k| (f64::from(k) / 783.0) as f32).collect();
    archive(&path("line.safetensors"), "x", &[1, 784], &line);
    for (name, accuracy) in [("model_mnist", 9694), ("model_mnist_sh", 9639)] {
        let json = std::fs::read_to_string(models.join(format!("{name}.forward.json"))).unwrap();
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        let numbers = |key: &str| -> Vec<f64> {
            json[key].as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect()
        };
        let expected: Vec<f32> = numbers("logits_f32").into_iter().map(|value| value as f32).collect();
        let work = tempfile::tempdir().unwrap();
        let sources = round_trips(&models.join(format!("{name}.nn")), work.path());
        assert_eq!(sources.len(), 3);
        for source in &sources {
            let single = forward(source, &file(&path("line.safetensors"), None), Arithmetic::F32, None);
            assert!(relative_l2(&single.array.to_f64(), &expected) < BOUND, "{name}");
            let double = forward(source, &file(&path("line.safetensors"), None), Arithmetic::F64, None);
            for (found, expected) in double.array.to_f64().iter().zip(numbers("logits_f64")) {
                assert!(
                    (found - expected).abs() < 1e-12 * expected.abs().max(1.0),
                    "{name} {found} {expected}"
                );
            }
            let all = forward(source, &file(&path("images"), Some(255.0)), Arithmetic::F32, None);
            assert_eq!(all.shape, [10_000, 10]);
            let right = largest(&all).iter().zip(&labels).filter(|(a, b)| **a == usize::from(**b)).count();
            assert_eq!(right, accuracy, "{name}");
            let report = check(&sources[0], source, &Options::default());
            assert!(report.verdict.passes() && report.runs[0].rule.name == RuleName::Bits, "{name}");
        }
    }
}

#[test]
fn keras_models_give_the_outputs_of_keras() {
    let Some(directory) = cases("tf2") else { return };
    let given = ("activations", "relu,softmax");
    /// Case, input within it, options.
    type Row<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)]);
    let table: &[Row] = &[
        ("keras3_mlp", "", &[given]),
        ("keras3_mlp_adam", "checkpoint", &[given]),
        ("keras3_export", "sm", &[]),
        ("keras2_saved_model", "sm", &[]),
        ("keras2_checkpoint", "ckpt-1.index", &[given]),
        ("keras2_legacy_adam", "", &[given]),
        ("keras2_weights", "w", &[given]),
    ];
    for (case, input, options) in table {
        let io = directory.join(case).join("io.npz");
        let (_, y) = crate::common::npz(&io, "y");
        let files = vec![InputFile { path: io, key: Some("x".into()), ..InputFile::default() }];
        let inputs = Inputs { files, ..Inputs::default() };
        let source = open(&directory.join(case).join(input), options);
        let found = forward(&source, &inputs, Arithmetic::F32, None);
        let error = relative_l2(&found.array.to_f64(), &y);
        assert!(error < BOUND, "{case}: {error:e}");
    }
}

const BULLET: [(&str, &str); 5] = [
    ("simple", "simple:768x32x1"),
    ("buckets8", "simple:768x32x1,buckets=8"),
    ("multi", "multi:768x32x8x16x1,buckets=8,inputs=4,factoriser=true"),
    ("tb_simple", "builder:768x32x1"),
    ("tb_buckets8_notranspose", "builder:768x32x1,buckets=8,qa=181,transpose=false"),
];

/// Opens a network with the bucket layout of the case's description, if it has one.
fn network(path: &Path, preset: &str, directory: &Path, name: &str) -> Source {
    let plain = open(path, &[("arch", preset)]);
    let json = std::fs::read_to_string(directory.join(format!("{name}.json"))).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let Some(layout) = json.get("bucket_layout_32") else { return plain };
    let recorded = plain.checkpoint().metadata.value("bullet", "architecture").unwrap();
    let mut document = serde_json::to_value(recorded).unwrap();
    document["input"]["buckets"]["layout"] = layout.clone();
    document["input"]["buckets"]["mirrored"] = true.into();
    let architecture = ckpt::api::ArchitectureFile::new(&document).unwrap();
    let options = ckpt::OpenOptions::new().architecture(architecture);
    Source::open(&Registry::builtin(), path, &options).unwrap()
}

/// The positions of a case, with what bullet computed for them.
struct Expected {
    positions: Vec<Position>,
    records: Vec<serde_json::Value>,
}

fn expected(directory: &Path, name: &str) -> Expected {
    let json = std::fs::read_to_string(directory.join(format!("{name}.json"))).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let records = json["positions"].as_array().unwrap().clone();
    assert_eq!(records.len(), 12, "{name}");
    let positions = records.iter().map(|record| Position::parse(record["fen"].as_str().unwrap()).unwrap());
    Expected { positions: positions.collect(), records }
}

#[test]
fn positions_have_the_features_and_buckets_that_bullet_computes() {
    let Some(directory) = cases("bullet") else { return };
    for (name, preset) in BULLET {
        let Expected { positions, records } = expected(&directory, name);
        let source = network(&directory.join(name), preset, &directory, name);
        let inputs = chess::inputs(source.checkpoint(), &positions).unwrap();
        for (row, record) in records.iter().enumerate() {
            for (input, key) in [("stm", "stm_features"), ("ntm", "nstm_features")] {
                let (shape, indices) = &inputs[input];
                let own: Vec<i32> =
                    indices[row * shape[1]..][..shape[1]].iter().copied().filter(|f| *f >= 0).collect();
                let theirs: Vec<i32> = record[key]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|feature| feature.as_i64().unwrap() as i32)
                    .collect();
                assert_eq!(own, theirs, "{name} {}", record["fen"]);
            }
            if let Some((_, buckets)) = inputs.get("bucket") {
                assert_eq!(i64::from(buckets[row]), record["bucket"].as_i64().unwrap(), "{name}");
            }
        }
    }
}

#[test]
fn chess_networks_evaluate_as_in_bullet_in_real_numbers_and_in_integers() {
    let Some(directory) = cases("bullet") else { return };
    let mut integers = 0;
    for (name, preset) in BULLET {
        let Expected { positions, records } = expected(&directory, name);
        let inputs = Inputs { positions, ..Inputs::default() };
        let source = network(&directory.join(name), preset, &directory, name);
        let found = forward(&source, &inputs, Arithmetic::F32, None);
        let theirs: Vec<f32> =
            records.iter().map(|record| record["raw_output"][0].as_f64().unwrap() as f32).collect();
        let error = relative_l2(&found.array.to_f64(), &theirs);
        assert!(error < BOUND, "{name}: {error:e}");
        if records[0].get("example_integer_eval").is_none() {
            continue;
        }
        let path = directory.join(name).join("quantised.bin");
        let quantized = network(&path, preset, &directory, name);
        let found = forward(&quantized, &inputs, Arithmetic::F32, Some(400));
        let theirs: Vec<i32> =
            records.iter().map(|record| record["example_integer_eval"].as_i64().unwrap() as i32).collect();
        assert_eq!(found.array, Array::I32(theirs), "{name}");
        integers += 1;
    }
    assert_eq!(integers, 4);
}

#[test]
fn quantized_networks_stay_within_the_bounds_of_their_scales() {
    let Some(directory) = cases("bullet") else { return };
    for (name, preset) in BULLET {
        let Expected { positions, .. } = expected(&directory, name);
        let options = Options {
            inputs: Inputs { positions, ..Inputs::default() },
            per_layer: true,
            ..Options::default()
        };
        let weights = network(&directory.join(name), preset, &directory, name);
        let quantized = network(&directory.join(name).join("quantised.bin"), preset, &directory, name);
        let report = check(&weights, &quantized, &options);
        let run = &report.runs[0];
        let reasons: Vec<_> = run.layers.iter().filter_map(|layer| layer.diagnosis.as_ref()).collect();
        assert!(report.verdict.passes(), "{name}: {reasons:?} {:?}", run.outputs[0].comparison.checks);
        assert_eq!(run.rule.name, RuleName::Bound, "{name}");
        assert!(run.rule.reason.contains("stored as i16 at"), "{name}: {}", run.rule.reason.as_str());
    }
}
