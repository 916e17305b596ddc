//! Edited metadata. It may change how values are stored, but never the values, or how much disk space they take.

use super::common::{Bundle, bundle, read, recorded, slice_key};
use ckpt_api::{Checkpoint, Codec, DType, Input, Kind, OutputLayout, Shape, Tensor};
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};
use std::collections::BTreeSet;

const GRAPH: &str = "_CHECKPOINTABLE_OBJECT_GRAPH";
const MIB: u64 = 1 << 20;

/// A tensor of 3 bytes and one of none, with this layout and these positions.
fn place(layout: Value, at: [Value; 2]) -> OutputLayout {
    let tensor = |(name, size, at): (&str, u64, Value)| {
        let mut tensor = Tensor::new(name, DType::U8, Shape::new([size]).unwrap());
        tensor.metadata.insert("tf2", "at", recorded(&json!([at])));
        tensor
    };
    let [first, second] = at;
    let tensors = [("a", 3, first), ("b", 0, second)].map(tensor).to_vec();
    let mut checkpoint = Checkpoint { tensors, ..Checkpoint::default() };
    checkpoint.metadata.insert("tf2", "layout", recorded(&layout));
    let placed = ckpt_tf2::Tf2.place(&checkpoint, "m", &Default::default()).unwrap();
    placed.check(&checkpoint).unwrap();
    placed
}

/// Bytes of the data files.
fn data_files(placed: &OutputLayout) -> Vec<u64> {
    placed.files.iter().filter_map(|file| file.len).collect()
}

#[test]
fn a_layout_may_have_64_mib_outside_of_tensors() {
    let files =
        |len: u64| data_files(&place(json!({"bytes": 3, "files": [len]}), [json!([0, 0]), json!([0, 3])]));
    assert_eq!(files(64 * MIB + 3), [64 * MIB + 3]);
    for len in [64 * MIB + 4, 1 << 40, (1 << 63) - 1, 1 << 63, u64::MAX] {
        assert_eq!(files(len), [3], "{len}");
    }
    let many = json!({"bytes": 3, "files": vec![MIB; 65]});
    assert_eq!(data_files(&place(many, [json!([0, 0]), json!([0, 3])])), [3]);
}

#[test]
fn a_layout_may_have_1024_empty_files() {
    let files = |empty: usize| {
        let files: Vec<u64> = [3].into_iter().chain(std::iter::repeat_n(0, empty)).collect();
        data_files(&place(json!({"bytes": 3, "files": files}), [json!([0, 0]), json!([0, 3])])).len()
    };
    assert_eq!((files(1024), files(1025), files(60_000)), (1025, 1, 1));
}

#[test]
fn a_layout_may_have_as_much_filler_as_reading_records() {
    // Four characters of base64 are three bytes.
    let filler = |characters: usize| {
        let filler = json!([[0, 3, "AAAA".repeat(characters / 4)]]);
        let layout = json!({"bytes": 3, "files": [MIB], "filler": filler});
        data_files(&place(layout, [json!([0, 0]), json!([0, 3])]))
    };
    assert_eq!((filler(87_380), filler(87_384)), (vec![MIB], vec![3]));
}

#[test]
fn a_layout_whose_filler_is_not_canonical_base64_is_ignored() {
    let files = |filler: &str| {
        let layout = json!({"bytes": 3, "files": [9], "filler": [[0, 3, filler]]});
        data_files(&place(layout, [json!([0, 0]), json!([0, 3])]))
    };
    for filler in ["", "Zg==", "Zm8=", "Zm9v", "+/+/"] {
        assert_eq!(files(filler), [9], "{filler:?}");
    }
    for filler in ["Z", "Zg", "Zg=", "Zg==Zg==", "Z===", "====", "Zm9-", "=Zg=", "Zh==", "Zm9v\n"] {
        assert_eq!(files(filler), [3], "{filler:?}");
    }
}

#[test]
fn an_empty_tensor_needs_no_file_and_must_be_inside_an_existing_one() {
    let missing = json!({"bytes": 3, "files": [3, null], "filler": [[1, 7, ""]]});
    let placed = place(missing, [json!([0, 0]), json!([1, 0])]);
    assert_eq!((data_files(&placed), placed.files.len()), (vec![3], 2));
    assert_eq!(placed.files[0].name, "m.data-00000-of-00002");
    let beyond = place(json!({"bytes": 3, "files": [3, null]}), [json!([0, 0]), json!([1, 9])]);
    assert_eq!(beyond.files[0].name, "m.data-00000-of-00001");
}

