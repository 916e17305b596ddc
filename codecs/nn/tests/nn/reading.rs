//! What a file gives, what is refused, and what `lenient` mends.

use crate::build::{JSON_B, JSON_SMALL, convolution, file, mlp_a, mlp_b, place, read, rewrite};
use ckpt_api::{Axis, Codec, Input, Kind, Limits, Match, Op, Options};
use ckpt_nn::Nn;
use std::collections::BTreeMap;

const GOOD: &[(&str, &[u32])] = &[("layer0.weight", &[2, 3]), ("layer0.bias", &[2])];

fn small(tensors: &[(&str, &[u32])]) -> Vec<u8> {
    file(JSON_SMALL, tensors)
}

/// The strict error, which must be Corrupt and name `tensor`, and the number of lenient repairs.
fn refused(bytes: &[u8], tensor: &str) -> Option<usize> {
    let error = read(bytes, &[]).unwrap_err();
    assert_eq!(error.kind(), Kind::Corrupt, "{error}");
    assert!(error.to_string().contains(&format!("tensor {tensor}")), "{error}");
    read(bytes, &[("lenient", "true")]).ok().map(|(contents, _)| contents.repairs.len())
}

#[test]
fn a_file_gives_a_chain_with_its_tensors_and_their_axes() {
    for (bytes, axes, second) in [
        (mlp_b(), [vec![Axis::Out, Axis::In], vec![Axis::Out]], "layer1"),
        (mlp_a(), [vec![Axis::In, Axis::Out], vec![Axis::Unit, Axis::Out]], "layer2"),
    ] {
        let (contents, _) = read(&bytes, &[]).unwrap();
        let graph = contents.checkpoint.graph.as_ref().unwrap();
        let ops: Vec<&Op> = graph.chain().unwrap().iter().map(|node| &node.op).collect();
        assert_eq!(ops, [&Op::Gemm, &Op::Relu, &Op::Gemm, &Op::Softmax]);
        assert_eq!(graph.nodes[2].name, second);
        assert_eq!(graph.nodes[2].parameters["weight"], format!("{second}.weight"));
        assert_eq!(
            (&graph.inputs[0].shape, &graph.outputs[0].shape),
            (&vec![None, Some(3)], &vec![None, Some(2)])
        );
        for (tensor, axes) in contents.checkpoint.tensors.iter().zip(axes) {
            assert_eq!(tensor.axes.as_deref(), Some(&axes[..]), "{}", tensor.name);
        }
        assert!(contents.repairs.is_empty());
    }
}

#[test]
fn a_missing_tensor_is_named() {
    assert_eq!(refused(&small(&GOOD[..1]), "layer0.bias"), Some(1));
    assert_eq!(refused(&small(&GOOD[1..]), "layer0.weight"), Some(1));
}

#[test]
fn a_duplicate_tensor_is_named_and_the_last_one_counts_when_lenient() {
    let bytes = small(&[GOOD[0], GOOD[0], GOOD[1]]);
    assert_eq!(refused(&bytes, "layer0.weight"), Some(1));
    let (_, values) = read(&bytes, &[("lenient", "true")]).unwrap();
    assert_eq!(crate::build::floats(&values[0])[0], 6.5);
}

#[test]
fn a_wrong_shape_is_named_and_leaves_no_graph_when_lenient() {
    for (name, dims) in [("layer0.weight", &[2, 4][..]), ("layer0.weight", &[6]), ("layer0.bias", &[3])] {
        let tensors: Vec<_> =
            GOOD.iter().map(|(n, d)| if *n == name { (name, dims) } else { (*n, *d) }).collect();
        assert_eq!(refused(&small(&tensors), name), Some(1), "{name} {dims:?}");
        let (contents, _) = read(&small(&tensors), &[("lenient", "true")]).unwrap();
        assert!(contents.checkpoint.graph.is_none());
        assert!(place(&contents.checkpoint, &[]).is_err());
    }
}

