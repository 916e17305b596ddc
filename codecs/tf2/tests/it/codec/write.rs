//! Rules of writing, one test each.

use super::common::{Bundle, Files, Layout, bundle, read, recorded, slice_key};
use ckpt_api::{
    Checkpoint, Codec, DType, Input, Kind, LossKind, Name, Options, OutputLayout, Result, Role, Shape, Side,
    Tensor,
};
use proptest::prelude::*;
use serde_json::json;

const DATA: &str = "m.data-00000-of-00001";

/// Reads a bundle and writes it again.
fn again(bundle: &Bundle, options: &[(&str, &str)]) -> Files {
    let (contents, values) = ckpt_conformance::read(&ckpt_tf2::Tf2, &bundle.input(), &[]).unwrap();
    write(&contents.checkpoint, &values, options).unwrap()
}

fn write(checkpoint: &Checkpoint, values: &[Vec<u8>], options: &[(&str, &str)]) -> Result<Files> {
    ckpt_conformance::write(&ckpt_tf2::Tf2, checkpoint, values, "m", &pairs(options))
}

fn place(checkpoint: &Checkpoint, name: &str, options: &[(&str, &str)]) -> Result<OutputLayout> {
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

/// An object graph of one object with values of these keys.
fn object_graph(keys: &[&str]) -> Vec<u8> {
    let attributes: Vec<u8> = keys
        .iter()
        .flat_map(|key| super::common::message(2, &super::common::message(3, key.as_bytes())))
        .collect();
    super::common::message(1, &attributes)
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
fn the_output_may_have_the_name_of_any_of_its_files() {
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
fn strings_with_lengths_of_one_to_three_bytes_are_written_again() {
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
fn variants_have_running_checksums_even_if_they_are_empty() {
    let bundle =
        bundle().variants("v", &[4], &[b"\x0a\x01t", b"", b"\x12\x02ab", b""]).variants("w", &[0], &[]);
    assert_eq!(again(&bundle, &[]), bundle.files("m"));
}

#[test]
fn the_byte_order_is_kept_or_as_the_option_says() {
    let big = bundle().big_endian().strings("s", &[1], &[b"text"]).tensor("t", 5, &[2], &[0, 1, 0, 2]);
    assert_eq!(again(&big, &[]), big.files("m"));
    let little = bundle().strings("s", &[1], &[b"text"]).tensor("t", 5, &[2], &[1, 0, 2, 0]);
    assert_eq!(again(&big, &[("endian", "little")]), little.files("m"));
    assert_eq!(again(&little, &[("endian", "big")]), big.files("m"));
}

#[test]
fn tensors_keep_the_order_of_their_data() {
    let bundle = bundle().floats("z", &[1], &[1.]).floats("none", &[0], &[]).floats("a", &[1], &[2.]);
    let (contents, _) = bundle.read().unwrap();
    let names: Vec<_> = contents.checkpoint.tensors.iter().map(|tensor| tensor.name.as_str()).collect();
    assert_eq!(names, ["z", "none", "a"]);
    assert_eq!(again(&bundle, &[]), bundle.files("m"));
}

#[test]
fn an_ordinary_bundle_needs_no_records_for_writing() {
    let bundle = bundle().floats("z", &[1], &[1.]).strings("a", &[1], &[b"text"]);
    let (contents, _) = bundle.read().unwrap();
    let keys: Vec<_> =
        contents.checkpoint.metadata.namespace("tf2").unwrap().iter().map(|(key, _)| key).collect();
    assert_eq!(keys, ["producer", "endian"]);
    assert!(contents.checkpoint.tensors.iter().all(|tensor| tensor.metadata.is_empty()));
}

#[test]
fn gaps_and_their_bytes_are_written_again() {
    let mut bundle = bundle().floats("a", &[1], &[1.]);
    bundle.data.extend([0, 0, 7, 0]);
    let mut bundle = bundle.floats("b", &[1], &[2.]);
    bundle.data.extend([0, 9, 0]);
    assert_eq!(again(&bundle, &[]), bundle.files("m"));
}

#[test]
fn too_many_bytes_outside_of_tensors_become_zeros_with_a_note() {
    let mut bundle = bundle().floats("a", &[1], &[1.]);
    bundle.data.extend(vec![7; 200_000]);
    let (contents, _) = bundle.read().unwrap();
    assert!(contents.notes.iter().any(|note| note.contains("belong to no tensor")), "{:?}", contents.notes);
    let written = again(&bundle, &[]);
    assert_eq!(written[DATA].len(), bundle.data.len());
    assert!(written[DATA][100_000..].iter().all(|byte| *byte == 0));
}

#[test]
fn tensors_that_share_bytes_are_written_separately_with_a_note() {
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
fn a_recorded_layout_is_ignored_if_tensors_changed() {
    let mut bundle = bundle().floats("a", &[1], &[1.]);
    bundle.data.extend([7; 4]);
    let bundle = bundle.floats("b", &[1], &[2.]).floats("c", &[1], &[3.]);
    let (mut contents, mut values) = ckpt_conformance::read(&ckpt_tf2::Tf2, &bundle.input(), &[]).unwrap();
    contents.checkpoint.tensors.remove(1);
    values.remove(1);
    let written = write(&contents.checkpoint, &values, &[]).unwrap();
    assert_eq!(written[DATA], [values[0].clone(), values[1].clone()].concat());
}

#[test]
fn an_index_of_another_writer_is_written_again_unless_entries_changed() {
    let layout = Layout { restart_interval: 2, entries_per_block: 2, snappy: true };
    let names = ["a", "b", "c", "d", "e"];
    let plain = names.iter().fold(bundle(), |bundle, name| bundle.floats(name, &[1], &[1.]));
    let other = plain.clone().layout(layout);
    assert_ne!(other.index(), plain.index());
    assert_eq!(again(&other, &[]), other.files("m"));
    assert_eq!(again(&other, &[("compression", "none")]).len(), 2);
    let (contents, mut values) = ckpt_conformance::read(&ckpt_tf2::Tf2, &other.input(), &[]).unwrap();
    values[0] = 2f32.to_le_bytes().to_vec();
    let changed = write(&contents.checkpoint, &values, &[]).unwrap();
    assert_ne!(changed["m.index"], other.index());
    assert_eq!(read(&Input::memory("m", changed), &[]).unwrap().1["a"], values[0]);
}

#[test]
fn a_compressed_index_reads_the_same() {
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
fn slices_are_written_again() {
    assert_eq!(again(&partitioned(), &[]), partitioned().files("m"));
}

#[test]
fn slices_are_merged_if_the_option_says_so() {
    let merged = again(&partitioned(), &[("slices", "merge")]);
    let whole =
        bundle().tensor("v", 4, &[2, 2], &[1, 2, 3, 4]).strings("s", &[2, 2], &[b"a", b"", b"ccc", b"dd"]);
    assert_eq!(merged, whole.files("m"));
}

#[test]
fn recorded_slices_that_do_not_fit_the_tensor_are_ignored() {
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
            tensor.lengths = Some([1; 4].into()).filter(|_| dtype == DType::String);
            tensor.metadata.insert("tf2", "slices", recorded(&slices));
            let placed = place(&tensors([tensor]), "m", &[]).unwrap();
            assert!(placed.placements[0].extents.iter().all(|extent| extent.region().is_none()), "{slices}");
        }
    }
}

#[test]
fn a_tensor_becomes_whole_if_it_gets_a_dtype_whose_slices_tensorflow_does_not_join() {
    let slices = |before: DType, after: DType| {
        let number = if before == DType::F16 { 19 } else { 1 };
        let size = usize::try_from(before.bytes().unwrap()).unwrap();
        let (first, second) = ([(0, 1)], [(1, 1)]);
        let bundle = bundle()
            .partitioned("v", number, &[2], &[&first, &second])
            .tensor(slice_key("v", &first), number, &[1], &vec![0; size])
            .tensor(slice_key("v", &second), number, &[1], &vec![0; size]);
        let (contents, _) = ckpt_conformance::read(&ckpt_tf2::Tf2, &bundle.input(), &[]).unwrap();
        let mut tensor = contents.checkpoint.tensors[0].clone();
        tensor.dtype = after;
        place(&tensors([tensor]), "m", &[]).unwrap().placements[0].extents.len()
    };
    for dtype in [DType::F64, DType::Bf16, DType::I64, DType::Bool, DType::C128, DType::Qi32] {
        assert_eq!(slices(DType::F32, dtype), 2, "{dtype}");
    }
    for dtype in [DType::F16, DType::U16, DType::U32, DType::U64, DType::Qi16, DType::F8E5m2, DType::I4] {
        assert_eq!(slices(DType::F32, dtype), 1, "{dtype}");
    }
    // What TensorFlow wrote stays as it is.
    assert_eq!((slices(DType::F16, DType::F16), slices(DType::F16, DType::U16)), (2, 1));
}

#[test]
fn a_renamed_tensor_keeps_its_slices() {
    let (mut contents, values) = ckpt_conformance::read(&ckpt_tf2::Tf2, &partitioned().input(), &[]).unwrap();
    contents.checkpoint.tensors[0].name = "w".into();
    let written = write(&contents.checkpoint, &values, &[]).unwrap();
    let (again, _) = read(&Input::memory("m", written), &[]).unwrap();
    let (id, _) = again.checkpoint.tensor("w").unwrap();
    assert_eq!(again.placements[id.0].extents.len(), 2);
}

#[test]
fn shards_and_alignment_are_as_the_options_say() {
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
fn the_state_file_is_written_if_the_option_says_so() {
    let placed = place(&tensors([byte("a")]), "m", &[("state", "true")]).unwrap();
    assert_eq!(placed.files.last().unwrap().name, "checkpoint");
    let files = write(&tensors([byte("a")]), &[vec![1]], &[("state", "true")]).unwrap();
    assert_eq!(read(&Input::memory("", files), &[]).unwrap().1["a"], [1]);
}

#[test]
fn the_object_graph_is_written_where_it_was_even_without_its_tensor() {
    let bundle = with_graph();
    assert_eq!(again(&bundle, &[]), bundle.files("m"));
    let (mut contents, mut values) = ckpt_conformance::read(&ckpt_tf2::Tf2, &bundle.input(), &[]).unwrap();
    let (id, _) = contents.checkpoint.tensor(GRAPH).unwrap();
    contents.checkpoint.tensors.remove(id.0);
    values.remove(id.0);
    assert_eq!(write(&contents.checkpoint, &values, &[]).unwrap(), bundle.files("m"));
}

#[test]
fn the_object_graph_omits_values_of_renamed_and_removed_tensors() {
    let bundle = with_graph();
    let (mut contents, values) = ckpt_conformance::read(&ckpt_tf2::Tf2, &bundle.input(), &[]).unwrap();
    contents.checkpoint.tensors[0].name = "renamed".into();
    let placed = place(&contents.checkpoint, "m", &[]).unwrap();
    let losses: Vec<_> = placed.losses.iter().map(|loss| (loss.kind, loss.subject.as_str())).collect();
    assert_eq!(losses, [(LossKind::BookkeepingDropped, GRAPH)]);
    let written = write(&contents.checkpoint, &values, &[]).unwrap();
    let (_, values) = read(&Input::memory("m", written), &[("keys", "true")]).unwrap();
    assert_eq!(values[GRAPH], object_graph(&["b/.ATTRIBUTES/VARIABLE_VALUE"]));
    assert!(values.contains_key("renamed"));
}

#[test]
fn an_object_graph_with_unknown_keys_is_written_again() {
    let bundle = bundle().floats("a", &[1], &[1.]).strings(GRAPH, &[], &[&object_graph(&["a", "gone"])]);
    assert_eq!(again(&bundle, &[]), bundle.files("m"));
}

#[test]
fn plain_names_are_keys_without_an_object_graph() {
    let (contents, values) = ckpt_conformance::read(&ckpt_tf2::Tf2, &with_graph().input(), &[]).unwrap();
    let placed = place(&contents.checkpoint, "m", &[("names", "plain")]).unwrap();
    assert_eq!(placed.losses[0].kind, LossKind::BookkeepingDropped);
    let written = write(&contents.checkpoint, &values, &[("names", "plain")]).unwrap();
    let (again, _) = read(&Input::memory("m", written), &[("keys", "true")]).unwrap();
    let names = |checkpoint: &Checkpoint| -> Vec<Name> {
        checkpoint.tensors.iter().map(|tensor| tensor.name.clone()).filter(|name| name != GRAPH).collect()
    };
    assert_eq!(names(&again.checkpoint), names(&contents.checkpoint));
}

#[test]
fn a_key_that_is_not_utf_8_is_written_again() {
    let bundle = bundle().tensor(b"a\xff\\".to_vec(), 4, &[], &[1]).tensor(b"b\\xff".to_vec(), 4, &[], &[2]);
    assert_eq!(again(&bundle, &[]), bundle.files("m"));
    assert_eq!(again(&bundle, &[("names", "plain")]), bundle.files("m"));
}

#[test]
fn ambiguous_names_are_refused() {
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
fn a_dtype_that_tensorflow_lacks_is_stored_as_one_with_all_of_its_values() {
    for (dtype, holder) in
        [(DType::F8E8m0, DType::Bf16), (DType::F6E2m3, DType::F8E4m3), (DType::F6E3m2, DType::F8E4m3)]
    {
        let placed = place(&tensors([Tensor::new("t", dtype, Shape::scalar())]), "m", &[]).unwrap();
        assert_eq!(placed.placements[0].encoding.dtype, holder);
    }
}

#[test]
fn scales_and_metadata_of_other_formats_are_not_kept() {
    use ckpt_api::Aspect;
    let keeps = ckpt_tf2::Tf2.info().keeps;
    assert!([Aspect::Scales, Aspect::TensorMetadata, Aspect::Metadata].iter().all(|a| !keeps.contains(a)));
}

fn dtypes() -> impl Strategy<Value = DType> {
    let stored = ckpt_tf2::Tf2.info().dtypes;
    // A variant must be a protobuf message.
    (0..stored.len())
        .prop_map(|index| ckpt_tf2::Tf2.info().dtypes[index])
        .prop_filter("", |d| *d != DType::Variant)
}

#[test]
fn roles_and_axes_that_a_reader_would_not_infer_are_losses() {
    use ckpt_api::Axis;
    let tensor = |name: &str, axes: &[Axis], role: Role| {
        let shape = Shape::new(vec![2; axes.len()]).unwrap();
        Tensor::new(name, DType::F32, shape).with_axes(axes).with_role(role)
    };
    let found = |all: Vec<Tensor>| -> Vec<String> {
        let placed = place(&tensors(all), "m", &[("names", "plain")]).unwrap();
        assert!(placed.losses.iter().all(|loss| loss.kind == LossKind::MetadataDropped));
        placed.losses.iter().map(|loss| format!("{}: {}", loss.subject, loss.detail.as_str())).collect()
    };
    let inferred = vec![
        tensor("d/kernel", &[Axis::In, Axis::Out], Role::Weight),
        tensor("d/bias", &[Axis::Out], Role::Weight),
        tensor("weight", &[Axis::Out], Role::Weight),
        tensor("d/kernel/Adam", &[Axis::In, Axis::Out], Role::Optimizer),
    ];
    assert_eq!(found(inferred), [""; 0]);
    let not_inferred = vec![
        tensor("d.weight", &[Axis::Out, Axis::In], Role::Weight),
        tensor("d/kernel", &[Axis::Out, Axis::In], Role::Weight),
        tensor("momentum", &[Axis::Out], Role::Optimizer),
    ];
    assert_eq!(
        found(not_inferred),
        [
            "d.weight: its axes [out, in] are not stored; a reader infers none",
            "d/kernel: its axes [out, in] are not stored; a reader infers [in, out]",
            "momentum: its role 'optimizer' is not stored; a reader infers 'weight'",
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

fn edited() -> impl Strategy<Value = serde_json::Value> {
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
    fn any_tensors_are_read_again_and_written_again_byte_for_byte(
        all in prop::collection::vec(arbitrary(), 0..12),
        options in options(),
    ) {
        let mut seen = std::collections::HashSet::new();
        let all = all.into_iter().filter(|(tensor, _)| seen.insert(tensor.name.clone()));
        let (all, values): (Vec<Tensor>, Vec<Vec<u8>>) = all.unzip();
        let files = write(&tensors(all.clone()), &values, &options).unwrap();
        let (contents, again) = ckpt_conformance::read(&ckpt_tf2::Tf2, &Input::memory("m", files.clone()), &[]).unwrap();
        let by_name = |tensors: &[Tensor], values: &[Vec<u8>]| {
            let pairs = tensors.iter().zip(values);
            let pairs = pairs.map(|(t, value)| (t.name.clone(), (t.dtype, t.shape.clone(), t.lengths.clone(), value.clone())));
            pairs.collect::<std::collections::BTreeMap<_, _>>()
        };
        prop_assert_eq!(by_name(&all, &values), by_name(&contents.checkpoint.tensors, &again));
        prop_assert_eq!(write(&contents.checkpoint, &again, &[]).unwrap(), files);
    }

    #[test]
    fn edited_metadata_never_corrupts_the_output(
        sizes in prop::collection::vec(0u64..3, 1..4),
        of_tensors in prop::collection::vec((prop::sample::select(vec!["at", "slices", "key", "name", "escaped"]), edited()), 0..5),
        of_checkpoint in prop::collection::vec(
            (prop::sample::select(vec!["layout", "index", "endian", "object_graph", "object_graph_index", "unknown_keys"]), edited()),
            0..5,
        ),
    ) {
        let tensor = |(number, size): (usize, &u64)| {
            let mut tensor = Tensor::new(format!("t{number}"), DType::U8, Shape::new([*size]).unwrap());
            let edits = of_tensors.iter().enumerate().filter(|(k, _)| k % sizes.len() == number);
            edits.for_each(|(_, (key, value))| tensor.metadata.insert("tf2", key, recorded(value)));
            tensor
        };
        let mut checkpoint = tensors(sizes.iter().enumerate().map(tensor));
        of_checkpoint.iter().for_each(|(key, value)| checkpoint.metadata.insert("tf2", key, recorded(value)));
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
