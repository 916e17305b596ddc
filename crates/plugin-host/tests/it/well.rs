//! A module that keeps the interface.

use super::module::{Wat, description, good};
use ckpt_api::{
    Checkpoint, Codec, Contents, DType, Encoding, Extent, FileId, Input, Limits, Match, Options, Placement,
    Shape, Tensor, TensorId,
};
use ckpt_forms::{ContentsForm, Function, MatchForm, OutputLayoutForm};
use ckpt_plugin_host::Plugin;
use std::collections::BTreeMap;

fn contents() -> Contents {
    let tensor = Tensor::new("w", DType::F32, Shape::new([2]).unwrap());
    let placement =
        Placement::new(TensorId(0), "w", Extent::new(FileId(0), 4, 8), Encoding::row_major(&tensor));
    Contents::default()
        .with_checkpoint(Checkpoint { tensors: vec![tensor], ..Checkpoint::default() })
        .with_files(vec!["m.toy".to_owned()])
        .with_placements(vec![placement])
}

fn input() -> Input {
    Input::memory("m.toy", BTreeMap::from([("m.toy".to_owned(), vec![0; 12])]))
}

#[test]
fn a_module_by_hand_is_a_codec() {
    let plugin = Wat::new()
        .answering(Function::Probe, &good(MatchForm::Certain("it is a toy".to_owned())))
        .answering(Function::Read, &good(ContentsForm::from(contents())))
        .answering(Function::Place, &good(OutputLayoutForm::default()))
        .load()
        .unwrap();
    assert_eq!((plugin.info().id, plugin.info().extensions), ("toy", &["toy"][..]));
    assert_eq!(plugin.probe(&input()).unwrap(), Match::Certain("it is a toy".to_owned()));
    let read = plugin.read(&input(), &Options::default(), &Limits::default()).unwrap();
    assert_eq!(read, contents());
    let layout = plugin.place(&contents().checkpoint, "m.toy", &Options::default()).unwrap();
    assert!(layout.files.is_empty());
    let provenance = plugin.provenance().unwrap();
    assert_eq!((&*provenance.origin, &*provenance.version), ("toy.wasm", "0.1.0"));
    assert_eq!(provenance.sha256, plugin.sha256());
}

#[test]
fn reading_goes_on_in_the_instance_that_probed_the_same_file() {
    let counted = |verdict| {
        let module = Wat::new()
            .answering(Function::Probe, &good(verdict))
            .answering(Function::Read, &good(ContentsForm::from(contents())))
            .doing(Function::Probe, "(i32.store (i32.const 64) (i32.const 1))")
            .doing(Function::Read, "(if (i32.eqz (i32.load (i32.const 64))) (then unreachable))");
        module.load().unwrap()
    };
    let path = std::env::temp_dir().join(format!("ckpt-plugin-host-{}.toy", std::process::id()));
    std::fs::write(&path, [0; 12]).unwrap();
    let read = |plugin: &Plugin, input: &Input| plugin.read(input, &Options::default(), &Limits::default());
    let plugin = counted(MatchForm::Certain("it is a toy".to_owned()));
    let input = Input::open(&path).unwrap();
    plugin.probe(&input).unwrap();
    assert!(read(&plugin, &input).is_ok());
    // It was taken; another plugin's, and one of another input, are not taken.
    assert!(read(&plugin, &input).is_err());
    plugin.probe(&input).unwrap();
    let other = counted(MatchForm::Possible("it may be a toy".to_owned()));
    assert!(read(&other, &input).is_err());
    plugin.probe(&input).unwrap();
    assert!(read(&plugin, &Input::open(&path).unwrap()).is_err());
    // What recognizes nothing keeps nothing.
    let none = counted(MatchForm::No);
    none.probe(&input).unwrap();
    assert!(read(&none, &input).is_err());
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn a_module_reads_the_files_of_its_input() {
    // `open` the entry, `take` the answer, and `read` 4 bytes of the file: they are the verdict's text.
    let plugin = Wat::new()
        .importing(r#"(import "ckpt" "open" (func $open (param i32 i32) (result i64)))"#)
        .importing(r#"(import "ckpt" "take" (func $take (param i32)))"#)
        .importing(r#"(import "ckpt" "read" (func $read (param i32 i64 i32 i32)))"#)
        .importing(r#"(import "ckpt" "list" (func $list (param i32 i32 i32) (result i64)))"#)
        .answering(Function::Probe, &good(MatchForm::Certain("....".to_owned())))
        .doing(
            Function::Probe,
            r#"(i64.store (i32.const 64) (i64.const 0x796f742e6d))
               (if (i64.ne (call $list (i32.const 64) (i32.const 5) (i32.const 2)) (i64.const 1)) (then unreachable))
               (drop (call $list (i32.const 0) (i32.const 0) (i32.const 0)))
               (call $take (i32.const 128))
               (drop (call $open (i32.const 64) (i32.const 5)))
               (call $take (i32.const 128))
               (call $read (i32.const 0) (i64.const 0) (i32.const 256) (i32.const 4))
               (if (i32.ne (i32.load (i32.const 256)) (i32.const 0x31594f54)) (then unreachable))"#,
        )
        .load()
        .unwrap();
    let files = BTreeMap::from([("m.toy".to_owned(), b"TOY1".to_vec())]);
    plugin.probe(&Input::memory("m.toy", files)).unwrap();
    let others = BTreeMap::from([("m.toy".to_owned(), b"TOY2".to_vec())]);
    assert!(plugin.probe(&Input::memory("m.toy", others)).is_err());
}

#[test]
fn a_call_begins_with_the_memory_that_the_module_states() {
    // The second call of the same instance would stop.
    let plugin = Wat::new()
        .answering(Function::Probe, &good(MatchForm::No))
        .doing(
            Function::Probe,
            "(if (i32.load (i32.const 64)) (then unreachable)) (i32.store (i32.const 64) (i32.const 1))",
        )
        .load()
        .unwrap();
    for _ in 0..3 {
        assert_eq!(plugin.probe(&input()).unwrap(), Match::No);
    }
}

#[test]
fn the_same_module_has_the_same_hash_and_another_one_another() {
    let (one, same) = (Wat::new().load().unwrap(), Wat::new().load().unwrap());
    let mut other = description();
    other.version = "0.2.0".to_owned();
    let other = Wat::new().answering(Function::Describe, &good(other)).load().unwrap();
    assert!(one.sha256() == same.sha256() && one.sha256() != other.sha256());
}
