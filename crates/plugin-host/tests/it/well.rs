//! A module that keeps the interface.

use super::module::{Wat, description, good, operator};
use ckpt_api::{
    Axis, Checkpoint, Codec, Contents, DType, Encoding, Error, Extent, FileId, Input, InputSpec, Limits,
    Match, Node, Op, OpCall, OpShapes, Options, OutputView, ParameterSpec, Placement, Result, Shape, Tensor,
    TensorId, Values,
};
use ckpt_forms::{Bytes, ContentsForm, Function, MatchForm, OutputLayoutForm};
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

#[test]
fn an_operator_of_a_module_is_one_of_the_codec() {
    let mut description = description();
    description.operators = vec![operator()];
    let plugin = Wat::new()
        .answering(Function::Describe, &good(description))
        .answering(Function::OperatorShape, &good(vec![1_u64, 2]))
        .answering(Function::RunOperator, &good(Bytes::of_floats(&[-0.5, 1e300])))
        .load()
        .unwrap();
    let [spec] = plugin.ops() else { panic!("{:?}", plugin.ops()) };
    assert_eq!((spec.name, spec.attributes), ("toy.Op", &["power"][..]));
    assert_eq!(spec.inputs, [InputSpec::real()]);
    assert_eq!(spec.parameters, [ParameterSpec::new("slope", &[Axis::Out])]);
    let node = Node::new("n", Op::custom("toy.Op"));
    let (inputs, parameters) = ([Some(vec![2])], [("slope", vec![2])]);
    let shapes = OpShapes::new(&node, &inputs, &parameters);
    assert_eq!(spec.shape(&shapes).unwrap(), [1, 2]);
    let mut values = [0.0; 2];
    let call = OpCall::new(shapes, &[&[1.0, 2.0]], &[&[3.0, 4.0]]);
    spec.compute(&call, &mut OutputView::new(&[1, 2], &mut values)).unwrap();
    assert_eq!(values, [-0.5, 1e300]);
}

/// Values of a tensor with two elements, in pieces of one; of any other tensor, none can be read.
struct TwoPieces(Input);

impl Values for TwoPieces {
    fn input(&self) -> &Input {
        &self.0
    }

    fn numbers(&self, tensor: TensorId, each: &mut dyn FnMut(&[f32])) -> Result<()> {
        if tensor != TensorId(0) {
            return Err(Error::unsupported("the elements are no numbers"));
        }
        each(&[1.5]);
        each(&[2.5]);
        Ok(())
    }
}

/// A module that prepares tensors, and does this before it answers.
fn preparing(instructions: &str, answer: &[u8]) -> Plugin {
    let mut module = Wat::new().answering(Function::Prepare, answer).doing(Function::Prepare, instructions);
    module.imports =
        "(import \"ckpt\" \"numbers\" (func $numbers (param i64 i32 i32) (result i64)))".to_owned();
    module.more = "(func (export \"ckpt_prepare\") (param i32) (result i64)
        (call $call (i32.const 14) (local.get 0)))"
        .to_owned();
    module.load().unwrap()
}

#[test]
fn a_module_that_prepares_tensors_gets_their_values_in_pieces() {
    // One value, one more, and the end.
    let takes = "(if (i64.ne (call $numbers (i64.const 0) (i32.const 64) (i32.const 9)) (i64.const 1)) (then unreachable))
        (if (f32.ne (f32.load (i32.const 64)) (f32.const 1.5)) (then unreachable))
        (if (i64.ne (call $numbers (i64.const 0) (i32.const 64) (i32.const 9)) (i64.const 1)) (then unreachable))
        (if (f32.ne (f32.load (i32.const 64)) (f32.const 2.5)) (then unreachable))
        (if (i64.ne (call $numbers (i64.const 0) (i32.const 64) (i32.const 9)) (i64.const 0)) (then unreachable))";
    let mut prepared = contents();
    prepared.checkpoint.metadata.insert("toy", "largest", 2.5f32);
    let plugin = preparing(takes, &good(Some(ContentsForm::from(prepared.clone()))));
    let result = plugin.prepare(&TwoPieces(input()), &contents(), &Options::default()).unwrap();
    assert_eq!(result, Some(prepared));
    let nothing = preparing(takes, &good(None::<ContentsForm>));
    assert_eq!(nothing.prepare(&TwoPieces(input()), &contents(), &Options::default()).unwrap(), None);
}

#[test]
fn values_that_cannot_be_read_are_an_error_that_the_module_gets() {
    let mut two = contents();
    let mut second = (two.checkpoint.tensors[0].clone(), two.placements[0].clone());
    (second.0.name, second.1.tensor) = ("v".into(), TensorId(1));
    two.checkpoint.tensors.push(second.0);
    two.placements.push(second.1);
    let refused = "(if (i64.ge_s (call $numbers (i64.const 1) (i32.const 64) (i32.const 9)) (i64.const 0))
        (then unreachable))";
    let plugin = preparing(refused, &good(None::<ContentsForm>));
    assert_eq!(plugin.prepare(&TwoPieces(input()), &two, &Options::default()).unwrap(), None);
}

#[test]
fn a_module_that_prepares_tensors_wrongly_is_refused() {
    let take = |tensor: u32, len: u32| {
        format!("(drop (call $numbers (i64.const {tensor}) (i32.const 64) (i32.const {len})))")
    };
    let none = good(None::<ContentsForm>);
    let changed = |change: fn(&mut Contents)| {
        let mut contents = contents();
        change(&mut contents);
        good(Some(ContentsForm::from(contents)))
    };
    let cases = [
        ("that does not exist", take(7, 9), none.clone()),
        ("no values at a time", take(0, 0), none.clone()),
        ("does not take to their end", take(0, 1), none.clone()),
        ("other tensors or files", String::new(), changed(|c| c.checkpoint.tensors[0].name = "other".into())),
        ("other tensors or files", String::new(), changed(|c| c.files[0] = "other.toy".to_owned())),
        (
            "prepares tensors wrongly",
            String::new(),
            changed(|c| c.placements[0].extents = Extent::new(FileId(0), 8, 8).into()),
        ),
        ("stopped", "unreachable".to_owned(), none),
    ];
    for (message, instructions, answer) in cases {
        let plugin = preparing(&instructions, &answer);
        let error = plugin.prepare(&TwoPieces(input()), &contents(), &Options::default()).unwrap_err();
        let text = error.to_string();
        assert!(text.contains(message) && text.contains("toys/toy.wasm"), "{message}: {text}");
    }
}

#[test]
fn a_module_without_the_function_prepares_nothing() {
    let plugin = Wat::new().load().unwrap();
    assert_eq!(plugin.prepare(&TwoPieces(input()), &contents(), &Options::default()).unwrap(), None);
}
