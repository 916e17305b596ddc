//! Damaged and hostile sources, which must not affect more than the description.

use super::super::*;
use super::build::{Objects, describe_with, function, op, run, saved_model, typed};
use super::why;
use ckpt_api::Kind;
use proptest::prelude::*;

#[test]
fn cycles_end_and_dangling_references_are_noted() {
    let mut objects = Objects::default();
    let functional = objects.child(0, "_functional");
    let list = objects.child(functional, "_operations");
    objects.link(list, "0", 0);
    objects.link(list, "1", list);
    objects.link(0, "gone", 99);
    objects.variable(0, "a", "a", "a");
    let description = run(&[("a", &[2])], &objects);
    assert!(description.notes[0].contains("ignored 1 reference"), "{:?}", description.notes);
    assert!(description.graph.is_none());
}

#[test]
fn models_that_contain_each_other_are_bounded() {
    for (times, reason) in
        [(1, "contain each other"), (2, "more than 4096 layers"), (9, "more than 4096 layers")]
    {
        let mut objects = Objects::default();
        let functional = objects.child(0, "_functional");
        let list = objects.child(functional, "_operations");
        for number in 0..times {
            objects.link(list, &number.to_string(), 0);
        }
        let description = run(&[("a", &[2])], &objects);
        assert!(why(&description).contains(reason), "{times}: {}", why(&description));
    }
}

#[test]
fn an_object_graph_that_cannot_be_parsed_is_a_note() {
    let description = describe_with(&typed(&[("a", &[2])]), Some(b"\x0a\xff"), None, None);
    assert!(description.notes[0].contains("cannot be parsed"), "{:?}", description.notes);
}

#[test]
fn a_long_name_that_many_slots_share_is_bounded() {
    check_long_name(|_| String::new());
    check_long_name(|key| format!("Adam/{key}"));
}

/// Many slots, called what `name` says of their keys.
fn check_long_name(name: impl Fn(&str) -> String) {
    let mut objects = Objects::default();
    let variable = objects.variable(0, "v", &"n".repeat(1000), "v");
    let keys: Vec<String> = (0..20).map(|number| format!("slot{number}")).collect();
    for key in &keys {
        let slot = objects.variable(0, key, &name(key), key);
        objects.slot(0, variable, key, slot);
    }
    let shapes: Vec<(&str, &[u64])> =
        std::iter::once("v").chain(keys.iter().map(String::as_str)).map(|key| (key, &[][..])).collect();
    let bytes = objects.bytes();
    let named = |header_bytes| {
        let mut limits = Limits::default();
        limits.set(ckpt_api::Limit::HeaderBytes, header_bytes);
        let (list, file) = (typed(&shapes), "m.index");
        let entries: Vec<TensorInfo> =
            list.iter().map(|(key, dtype, shape)| TensorInfo { key, dtype: *dtype, shape }).collect();
        let sources = Sources {
            object_graph: Some(&bytes),
            saved_model: None,
            keras_metadata: None,
            meta_graph: None,
            assume_chain: false,
            file,
        };
        describe(&entries, &sources, &limits)
    };
    assert_eq!(named(30_000).unwrap().names.len(), 21);
    assert_eq!(named(15_000).unwrap_err().kind(), Kind::Limit);
}

#[test]
fn more_objects_than_the_limit_are_refused() {
    let mut objects = Objects::default();
    for _ in 0..20 {
        objects.add();
    }
    let mut limits = Limits::default();
    limits.set_by_name("graph_nodes", "10").unwrap();
    let bytes = objects.bytes();
    let sources = Sources {
        object_graph: Some(&bytes),
        saved_model: None,
        keras_metadata: None,
        meta_graph: None,
        assume_chain: false,
        file: "m.index",
    };
    let error = describe(&[], &sources, &limits).unwrap_err();
    assert_eq!(error.kind(), Kind::Limit);
    assert!(error.to_string().contains("m.index"), "{error}");
}

#[test]
fn shapes_that_make_no_sense_for_a_layer_are_refused_quietly() {
    for shape in [&[0u64, 0][..], &[1 << 58, 1], &[0, 5], &[]] {
        let mut shapes = super::KERAS3.to_vec();
        shapes[0].1 = shape;
        run(&shapes, &super::keras3());
    }
}

/// Realistic sources: an object graph with a model, an optimizer and slots; a SavedModel; a configuration.
fn sources() -> [Vec<u8>; 3] {
    let mut objects = super::keras3();
    let kernel = objects.find(&["model", "_functional", "_operations", "1", "_kernel"]);
    let optimizer = objects.child(0, "optimizer");
    let slot = objects.add();
    objects.store(slot, "slot", "slot");
    objects.slot(optimizer, kernel, "m", slot);
    for (name, key) in [("w", "model/_operations/1/_kernel"), ("b", "model/_operations/1/bias")] {
        objects.variable(0, name, name, key);
    }
    let nodes = vec![
        op("w", "ReadVariableOp", &["rw"]),
        op("b", "ReadVariableOp", &["rb"]),
        op("m", "MatMul", &["x", "w:value:0"]),
        op("a", "BiasAdd", &["m:product:0", "b:value:0"]),
    ];
    let model = saved_model(vec![function("f", &["x", "rw", "rb"], "a:output:0", nodes)], &["w", "b"]);
    let config =
        br#"{"class_name":"Sequential","config":{"layers":[{"class_name":"Dense","config":{"name":"d"}}]}}"#;
    let mut keras = vec![0x0a, u8::try_from(config.len() + 8).unwrap(), 0x1a, 4];
    keras.extend(b"root");
    keras.extend([0x2a, u8::try_from(config.len()).unwrap()]);
    keras.extend(config);
    [objects.bytes(), model, keras]
}

fn describe_all(bytes: &[Vec<u8>; 3]) -> Description {
    let [objects, model, keras] = bytes;
    describe_with(&typed(super::KERAS3), Some(objects), Some(model), Some(keras))
}

#[test]
fn the_unmutated_sources_describe_a_graph() {
    assert!(describe_all(&sources()).graph.is_some());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 512 }, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes_never_panic(a in proptest::collection::vec(any::<u8>(), 0..200), b in proptest::collection::vec(any::<u8>(), 0..200)) {
        describe_with(&typed(super::KERAS3), Some(&a), Some(&b), Some(&a));
        describe_with(&typed(super::KERAS3), Some(&super::keras3().bytes()), Some(&a), Some(&b));
    }

    #[test]
    fn mutated_sources_never_panic(which in 0usize..3, edits in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6), cut in any::<prop::sample::Index>()) {
        let mut bytes = sources();
        for (at, byte) in &edits {
            let at = at.index(bytes[which].len());
            bytes[which][at] = *byte;
        }
        describe_all(&bytes);
        let len = cut.index(bytes[which].len());
        bytes[which].truncate(len);
        let description = describe_all(&bytes);
        for node in description.graph.iter().flat_map(|graph| &graph.nodes) {
            for key in node.parameters.values() {
                prop_assert!(super::KERAS3.iter().any(|(known, _)| known == key));
            }
        }
    }
}
