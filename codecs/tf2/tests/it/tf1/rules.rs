//! One test for each rule of a frozen graph's constants.

use super::build::{constant, field, file, node, read, values};
use ckpt_api::{Codec, Error, Input, Kind, Limits, Match, Options, Side};
use ckpt_tf2::Tf1;

const F32: i64 = 1;
const I64: i64 = 9;
const TEXT: i64 = 7;

fn floats(numbers: &[f32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// The bytes of the only tensor of a graph.
fn only(graph: Vec<u8>) -> Vec<u8> {
    let input = file(graph);
    let contents = read(&input).unwrap();
    assert_eq!(contents.checkpoint.tensors.len(), 1);
    values(&input, &contents).unwrap().remove(0)
}

fn refused(graph: Vec<u8>) -> Error {
    read(&file(graph)).unwrap_err()
}

#[test]
fn values_are_raw_bytes_or_a_list() {
    let numbers = floats(&[1.0, 2.0, 3.0]);
    assert_eq!(only(constant("w", F32, &[3], &field(4, &numbers))), numbers);
    assert_eq!(only(constant("w", F32, &[3], &field(5, &numbers))), numbers);
}

#[test]
fn integers_are_varints_and_negative_ones_take_ten_bytes() {
    let minus_two = [0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
    let list = [&[0xac, 0x02][..], &minus_two].concat();
    let expected = [300i64.to_le_bytes(), (-2i64).to_le_bytes()].concat();
    assert_eq!(only(constant("w", I64, &[2], &field(10, &list))), expected);
}

#[test]
fn the_last_of_too_few_values_is_repeated_and_without_any_all_are_0() {
    let repeated = floats(&[1.0, 2.0, 2.0, 2.0]);
    assert_eq!(only(constant("w", F32, &[4], &field(5, &floats(&[1.0, 2.0])))), repeated);
    assert_eq!(only(constant("w", F32, &[4], &field(5, &floats(&[7.0])))), floats(&[7.0; 4]));
    assert_eq!(only(constant("w", F32, &[4], &[])), floats(&[0.0; 4]));
    let expected = [5i64, 6, 6].map(i64::to_le_bytes).concat();
    assert_eq!(only(constant("w", I64, &[3], &field(10, &[5, 6]))), expected);
}

#[test]
fn many_integers_are_decoded_while_they_are_read() {
    let (list, expected): (Vec<u8>, Vec<u8>) = ((0..20_000).map(|at| (at % 100) as u8).collect(), {
        (0..20_000i64).flat_map(|at| (at % 100).to_le_bytes()).collect()
    });
    assert_eq!(only(constant("w", I64, &[20_000], &field(10, &list))), expected);
}

#[test]
fn values_that_do_not_fit_the_shape_are_refused() {
    for values in [
        field(4, &floats(&[1.0])),
        field(4, &floats(&[1.0; 3])),
        field(5, &floats(&[1.0; 3])),
        field(4, &[1; 7]),
    ] {
        let error = refused(constant("w", F32, &[2], &values));
        assert_eq!((error.kind(), error.context().tensor), (Kind::Corrupt, Some("w")), "{error}");
    }
}

#[test]
fn a_value_that_is_repeated_without_end_is_refused() {
    let error = refused(constant("w", F32, &[1 << 50], &field(5, &floats(&[1.0]))));
    assert_eq!(error.kind(), Kind::Unsupported, "{error}");
}

#[test]
fn scalars_and_32_bit_integers_are_listed_if_the_user_asks() {
    let graph = [
        constant("w", F32, &[2], &field(4, &floats(&[1.0, 2.0]))),
        constant("axis", 3, &[1], &field(7, &[1])),
        constant("scale", F32, &[], &field(5, &floats(&[0.5]))),
    ]
    .concat();
    let contents = read(&file(graph.clone())).unwrap();
    assert_eq!(contents.checkpoint.tensors.len(), 1);
    assert!(
        contents.notes.iter().any(|note| note.to_string().contains("2 constants")),
        "{:?}",
        contents.notes
    );
    let asked = [("constants".to_owned(), "true".to_owned())];
    let options = Options::parse("tf1", Tf1.info().options, Side::Read, &asked).unwrap();
    let all = Tf1.read(&file(graph), &options, &Limits::default()).unwrap();
    assert_eq!(all.checkpoint.tensors.len(), 3);
}

#[test]
fn texts_are_left_out_with_a_note() {
    let graph =
        [constant("w", F32, &[1], &field(4, &floats(&[1.0]))), constant("t", TEXT, &[1], &field(8, b"x"))];
    let contents = read(&file(graph.concat())).unwrap();
    assert!(
        contents.notes.iter().any(|note| note.to_string().contains("1 constant of the graph")),
        "{:?}",
        contents.notes
    );
}

#[test]
fn a_constant_without_a_value_and_a_name_twice_are_refused() {
    assert_eq!(refused(node("w", "Const", &[])).kind(), Kind::Corrupt);
    let twice = [node("a", "NoOp", &[]), node("a", "NoOp", &[])].concat();
    assert_eq!(refused(twice).kind(), Kind::Corrupt);
}

#[test]
fn a_graph_with_variables_says_that_their_values_are_elsewhere() {
    let contents = read(&file(node("w", "VariableV2", &[]))).unwrap();
    let reason = contents.missing_graph.unwrap().reason.to_string();
    assert!(reason.contains("not frozen") && reason.contains("'w'"), "{reason}");
}

#[test]
fn a_graph_is_recognized_by_its_first_node() {
    let graph = node("w", "Const", &[]);
    assert!(matches!(Tf1.probe(&file(graph)).unwrap(), Match::Certain(_)));
    for bytes in
        [Vec::new(), b"PK\x03\x04".to_vec(), b"\x08\x07".to_vec(), node("w", "not an operation", &[])]
    {
        assert_eq!(Tf1.probe(&file(bytes)).unwrap(), Match::No);
    }
}

#[test]
fn a_file_without_nodes_is_refused() {
    assert_eq!(
        read(&Input::memory("f", [("f".to_owned(), Vec::new())].into())).unwrap_err().kind(),
        Kind::Corrupt
    );
}
