//! One test per rule of writing.

mod common;

use ckpt_api::{
    Checkpoint, Codec, DType, Input, Kind, LossKind, Options, Placed, Quantization, Result, Role, Shape,
    Side, Tensor, conformance,
};
use common::{Bundle, Files, Layout, bundle, read, slice_key};
use proptest::prelude::*;
use serde_json::json;
use std::num::NonZeroU32;

const DATA: &str = "m.data-00000-of-00001";

/// Reads a bundle and writes it again.
fn again(bundle: &Bundle, options: &[(&str, &str)]) -> Files {
    let (contents, values) = conformance::read(&ckpt_tf2::Tf2, &bundle.input(), &[]).unwrap();
    write(&contents.checkpoint, &values, options).unwrap()
}

fn write(checkpoint: &Checkpoint, values: &[Vec<u8>], options: &[(&str, &str)]) -> Result<Files> {
    conformance::write(&ckpt_tf2::Tf2, checkpoint, values, "m", &pairs(options))
}

fn place(checkpoint: &Checkpoint, name: &str, options: &[(&str, &str)]) -> Result<Placed> {
    let info = ckpt_tf2::Tf2.info();
    let options = Options::parse(info.id, info.options, Side::Write, &pairs(options))?;
    let placed = ckpt_tf2::Tf2.place(checkpoint, name, &options)?;
    placed.check(checkpoint)?;
    Ok(placed)
}

