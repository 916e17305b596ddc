//! What is read, and what is refused.

use super::build::{Build, F32, Q8_0, array, floats, key, read, read_all, read_with, string, tensor};
use ckpt_api::{Error, Kind};

fn one() -> Build {
    Build::new(
        vec![],
        vec![tensor("w", &[2], F32, floats(&[1.0, 2.0])), tensor("v", &[1], F32, floats(&[3.0]))],
    )
}

fn refused(bytes: Vec<u8>) -> Error {
    read(bytes).unwrap_err()
}

#[track_caller]
fn assert_refused(bytes: Vec<u8>, kind: Kind, text: &str) {
    let error = refused(bytes);
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.to_string().contains(text), "{error}");
}

#[test]
fn versions_other_than_2_and_3_are_refused_by_number() {
    for (version, text) in
        [(1, "version 1 of GGUF, which is out of use"), (4, "version 4"), (99, "version 99")]
    {
        assert_refused(Build { version, ..one() }.bytes(), Kind::Unsupported, text);
    }
    assert!(read(Build { version: 2, ..one() }.bytes()).is_ok());
}

#[test]
fn counts_and_lengths_beyond_the_file_are_refused_before_memory_is_reserved() {
    let huge = 1u64 << 60;
    assert_refused(one().with_counts(huge, 0), Kind::Corrupt, "the number of tensors");
    assert_refused(one().with_counts(2, huge), Kind::Corrupt, "the number of keys");
    let with = |key: Vec<u8>| Build::new(vec![key], vec![]).bytes();
    assert_refused(with([&huge.to_le_bytes()[..], &[0; 32]].concat()), Kind::Corrupt, "the length of a key");
    assert_refused(with(key("s", 8, huge.to_le_bytes())), Kind::Corrupt, "field s");
    assert_refused(with(key("a", 9, array(4, huge, [0; 64]))), Kind::Corrupt, "claims more than it holds");
}

#[test]
fn keys_and_names_are_unique_and_texts() {
    let twice = vec![key("a", 0, [1]), key("a", 0, [2])];
    assert_refused(Build::new(twice, vec![]).bytes(), Kind::Corrupt, "a key twice");
    assert_refused(Build::new(vec![key("", 0, [1])], vec![]).bytes(), Kind::Corrupt, "a key is empty");
    let same = tensor("w", &[1], F32, floats(&[1.0]));
    assert_refused(Build::new(vec![], vec![same.clone(), same]).bytes(), Kind::Corrupt, "the same name");
    let mut odd = one();
    odd.tensors[0].name = vec![0xff];
    assert_refused(odd.bytes(), Kind::Corrupt, "not UTF-8");
}

/// `gguf-py` writes and reads it, and llama.cpp refuses only names of 64 bytes and more.
#[test]
fn a_tensor_may_have_the_empty_name() {
    let contents = read(Build::new(vec![], vec![tensor("", &[1], F32, floats(&[1.0]))]).bytes()).unwrap();
    assert_eq!(contents.checkpoint.tensors[0].name, "");
}

#[test]
fn a_value_of_an_unknown_type_and_a_truth_value_of_2_are_refused() {
    assert_refused(Build::new(vec![key("a", 13, [1])], vec![]).bytes(), Kind::Corrupt, "type 13");
    assert_refused(Build::new(vec![key("a", 7, [2])], vec![]).bytes(), Kind::Corrupt, "neither 0 nor 1");
}

#[test]
fn arrays_nest_as_deep_as_metadata_may() {
    let nested = |levels: usize| {
        let value = (1..levels).fold(array(0, 1, [5]), |value, _| array(9, 1, value));
        Build::new(vec![key("a", 9, value)], vec![]).bytes()
    };
    read(nested(47)).unwrap();
    assert_refused(nested(100), Kind::Limit, "nested too deeply");
}

#[test]
fn an_alignment_is_a_power_of_two_stored_as_u32() {
    let with =
        |kind: u32, value: &[u8]| Build::new(vec![key("general.alignment", kind, value)], vec![]).bytes();
    for value in [0u32, 33] {
        assert_refused(with(4, &value.to_le_bytes()), Kind::Corrupt, "no power of two");
    }
    assert_refused(with(8, &string(b"32")), Kind::Corrupt, "no power of two");
    let keys = vec![key("general.alignment", 4, 64u32.to_le_bytes())];
    let file = Build { alignment: 64, ..Build::new(keys, one().tensors) };
    assert_eq!(read(file.bytes()).unwrap().placements[1].extents[0].offset % 64, 0);
}

