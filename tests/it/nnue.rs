//! Networks of Stockfish through the engine: arrays are compressed while they are written.

use crate::common::{convert, open};
use ckpt::{Conversion, Execution, OpenOptions, Plan, Planned, Registry, Source};
use ckpt_api::Limits;
use std::path::{Path, PathBuf};

fn case(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/nnue/accept").join(name)
}

fn to(format: &str, options: &[(&str, &str)]) -> Conversion {
    Conversion::new().to(format).set_all(options.iter().copied())
}

#[test]
fn networks_come_back_byte_for_byte_directly_and_by_way_of_safetensors() {
    for name in ["pawn_pairs.nnue", "older.nnue", "half_kp.nnue"] {
        let (work, own) = (tempfile::tempdir().unwrap(), std::fs::read(case(name)).unwrap());
        let path = |name: &str| work.path().join(name);
        convert(open(&case(name), &[]), &path("copy.nnue"), &to("nnue", &[]));
        assert!(std::fs::read(path("copy.nnue")).unwrap() == own, "{name}");
        convert(open(&case(name), &[]), &path("m.safetensors"), &to("safetensors", &[]));
        convert(open(&path("m.safetensors"), &[]), &path("back.nnue"), &to("nnue", &[]));
        assert!(std::fs::read(path("back.nnue")).unwrap() == own, "{name} by way of safetensors");
        let plain = [("compression", "none")];
        convert(open(&path("m.safetensors"), &[]), &path("plain.nnue"), &to("nnue", &plain));
        assert!(std::fs::read(path("plain.nnue")).unwrap().len() > own.len(), "{name}");
        convert(
            open(&path("plain.nnue"), &[]),
            &path("again.nnue"),
            &to("nnue", &[("compression", "leb128")]),
        );
        assert!(std::fs::read(path("again.nnue")).unwrap() == own, "{name} compressed again");
    }
}

#[test]
fn a_plan_that_was_written_to_a_file_finds_what_compresses_its_arrays() {
    let work = tempfile::tempdir().unwrap();
    let path = |name: &str| work.path().join(name);
    convert(open(&case("pawn_pairs.nnue"), &[]), &path("m.safetensors"), &to("safetensors", &[]));
    let source = open(&path("m.safetensors"), &[]);
    let planned = to("nnue", &[]).plan(&Registry::builtin(), &source, path("back.nnue")).unwrap();
    let json = planned.plan().to_json().unwrap();
    let read = Plan::from_json(&json, &Limits::default()).unwrap();
    let resumed = Planned::resume(&Registry::builtin(), read).unwrap();
    resumed.execute(&Execution::new().sync(false), &|_| ()).unwrap();
    assert!(std::fs::read(path("back.nnue")).unwrap() == std::fs::read(case("pawn_pairs.nnue")).unwrap());
}

#[test]
fn numbers_go_to_arrays_and_come_back_as_the_same_integers() {
    let work = tempfile::tempdir().unwrap();
    let path = |name: &str| work.path().join(name);
    convert(
        open(&case("pawn_pairs.nnue"), &[]),
        &path("plain.nnue"),
        &to("nnue", &[("compression", "none")]),
    );
    let numbers = [("weights", "numbers")];
    convert(open(&path("plain.nnue"), &numbers), &path("m.safetensors"), &to("safetensors", &[]));
    convert(open(&path("m.safetensors"), &[]), &path("back.nnue"), &to("nnue", &[]));
    assert!(std::fs::read(path("back.nnue")).unwrap() == std::fs::read(path("plain.nnue")).unwrap());
}

#[cfg(feature = "bullet")]
#[test]
fn a_network_of_bullet_is_refused_by_the_names_and_shapes_of_its_tensors() {
    let adamw = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/bullet/accept/adamw");
    let options = OpenOptions::new().set("arch", "simple:3x2x1,buckets=2");
    let source = Source::open(&Registry::builtin(), &adamw, &options).unwrap();
    let work = tempfile::tempdir().unwrap();
    let planned = to("nnue", &[]).plan(&Registry::builtin(), &source, work.path().join("out.nnue"));
    let error = planned.unwrap_err().to_string();
    assert!(error.contains("tensors such as 'l"), "{error}");
    assert!(error.contains("HalfKAv2_hm (22528 features)"), "{error}");
}