fn pairs(options: &[(&str, &str)]) -> Vec<(String, String)> {
    options.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn tensors(tensors: impl IntoIterator<Item = Tensor>) -> Checkpoint {
    Checkpoint { tensors: tensors.into_iter().collect(), ..Checkpoint::default() }
}

fn byte(name: &str) -> Tensor {
    Tensor::new(name, DType::U8, Shape::scalar())
}

fn error(checkpoint: &Checkpoint, message: &str) {
    let error = place(checkpoint, "m", &[]).unwrap_err();
    assert!(error.to_string().contains(message), "{error}");
    assert!(error.context().help.is_some(), "{error}");
}

/// An object graph of one object that has these keys.
fn object_graph(keys: &[&str]) -> Vec<u8> {
    let attributes: Vec<u8> =
        keys.iter().flat_map(|key| common::message(2, &common::message(3, key.as_bytes()))).collect();
    common::message(1, &attributes)
}

const GRAPH: &str = "_CHECKPOINTABLE_OBJECT_GRAPH";

fn with_graph() -> Bundle {
    bundle()
        .floats("a/.ATTRIBUTES/VARIABLE_VALUE", &[1], &[1.])
        .strings(
            GRAPH,
            &[],
            &[&object_graph(&["a/.ATTRIBUTES/VARIABLE_VALUE", "b/.ATTRIBUTES/VARIABLE_VALUE"])],
        )
        .floats("b/.ATTRIBUTES/VARIABLE_VALUE", &[1], &[2.])
}

#[test]
fn any_of_a_checkpoints_files_names_the_output() {
    for name in ["m", "m.index", DATA] {
        let placed = place(&tensors([byte("a")]), name, &[]).unwrap();
        let names: Vec<_> = placed.files.iter().map(|file| file.name.as_str()).collect();
        assert_eq!(names, [DATA, "m.index"]);
    }
    for name in ["", ".index", "checkpoint", "checkpoint.index"] {
        assert_eq!(place(&tensors([]), name, &[]).unwrap_err().kind(), Kind::Usage, "{name}");
    }
}

#[test]
fn strings_of_every_length_of_length_come_back() {
    for len in [0, 1, 127, 128, 16383, 16384] {
        let text = vec![b'x'; len];
        let bundle = bundle().strings("s", &[3], &[b"", &text, b"end"]);
        assert_eq!(again(&bundle, &[]), bundle.files("m"), "{len}");
    }
    for (dims, strings) in [(&[0][..], &[][..]), (&[2], &[&b""[..], b""])] {
        let bundle = bundle().strings("s", dims, strings);
        assert_eq!(again(&bundle, &[]), bundle.files("m"));
    }
}

#[test]
fn variants_have_their_running_checksums_also_where_they_are_empty() {
    let bundle =
        bundle().variants("v", &[4], &[b"\x0a\x01t", b"", b"\x12\x02ab", b""]).variants("w", &[0], &[]);
    assert_eq!(again(&bundle, &[]), bundle.files("m"));
}

#[test]
fn a_big_endian_bundle_stays_one_unless_another_byte_order_is_asked_for() {
    let big = bundle().big_endian().strings("s", &[1], &[b"text"]).tensor("t", 5, &[2], &[0, 1, 0, 2]);
    assert_eq!(again(&big, &[]), big.files("m"));
    let little = bundle().strings("s", &[1], &[b"text"]).tensor("t", 5, &[2], &[1, 0, 2, 0]);
    assert_eq!(again(&big, &[("endian", "little")]), little.files("m"));
    assert_eq!(again(&little, &[("endian", "big")]), big.files("m"));
}

#[test]
fn the_order_of_the_data_is_kept_and_not_that_of_the_keys() {
    let bundle = bundle().floats("z", &[1], &[1.]).floats("none", &[0], &[]).floats("a", &[1], &[2.]);
    let (contents, _) = bundle.read().unwrap();
    let names: Vec<_> = contents.checkpoint.tensors.iter().map(|tensor| tensor.name.as_str()).collect();
    assert_eq!(names, ["z", "none", "a"]);
    assert_eq!(again(&bundle, &[]), bundle.files("m"));
}

#[test]
fn an_ordinary_bundle_has_nothing_in_its_metadata_that_only_writing_needs() {
    let bundle = bundle().floats("z", &[1], &[1.]).strings("a", &[1], &[b"text"]);
    let (contents, _) = bundle.read().unwrap();
    let keys: Vec<_> = contents.checkpoint.metadata.namespace("tf2").unwrap().keys().collect();
    assert_eq!(keys, ["endian", "producer"]);
    assert!(contents.checkpoint.tensors.iter().all(|tensor| tensor.metadata.is_empty()));
}

#[test]
fn gaps_and_what_is_in_them_come_back() {
    let mut bundle = bundle().floats("a", &[1], &[1.]);
    bundle.data.extend([0, 0, 7, 0]);
    let mut bundle = bundle.floats("b", &[1], &[2.]);
    bundle.data.extend([0, 9, 0]);
    assert_eq!(again(&bundle, &[]), bundle.files("m"));
}

#[test]
fn what_lies_beside_tensors_and_is_too_much_to_keep_becomes_zeros_and_is_said() {
    let mut bundle = bundle().floats("a", &[1], &[1.]);
    bundle.data.extend(vec![7; 200_000]);
    let (contents, _) = bundle.read().unwrap();
    assert!(contents.notes.iter().any(|note| note.contains("belong to no tensor")), "{:?}", contents.notes);
    let written = again(&bundle, &[]);
    assert_eq!(written[DATA].len(), bundle.data.len());
    assert!(written[DATA][100_000..].iter().all(|byte| *byte == 0));
}

#[test]
fn tensors_that_share_bytes_are_written_apart_and_that_is_said() {
    let first = bundle().floats("a", &[2], &[1., 2.]);
    let entry = first.entries[&b"a"[..]].clone();
    let bundle = first.raw("b", entry);
    let (contents, values) = bundle.read().unwrap();
    assert!(contents.notes.iter().any(|note| note.contains("share bytes")), "{:?}", contents.notes);
    let written = again(&bundle, &[]);
    assert_eq!(written[DATA].len(), 16);
    assert_eq!(read(&Input::memory("m", written), &[]).unwrap().1, values);
}

#[test]
fn a_layout_is_left_when_its_tensors_changed() {
    let mut bundle = bundle().floats("a", &[1], &[1.]);
    bundle.data.extend([7; 4]);
    let bundle = bundle.floats("b", &[1], &[2.]).floats("c", &[1], &[3.]);
    let (mut contents, mut values) = conformance::read(&ckpt_tf2::Tf2, &bundle.input(), &[]).unwrap();
    contents.checkpoint.tensors.remove(1);
    values.remove(1);
    let written = write(&contents.checkpoint, &values, &[]).unwrap();
    assert_eq!(written[DATA], [values[0].clone(), values[1].clone()].concat());
}

#[test]
fn an_index_that_was_made_otherwise_comes_back_unless_its_entries_changed() {
    let layout = Layout { restart_interval: 2, entries_per_block: 2, snappy: true };
    let names = ["a", "b", "c", "d", "e"];
    let plain = names.iter().fold(bundle(), |bundle, name| bundle.floats(name, &[1], &[1.]));
    let other = plain.clone().layout(layout);
    assert_ne!(other.index(), plain.index());
    assert_eq!(again(&other, &[]), other.files("m"));
    assert_eq!(again(&other, &[("compression", "none")]).len(), 2);
    let (contents, mut values) = conformance::read(&ckpt_tf2::Tf2, &other.input(), &[]).unwrap();
    values[0] = 2f32.to_le_bytes().to_vec();
    let changed = write(&contents.checkpoint, &values, &[]).unwrap();
    assert_ne!(changed["m.index"], other.index());
    assert_eq!(read(&Input::memory("m", changed), &[]).unwrap().1["a"], values[0]);
}

#[test]
fn a_compressed_index_is_read_as_the_same() {
    let bundle =
        (0..200).fold(bundle(), |bundle, i| bundle.floats(&format!("layer{i:03}/bias"), &[1], &[1.]));
    let (plain, snappy) = (again(&bundle, &[]), again(&bundle, &[("compression", "snappy")]));
    assert!(snappy["m.index"].len() < plain["m.index"].len() / 2);
    let values = |files: Files| read(&Input::memory("m", files), &[]).unwrap().1;
    assert_eq!(values(plain), values(snappy));
}

fn partitioned() -> Bundle {
    let (left, right) = ([(0, 2), (0, 1)], [(0, 2), (1, 1)]);
    bundle()
        .partitioned("v", 4, &[2, 2], &[&right, &left])
        .tensor(slice_key("v", &right), 4, &[2, 1], &[2, 4])
        .tensor(slice_key("v", &left), 4, &[2, 1], &[1, 3])
        .partitioned("s", 7, &[2, 2], &[&left, &right])
        .strings(slice_key("s", &left), &[2, 1], &[b"a", b"ccc"])
        .strings(slice_key("s", &right), &[2, 1], &[b"", b"dd"])
}

#[test]
fn slices_are_kept_as_they_were_spelled() {
    assert_eq!(again(&partitioned(), &[]), partitioned().files("m"));
}

#[test]
fn slices_are_merged_when_asked_for() {
    let merged = again(&partitioned(), &[("slices", "merge")]);
    let whole =
        bundle().tensor("v", 4, &[2, 2], &[1, 2, 3, 4]).strings("s", &[2, 2], &[b"a", b"", b"ccc", b"dd"]);
    assert_eq!(merged, whole.files("m"));
}

#[test]
fn slices_that_no_longer_fit_are_merged() {
    for slices in [
        json!(["-:0,1"]),
        json!(["0,2:0,1", "-:0,1"]),
        json!(["-:0,1", "-:1,2"]),
        json!(["-", "-"]),
        json!(["-:0,-1", "-:0,1"]),
        json!([1, 2]),
        json!("slices"),
    ] {
        for dtype in [DType::U8, DType::String] {
            let mut tensor = Tensor::new("v", dtype, Shape::new([2, 2]).unwrap());
            tensor.lengths = Some(vec![1; 4]).filter(|_| dtype == DType::String);
            tensor.metadata.insert("tf2", "slices", slices.clone());
            let placed = place(&tensors([tensor]), "m", &[]).unwrap();
            assert!(placed.placements[0].extents.iter().all(|extent| extent.region.is_none()), "{slices}");
        }
    }
}

#[test]
fn slices_follow_their_tensor_when_it_is_renamed() {
    let (mut contents, values) = conformance::read(&ckpt_tf2::Tf2, &partitioned().input(), &[]).unwrap();
    contents.checkpoint.tensors[0].name = "w".to_owned();
    let written = write(&contents.checkpoint, &values, &[]).unwrap();
    let (again, _) = read(&Input::memory("m", written), &[]).unwrap();
    let (id, _) = again.checkpoint.tensor("w").unwrap();
    assert_eq!(again.placements[id.0].extents.len(), 2);
}

#[test]
fn shards_and_alignment_are_as_asked_for() {
    let bundle = (0..6).fold(bundle(), |bundle, i| bundle.floats(&format!("t{i}"), &[1], &[1.]));
    for (options, lengths) in [
        (&[("shards", "3")][..], &[8, 8, 8][..]),
        (&[("shard_size", "12")], &[12, 12]),
        (&[("alignment", "64")], &[384]),
        (&[("shards", "2"), ("alignment", "8")], &[24, 24]),
    ] {
        let written = again(&bundle, options);
        let found: Vec<usize> = written
            .iter()
            .filter(|(name, _)| !name.ends_with(".index"))
            .map(|(_, bytes)| bytes.len())
            .collect();
        assert_eq!(found, lengths, "{options:?}");
        assert_eq!(read(&Input::memory("m", written), &[]).unwrap().1, bundle.read().unwrap().1);
    }
}

#[test]
fn the_state_file_is_written_when_asked_for() {
    let placed = place(&tensors([byte("a")]), "m", &[("state", "true")]).unwrap();
    assert_eq!(placed.files.last().unwrap().name, "checkpoint");
    let files = write(&tensors([byte("a")]), &[vec![1]], &[("state", "true")]).unwrap();
    assert_eq!(read(&Input::memory("", files), &[]).unwrap().1["a"], [1]);
}

#[test]
fn the_object_graph_comes_back_where_it_was_also_without_its_tensor() {
    let bundle = with_graph();
    assert_eq!(again(&bundle, &[]), bundle.files("m"));
    let (mut contents, mut values) = conformance::read(&ckpt_tf2::Tf2, &bundle.input(), &[]).unwrap();
    let (id, _) = contents.checkpoint.tensor(GRAPH).unwrap();
    contents.checkpoint.tensors.remove(id.0);
    values.remove(id.0);
    assert_eq!(write(&contents.checkpoint, &values, &[]).unwrap(), bundle.files("m"));
}

#[test]
fn the_object_graph_names_no_tensor_that_was_renamed_or_left_out() {
    let bundle = with_graph();
    let (mut contents, values) = conformance::read(&ckpt_tf2::Tf2, &bundle.input(), &[]).unwrap();
    contents.checkpoint.tensors[0].name = "renamed".to_owned();
    let placed = place(&contents.checkpoint, "m", &[]).unwrap();
    let losses: Vec<_> = placed.losses.iter().map(|loss| (loss.kind, loss.subject.as_str())).collect();
    assert_eq!(losses, [(LossKind::BookkeepingDropped, GRAPH)]);
    let written = write(&contents.checkpoint, &values, &[]).unwrap();
    let (_, values) = read(&Input::memory("m", written), &[("keys", "true")]).unwrap();
    assert_eq!(values[GRAPH], object_graph(&["b/.ATTRIBUTES/VARIABLE_VALUE"]));
    assert!(values.contains_key("renamed"));
}

#[test]
fn an_object_graph_that_named_what_was_not_there_comes_back() {
    let bundle = bundle().floats("a", &[1], &[1.]).strings(GRAPH, &[], &[&object_graph(&["a", "gone"])]);
    assert_eq!(again(&bundle, &[]), bundle.files("m"));
}

#[test]
fn plain_names_are_keys_and_there_is_no_object_graph() {
    let (contents, values) = conformance::read(&ckpt_tf2::Tf2, &with_graph().input(), &[]).unwrap();
    let placed = place(&contents.checkpoint, "m", &[("names", "plain")]).unwrap();
    assert_eq!(placed.losses[0].kind, LossKind::BookkeepingDropped);
    let written = write(&contents.checkpoint, &values, &[("names", "plain")]).unwrap();
    let (again, _) = read(&Input::memory("m", written), &[("keys", "true")]).unwrap();
    let names = |checkpoint: &Checkpoint| -> Vec<String> {
        checkpoint.tensors.iter().map(|tensor| tensor.name.clone()).filter(|name| name != GRAPH).collect()
    };
    assert_eq!(names(&again.checkpoint), names(&contents.checkpoint));
}

#[test]
fn a_key_that_is_no_text_comes_back() {
    let bundle = bundle().tensor(b"a\xff\\".to_vec(), 4, &[], &[1]).tensor(b"b\\xff".to_vec(), 4, &[], &[2]);
    assert_eq!(again(&bundle, &[]), bundle.files("m"));
    assert_eq!(again(&bundle, &[("names", "plain")]), bundle.files("m"));
}

#[test]
fn names_that_no_reader_could_tell_apart_are_refused() {
    error(&tensors([byte("a"), byte("b"), byte("a")]), "under the same key");
    error(&tensors([byte("")]), "without a name");
    error(&tensors([byte(&"n".repeat((1 << 20) + 1))]), "too long");
    let slice = String::from_utf8(b"\0a\0\x01\x00".to_vec()).unwrap();
    error(&tensors([byte("a"), byte(&slice)]), "a slice of another tensor");
    place(&tensors([byte("b"), byte(&slice)]), "m", &[]).unwrap();
}

#[test]
fn a_tensor_of_more_axes_than_tensorflow_allows_is_refused() {
    let tensor = |rank| tensors([Tensor::new("t", DType::U8, Shape::new(vec![1; rank]).unwrap())]);
    place(&tensor(254), "m", &[]).unwrap();
    error(&tensor(255), "more axes");
}

#[test]
fn a_dtype_that_tensorflow_lacks_is_stored_as_one_that_holds_every_value() {
    for (dtype, holder) in
        [(DType::F8E8m0, DType::Bf16), (DType::F6E2m3, DType::F8E4m3), (DType::F6E3m2, DType::F8E4m3)]
    {
        let placed = place(&tensors([Tensor::new("t", dtype, Shape::scalar())]), "m", &[]).unwrap();
        assert_eq!(placed.placements[0].encoding.dtype, holder);
        assert_eq!(placed.losses[0].kind, LossKind::Retyped);
    }
}

#[test]
fn what_tensors_say_beyond_the_format_is_a_loss() {
    let mut tensor = byte("t");
    tensor.quantization = Some(Quantization { scale: NonZeroU32::new(64).unwrap() });
    tensor.metadata.insert("other", "key", 1);
    let placed = place(&tensors([tensor.with_role(Role::Weight)]), "m", &[]).unwrap();
    let kinds: Vec<_> = placed.losses.iter().map(|loss| loss.kind).collect();
    assert_eq!(kinds, [LossKind::MetadataDropped; 2]);
}

fn dtypes() -> impl Strategy<Value = DType> {
    let stored = ckpt_tf2::Tf2.info().dtypes;
    // A variant must be a message.
    (0..stored.len())
        .prop_map(|index| ckpt_tf2::Tf2.info().dtypes[index])
        .prop_filter("", |d| *d != DType::Variant)
}

#[test]
fn what_a_reader_would_not_find_out_or_take_for_something_else_is_said() {
    use ckpt_api::Axis;
    let tensor = |name: &str, axes: &[Axis], role: Role| {
        let shape = Shape::new(vec![2; axes.len()]).unwrap();
        Tensor { axes: Some(axes.to_vec()), role, ..Tensor::new(name, DType::F32, shape) }
    };
    let found = |all: Vec<Tensor>| -> Vec<String> {
        let placed = place(&tensors(all), "m", &[("names", "plain")]).unwrap();
        assert!(placed.losses.iter().all(|loss| loss.kind == LossKind::MetadataDropped));
        placed.losses.iter().map(|loss| format!("{}: {}", loss.subject, loss.detail)).collect()
    };
    let told = vec![
        tensor("d/kernel", &[Axis::In, Axis::Out], Role::Weight),
        tensor("d/bias", &[Axis::Out], Role::Weight),
        tensor("weight", &[Axis::Out], Role::Weight),
        tensor("d/kernel/Adam", &[Axis::In, Axis::Out], Role::Optimizer),
    ];
    assert_eq!(found(told), [""; 0]);
    let untold = vec![
        tensor("d.weight", &[Axis::Out, Axis::In], Role::Weight),
        tensor("d/kernel", &[Axis::Out, Axis::In], Role::Weight),
        tensor("momentum", &[Axis::Out], Role::Optimizer),
    ];
    assert_eq!(
        found(untold),
        [
            "d.weight: that its axes are [out, in] has no place, and its name does not tell",
            "d/kernel: its axes are [out, in], and its name tells [in, out]",
            "momentum: that it is an optimizer's has no place, and its name tells a weight",
        ]
    );
}

fn arbitrary() -> impl Strategy<Value = (Tensor, Vec<u8>)> {
    let dims = prop::collection::vec(0u64..4, 0..3);
    let bytes = prop::collection::vec(any::<u8>(), 16 * 9);
    ("\\PC{1,12}", dtypes(), dims, bytes).prop_map(|(name, dtype, dims, bytes)| {
        let mut tensor = Tensor::new(name, dtype, Shape::new(dims).unwrap());
        if dtype == DType::String {
            let elements = usize::try_from(tensor.shape.elements()).unwrap();
            tensor.lengths = Some(bytes[..elements].iter().map(|byte| u64::from(byte % 16)).collect());
        }
        let len = usize::try_from(tensor.value_bytes()).unwrap();
        let mask =
            if dtype.bits().is_some_and(|bits| bits < 8) { (1 << dtype.bits().unwrap()) - 1 } else { 0xff };
        let value = bytes.iter().cycle().take(len).map(|byte| byte & mask).collect();
        (tensor, value)
    })
}

fn options() -> impl Strategy<Value = Vec<(&'static str, &'static str)>> {
    let choice =
        |options: &'static [(&'static str, &'static str)]| prop::option::of(prop::sample::select(options));
    let layout = choice(&[("shards", "3"), ("shards", "1"), ("shard_size", "20")]);
    (
        layout,
        choice(&[("alignment", "1"), ("alignment", "8")]),
        choice(&[("compression", "snappy")]),
        choice(&[("endian", "big")]),
    )
        .prop_map(|(a, b, c, d)| [a, b, c, d].into_iter().flatten().collect())
}

fn stated() -> impl Strategy<Value = serde_json::Value> {
    prop::sample::select(vec![
        json!([[0, 0]]),
        json!([[0, 3]]),
        json!([[1, 0]]),
        json!([[0, u64::MAX]]),
        json!([[u32::MAX, 0]]),
        json!(["-"]),
        json!(["0,1", "1,9223372036854775807"]),
        json!({"bytes": 3, "files": [3]}),
        json!({"bytes": 3, "files": [9, 9], "filler": [[0, 5, "AQI="]]}),
        json!({"bytes": 3, "files": [u64::MAX, null], "filler": [[7, 5, "AQI="]]}),
        json!({"bytes": 3, "files": [], "object_graph": [0, 1]}),
        json!("CgUSAxoBYQ=="),
        json!("a"),
        json!("big"),
        json!(1),
        json!(u64::MAX),
    ])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_tensors_come_back_and_a_second_time_the_same_bytes(
        all in prop::collection::vec(arbitrary(), 0..12),
        options in options(),
    ) {
        let mut seen = std::collections::HashSet::new();
        let all = all.into_iter().filter(|(tensor, _)| seen.insert(tensor.name.clone()));
        let (all, values): (Vec<Tensor>, Vec<Vec<u8>>) = all.unzip();
        let files = write(&tensors(all.clone()), &values, &options).unwrap();
        let (contents, again) = conformance::read(&ckpt_tf2::Tf2, &Input::memory("m", files.clone()), &[]).unwrap();
        let by_name = |tensors: &[Tensor], values: &[Vec<u8>]| {
            let pairs = tensors.iter().zip(values);
            let pairs = pairs.map(|(t, value)| (t.name.clone(), (t.dtype, t.shape.clone(), t.lengths.clone(), value.clone())));
            pairs.collect::<std::collections::BTreeMap<_, _>>()
        };
        prop_assert_eq!(by_name(&all, &values), by_name(&contents.checkpoint.tensors, &again));
        prop_assert_eq!(write(&contents.checkpoint, &again, &[]).unwrap(), files);
    }

    #[test]
    fn metadata_that_anyone_may_have_edited_never_spoils_what_is_written(
        sizes in prop::collection::vec(0u64..3, 1..4),
        of_tensors in prop::collection::vec((prop::sample::select(vec!["at", "slices", "key", "name", "escaped"]), stated()), 0..5),
        of_checkpoint in prop::collection::vec(
            (prop::sample::select(vec!["layout", "index", "endian", "object_graph", "object_graph_index", "unknown_keys"]), stated()),
            0..5,
        ),
    ) {
        let tensor = |(number, size): (usize, &u64)| {
            let mut tensor = Tensor::new(format!("t{number}"), DType::U8, Shape::new([*size]).unwrap());
            let said = of_tensors.iter().enumerate().filter(|(k, _)| k % sizes.len() == number);
            said.for_each(|(_, (key, value))| tensor.metadata.insert("tf2", key, value.clone()));
            tensor
        };
        let mut checkpoint = tensors(sizes.iter().enumerate().map(tensor));
        of_checkpoint.iter().for_each(|(key, value)| checkpoint.metadata.insert("tf2", key, value.clone()));
        let values: Vec<Vec<u8>> = sizes.iter().map(|size| vec![7; usize::try_from(*size).unwrap()]).collect();
        match write(&checkpoint, &values, &[]) {
            Ok(files) => {
                let (_, found) = read(&Input::memory("m", files), &[]).unwrap();
                let found: Vec<_> = found.into_iter().filter(|(name, _)| name != GRAPH).map(|(_, value)| value).collect();
                prop_assert_eq!(found, values);
            }
            Err(error) => prop_assert_eq!(error.kind(), Kind::Usage, "{}", error),
        }
    }
}