#[test]
fn a_tensor_that_no_layer_uses_is_named_and_kept_when_lenient() {
    let bytes = small(&[GOOD[0], GOOD[1], ("layer7.weight", &[1, 1])]);
    assert_eq!(refused(&bytes, "layer7.weight"), Some(1));
    let (contents, _) = read(&bytes, &[("lenient", "true")]).unwrap();
    assert_eq!(contents.checkpoint.tensors.len(), 3);
    assert_eq!(place(&contents.checkpoint, &[]).unwrap().unplaced(&contents.checkpoint).count(), 1);
}

#[test]
fn an_empty_shape_a_zero_dimension_and_an_unknown_name_are_refused_always() {
    let bad: [(&str, &[u32]); 4] =
        [("layer0.bias", &[]), ("layer0.bias", &[0]), ("layer0.gamma", &[1]), ("x", &[1])];
    for (name, dims) in bad {
        assert_eq!(refused(&small(&[(name, dims)]), name), None, "{name} {dims:?}");
    }
}

#[test]
fn bytes_after_the_last_tensor_are_refused_and_left_out_when_lenient() {
    let mut bytes = small(GOOD);
    bytes.extend_from_slice(b"junk");
    assert_eq!(refused(&bytes, "layer0.bias"), Some(1));
    assert_eq!(rewrite(&bytes, &[("lenient", "true")], &[]).unwrap(), small(GOOD));
}

#[test]
fn another_magic_or_version_is_refused() {
    let with = |at: usize, byte: u8| {
        let mut bytes = mlp_b();
        bytes[at] = byte;
        read(&bytes, &[]).unwrap_err()
    };
    assert_eq!(with(7, b'X').kind(), Kind::Corrupt);
    assert_eq!(with(8, 2).kind(), Kind::Unsupported);
    let mut swapped = mlp_b();
    swapped[8..12].reverse();
    assert!(read(&swapped, &[]).unwrap_err().to_string().contains("big-endian"));
}

#[test]
fn the_magic_number_is_certain_whatever_follows() {
    let probe = |bytes: &[u8]| {
        Nn.probe(&Input::memory("x", BTreeMap::from([("x".to_owned(), bytes.to_vec())]))).unwrap()
    };
    assert!(matches!(probe(b"DATACODE\x02"), Match::Certain(_)));
    assert_eq!(probe(b"DATACOD"), Match::No);
    assert_eq!(Nn.probe(&Input::memory("", BTreeMap::new())).unwrap(), Match::No);
    assert_eq!(Nn.probe(&Input::memory("gone", BTreeMap::new())).unwrap(), Match::No);
}

#[test]
fn a_file_that_ends_after_the_json_says_why_datacode_made_it() {
    let bytes = &file(JSON_SMALL, &[])[..16 + JSON_SMALL.len()];
    let error = read(bytes, &[("lenient", "true")]).unwrap_err();
    assert_eq!(error.kind(), Kind::Corrupt);
    assert!(error.to_string().contains("without bias"), "{error}");
}

#[test]
fn a_convolution_stored_as_linear_keeps_its_tensors_and_has_no_graph() {
    let (contents, _) = read(&convolution(), &[]).unwrap();
    assert!(contents.checkpoint.graph.is_none());
    let axes = contents.checkpoint.tensor("layer0.weight").unwrap().1.axes.clone().unwrap();
    assert_eq!(*axes, [Axis::Out, Axis::In, Axis::KernelY, Axis::KernelX]);
    assert!(contents.notes.iter().any(|note| note.contains("layer0") && note.contains("convolution")));
    assert_eq!(rewrite(&convolution(), &[], &[]).unwrap(), convolution());
}

