//! What is written is read again.

use super::*;
use crate::{Tree, attribute};
use ckpt_api::{DType, Endian, File, Input};
use proptest::prelude::*;

/// The file with each element's bytes equal to the number of its dataset.
fn file(draft: &Draft) -> File {
    let plan = draft.place().unwrap();
    let mut bytes = vec![0xee; plan.len as usize];
    for (offset, block) in &plan.blocks {
        bytes[*offset as usize..][..block.len()].copy_from_slice(block);
    }
    Input::memory("f", [("f".to_owned(), bytes)].into()).main().unwrap()
}

fn read(draft: &Draft) -> Tree {
    crate::read(&file(draft), &Limits::default()).unwrap()
}

fn shape(lens: &[u64]) -> Shape {
    Shape::new(lens).unwrap()
}

fn text(text: &str) -> AttributeValue {
    AttributeValue::Text(text.as_bytes().to_vec())
}

#[test]
fn an_empty_file_has_a_root() {
    let tree = read(&Draft::default());
    assert_eq!((tree.groups.len(), tree.datasets.len(), tree.left.len()), (1, 0, 0));
    assert_eq!(tree.groups[0].path, "");
}

#[test]
fn every_datatype_and_shape_comes_back() {
    let dtypes = [
        DType::F16,
        DType::F32,
        DType::F64,
        DType::I8,
        DType::I16,
        DType::I32,
        DType::I64,
        DType::U8,
        DType::U16,
        DType::U32,
        DType::U64,
        DType::Bool,
    ];
    let mut datatypes: Vec<Datatype> = dtypes.map(Datatype::little).into();
    datatypes.push(Datatype::Number { dtype: DType::F32, endian: Endian::Big });
    datatypes.push(Datatype::Opaque { size: 2 });
    // All take a minute under Miri.
    datatypes.truncate(if cfg!(miri) { 3 } else { 14 });
    let shapes = [shape(&[]), shape(&[0, 4]), shape(&[3]), shape(&[2, 3, 1, 5])];
    let mut draft = Draft::default();
    for (number, datatype) in datatypes.iter().enumerate() {
        for (own, shape) in shapes.iter().enumerate() {
            draft.dataset(&format!("g{number:02}/{own}"), datatype.clone(), shape.clone()).unwrap();
        }
    }
    let plan = draft.place().unwrap();
    let tree = read(&draft);
    assert_eq!(tree.datasets.len(), datatypes.len() * 4);
    for (number, dataset) in tree.datasets.iter().enumerate() {
        assert_eq!((&dataset.datatype, &dataset.shape), (&datatypes[number / 4], &shapes[number % 4]));
        let extent = &dataset.stored.extents[0];
        let len = dataset.shape.elements() * dataset.datatype.bytes().unwrap();
        assert_eq!(extent.len, len);
        assert!(len == 0 || extent.offset == plan.datasets[number], "{}", dataset.path);
    }
}

#[test]
fn groups_of_any_number_of_members_come_back() {
    // Thousands take minutes under Miri.
    let most = if cfg!(miri) { 10 } else { 10_000 };
    for count in [0, 1, 8, 9, 256, 257, 8192, 8193].into_iter().filter(|count| *count < most) {
        let mut draft = Draft::default();
        draft.group("g").unwrap();
        for number in 0..count {
            draft.dataset(&format!("g/{number}"), Datatype::little(DType::U8), shape(&[1])).unwrap();
        }
        let tree = read(&draft);
        assert_eq!(tree.datasets.len(), count, "{count}");
        assert!(tree.datasets.is_sorted_by(|a, b| a.path < b.path), "{count}");
    }
}

#[test]
#[cfg_attr(miri, ignore = "its long text takes minutes")]
fn attributes_come_back() {
    let mut draft = Draft::default();
    let long = "x".repeat(100_000);
    let list =
        |texts: &[&str]| AttributeValue::Texts(texts.iter().map(|text| text.as_bytes().to_vec()).collect());
    let values = [
        ("a", text("é")),
        ("b", text("")),
        ("config", text(&long)),
        ("empty", list(&[])),
        ("list", list(&["dense", "", "dense_1"])),
    ];
    for (name, value) in &values {
        draft.attribute("g", name, value.clone()).unwrap();
        draft.attribute("", name, value.clone()).unwrap();
    }
    draft.dataset("g/d", Datatype::Opaque { size: 2 }, shape(&[1])).unwrap();
    draft.attribute("g/d", "dtype", text("bfloat16")).unwrap();
    let tree = read(&draft);
    for group in &tree.groups {
        assert_eq!(group.attributes.len(), 5);
        for (name, value) in &values {
            assert_eq!(attribute(&group.attributes, name), Some(value), "{name}");
        }
    }
    assert_eq!(attribute(&tree.datasets[0].attributes, "dtype"), Some(&text("bfloat16")));
}

#[test]
#[cfg_attr(miri, ignore = "thousands of texts take minutes")]
fn what_the_format_cannot_hold_is_refused() {
    let mut draft = Draft::default();
    let byte = Datatype::little(DType::U8);
    draft.dataset("a/b", byte.clone(), shape(&[1])).unwrap();
    for path in ["a/b", "a/b/c", "a", "", "/n", "a//b", "..", "a/.", "n\0"] {
        assert!(draft.dataset(path, byte.clone(), shape(&[1])).is_err(), "{path:?}");
    }
    assert!(draft.dataset("c", Datatype::Text, shape(&[1])).is_err());
    assert!(draft.attribute("c", "x", AttributeValue::Other(byte)).is_err());
    let many = AttributeValue::Texts(vec![b"x".to_vec(); 5000]);
    draft.attribute("a", "names", many).unwrap();
    assert!(draft.place().unwrap_err().to_string().contains("too long"));
}

proptest! {
    #[test]
    #[cfg_attr(miri, ignore = "dozens of datasets take minutes")]
    fn any_tree_comes_back(
        datasets in prop::collection::btree_map("[a-c](/[a-c]{1,9}){0,3}/[0-9]{1,3}", prop::collection::vec(0u64..4, 0..4), 0..40),
        texts in prop::collection::vec((0usize..3, "[a-z]{1,20}", "\\PC{0,300}"), 0..30),
    ) {
        let mut draft = Draft::default();
        for (path, lens) in &datasets {
            draft.dataset(path, Datatype::little(DType::F32), shape(lens)).unwrap();
        }
        let mut expected = BTreeMap::new();
        for (group, name, value) in &texts {
            let group = ["", "a", "z/z"][*group];
            // NUL ends a text.
            let value = value.replace('\0', "");
            if expected.insert((group, name.clone()), value.clone()).is_none() {
                draft.attribute(group, name, text(&value)).unwrap();
            } else {
                expected.remove(&(group, name.clone()));
                return Ok(());
            }
        }
        let tree = read(&draft);
        let mut found: Vec<(&str, Vec<u64>)> =
            tree.datasets.iter().map(|own| (own.path.as_str(), own.shape.to_vec())).collect();
        found.sort();
        let wanted: Vec<(&str, Vec<u64>)> = datasets.iter().map(|(path, lens)| (path.as_str(), lens.clone())).collect();
        prop_assert_eq!(found, wanted);
        for ((path, name), value) in &expected {
            let group = tree.groups.iter().find(|group| group.path == *path).unwrap();
            prop_assert_eq!(attribute(&group.attributes, name), Some(&text(value)));
        }
    }
}
