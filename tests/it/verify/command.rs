//! `ckpt verify` and `ckpt run`.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const DIGITS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/data/digits_saved_model");

pub fn ckpt(directory: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ckpt")).current_dir(directory).args(arguments).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The example model as a `.nn` file, and the same with one byte of a weight changed.
fn models(place: &Path) -> [PathBuf; 2] {
    let converted = ckpt(place, &["convert", DIGITS, "digits.safetensors", "-q"]);
    assert!(converted.status.success(), "{}", String::from_utf8_lossy(&converted.stderr));
    let mut bytes = std::fs::read(place.join("digits.safetensors")).unwrap();
    // The third byte of the last number, which is a weight or a bias of some layer.
    let at = bytes.len() - 2;
    bytes[at] ^= 0x40;
    std::fs::write(place.join("broken.safetensors"), bytes).unwrap();
    ["digits.safetensors", "broken.safetensors"].map(|name| place.join(name))
}

#[test]
fn verify_exits_with_0_where_checkpoints_compute_the_same_and_with_4_where_they_do_not() {
    let place = tempfile::tempdir().unwrap();
    let [whole, broken] = models(place.path());
    let whole = ckpt(place.path(), &["verify", DIGITS, whole.to_str().unwrap(), "--per-layer"]);
    let text = stdout(&whole);
    assert_eq!(whole.status.code(), Some(0), "{text}");
    for words in ["b runs on the CPU in f32", "rule     bits: ", "Gemm", "random, seed 0", "\npass\n"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let broken = ckpt(place.path(), &["verify", DIGITS, broken.to_str().unwrap()]);
    let text = stdout(&broken);
    assert_eq!(broken.status.code(), Some(4), "{text}");
    for words in ["is the first that diverges: ", "in 1 of ", "bit 22 is flipped", "\nfail\n"] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn a_checkpoint_that_cannot_be_run_is_refused_with_the_reason() {
    let place = tempfile::tempdir().unwrap();
    let mut model = std::fs::read(Path::new(DIGITS).join("saved_model.pb")).unwrap();
    // As long as the operation that it replaces.
    let found: Vec<usize> = (0..model.len()).filter(|at| model[*at..].starts_with(b"Softmax")).collect();
    assert!(!found.is_empty());
    found.iter().for_each(|at| model[*at..*at + 7].copy_from_slice(b"Softsgn"));
    let copy = place.path().join("model");
    std::fs::create_dir_all(copy.join("variables")).unwrap();
    std::fs::write(copy.join("saved_model.pb"), model).unwrap();
    for file in std::fs::read_dir(Path::new(DIGITS).join("variables")).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), copy.join("variables").join(file.file_name())).unwrap();
    }
    let run = ckpt(place.path(), &["run", "model"]);
    let text = String::from_utf8_lossy(&run.stderr).into_owned();
    assert_eq!(run.status.code(), Some(2), "{text}");
    for words in ["has no graph to run", "the operation Softsgn", "cannot describe this model"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert!(!text.contains("--arch"), "{text}");
}

#[test]
fn run_and_verify_say_which_layers_of_a_bare_checkpoint_are_assumed() {
    let place = tempfile::tempdir().unwrap();
    let bare = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/data/digits");
    let given = "activations=relu,softmax";
    for arguments in
        [&["run", bare, "--set", given][..], &["verify", DIGITS, bare, "--b-set", given, "--map", "map.toml"]]
    {
        std::fs::write(place.path().join("map.toml"), "identity = true\n").unwrap();
        let output = ckpt(place.path(), arguments);
        let text = stdout(&output);
        assert!(text.contains("assumed to be dense"), "{text}{}", String::from_utf8_lossy(&output.stderr));
        assert!(text.contains(": hidden, digit\n"), "{text}");
    }
    let stated = stdout(&ckpt(place.path(), &["run", DIGITS]));
    assert!(!stated.contains("assumed"), "{stated}");
}

#[test]
fn reports_in_json_follow_their_schema() {
    let schema =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/schemas/verify.schema.json")).unwrap();
    let schema: Value = serde_json::from_str(&schema).unwrap();
    jsonschema::draft202012::meta::validate(&schema).unwrap();
    let schema = jsonschema::validator_for(&schema).unwrap();
    let place = tempfile::tempdir().unwrap();
    let [whole, broken] = models(place.path()).map(|path| path.to_str().unwrap().to_owned());
    let half = ckpt(place.path(), &["convert", DIGITS, "half.safetensors", "--dtype", "f16", "-q"]);
    assert!(half.status.success());
    let bare = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/data/digits");
    let given = "activations=relu,softmax";
    super::support::archive(&place.path().join("bare.safetensors"), "x", &[2], &[1.0, 2.0]);
    super::support::archive(&place.path().join("other.safetensors"), "x", &[2], &[1.0, f32::NAN]);
    let runs: [(&[&str], i32); 6] = [
        (&["verify", DIGITS, &whole, "--per-layer"], 0),
        (&["verify", DIGITS, &broken], 4),
        (&["verify", DIGITS, "half.safetensors", "--per-layer"], 0),
        (&["verify", DIGITS, &broken, "--atol", "10"], 0),
        (&["verify", bare, bare, "--a-set", given, "--b-set", given, "--map", "map.toml"], 0),
        (&["verify", "bare.safetensors", "other.safetensors"], 4),
    ];
    std::fs::write(place.path().join("map.toml"), "[[rule]]\nfrom = '{x:path}'\nto = 'm/{x}'\n").unwrap();
    for (number, (arguments, code)) in runs.into_iter().enumerate() {
        let file = format!("{number}.json");
        let output = ckpt(place.path(), &[arguments, &["--format", "json", "--report", &file]].concat());
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {output:?}");
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let errors: Vec<String> =
            schema.iter_errors(&report).map(|error| format!("{}: {error}", error.instance_path())).collect();
        assert!(errors.is_empty(), "{arguments:?}: {}", errors.join("\n"));
        assert_eq!(std::fs::read(place.path().join(file)).unwrap(), output.stdout);
    }
    let mut report: Value =
        serde_json::from_slice(&std::fs::read(place.path().join("1.json")).unwrap()).unwrap();
    report["runs"][0]["layers"][0]["verdict"] = "perhaps".into();
    assert!(!schema.is_valid(&report));
}

#[test]
fn a_report_does_not_replace_a_file() {
    let place = tempfile::tempdir().unwrap();
    std::fs::write(place.path().join("r.json"), "mine").unwrap();
    let output = ckpt(place.path(), &["verify", DIGITS, DIGITS, "--report", "r.json"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(std::fs::read_to_string(place.path().join("r.json")).unwrap(), "mine");
}

#[test]
fn an_unknown_device_is_an_error_that_names_it() {
    let place = tempfile::tempdir().unwrap();
    let output = ckpt(place.path(), &["verify", DIGITS, DIGITS, "--device", "cpu,gpu"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("'gpu'"));
}

/// The outputs that Keras computed are stored with the model.
#[test]
fn running_the_example_model_gives_the_outputs_of_keras() {
    let place = tempfile::tempdir().unwrap();
    let io = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/data/digits_io.json");
    let io: Value = serde_json::from_str(&std::fs::read_to_string(io).unwrap()).unwrap();
    let numbers = |value: &Value| -> Vec<f32> {
        let rows = value.as_array().unwrap().iter().flat_map(|row| row.as_array().unwrap());
        rows.map(|number| number.as_f64().unwrap() as f32).collect()
    };
    let (x, y) = (numbers(&io["x"]), numbers(&io["y"]));
    let rows = x.len() / 64;
    super::support::archive(&place.path().join("x.safetensors"), "x", &[rows, 64], &x);
    let output = ckpt(place.path(), &["run", DIGITS, "--input", "x.safetensors", "--format", "json"]);
    assert!(output.status.success(), "{output:?}");
    let ran: Value = serde_json::from_slice(&output.stdout).unwrap();
    let found: Vec<f64> =
        ran["outputs"][0]["values"].as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect();
    assert_eq!(found.len(), y.len());
    assert!(super::support::relative_l2(&found, &y) < 1e-5);
    assert_eq!((&ran["device"]["api"], &ran["inputs"][0]["shape"][0]), (&"cpu".into(), &rows.into()));
}

#[test]
fn outputs_are_written_in_the_format_of_the_extension_and_labels_are_counted() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    let output = ckpt(directory, &["run", DIGITS, "--seed", "7", "--batch", "5", "-o", "y.safetensors"]);
    assert!(output.status.success(), "{output:?}");
    let written = crate::common::open(&directory.join("y.safetensors"), &[]);
    assert_eq!(written.checkpoint().tensors[0].shape.to_vec(), [5, 10]);
    let argmax =
        ckpt(directory, &["run", DIGITS, "--seed", "7", "--batch", "5", "--argmax", "--format", "json"]);
    let argmax: Value = serde_json::from_slice(&argmax.stdout).unwrap();
    let mut labels: Vec<u8> = vec![0, 0, 8, 1, 0, 0, 0, 5];
    labels
        .extend(argmax["outputs"][0]["argmax"].as_array().unwrap().iter().map(|k| k.as_u64().unwrap() as u8));
    labels[8] = (labels[8] + 1) % 10;
    std::fs::write(directory.join("labels"), labels).unwrap();
    let output = ckpt(directory, &["run", DIGITS, "--seed", "7", "--batch", "5", "--labels", "labels"]);
    assert!(stdout(&output).contains("4 of 5 correct (0.8000)"), "{}", stdout(&output));
}

#[test]
fn a_checkpoint_without_a_graph_is_refused_with_help() {
    let place = tempfile::tempdir().unwrap();
    // An architecture file can describe a matrix as a layer, but not a vector.
    for (name, shape, help) in [
        ("m.safetensors", &[1, 2][..], "--arch"),
        ("v.safetensors", &[2], "an architecture file cannot describe"),
    ] {
        super::support::archive(&place.path().join(name), "x", shape, &[1.0, 2.0]);
        let output = ckpt(place.path(), &["run", name]);
        assert_eq!(output.status.code(), Some(2));
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(text.contains(help) && text.contains("--arch") == (help == "--arch"), "{text}");
    }
    let bare = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/data/digits");
    let output = ckpt(place.path(), &["run", bare]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("activations="));
}

/// `verify` has its own options for each checkpoint.
#[test]
fn help_names_the_options_of_the_checkpoint_that_an_error_concerns() {
    let place = tempfile::tempdir().unwrap();
    let bare = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/data/digits");
    // Without names in common, there is nothing to compare.
    assert!(ckpt(place.path(), &["convert", DIGITS, "m.nn"]).status.success());
    for (a, b, side) in [(bare, "m.nn", "--a-"), ("m.nn", bare, "--b-")] {
        let output = ckpt(place.path(), &["verify", a, b]);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains(&format!("{side}set activations=")), "{said}");
        assert!(said.contains(&format!("{side}arch")), "{said}");
        let output = ckpt(place.path(), &["verify", a, b, &format!("{side}set"), "activations=relu,softmax"]);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
    }
    std::fs::write(place.path().join("x"), "\u{1}no checkpoint").unwrap();
    let output = ckpt(place.path(), &["verify", DIGITS, "x"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("--b-from") && !said.contains(" --from"), "{said}");
}

#[test]
fn a_checkpoint_that_states_no_activations_is_compared_tensor_by_tensor() {
    let place = tempfile::tempdir().unwrap();
    let bare = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/data/digits");
    for (a, b) in [(bare, DIGITS), (DIGITS, bare)] {
        let output = ckpt(place.path(), &["verify", a, b]);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let said = stdout(&output);
        assert!(said.contains("nothing was run") && said.contains("4 of 4 tensors are equal"), "{said}");
        assert!(said.contains("no activation for hidden, digit"), "{said}");
    }
}

#[test]
fn what_a_conversion_keeps_as_metadata_is_no_difference() {
    let place = tempfile::tempdir().unwrap();
    let bare = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/data/digits");
    assert!(ckpt(place.path(), &["convert", bare, "m.safetensors"]).status.success());
    for command in ["verify", "diff"] {
        for (a, b) in [(bare, "m.safetensors"), ("m.safetensors", bare)] {
            let output = ckpt(place.path(), &[command, a, b]);
            assert_eq!(output.status.code(), Some(0), "{output:?}");
            assert!(stdout(&output).contains("no difference: "), "{output:?}");
        }
    }
    let part = ["convert", bare, "part.safetensors", "--exclude", "**/kernel"];
    assert!(ckpt(place.path(), &part).status.success());
    for command in ["verify", "diff"] {
        assert_eq!(
            ckpt(place.path(), &[command, bare, "part.safetensors"]).status.code(),
            Some(4),
            "{command}"
        );
    }
}

#[test]
fn a_tolerance_compares_the_values_of_different_dtypes() {
    let place = tempfile::tempdir().unwrap();
    assert!(ckpt(place.path(), &["convert", DIGITS, "a.npz", "--allow", "all"]).status.success());
    assert!(ckpt(place.path(), &["convert", "a.npz", "b.npz", "--dtype", "f16"]).status.success());
    for command in ["diff", "verify"] {
        let exit = |options: &[&str]| {
            let output = ckpt(place.path(), &[&[command, "a.npz", "b.npz"], options].concat());
            (output.status.code(), stdout(&output))
        };
        let (code, said) = exit(&[]);
        assert_eq!(code, Some(4));
        assert!(said.contains("not compared, since the dtypes differ") && said.contains("--rtol"), "{said}");
        let (code, said) = exit(&["--rtol", "1e-3", "--atol", "1e-7"]);
        assert!(code == Some(0) && said.contains("f32 in ") && said.contains("f16 in "), "{command}: {said}");
        assert_eq!(exit(&["--rtol", "1e-6"]).0, Some(4), "{command}");
    }
}

#[test]
fn verify_describes_a_tensor_that_differs_in_the_words_of_diff() {
    let place = tempfile::tempdir().unwrap();
    assert!(ckpt(place.path(), &["convert", DIGITS, "a.npz", "--allow", "all"]).status.success());
    assert!(ckpt(place.path(), &["convert", "a.npz", "b.npz", "--dtype", "f16"]).status.success());
    for options in [&[][..], &["--rtol", "1e-6"], &["--rtol", "1e-3", "--atol", "1e-7"]] {
        let lines = |command: &str| -> Vec<String> {
            let said = stdout(&ckpt(place.path(), &[&[command, "a.npz", "b.npz"], options].concat()));
            let lines = said.lines().map(str::trim_start).filter(|line| line.contains(": digits/"));
            lines.map(str::to_owned).collect()
        };
        let (diff, verify) = (lines("diff"), lines("verify"));
        assert!(diff.len() > 3, "{diff:?}");
        assert_eq!(verify, diff);
    }
}

#[test]
fn a_tolerance_that_allows_everything_is_refused() {
    let place = tempfile::tempdir().unwrap();
    for value in ["inf", "NaN"] {
        let output = ckpt(place.path(), &["verify", DIGITS, DIGITS, "--atol", value]);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
    }
}
