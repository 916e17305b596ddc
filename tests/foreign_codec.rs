//! A codec from outside the tree is registered, kept to the contract, and converted to and from.

mod toy;

use ckpt::{Conversion, Execution, OpenOptions, Registry, Resources, Source};
use ckpt_api::Input;
use ckpt_api::conformance::{Sample, check};
use std::collections::BTreeMap;
use std::path::Path;
use toy::Toy;

fn registry() -> Registry {
    let mut registry = Registry::builtin();
    registry.add(Toy).unwrap();
    registry
}

fn open(bytes: &[u8]) -> Source {
    let input = Input::memory("m.toy", BTreeMap::from([("m.toy".to_owned(), bytes.to_vec())]));
    Source::open(&registry(), input, &OpenOptions::default()).unwrap()
}

fn convert(source: Source, to: &str, output: &Path, resources: Resources) {
    let conversion = Conversion::new().to(to).resources(resources).verify(true);
    let planned = conversion.plan(&registry(), &source, output).unwrap();
    planned.execute(&Execution::new().sync(false), &|_| ()).unwrap();
}

/// The values of [`toy::file`].
fn counting(count: usize) -> Vec<f32> {
    (0..count).map(|k| k as f32).collect()
}

#[test]
fn a_foreign_codec_keeps_the_contract() {
    let file = |tensors: &[(&str, &[u16])]| BTreeMap::from([("m.toy".to_owned(), toy::file(tensors))]);
    let samples = [
        Sample::new("no tensors", "m.toy", file(&[])).without_tensors(),
        Sample::new(
            "several ranks",
            "m.toy",
            file(&[("a", &[2, 3]), ("b", &[]), ("c", &[4, 0]), ("d", &[2, 3, 4])]),
        )
        .floats("a", &[2, 3], &counting(6))
        .floats("b", &[], &counting(1))
        .floats("c", &[4, 0], &[])
        .floats("d", &[2, 3, 4], &counting(24)),
    ];
    check(&Toy, &samples);
}

#[test]
fn a_codec_cannot_take_the_id_of_another() {
    assert_eq!(registry().add(Toy).unwrap_err().kind(), ckpt::Kind::Usage);
    assert_eq!(registry().codec("toy").unwrap().info().title, "Toy format");
}

#[test]
fn values_are_row_major_whatever_order_they_are_stored_in() {
    let source = open(&toy::file(&[("a", &[2, 3])]));
    let numbers: Vec<u8> = (0..6).flat_map(|k| (k as f32).to_le_bytes()).collect();
    assert_eq!(source.tensor("a").unwrap().bytes().unwrap(), numbers);
    let error = source.tensor("b").unwrap_err().to_string();
    assert!(error.contains("known: a"), "{error}");
}

#[test]
fn a_foreign_format_converts_to_safetensors_and_back_to_the_same_bytes() {
    let directory = tempfile::tempdir().unwrap();
    let original = toy::file(&[("a", &[30, 50]), ("b", &[7]), ("c", &[3, 5, 4]), ("d", &[])]);
    let middle = directory.path().join("m.safetensors");
    convert(open(&original), "safetensors", &middle, Resources::default());
    let back = directory.path().join("back.toy");
    let source = Source::open(&registry(), &middle, &OpenOptions::default()).unwrap();
    assert_eq!(source.format(), "safetensors");
    convert(source, "toy", &back, Resources::default());
    assert_eq!(std::fs::read(back).unwrap(), original);
}

#[test]
fn every_budget_and_thread_count_gives_the_same_bytes() {
    let directory = tempfile::tempdir().unwrap();
    let original = toy::file(&[("big", &[701, 503]), ("cube", &[40, 50, 60]), ("small", &[3])]);
    let mut results = Vec::new();
    for (max_memory, threads) in [(7 << 20, 1), (8 << 20, 2), (16 << 20, 3), (256 << 20, 1), (256 << 20, 4)] {
        let output = directory.path().join(format!("{max_memory}-{threads}.safetensors"));
        convert(
            open(&original),
            "safetensors",
            &output,
            Resources::new().max_memory(max_memory).threads(threads).item_size(threads as u64 * 100),
        );
        results.push(std::fs::read(output).unwrap());
    }
    assert!(results.windows(2).all(|pair| pair[0] == pair[1]));
    assert_eq!(results.len(), 5);
}