#[test]
fn a_tensor_is_written_in_as_many_slices_as_can_be_read() {
    let extents = |slices: u64| {
        let mut tensor = Tensor::new("a", DType::U8, Shape::new([1, slices]).unwrap());
        let texts: Vec<String> = (0..slices).map(|column| format!("-:{column},1")).collect();
        tensor.metadata.insert("tf2", "slices", texts);
        let checkpoint = Checkpoint { tensors: vec![tensor], ..Checkpoint::default() };
        let placed = ckpt_tf2::Tf2.place(&checkpoint, "m", &Default::default()).unwrap();
        placed.placements[0].extents.len()
    };
    assert_eq!((extents(200), extents(16_385)), (200, 1));
}

#[test]
fn gaps_that_are_too_large_are_omitted_with_a_note() {
    let mut bundle = bundle().floats("a", &[1], &[1.]);
    bundle.data.resize(65 << 20, 0);
    let (contents, values) = ckpt_conformance::read(&ckpt_tf2::Tf2, &bundle.input(), &[]).unwrap();
    assert!(contents.notes.iter().any(|note| note.contains("omits them")), "{:?}", contents.notes);
    let files = ckpt_conformance::write(&ckpt_tf2::Tf2, &contents.checkpoint, &values, "m", &[]).unwrap();
    assert_eq!(files["m.data-00000-of-00001"].len(), 4);
}

/// A bundle that needs all kinds of records.
fn peculiar() -> Bundle {
    let graph: Vec<u8> = ["a/x", "gone"]
        .iter()
        .flat_map(|key| super::common::message(2, &super::common::message(3, key.as_bytes())))
        .collect();
    let mut bundle =
        bundle().strings(GRAPH, &[], &[&super::common::message(1, &graph)]).floats("a/x", &[2], &[1., 2.]);
    bundle.data.extend([0, 1, 2, 3]);
    let mut bundle = bundle
        .tensor(&b"b\xff\\"[..], 4, &[0], &[])
        .partitioned("s", 4, &[4], &[&[(0, 1)], &[(1, 3)]])
        .tensor(slice_key("s", &[(1, 3)]), 4, &[3], &[2, 3, 4])
        .tensor(slice_key("s", &[(0, 1)]), 4, &[1], &[1])
        .strings("t", &[2], &[b"one", b""]);
    bundle.data.extend([9; 5]);
    bundle.layout.entries_per_block = 2;
    bundle
}

#[test]
fn the_peculiar_bundle_has_every_record() {
    let (contents, _) = ckpt_conformance::read(&ckpt_tf2::Tf2, &peculiar().input(), &[]).unwrap();
    let keys = |metadata: &ckpt_api::Metadata| -> BTreeSet<String> {
        let entries = metadata.namespace("tf2").into_iter().flat_map(|map| map.iter());
        entries.map(|(key, _)| key.to_owned()).collect()
    };
    let of_tensors: BTreeSet<String> =
        contents.checkpoint.tensors.iter().flat_map(|tensor| keys(&tensor.metadata)).collect();
    assert_eq!(of_tensors.into_iter().collect::<Vec<_>>(), ["at", "escaped", "slices"]);
    assert_eq!(
        keys(&contents.checkpoint.metadata).into_iter().collect::<Vec<_>>(),
        ["endian", "index", "layout", "object_graph", "object_graph_index", "producer", "unknown_keys"]
    );
}

/// A change of one metadata value.
#[derive(Clone, Debug)]
enum Change {
    Replace(Value),
    Remove,
    Repeat,
    /// Replaces one character of a string.
    Character(Index, char),
}

