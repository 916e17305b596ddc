//! Plugins on the command line and in the library, with modules made by hand. `crates/plugin-host` has the tests of the host.

#[path = "../../crates/plugin-host/tests/it/module.rs"]
mod module;

use ckpt::{Conversion, OpenOptions, Registry, Source};
use ckpt_api::{
    Axis, Checkpoint, Contents, DType, Encoding, Extent, FileId, Graph, Input, Kind, Node, Op, Placement,
    Shape, Tensor, TensorId,
};
use ckpt_forms::{Bytes, ContentsForm, Function, MatchForm};
use module::{Wat, description, good, operator};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

/// A plugin that takes every input for a toy: a matrix of two numbers behind four bytes of `m.toy`.
pub fn toy() -> Wat {
    let tensor = Tensor::new("w", DType::F32, Shape::new([2]).unwrap());
    let placement =
        Placement::new(TensorId(0), "w", Extent::new(FileId(0), 4, 8), Encoding::row_major(&tensor));
    let contents = Contents::default()
        .with_checkpoint(Checkpoint { tensors: vec![tensor], ..Checkpoint::default() })
        .with_files(vec!["m.toy".to_owned()])
        .with_placements(vec![placement]);
    Wat::new()
        .answering(Function::Probe, &good(MatchForm::Certain("everything is a toy".to_owned())))
        .answering(Function::Read, &good(ContentsForm::from(contents)))
}

/// The same in another version.
fn newer_toy() -> Wat {
    let mut description = description();
    description.version = "0.2.0".to_owned();
    toy().answering(Function::Describe, &good(description))
}

/// A plugin whose toys have a graph of an operator of its own, of which every result is -0.5 and 8.
fn computing_toy() -> Wat {
    let mut description = description();
    description.operators = vec![operator()];
    let tensor = Tensor::new("w", DType::F32, Shape::new([2]).unwrap()).with_axes([Axis::Out]);
    let placement =
        Placement::new(TensorId(0), "w", Extent::new(FileId(0), 4, 8), Encoding::row_major(&tensor));
    let node = Node::new("power", Op::custom("toy.Op")).parameter("slope", "w");
    let graph = Graph::sequential("toy", vec![Some(2)], vec![Some(2)], vec![node]);
    let contents = Contents::default()
        .with_checkpoint(Checkpoint { tensors: vec![tensor], graph: Some(graph), ..Checkpoint::default() })
        .with_files(vec!["m.toy".to_owned()])
        .with_placements(vec![placement]);
    toy()
        .answering(Function::Describe, &good(description))
        .answering(Function::Read, &good(ContentsForm::from(contents)))
        .answering(Function::OperatorShape, &good(vec![2_u64]))
        .answering(Function::RunOperator, &good(Bytes::of_floats(&[-0.5, 8.0])))
}