#[test]
fn types_that_are_unknown_or_removed_are_refused_by_number() {
    for (kind, text) in [(4, "Q4_2"), (31, "Q4_0_4_4"), (99, "type 99")] {
        let file = Build::new(vec![], vec![tensor("w", &[32], kind, [0; 64])]);
        assert_refused(file.bytes(), Kind::Unsupported, text);
    }
}

#[test]
fn shapes_that_overflow_have_too_many_axes_or_half_a_block_are_refused() {
    let with = |dims: &[u64], kind| Build::new(vec![], vec![tensor("w", dims, kind, [0; 34])]).bytes();
    assert_refused(with(&[1 << 62], F32), Kind::Corrupt, "too many elements");
    assert_refused(with(&[1 << 33, 1 << 33], F32), Kind::Corrupt, "too many elements");
    assert_refused(with(&[1; 5], F32), Kind::Corrupt, "more axes");
    assert_refused(with(&[33], Q8_0), Kind::Corrupt, "no multiple of a block");
    assert_refused(with(&[], Q8_0), Kind::Corrupt, "no multiple of a block");
}

#[test]
fn tensors_follow_each_other_within_the_file() {
    let at = |offset: u64| {
        let mut file = one();
        file.tensors[1].offset = Some(offset);
        file.bytes()
    };
    assert_refused(at(33), Kind::Corrupt, "no multiple of the alignment");
    assert_refused(at(0), Kind::Corrupt, "overlap");
    assert_refused(at(1 << 40), Kind::Corrupt, "ends before the tensor does");
    assert_refused(at(u64::MAX - 31), Kind::Corrupt, "beyond what a file can hold");
    let mut gap = one();
    gap.tensors[1].offset = Some(64);
    let bytes = [gap.bytes(), vec![0; 32]].concat();
    assert_refused(bytes.clone(), Kind::Corrupt, "does not follow the one before it");
    assert_eq!(read_with(bytes, &[("lenient", "true")]).unwrap().repairs.len(), 1);
}

#[test]
fn bytes_after_the_end_are_refused_and_padding_is_optional() {
    let bytes = one().bytes();
    assert_refused([&bytes[..], &[0]].concat(), Kind::Corrupt, "does not end after its last tensor");
    read(bytes[..bytes.len() - 28].to_vec()).unwrap();
    assert_refused(bytes[..bytes.len() - 27].to_vec(), Kind::Corrupt, "does not end after its last tensor");
    assert_refused(bytes[..bytes.len() - 29].to_vec(), Kind::Corrupt, "ends before the tensor does");
}

/// Two files of a set.
fn set() -> [Build; 2] {
    [0u16, 1].map(|number| {
        let keys = vec![
            key("split.no", 2, number.to_le_bytes()),
            key("split.count", 2, 2u16.to_le_bytes()),
            key("split.tensors.count", 5, 2i32.to_le_bytes()),
        ];
        Build::new(keys, vec![tensor(&format!("w{number}"), &[1], F32, floats(&[1.0]))])
    })
}

#[test]
fn a_set_is_read_by_any_of_its_files_or_its_directory() {
    let names = ["m-00001-of-00002.gguf", "m-00002-of-00002.gguf"];
    let files = || names.map(str::to_owned).into_iter().zip(set().map(|file| file.bytes())).collect();
    for entry in [names[0], names[1], ""] {
        let contents = read_all(entry, files(), &[]).unwrap();
        let tensors: Vec<&str> =
            contents.checkpoint.tensors.iter().map(|tensor| tensor.name.as_str()).collect();
        assert_eq!(tensors, ["w0", "w1"]);
        assert!(contents.checkpoint.metadata.is_empty(), "the keys of a set describe files");
    }
}

#[test]
fn a_set_with_a_missing_renamed_or_foreign_file_is_refused() {
    let [first, second] = set().map(|file| file.bytes());
    let read = |files: &[(&str, &Vec<u8>)]| {
        let files = files.iter().map(|(name, bytes)| ((*name).to_owned(), (*bytes).clone())).collect();
        read_all(files_entry(&files), files, &[]).unwrap_err().to_string()
    };
    let (one, two) = ("m-00001-of-00002.gguf", "m-00002-of-00002.gguf");
    assert!(read(&[(one, &first)]).contains("must lie in one directory"));
    assert!(read(&[("m.gguf", &first)]).contains("its name does not tell the others"));
    assert!(read(&[(one, &first), (two, &first)]).contains("not the one that its name states"));
    assert!(read(&[(one, &second), (two, &second)]).contains("not the one that its name states"));
}

fn files_entry(files: &std::collections::BTreeMap<String, Vec<u8>>) -> &'static str {
    if files.contains_key("m.gguf") { "m.gguf" } else { "m-00001-of-00002.gguf" }
}
