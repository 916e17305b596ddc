//! Files of external data: names in a model are data, and never those of files that are written.

use crate::build::{Model, external, field, floats, int, node, shapeless, tensor, text};
use ckpt_api::{Checkpoint, Codec, Contents, Input, Kind, Limits, Options, OutputLayout};
use ckpt_onnx::Onnx;
use std::collections::BTreeMap;

fn read(files: BTreeMap<String, Vec<u8>>) -> ckpt_api::Result<Contents> {
    Onnx.read(&Input::memory("m.onnx", files), &Options::default(), &Limits::default())
}

/// The bytes that a layout writes beside those of tensors, by file.
fn headers(layout: &OutputLayout) -> BTreeMap<String, Vec<u8>> {
    let mut files: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    for file in &layout.files {
        files.insert(file.name.clone(), vec![0; usize::try_from(file.len.unwrap()).unwrap()]);
    }
    for literal in &layout.literals {
        let file = files.get_mut(&layout.files[literal.file.0].name).unwrap();
        let at = usize::try_from(literal.offset).unwrap();
        file[at..at + literal.bytes.len()].copy_from_slice(&literal.bytes);
    }
    files
}

fn place(checkpoint: &Checkpoint, name: &str) -> OutputLayout {
    let layout = Onnx.place(checkpoint, name, &Options::default()).unwrap();
    layout.check(checkpoint).unwrap();
    layout.check_names(Onnx.info(), name).unwrap();
    layout
}

/// A sum of four tensors: in the model, in two files, and in a file that a branch and a constant name.
fn model(names: [&str; 3]) -> BTreeMap<String, Vec<u8>> {
    let value = |location: &str| {
        [text(1, "value"), field(5, &external("", &[2], location, 8, 8)), int(20, 4)].concat()
    };
    let branch = |name: &str, tensors: &[Vec<u8>]| {
        let list: Vec<u8> = tensors.iter().flat_map(|tensor| field(5, tensor)).collect();
        let sum = field(1, &node("Add", &["c", "w"], &["t"], &[]));
        let graph = [sum, text(2, "b"), list, field(12, &shapeless("t"))].concat();
        [text(1, name), field(6, &graph), int(20, 5)].concat()
    };
    let branches = [
        branch("then_branch", &[external("w", &[2], names[1], 0, 8)]),
        branch("else_branch", &[tensor("w", &[2], &[1.0, 2.0])]),
    ];
    let model = Model::new()
        .tensor(external("a", &[2], names[0], 0, 8))
        .tensor(tensor("b", &[2], &[1.0, 2.0]))
        .tensor(external("z", &[2], names[2], 0, 8))
        .node("Constant", &[], &["c"], &[value(names[2])])
        .node("ReduceSum", &["x"], &["s"], &[])
        .node("Cast", &["s"], &["t?"], &[[text(1, "to"), int(3, 9), int(20, 2)].concat()])
        .node("If", &["t?"], &["y"], &branches)
        .input("x", &[2])
        .output("y", &[2]);
    let mut files = model.files();
    for name in names {
        files.insert(name.trim_start_matches("./").to_owned(), floats(&[1.5, 2.5, 3.5, 4.5]));
    }
    files
}