#[test]
fn layers_that_do_not_fit_each_other_have_no_graph_and_still_go_back_unchanged() {
    let json = JSON_B.replace(r#""in_features":4"#, r#""in_features":5"#);
    let tensors: [(&str, &[u32]); 4] = [
        ("layer0.weight", &[4, 3]),
        ("layer0.bias", &[4]),
        ("layer1.weight", &[2, 5]),
        ("layer1.bias", &[2]),
    ];
    let bytes = file(&json, &tensors);
    let (contents, _) = read(&bytes, &[]).unwrap();
    assert!(contents.checkpoint.graph.is_none());
    assert!(contents.notes[0].contains("takes 5 features but gets 4"), "{:?}", contents.notes);
    assert_eq!(rewrite(&bytes, &[], &[]).unwrap(), bytes);
}

#[test]
fn notes_say_what_the_file_cannot_and_only_that() {
    let notes = |json: &str| {
        read(&file(json, GOOD), &[])
            .unwrap()
            .0
            .notes
            .iter()
            .map(|note| note.as_str())
            .collect::<Vec<_>>()
            .join("\n")
    };
    assert_eq!(notes(JSON_SMALL), "");
    let frozen = JSON_SMALL.replace("\"type\"", "\"trainable\": false, \"type\"");
    assert!(notes(&frozen).contains("trainable"));
    let relu = JSON_SMALL.replace("}]", r#"}, {"type": "ReLU"}, {"type": "Softmax"}]"#);
    assert!(notes(&relu).contains("LeakyReLU") && notes(&relu).contains("LogSoftmax"));
    let trained = JSON_SMALL.replace("}]", r#"}], "training": {"epochs": -1, "stages": [{}]}"#);
    assert!(notes(&trained).contains("moments") && notes(&trained).contains("training.epochs"));
}

#[test]
fn unknown_keys_and_spaces_survive() {
    let json = JSON_SMALL.replace("}]", r#"}], "extra": {"a": [1.50, 1e-8]}, "training": {"zzz": 1}"#);
    let bytes = file(&json, GOOD);
    assert_eq!(rewrite(&bytes, &[], &[]).unwrap(), bytes);
}

#[test]
fn a_file_that_claims_more_than_it_holds_is_corrupt_and_nothing_is_allocated_for_it() {
    let mut bytes = mlp_b();
    bytes[12..16].copy_from_slice(&u32::MAX.to_le_bytes());
    let error = read(&bytes, &[]).unwrap_err();
    assert!(error.kind() == Kind::Corrupt && !error.to_string().contains("the limit `"), "{error}");
}

#[test]
fn every_limit_is_checked() {
    for (limit, value) in
        [("header_bytes", 8), ("tensors", 3), ("rank", 1), ("name_bytes", 4), ("graph_nodes", 3)]
    {
        let mut limits = Limits::default();
        limits.set_by_name(limit, &value.to_string()).unwrap();
        let input = Input::memory("m", BTreeMap::from([("m".to_owned(), mlp_b())]));
        let error = Nn.read(&input, &Options::default(), &limits).unwrap_err();
        assert!(error.kind() == Kind::Limit && error.to_string().contains(limit), "{error}");
    }
}

#[test]
fn counts_larger_than_the_file_are_corrupt() {
    let mut bytes = small(GOOD);
    let at = 16 + JSON_SMALL.len();
    bytes[at..at + 4].copy_from_slice(&1_999_999u32.to_le_bytes());
    assert_eq!(read(&bytes, &[]).unwrap_err().kind(), Kind::Corrupt);
    let huge = small(&[("layer0.weight", &[2, 3])]);
    for dim in [u32::MAX, 1 << 31] {
        let mut bytes = huge.clone();
        let dims = at + 4 + 4 + "layer0.weight".len() + 4;
        bytes[dims..dims + 4].copy_from_slice(&dim.to_le_bytes());
        bytes[dims + 4..dims + 8].copy_from_slice(&dim.to_le_bytes());
        assert_eq!(read(&bytes, &[]).unwrap_err().kind(), Kind::Corrupt);
    }
}

#[test]
fn a_directory_is_no_model() {
    let error =
        Nn.read(&Input::memory("", BTreeMap::new()), &Options::default(), &Limits::default()).unwrap_err();
    assert_eq!(error.kind(), Kind::Usage);
}
