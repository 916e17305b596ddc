//! Mappings that reorder the parts of an axis, and store a tensor as a sum.

use ckpt::api::{Kind, LossKind};
use ckpt::mapping::Mapping;
use ckpt::store::MemoryStore;
use ckpt::{Conversion, Source, Writer};

const MAP: &str = r#"
[[rule]]
from = "kernel"
to = "weight"
steps = ["transpose", "parts 2 0 1 on 0"]

[[rule]]
from = "pair"
to = ["first", "second"]
split = 0
steps = ["reshape 1 6 -> 6", "parts 1 0 2 on 0"]

[[rule]]
from = "bias"
to = ["bias_ih", "bias_hh"]
sum = true
"#;

fn mapping() -> Mapping {
    Mapping::from_toml(MAP, "gates.toml").unwrap()
}

/// A kernel `[2, 6]`, a pair of biases `[2, 6]` and a bias `[3]`, in a file of this name.
fn written(store: &MemoryStore, name: &str) -> Source {
    let kernel: Vec<f32> = (0..12u8).map(f32::from).collect();
    let pair: Vec<f32> = (100..112u8).map(f32::from).collect();
    let writer = Writer::to(store.at(name)).tensor("kernel", &[2, 6], &kernel).unwrap();
    let writer = writer.tensor("pair", &[2, 6], &pair).unwrap();
    writer.tensor("bias", &[3], &[1.5f32, -2.0, 0.25]).unwrap().finish().unwrap();
    ckpt::open(store.at(name)).unwrap()
}

fn values(source: &Source, name: &str) -> Vec<f32> {
    source.tensor(name).unwrap().read().unwrap()
}

#[test]
fn parts_of_an_axis_change_places_and_come_back_whatever_the_format() {
    for (from, to) in
        [("in.safetensors", "out.safetensors"), ("in.index", "out.safetensors"), ("in.npz", "out.npz")]
    {
        let store = MemoryStore::new();
        let source = written(&store, from);
        let there = Conversion::new().mapping(mapping());
        let plan = there.plan(&ckpt::Registry::builtin(), &source, store.at(to)).unwrap();
        plan.execute(&Default::default(), &|_| ()).unwrap();
        let made = ckpt::open(store.at(to)).unwrap();
        // Part 2, then 0, then 1 of the columns 0..6 of [[0..6], [6..12]].
        assert_eq!(
            values(&made, "weight"),
            [4.0, 10.0, 5.0, 11.0, 0.0, 6.0, 1.0, 7.0, 2.0, 8.0, 3.0, 9.0],
            "{from}"
        );
        assert_eq!(values(&made, "first"), [102.0, 103.0, 100.0, 101.0, 104.0, 105.0]);
        assert_eq!(values(&made, "second"), [108.0, 109.0, 106.0, 107.0, 110.0, 111.0]);
        assert_eq!(
            (values(&made, "bias_ih"), values(&made, "bias_hh")),
            (vec![1.5, -2.0, 0.25], vec![0.0; 3])
        );
        let back = Conversion::new().mapping(mapping().inverse().unwrap()).verify(true);
        let plan = back.plan(&ckpt::Registry::builtin(), &made, store.at("back.safetensors")).unwrap();
        plan.execute(&Default::default(), &|_| ()).unwrap();
        let again = ckpt::open(store.at("back.safetensors")).unwrap();
        for name in ["kernel", "pair", "bias"] {
            assert_eq!(values(&again, name), values(&source, name), "{from}, {name}");
        }
    }
}

#[test]
fn the_terms_of_a_sum_are_added_and_the_second_is_reported_as_merged() {
    let store = MemoryStore::new();
    let writer = Writer::to(store.at("in.safetensors")).tensor("a", &[2], &[1.0f32, 2.0]).unwrap();
    writer.tensor("b", &[2], &[0.5f32, -2.0]).unwrap().finish().unwrap();
    let text = "[[rule]]\nfrom = [\"a\", \"b\"]\nto = \"c\"\nsum = true\n";
    let conversion = Conversion::new().mapping(Mapping::from_toml(text, "sum.toml").unwrap());
    let source = ckpt::open(store.at("in.safetensors")).unwrap();
    let planned = conversion.plan(&ckpt::Registry::builtin(), &source, store.at("out.safetensors")).unwrap();
    let merged: Vec<&str> = planned
        .plan()
        .losses
        .iter()
        .filter(|loss| loss.kind == LossKind::Merged)
        .map(|loss| loss.subject.as_str())
        .collect();
    assert_eq!(merged, ["b"]);
    planned.execute(&Default::default(), &|_| ()).unwrap();
    let made = ckpt::open(store.at("out.safetensors")).unwrap();
    assert_eq!((values(&made, "c"), made.checkpoint().tensors.len()), (vec![1.5, 0.0], 1));
}

#[test]
fn terms_that_are_no_32_bit_floats_or_differ_in_shape_are_refused() {
    let text = "[[rule]]\nfrom = [\"a\", \"b\"]\nto = \"c\"\nsum = true\n";
    let conversion = || Conversion::new().mapping(Mapping::from_toml(text, "sum.toml").unwrap());
    let store = MemoryStore::new();
    let writer = Writer::to(store.at("f64.npz")).tensor("a", &[1], &[1.0f64]).unwrap();
    writer.tensor("b", &[1], &[1.0f64]).unwrap().finish().unwrap();
    let error = ckpt::convert_with(store.at("f64.npz"), store.at("out.npz"), &conversion()).unwrap_err();
    assert_eq!(error.kind(), Kind::Unsupported, "{error}");
    let writer = Writer::to(store.at("shape.npz")).tensor("a", &[1], &[1.0f32]).unwrap();
    writer.tensor("b", &[2], &[1.0f32, 2.0]).unwrap().finish().unwrap();
    let error = ckpt::convert_with(store.at("shape.npz"), store.at("out.npz"), &conversion()).unwrap_err();
    assert_eq!(error.kind(), Kind::Mapping, "{error}");
}

#[test]
fn a_sum_in_a_mapping_file_has_names_on_one_side_only_and_is_printed_as_it_is_read() {
    for wrong in ["from = \"a\"\nto = \"b\"", "from = [\"a\", \"b\"]\nto = [\"c\", \"d\"]"] {
        let error = Mapping::from_toml(&format!("[[rule]]\n{wrong}\nsum = true\n"), "m.toml").unwrap_err();
        assert_eq!(error.kind(), Kind::Mapping);
    }
    let both = "[[rule]]\nfrom = \"a\"\nto = [\"b\", \"c\"]\nsum = true\ntie = true\n";
    assert!(Mapping::from_toml(both, "m.toml").is_err());
    let printed = mapping().to_toml();
    assert_eq!(Mapping::from_toml(&printed, "m.toml").unwrap().to_toml(), printed);
    assert!(printed.contains("sum = true") && printed.contains("parts 2 0 1 on 0"), "{printed}");
}
