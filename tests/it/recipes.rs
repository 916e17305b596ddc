//! Mappings whose rules do more than rename, and their inverses: the converted values against plain loops.

use crate::common::{convert, floats, open};
use ckpt::api::{Kind, Limits};
use ckpt::mapping::Mapping;
use ckpt::{Conversion, Registry, Source};
use std::path::{Path, PathBuf};

const MAP: &str = r#"
target_separator = "."
[roles]
kernel = ["transpose"]
[[rule]]
from = "h{n:int}/attn/w"
to = ["h.{n}.q", "h.{n}.k", "h.{n}.v"]
split = 2
steps = ["squeeze 0"]
[[rule]]
from = ["h{n:int}/mlp/up", "h{n:int}/mlp/gate"]
to = "h.{n}.mlp"
merge = 0
role = "kernel"
[[rule]]
from = "wte"
to = ["wte.weight", "head.weight"]
tie = true
"#;

/// Writes a safetensors file of one layer; no two elements are equal.
fn source(directory: &Path) -> PathBuf {
    let tensors = [
        ("h0/attn/w", vec![1, 4, 6]),
        ("h0/mlp/gate", vec![4, 3]),
        ("h0/mlp/up", vec![4, 3]),
        ("wte", vec![5, 2]),
    ];
    let (mut header, mut data) = (serde_json::Map::new(), Vec::new());
    for (number, (name, shape)) in tensors.into_iter().enumerate() {
        let start = data.len();
        let count: usize = shape.iter().product();
        data.extend((0..count).flat_map(|k| ((100 * number + k) as f32).to_le_bytes()));
        let offsets = [start, data.len()];
        header.insert(
            name.into(),
            serde_json::json!({"dtype": "F32", "shape": shape, "data_offsets": offsets}),
        );
    }
    let header = serde_json::to_vec(&header).unwrap();
    let path = directory.join("source.safetensors");
    std::fs::write(&path, [&(header.len() as u64).to_le_bytes()[..], &header, &data].concat()).unwrap();
    path
}

fn mapped(text: &str) -> Conversion {
    Conversion::new().to("safetensors").mapping(Mapping::from_toml(text, "map.toml").unwrap())
}

fn value(source: &Source, name: &str) -> (Vec<u64>, Vec<f32>) {
    let (_, tensor) = source.checkpoint().tensor(name).unwrap_or_else(|| panic!("{name} is not there"));
    (tensor.shape.to_vec(), floats(&source.tensor(name).unwrap().bytes().unwrap()))
}

#[test]
fn tensors_are_split_merged_and_tied_and_the_inverse_restores_every_byte() {
    let directory = tempfile::tempdir().unwrap();
    let (there, back) =
        (directory.path().join("there.safetensors"), directory.path().join("back.safetensors"));
    let path = source(directory.path());
    convert(open(&path, &[]), &there, &mapped(MAP));
    let result = open(&there, &[]);
    let names: Vec<&str> = result.checkpoint().tensors.iter().map(|tensor| tensor.name.as_str()).collect();
    assert_eq!(names.len(), 6, "{names:?}");
    for (part, name) in ["h.0.q", "h.0.k", "h.0.v"].into_iter().enumerate() {
        let expected = (0..4).flat_map(|row| (0..2).map(move |column| (6 * row + 2 * part + column) as f32));
        assert_eq!(value(&result, name), (vec![4, 2], expected.collect()), "{name}");
    }
    let transposed =
        |first: usize| (0..3).flat_map(move |row| (0..4).map(move |k| (first + 3 * k + row) as f32));
    assert_eq!(value(&result, "h.0.mlp"), (vec![6, 4], transposed(200).chain(transposed(100)).collect()));
    assert_eq!(value(&result, "head.weight"), value(&result, "wte.weight"));
    let inverse = Mapping::from_toml(MAP, "map.toml").unwrap().inverse().unwrap();
    convert(result, &back, &mapped(MAP).mapping(inverse));
    let (source, back) = (open(&path, &[]), open(&back, &[]));
    assert!(ckpt::diff::diff(&source, &back, Default::default()).unwrap().agrees());
    assert_eq!(source.checkpoint().tensors.len(), 4);
}