/// A directory with a toy, plugins, and a folder of plugins.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        let place = Place(tempfile::tempdir().unwrap());
        let numbers = [1f32, 2.0].map(f32::to_le_bytes).concat();
        fs::write(place.path("m.toy"), [&b"TOY1"[..], &numbers].concat()).unwrap();
        fs::write(place.path("toy.wasm"), toy().bytes()).unwrap();
        fs::write(place.path("newer.wasm"), newer_toy().bytes()).unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ckpt"));
        command.current_dir(self.0.path()).env("CKPT_PLUGINS", self.path("plugins")).args(arguments);
        command.output().unwrap()
    }

    fn done(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", said(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.done(&[arguments, &["--format", "json"]].concat())).unwrap()
    }

    fn refused(&self, arguments: &[&str], code: i32, words: &[&str]) {
        let output = self.run(arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", said(&output));
        for words in words {
            assert!(said(&output).contains(words), "{arguments:?}: {words}: {}", said(&output));
        }
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_named_plugin_converts_and_is_listed() {
    let place = Place::new();
    place.refused(&["inspect", "m.toy"], 1, &["not recognized"]);
    place.done(&["--plugin", "toy.wasm", "convert", "m.toy", "m.npz", "--verify", "-q"]);
    let listed = place.json(&["show", "m.npz", "w"]);
    assert!(listed.to_string().contains("\"values\":[1,2]"), "{listed}");
    let formats = place.json(&["formats", "--plugin", "toy.wasm"]);
    let own = formats.as_array().unwrap().iter().find(|format| format["id"] == "toy").unwrap();
    assert_eq!((&own["codec"]["origin"], &own["codec"]["version"]), (&"toy.wasm".into(), &"0.1.0".into()));
    assert_eq!(own["codec"]["sha256"].as_str().unwrap().len(), 64);
    let text = place.done(&["formats", "toy", "--plugin", "toy.wasm"]);
    assert!(text.contains("toy.wasm, version 0.1.0"), "{text}");
}

#[test]
fn a_plugin_that_is_added_is_used_until_it_is_removed() {
    let place = Place::new();
    assert!(place.done(&["plugin", "list"]).contains("you have no plugins"));
    assert!(
        place
            .done(&["plugin", "add", "toy.wasm"])
            .starts_with("added the plugin toy: Toy format, version 0.1.0")
    );
    assert!(place.json(&["inspect", "m.toy"])["format"] == "toy");
    place.done(&["plugin", "add", "newer.wasm"]);
    let listed = place.json(&["plugin", "list"]);
    assert_eq!((listed.as_array().unwrap().len(), &listed[0]["version"]), (1, &"0.2.0".into()));
    place.refused(&["plugin", "remove", "tey"], 2, &["you have no such plugin", "toy"]);
    place.done(&["plugin", "remove", "toy"]);
    place.refused(&["inspect", "m.toy"], 1, &["not recognized"]);
}

#[cfg(feature = "forward")]
#[test]
fn an_operator_of_a_plugin_runs() {
    let place = Place::new();
    fs::write(place.path("computing.wasm"), computing_toy().bytes()).unwrap();
    let ran = place.json(&["--plugin", "computing.wasm", "run", "m.toy"]);
    assert!(ran.to_string().contains("[-0.5,8"), "{ran}");
    place.done(&["--plugin", "computing.wasm", "verify", "m.toy", "m.toy"]);
    let lying = computing_toy().answering(Function::RunOperator, &good(Bytes::of_floats(&[1.0])));
    fs::write(place.path("lying.wasm"), lying.bytes()).unwrap();
    place.refused(
        &["--plugin", "lying.wasm", "run", "m.toy"],
        1,
        &["lying.wasm", "another number of elements than the result has"],
    );
}

#[test]
fn the_limits_of_a_command_hold_for_what_a_plugin_decodes_and_writes() {
    let place = Place::new();
    let convert = ["--plugin", "toy.wasm", "convert", "m.toy", "m.npz", "-q", "--limit"];
    place.refused(
        &[&convert[..], &["plugin_steps=10"]].concat(),
        1,
        &["toy.wasm", "too many steps", "plugin_steps"],
    );
    place.done(&[&convert[..], &["plugin_steps=100000"]].concat());
}

#[test]
fn a_plugin_beside_a_checkpoint_is_never_loaded() {
    let place = Place::new();
    fs::create_dir(place.path("model")).unwrap();
    fs::copy(place.path("toy.wasm"), place.path("model/toy.wasm")).unwrap();
    fs::copy(place.path("m.toy"), place.path("model/m.toy")).unwrap();
    place.refused(&["inspect", "model/m.toy"], 1, &["not recognized"]);
}

#[test]
fn a_plugin_that_cannot_be_used_is_named_with_the_way_out() {
    let place = Place::new();
    fs::create_dir(place.path("plugins")).unwrap();
    fs::write(place.path("plugins/odd.wasm"), b"\0asm\x01\0\0\0").unwrap();
    place.refused(&["inspect", "m.toy"], 1, &["odd.wasm", "`ckpt plugin remove odd`"]);
    assert!(place.done(&["plugin", "list"]).contains("cannot be used"));
    place.done(&["plugin", "remove", "odd"]);
    place.refused(&["plugin", "add", "m.toy"], 1, &["the file is no plugin", "54 4f 59 31"]);
    place.refused(&["plugin", "add", "none.wasm"], 1, &["cannot read the plugin"]);
}

#[test]
fn a_built_in_format_cannot_be_taken_over() {
    let place = Place::new();
    let claim = |change: fn(&mut ckpt_forms::Description)| {
        let mut described = description();
        described.blocks.clear();
        change(&mut described);
        toy().answering(Function::Describe, &good(described)).bytes()
    };
    fs::write(place.path("id.wasm"), claim(|d| d.format.id = "npz".to_owned())).unwrap();
    fs::write(place.path("ending.wasm"), claim(|d| d.format.extensions = vec!["npz".to_owned()])).unwrap();
    for command in [&["plugin", "add"][..], &["formats", "--plugin"]] {
        place.refused(&[command, &["id.wasm"]].concat(), 2, &["the id of another format", "'npz'"]);
        place.refused(
            &[command, &["ending.wasm"]].concat(),
            2,
            &["a file name ending of another format", ".npz"],
        );
    }
    place.refused(
        &["formats", "--plugin", "toy.wasm", "--plugin", "newer.wasm"],
        2,
        &["the id of another format"],
    );
}

#[test]
fn a_tie_names_the_plugin_and_how_to_remove_it() {
    let place = Place::new();
    place.done(&["--plugin", "toy.wasm", "convert", "m.toy", "m.npz", "-q"]);
    place.refused(
        &["inspect", "m.npz", "--plugin", "toy.wasm"],
        2,
        &["more than one format fits", "toy.wasm", "version 0.1.0", "`ckpt plugin remove toy`"],
    );
}

#[test]
fn a_plan_runs_with_the_same_plugin_only() {
    let place = Place::new();
    place.done(&["--plugin", "toy.wasm", "plan", "m.toy", "m.npz", "--output", "plan.json"]);
    let plan: Value = serde_json::from_slice(&fs::read(place.path("plan.json")).unwrap()).unwrap();
    #[cfg(feature = "safetensors")]
    crate::schemas::assert_plan(&plan);
    assert_eq!(plan["source"]["codec"]["origin"], "toy.wasm");
    let sha256 = plan["source"]["codec"]["sha256"].as_str().unwrap().to_owned();
    let run = ["run-plan", "plan.json", "--receipts", "receipts", "-q"];
    place.refused(&run, 2, &["another codec of format 'toy'", "no codec of this format", &sha256]);
    place.refused(&[&run[..], &["--plugin", "newer.wasm"]].concat(), 2, &["version 0.2.0", &sha256]);
    place.done(&[&run[..], &["--plugin", "toy.wasm"]].concat());
    place.done(&["commit", "plan.json", "receipts", "-q", "--plugin", "toy.wasm"]);
    assert!(place.path("m.npz").is_file());
}

#[test]
fn a_plugin_that_does_not_keep_the_rules_is_found_by_its_check() {
    let place = Place::new();
    place.refused(&["plugin", "check", "toy.wasm", "m.toy"], 1, &["does not keep the rules", "toy.wasm"]);
}

#[test]
fn a_plugin_that_loops_is_an_error_that_names_it() {
    let place = Place::new();
    fs::write(place.path("loop.wasm"), toy().doing(Function::Probe, "(loop $on (br $on))").bytes()).unwrap();
    let limit = ["--limit", "plugin_steps=100k"];
    let inspect = ["inspect", "m.toy", "--plugin", "loop.wasm"];
    place.refused(&[&inspect[..], &limit].concat(), 1, &["loop.wasm", "too many steps", "plugin_steps"]);
}

#[test]
fn the_library_takes_the_bytes_of_a_plugin() {
    let registry = Registry::builtin().with_plugin(&toy().bytes()).unwrap();
    let place = Place::new();
    let source =
        Source::open(&registry, Input::open(place.path("m.toy")).unwrap(), &OpenOptions::default()).unwrap();
    assert_eq!(source.tensor("w").unwrap().read::<f32>().unwrap(), [1.0, 2.0]);
    let memory = ckpt::store::MemoryStore::new();
    let summary =
        Conversion::new().run(&registry, place.path("m.toy").as_path(), memory.at("m.npz")).unwrap();
    assert_eq!(summary.tensors, 1);
    let taken = registry.with_plugin(&newer_toy().bytes()).unwrap_err();
    assert_eq!(taken.kind(), Kind::Usage);
}

/// The tests of the Python package have no assembler. Their toy claims no file: it stays loaded.
#[test]
fn the_plugin_that_python_loads_is_a_toy() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("python/tests/toy.wasm");
    let toy = toy().answering(Function::Probe, &good(MatchForm::No)).bytes();
    if std::env::var_os("CKPT_GUIDE").is_some_and(|value| value == "write") {
        fs::write(&path, &toy).unwrap();
    }
    assert!(fs::read(&path).unwrap() == toy, "write it anew: CKPT_GUIDE=write");
}
