//! One test for each rule of the message.

use crate::build::{
    blob, field, files, floats, input, int, layer, model, numbers, old_layer, old_shape, shape, single,
    varint,
};
use ckpt_api::{Axis, Codec, Input, Kind, Limit, Limits, Match, Options, ReadAt, Result};
use ckpt_caffe::Caffe;
use ckpt_containers::structure::Structure;
use std::sync::Arc;

fn read(model: Vec<u8>) -> Result<ckpt_api::Contents> {
    let contents = ckpt_conformance::read(&Caffe, &Input::memory("m.caffemodel", files(model)), &[])?.0;
    contents.check(&ckpt_api::Limits::default())?;
    Ok(contents)
}

/// Reads a blob of a layer.
fn of_blob(blob: Vec<u8>) -> Result<ckpt_api::Contents> {
    read(model(&[layer("fc", "InnerProduct", &[blob])]))
}

#[test]
fn a_blob_has_as_many_numbers_as_its_shape() {
    for (count, says) in [(5, "5 numbers"), (7, "7 numbers")] {
        let blob = [shape(&[2, 3]), field(5, &floats(&numbers(count)))].concat();
        let error = of_blob(blob).unwrap_err();
        assert_eq!((error.kind(), error.context().found), (Kind::Corrupt, Some(says)), "{error}");
        assert_eq!((error.context().expected, error.context().tensor), (Some("[2, 3] of f32"), Some("fc/0")));
    }
}

#[test]
fn a_shape_without_axes_is_that_of_one_number() {
    let contents = of_blob([field(7, &[]), field(5, &floats(&[2.0]))].concat()).unwrap();
    assert_eq!(contents.checkpoint.tensors[0].shape.rank(), 0);
}

#[test]
fn shapes_that_no_blob_has_are_refused() {
    let data = field(5, &floats(&[1.0]));
    for own in [
        shape(&[0]),
        shape(&[1; 33]),
        shape(&[u64::MAX]),
        shape(&[1 << 40, 1 << 40]),
        old_shape([1, 1, 0, 1]),
        Vec::new(),
    ] {
        let error = of_blob([own, data.clone()].concat()).unwrap_err();
        assert_eq!((error.kind(), error.context().tensor), (Kind::Corrupt, Some("fc/0")), "{error}");
    }
}

#[test]
fn numbers_come_packed_or_one_by_one() {
    let single: Vec<u8> =
        numbers(3).iter().flat_map(|number| [&[0x2d][..], &number.to_le_bytes()].concat()).collect();
    let input = Input::memory(
        "m.caffemodel",
        files(model(&[layer("fc", "InnerProduct", &[[single.clone(), shape(&[3])].concat()])])),
    );
    let (_, values) = ckpt_conformance::read(&Caffe, &input, &[]).unwrap();
    assert_eq!(values, [floats(&numbers(3))]);
    let mixed = [single, field(5, &floats(&numbers(1))), shape(&[4])].concat();
    assert_eq!(of_blob(mixed).unwrap_err().kind(), Kind::Unsupported);
}

#[test]
fn a_weight_that_is_stored_transposed_has_its_axes_so() {
    let options = field(117, &int(6, 1));
    let own = [field(1, b"fc"), field(2, b"InnerProduct"), field(7, &blob(&[2, 3])), options].concat();
    let contents = read(model(&[field(100, &own)])).unwrap();
    assert_eq!(contents.checkpoint.tensors[0].axes.as_deref(), Some(&[Axis::In, Axis::Out][..]));
}

#[test]
fn names_of_layers_with_blobs_are_unique() {
    let twice = [layer("a", "Scale", &[single(1.0)]), layer("a", "Scale", &[single(2.0)])];
    assert_eq!(read(model(&twice)).unwrap_err().kind(), Kind::Corrupt);
    let without = [layer("a", "Split", &[]), layer("a", "Scale", &[single(2.0)])];
    assert_eq!(read(model(&without)).unwrap().checkpoint.tensors.len(), 1);
}

#[test]
fn a_model_is_recognized_by_its_first_layer() {
    let verdict = |name: &str, bytes: Vec<u8>| {
        Caffe.probe(&Input::memory(name, [(name.to_owned(), bytes)].into())).unwrap()
    };
    let certain = |verdict: Match| matches!(verdict, Match::Certain(_));
    assert!(certain(verdict("m", model(&[layer("a", "Input", &[])]))));
    assert!(certain(verdict("m", model(&[old_layer("a", 5, &[])]))));
    // Longer than what is looked at.
    assert!(certain(verdict("m", model(&[layer("fc", "InnerProduct", &[blob(&[150, 150])])]))));
    assert!(matches!(verdict("m.caffemodel", b"name: \"a\"".to_vec()), Match::Possible(_)));
    assert_eq!(verdict("m", field(1, &field(1, b"node"))), Match::No);
}

#[test]
fn layers_of_2013_are_named() {
    let old = field(2, &field(1, &field(1, b"conv")));
    let error = read(model(&[old])).unwrap_err();
    assert!(error.kind() == Kind::Unsupported && error.to_string().contains("upgrade_net_proto_binary"));
}

#[test]
fn a_text_that_is_none_is_an_error_with_its_place() {
    let input = input(model(&[layer("a", "Scale", &[single(1.0)])]), "layer { name: \"a\" ");
    let error = ckpt_conformance::read(&Caffe, &input, &[]).unwrap_err();
    assert_eq!((error.kind(), error.context().file), (Kind::Corrupt, Some("m.prototxt")));
}

#[test]
fn names_that_begin_with_one_long_name_count_among_header_bytes() {
    let read = |len: usize| {
        let blobs = vec![single(1.0); 100];
        let input = Input::memory("m.caffemodel", files(model(&[layer(&"a".repeat(len), "Scale", &blobs)])));
        let limits = Limits::default().with(Limit::HeaderBytes, 1 << 16);
        Caffe.read(&input, &Options::default(), &limits).map_err(|error| error.kind())
    };
    assert!(read(10).is_ok());
    assert_eq!(read(1000).err(), Some(Kind::Limit));
}

#[test]
fn a_list_of_axes_is_refused_before_it_is_read() {
    // The beginning of a layer whose blob has 2^40 bytes of lengths, in a file of zeros.
    let (mut head, mut len) = (Vec::new(), 1u64 << 40);
    for (number, before) in [(1, Vec::new()), (7, Vec::new()), (7, Vec::new()), (100, field(1, b"fc"))] {
        len += before.len() as u64;
        let tag = [varint(number << 3 | 2), varint(len)].concat();
        len += tag.len() as u64;
        head = [tag, before, head].concat();
    }
    let data = head.len() as u64..head.len() as u64 + (1 << 40);
    let file: Arc<dyn ReadAt> = Arc::new(Structure::new(head, vec![data]));
    let input = Input::of("m.caffemodel", [("m.caffemodel".to_owned(), file)].into());
    let error = Caffe.read(&input, &Options::default(), &Limits::default()).unwrap_err();
    assert_eq!((error.kind(), error.context().found), (Kind::Corrupt, Some("1099511627783 bytes")));
}