#[test]
fn tied_tensors_that_differ_stop_the_conversion() {
    let directory = tempfile::tempdir().unwrap();
    let map = "identity = true\n[[rule]]\nfrom = ['h0/mlp/up', 'h0/mlp/gate']\nto = 'one'\ntie = true";
    let out = directory.path().join("out.safetensors");
    let planned =
        mapped(map).plan(&Registry::builtin(), &open(&source(directory.path()), &[]), &out).unwrap();
    let error = planned.execute(&Default::default(), &|_| ()).unwrap_err();
    assert_eq!(error.kind(), Kind::Mapping);
    assert!(error.to_string().contains("'h0/mlp/gate' differs from 'h0/mlp/up'"), "{error}");
}

#[test]
fn a_recipe_that_does_not_fit_the_tensors_stops_the_conversion_and_names_them() {
    let directory = tempfile::tempdir().unwrap();
    let path = source(directory.path());
    let out = directory.path().join("out.safetensors");
    let names = open(&path, &[]).checkpoint().tensors.iter().map(|t| t.name.to_string()).collect::<Vec<_>>();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    for (rule, says) in [
        ("from = 'h0/attn/w'\nto = 'x'\nsteps = ['transpose']", "a matrix"),
        ("from = 'wte'\nto = ['x', 'y']\nsplit = 0", "a multiple of 2"),
        ("from = 'wte'\nto = ['x', 'y']\nsplit = 2", "does not have this axis"),
        ("from = ['wte', 'h0/mlp/up']\nto = 'x'\nmerge = 1", "expected lengths"),
    ] {
        let conversion = mapped(&format!("identity = true\n[[rule]]\n{rule}"));
        // By names alone nothing is wrong.
        conversion.mapping.as_ref().unwrap().apply(&names, &Limits::default()).unwrap();
        let error = conversion.plan(&Registry::builtin(), &open(&path, &[]), &out).unwrap_err().to_string();
        assert!(error.contains(says) && error.contains("tensor "), "{rule}: {error}");
        assert!(!out.exists());
    }
}

#[test]
fn a_transform_reorders_the_matching_tensors_and_its_inverse_restores_the_file() {
    let work = tempfile::tempdir().unwrap();
    let original = source(work.path());
    let transformed = |from: &Path, to: &str, transforms: &[&str]| {
        let transforms = transforms.iter().map(|text| ckpt::recipe::Transform::parse(text).unwrap());
        let out = work.path().join(to);
        convert(open(from, &[]), &out, &transforms.fold(Conversion::new(), Conversion::transform));
        out
    };
    let there =
        transformed(&original, "there.safetensors", &["h0/mlp/*: transpose", "h0/attn/w: permute 2 0 1"]);
    let opened = open(&there, &[]);
    for (name, shape) in [("h0/mlp/up", vec![3, 4]), ("h0/attn/w", vec![6, 1, 4]), ("wte", vec![5, 2])] {
        assert_eq!(opened.checkpoint().tensor(name).unwrap().1.shape.to_vec(), shape, "{name}");
    }
    // Element (i, j) of the result is element (j, i), number 3j + i, of the third tensor.
    let expected: Vec<f32> = (0..12).map(|k| (200 + k % 4 * 3 + k / 4) as f32).collect();
    assert_eq!(floats(&opened.tensor("h0/mlp/up").unwrap().bytes().unwrap()), expected);
    let back = transformed(&there, "back.safetensors", &["h0/mlp/*: transpose", "h0/attn/w: permute 1 2 0"]);
    let plain = transformed(&original, "plain.safetensors", &[]);
    assert_eq!(std::fs::read(back).unwrap(), std::fs::read(plain).unwrap());

    let refused = |text: &str| {
        let conversion = Conversion::new().transform(ckpt::recipe::Transform::parse(text).unwrap());
        let out = work.path().join("never.safetensors");
        conversion.plan(&Registry::builtin(), &open(&original, &[]), &out).unwrap_err().kind()
    };
    assert_eq!(refused("h1/*: transpose"), Kind::Usage);
    assert_eq!(refused("h0/attn/w: transpose"), Kind::Usage);
}