impl Change {
    /// Changes the value at the end of the path, or where the path cannot be followed further.
    fn apply(&self, value: &mut Value, path: &[Index]) {
        match (path, value) {
            ([step, path @ ..], Value::Object(fields)) if !fields.is_empty() => {
                let at = step.index(fields.len());
                self.apply(fields.values_mut().nth(at).unwrap(), path);
            }
            ([step], Value::Array(items)) if !items.is_empty() && matches!(self, Change::Remove) => {
                items.remove(step.index(items.len()));
            }
            ([step], Value::Array(items)) if !items.is_empty() && matches!(self, Change::Repeat) => {
                items.push(items[step.index(items.len())].clone());
            }
            ([step, path @ ..], Value::Array(items)) if !items.is_empty() => {
                let at = step.index(items.len());
                self.apply(&mut items[at], path);
            }
            (_, value) => self.change(value),
        }
    }

    fn change(&self, value: &mut Value) {
        match (self, value) {
            (Change::Replace(new), value) => *value = new.clone(),
            (Change::Character(at, new), Value::String(text)) if !text.is_empty() => {
                let at = at.index(text.chars().count());
                *text = text.chars().enumerate().map(|(k, c)| if k == at { *new } else { c }).collect();
            }
            _ => {}
        }
    }
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        4 => replacement().prop_map(Change::Replace),
        1 => Just(Change::Remove),
        1 => Just(Change::Repeat),
        2 => (any::<Index>(), "[A-Za-z0-9+/=,:-]").prop_map(|(at, c)| Change::Character(at, c.chars().next().unwrap())),
    ]
}

fn replacement() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        Just(json!([])),
        Just(json!({})),
        any::<u64>().prop_map(Value::from),
        (0u64..70).prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        prop::sample::select(vec![(1u64 << 63) - 1, 1 << 62, u64::MAX, 1 << 32, 65_535])
            .prop_map(Value::from),
        "[-0-9,:]{0,8}".prop_map(Value::from),
        "[A-Za-z0-9+/]{0,12}={0,2}".prop_map(Value::from),
        "\\PC{0,6}".prop_map(Value::from),
        prop::collection::vec(prop_oneof![(0u64..40).prop_map(Value::from), Just(Value::Null)], 0..5)
            .prop_map(Value::from),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn edited_metadata_changes_no_values_and_fills_no_disk(
        changes in prop::collection::vec(
            (0usize..8, prop::collection::vec(any::<Index>(), 1..5), change()),
            1..4,
        ),
    ) {
        let (contents, values) = ckpt_conformance::read(&ckpt_tf2::Tf2, &peculiar().input(), &[]).unwrap();
        let mut checkpoint = contents.checkpoint;
        for (whose, path, change) in &changes {
            let metadata = match checkpoint.tensors.get_mut(*whose) {
                Some(tensor) => &mut tensor.metadata,
                None => &mut checkpoint.metadata,
            };
            let mut fields = serde_json::to_value(metadata.remove("tf2").unwrap_or_default()).unwrap();
            change.apply(&mut fields, path);
            let Value::Object(fields) = fields else { return Ok(()) };
            fields.into_iter().for_each(|(key, value)| metadata.insert("tf2", &key, recorded(&value)));
        }
        let placed = match ckpt_tf2::Tf2.place(&checkpoint, "m", &Default::default()) {
            Ok(placed) => placed,
            Err(error) => {
                prop_assert_eq!(error.kind(), Kind::Usage, "{}", error);
                return Ok(());
            }
        };
        placed.check(&checkpoint).unwrap();
        prop_assert!(data_files(&placed).iter().sum::<u64>() < 65 * MIB);
        prop_assert!(placed.files.len() < 70);
        if data_files(&placed).iter().sum::<u64>() < MIB {
            let files = ckpt_conformance::write(&ckpt_tf2::Tf2, &checkpoint, &values, "m", &[]).unwrap();
            let (_, found) = read(&Input::memory("m", files), &[]).unwrap();
            let of = |values: &mut dyn Iterator<Item = &Vec<u8>>| {
                let mut values: Vec<_> = values.cloned().collect();
                values.sort();
                values
            };
            let graph = contents.placements.iter().position(|placement| placement.name == GRAPH);
            let kept = values.iter().enumerate().filter(|(id, _)| Some(*id) != graph).map(|(_, value)| value);
            let found = found.iter().filter(|(name, _)| *name != GRAPH).map(|(_, value)| value);
            prop_assert_eq!(of(&mut { found }), of(&mut { kept }));
        }
    }
}
