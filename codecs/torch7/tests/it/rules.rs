//! One test for each rule of the format.

use crate::build::{Writer, input, read};
use ckpt_api::{Codec, Kind, Limit, Limits, Match, Options, Ties};
use ckpt_torch7::Torch7;

fn names(bytes: Vec<u8>) -> Vec<String> {
    let (contents, _) = read(bytes).unwrap();
    contents.checkpoint.tensors.iter().map(|tensor| tensor.name.to_string()).collect()
}

#[test]
fn tensors_of_one_storage_are_both_there_and_ties_if_they_are_the_same() {
    let mut writer = Writer::default();
    writer.table(3);
    writer.text("a").floats(&[2, 3]);
    let storage = 3;
    for (name, shape, strides) in [("b", [2, 3], [3, 1]), ("c", [3, 2], [1, 3])] {
        writer.text(name).view(&shape, &strides);
        writer.again(4, storage);
    }
    let (contents, values) = read(writer.file()).unwrap();
    let ties: Vec<_> = Ties::of(&contents).iter().map(|(tensor, first)| (tensor.0, first.0)).collect();
    assert_eq!(ties, [(1, 0)]);
    let floats = |value: &[u8]| -> Vec<f32> {
        value.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
    };
    assert_eq!(floats(&values[1]), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    assert_eq!(floats(&values[2]), [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
}

#[test]
fn a_tensor_has_every_name_and_a_table_its_first_one_with_the_fewest_keys() {
    let mut writer = Writer::default();
    writer.table(3);
    writer.text("deep").table(1);
    let (tensor, shared) = (4, 3);
    writer.text("more").table(1);
    writer.text("w").floats(&[2]);
    writer.text("near").again(3, shared);
    writer.text("also").again(4, tensor);
    let (contents, _) = read(writer.file()).unwrap();
    let names: Vec<_> = contents.checkpoint.tensors.iter().map(|tensor| tensor.name.to_string()).collect();
    assert_eq!(names, ["also", "near.w"]);
    assert!(contents.all_notes().any(|note| note.contains("deep.more (as near)")));
}

#[test]
fn a_table_that_has_itself_is_no_endless_one() {
    let mut writer = Writer::default();
    let number = writer.table(2);
    writer.text("self").again(3, number);
    writer.text("w").floats(&[2]);
    assert_eq!(names(writer.file()), ["w"]);
}

#[test]
fn keys_are_parts_of_names() {
    let mut writer = Writer::default();
    writer.table(4);
    writer.number(2.0).floats(&[1]);
    writer.number(1.5).floats(&[1]);
    writer.flag(true).floats(&[1]);
    let _ = writer.table(0);
    writer.floats(&[1]);
    assert_eq!(names(writer.file()), ["2", "1.5", "true", "#7"]);
}

#[test]
fn values_beside_tensors_are_metadata() {
    let mut writer = Writer::default();
    writer.table(4);
    writer.text("epoch").number(7.0);
    writer.text("rate").number(0.5);
    writer.text("size").longs(&[3, -1]);
    writer.text("net").object("nn.Identity");
    writer.table(1);
    writer.text("train").flag(false);
    let (contents, _) = read(writer.file()).unwrap();
    let value = |key: &str| contents.checkpoint.metadata.value("torch7", key);
    assert_eq!(value("epoch").and_then(|value| value.as_i64()), Some(7));
    assert_eq!(value("rate").and_then(|value| value.as_f64()), Some(0.5));
    assert_eq!(value("size").and_then(|value| value.as_list()).map(<[_]>::len), Some(2));
    assert_eq!(value("net.__typename").and_then(|value| value.as_text()), Some("nn.Identity"));
    assert_eq!(value("net.train").and_then(|value| value.as_bool()), Some(false));
}

#[test]
fn nesting_takes_no_stack_and_little_time() {
    let mut writer = Writer::default();
    for _ in 0..5_000 {
        writer.table(1);
        writer.text("a");
    }
    writer.floats(&[1]);
    assert_eq!(names(writer.file())[0].len(), 9_999);
    let mut writer = Writer::default();
    for _ in 0..100_000 {
        writer.table(1);
        writer.text("a");
    }
    writer.floats(&[1]);
    // The names of 100,000 levels have 10 GB in all.
    assert_eq!(read(writer.file()).unwrap_err().kind(), Kind::Limit);
}

#[test]
fn objects_that_share_a_table_of_fields_share_its_names() {
    let mut writer = Writer::default();
    writer.table(1000);
    writer.number(1.0).object("nn.Custom");
    let fields = writer.table(1000);
    for number in 0..1000u16 {
        writer.number(number.into()).number(0.0);
    }
    for number in 2..=1000u16 {
        writer.number(number.into()).object("nn.Custom");
        writer.again(3, fields);
    }
    let (contents, _) = read(writer.file()).unwrap();
    let entries = contents.checkpoint.metadata.namespace("torch7").map_or(0, |own| own.len());
    assert_eq!(entries, 2000);
}

#[test]
fn values_and_texts_count_against_limits() {
    let mut writer = Writer::default();
    writer.table(1);
    writer.text("weight").floats(&[2]);
    for (limit, most) in [(Limit::GraphNodes, 2), (Limit::HeaderBytes, 20), (Limit::NameBytes, 5)] {
        let limits = Limits::default().with(limit, most);
        let error = Torch7.read(&input(writer.file()), &Options::default(), &limits).unwrap_err();
        assert_eq!(error.kind(), Kind::Limit, "{error}");
    }
}

#[test]
fn a_number_of_an_object_stands_for_the_first_one() {
    let mut writer = Writer::default();
    writer.table(2);
    writer.text("a").floats(&[2]);
    // Another class with the number of the tensor.
    writer.text("b").again(3, 2);
    assert_eq!(names(writer.file()), ["a", "b"]);
}

#[test]
fn a_file_is_recognized_by_a_class_or_a_text() {
    let verdict = |writer: &Writer| Torch7.probe(&input(writer.file())).unwrap();
    let mut writer = Writer::default();
    writer.floats(&[1]);
    assert!(matches!(verdict(&writer), Match::Certain(_)));
    let mut writer = Writer::default();
    writer.table(1);
    writer.text("a").number(1.0);
    assert!(matches!(verdict(&writer), Match::Certain(_)));
    let mut writer = Writer::default();
    writer.table(1);
    writer.number(1.0).table(0);
    assert!(matches!(verdict(&writer), Match::Certain(_)));
    let mut writer = Writer::default();
    writer.table(1);
    writer.number(1.0).number(1.0);
    assert!(matches!(verdict(&writer), Match::Possible(_)));
}