#[test]
fn files_of_external_data_are_named_after_the_output_whatever_the_model_calls_them() {
    let contents = read(model([".bashrc", "./sub/w.bin", "out.onnx"])).unwrap();
    let names: Vec<&str> = contents.checkpoint.tensors.iter().map(|tensor| tensor.name.as_str()).collect();
    assert_eq!(names, ["a", "b", "z", "c", "w"]);
    for output in [
        "out.onnx",
        "a much longer name for the model, of more than one hundred and twenty-seven bytes with its ending, which needs longer lengths.onnx",
    ] {
        let layout = place(&contents.checkpoint, output);
        let files: Vec<&str> = layout.files.iter().map(|file| file.name.as_str()).collect();
        let expected = [
            output.to_owned(),
            format!("{output}.data"),
            format!("{output}.2.data"),
            format!("{output}.3.data"),
        ];
        assert_eq!(files, expected);
        let loss = layout.losses.iter().find(|loss| loss.subject == "external data").unwrap();
        assert!(loss.detail.contains(&format!("{output}.data")), "{}", loss.detail.as_str());
        // The names are in the model, too, and nothing else is another.
        let written = headers(&layout);
        let input = Input::memory(output, written);
        let again = Onnx.read(&input, &Options::default(), &Limits::default()).unwrap();
        assert_eq!(again.files, expected);
        assert_eq!(again.checkpoint.tensors, contents.checkpoint.tensors);
        assert_eq!(again.checkpoint.graph, contents.checkpoint.graph);
    }
}

#[test]
fn a_model_whose_files_have_the_names_that_follow_from_its_own_keeps_its_bytes() {
    let files = model(["m.onnx.data", "m.onnx.3.data", "m.onnx.2.data"]);
    let contents = read(files.clone()).unwrap();
    let layout = place(&contents.checkpoint, "m.onnx");
    assert_eq!(layout.losses, []);
    let ours = &headers(&layout)["m.onnx"];
    // But for the bytes of tensors in it, which are written from the source.
    let plain = floats(&[1.0, 2.0]);
    let theirs = &files["m.onnx"];
    let differs = ours.iter().zip(theirs).filter(|(own, their)| own != their).count();
    assert!(ours.len() == theirs.len() && differs <= 2 * plain.len(), "{differs}");
}

#[test]
fn a_location_that_names_no_file_in_the_directory_is_refused() {
    for location in [".", "./.", "", "/", "..", "a/..", "./../w", "a//b", "\\w", "c:w"] {
        let files = Model::new().tensor(external("w", &[2], location, 0, 8)).files();
        let error = read(files).unwrap_err();
        assert!(error.kind() == Kind::Corrupt, "{location}: {error}");
    }
}

#[test]
fn carried_metadata_makes_no_file_that_is_larger_than_its_tensors() {
    let far = |offset: u64| {
        let files = Model::new().tensor(external("w", &[2], "w.bin", offset, 8)).files();
        let input = Input::memory("m.onnx", files);
        let other = Onnx.read(&input, &Options::default(), &Limits::default()).unwrap();
        Onnx.place(&other.checkpoint, "out.onnx", &Options::default())
    };
    assert_eq!(far(4096).unwrap().files[1].len, Some(4104));
    // A new model, with the tensor in it.
    let files = far(1 << 40).unwrap().files;
    assert!(files.len() == 1 && files[0].len.unwrap() < 4096, "{files:?}");
}

/// A model with so many initializers that all are the same mebibyte of external data.
fn sharing(count: usize) -> BTreeMap<String, Vec<u8>> {
    let mut model = Model::new().node("Identity", &["x"], &["y"], &[]).input("x", &[2]).output("y", &[2]);
    for number in 0..count {
        model = model.tensor(external(&format!("w{number}"), &[1 << 18], "w.bin", 0, 1 << 20));
    }
    let mut files = model.files();
    files.insert("w.bin".to_owned(), vec![0; 1 << 20]);
    files
}

#[test]
fn initializers_may_be_the_same_bytes_but_not_so_often_that_little_data_is_much() {
    assert_eq!(read(sharing(2)).unwrap().checkpoint.tensors.len(), 2);
    assert_eq!(read(sharing(1000)).unwrap().checkpoint.tensors.len(), 1000);
    let error = read(sharing(1100)).unwrap_err();
    assert_eq!(error.kind(), Kind::Unsupported);
    assert!(error.to_string().contains("too often"), "{error}");
}

#[test]
fn a_model_whose_external_data_is_missing_is_described() {
    let mut files = sharing(2000);
    files.remove("w.bin");
    assert_eq!(read(files).unwrap().checkpoint.tensors.len(), 2000);
}
