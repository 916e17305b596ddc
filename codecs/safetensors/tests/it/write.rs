//! What writing decides: files, shards, dtypes, losses.

use crate::common::{entry, file, files, pairs, read, read_one};
use ckpt_api::{
    Axis, Checkpoint, Codec, DType, Graph, Kind, LossKind, Node, Op, Options, OutputLayout, Packing,
    Quantization, Result, Role, Shape, Side, Slot, Tensor,
};
use ckpt_safetensors::Safetensors;

fn options(given: &[(&str, &str)]) -> Options {
    Options::parse("safetensors", Safetensors.info().options, Side::Write, &pairs(given)).unwrap()
}

fn place(checkpoint: &Checkpoint, given: &[(&str, &str)]) -> Result<OutputLayout> {
    let placed = Safetensors.place(checkpoint, "m.safetensors", &options(given))?;
    placed.check(checkpoint)?;
    Ok(placed)
}

fn tensor(name: &str, dtype: DType, shape: &[u64]) -> Tensor {
    Tensor::new(name, dtype, Shape::new(shape.to_vec()).unwrap())
}

fn with(tensors: Vec<Tensor>) -> Checkpoint {
    Checkpoint { tensors, ..Checkpoint::default() }
}

fn losses(placed: &OutputLayout) -> Vec<(LossKind, &str)> {
    placed.losses.iter().map(|loss| (loss.kind, loss.subject.as_str())).collect()
}

/// The files with zeros for every tensor.
fn zeros(placed: &OutputLayout) -> std::collections::BTreeMap<String, Vec<u8>> {
    let mut out: Vec<Vec<u8>> = placed.files.iter().map(|file| vec![0; file.len.unwrap() as usize]).collect();
    for block in &placed.literals {
        let start = block.offset as usize;
        out[block.file.0][start..start + block.bytes.len()].copy_from_slice(&block.bytes);
    }
    placed.files.iter().map(|file| file.name.clone()).zip(out).collect()
}

#[test]
fn shards_are_filled_in_order_and_the_index_comes_last() {
    let sizes = [("big", 100), ("a", 6), ("b", 4), ("c", 1), ("d", 10)];
    let checkpoint = with(sizes.map(|(name, size)| tensor(name, DType::U8, &[size])).to_vec());
    let placed = place(&checkpoint, &[("shard_size", "10")]).unwrap();
    let names: Vec<&str> = placed.files.iter().map(|file| file.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "m-00001-of-00004.safetensors",
            "m-00002-of-00004.safetensors",
            "m-00003-of-00004.safetensors",
            "m-00004-of-00004.safetensors",
            "m.safetensors.index.json"
        ]
    );
    let shards: Vec<(&str, usize)> = placed
        .placements
        .iter()
        .map(|placement| (placement.name.as_str(), placement.extents[0].file.0))
        .collect();
    assert_eq!(shards, [("big", 0), ("a", 1), ("b", 1), ("c", 2), ("d", 3)]);
    let index: serde_json::Value = serde_json::from_slice(&placed.literals.last().unwrap().bytes).unwrap();
    assert_eq!(index["metadata"], serde_json::json!({"total_size": 121}));
    assert_eq!(index["weight_map"]["c"], "m-00003-of-00004.safetensors");
}

#[test]
fn what_fits_into_one_file_is_one_file_unless_the_name_asks_for_a_set() {
    let checkpoint = with(vec![tensor("a", DType::U8, &[10])]);
    assert_eq!(place(&checkpoint, &[("shard_size", "10")]).unwrap().files.len(), 1);
    let placed = Safetensors.place(&checkpoint, "m.safetensors.index.json", &options(&[])).unwrap();
    let names: Vec<&str> = placed.files.iter().map(|file| file.name.as_str()).collect();
    assert_eq!(names, ["m-00001-of-00001.safetensors", "m.safetensors.index.json"]);
    let empty = Safetensors.place(&with(vec![]), "m.safetensors.index.json", &options(&[]));
    assert_eq!(empty.unwrap_err().kind(), Kind::Unsupported);
}

#[test]
fn a_name_that_would_be_read_as_an_index_is_refused() {
    let checkpoint = with(vec![tensor("a", DType::U8, &[10])]);
    for name in ["m.json", "m.index.json", "safetensors.index.json"] {
        let error = Safetensors.place(&checkpoint, name, &options(&[])).unwrap_err();
        assert_eq!(error.kind(), Kind::Usage, "{name}");
        assert!(error.to_string().contains("*.safetensors.index.json"), "{error}");
    }
}

#[test]
fn a_shard_size_of_nothing_is_refused() {
    assert_eq!(place(&with(vec![]), &[("shard_size", "0")]).unwrap_err().kind(), Kind::Usage);
}

#[test]
fn a_tensor_with_the_reserved_name_is_refused() {
    let error = place(&with(vec![tensor("__metadata__", DType::U8, &[1])]), &[]).unwrap_err();
    assert_eq!(error.kind(), Kind::Unsupported);
}

#[test]
fn dtypes_that_safetensors_lacks_are_stored_in_one_that_holds_them() {
    let table = [
        (DType::I4, DType::I8, 3),
        (DType::I2, DType::I8, 3),
        (DType::U4, DType::U8, 3),
        (DType::U2, DType::U8, 3),
        (DType::Qi8, DType::I8, 3),
        (DType::Qu8, DType::U8, 3),
        (DType::Qi16, DType::I16, 6),
        (DType::Qu16, DType::U16, 6),
        (DType::Qi32, DType::I32, 12),
        (DType::F8E4m3b11fnuz, DType::F16, 6),
        (DType::F4E2m1, DType::F8E4m3, 3),
        (DType::F6E2m3, DType::F8E4m3, 3),
        (DType::F6E3m2, DType::F8E4m3, 3),
    ];
    for (logical, stored, len) in table {
        let placed = place(&with(vec![tensor("t", logical, &[3])]), &[]).unwrap();
        let placement = &placed.placements[0];
        assert_eq!((placement.encoding.dtype, placement.extents[0].len), (stored, len), "{logical}");
        assert_eq!(placement.encoding.packing, Packing::Bytes);

        let (contents, _) = read("m.safetensors", zeros(&placed)).unwrap();
        let tensor = &contents.checkpoint.tensors[0];
        assert_eq!(contents.placements[0].encoding.dtype, stored);
        let kept = tensor.metadata.text("safetensors", "logical_dtype");
        assert_eq!((tensor.dtype, kept), (logical, None), "the tensor has its dtype again");
        let again = place(&contents.checkpoint, &[]).unwrap();
        assert_eq!(zeros(&again), zeros(&placed), "{logical}: the dtype is forgotten on the second way");
    }
}

#[test]
fn the_dtype_that_a_tensor_had_follows_it_to_another_name_and_goes_with_it() {
    let placed = place(&with(vec![tensor("t", DType::I4, &[3]), tensor("u", DType::U8, &[1])]), &[]).unwrap();
    let (mut contents, _) = read("m.safetensors", zeros(&placed)).unwrap();
    contents.checkpoint.rename(&[("t".to_owned(), "v".to_owned())].into()).unwrap();
    let renamed = place(&contents.checkpoint, &[]).unwrap();
    let (contents, _) = read("m.safetensors", zeros(&renamed)).unwrap();
    let dtypes: Vec<_> =
        contents.checkpoint.tensors.iter().map(|tensor| (tensor.name.as_str(), tensor.dtype)).collect();
    assert_eq!(dtypes, [("v", DType::I4), ("u", DType::U8)]);
    let without = with(contents.checkpoint.tensors[1..].to_vec());
    let text = String::from_utf8_lossy(&zeros(&place(&without, &[]).unwrap())["m.safetensors"]).into_owned();
    assert!(!text.contains("i4"), "{text}");
}

#[test]
fn a_dtype_that_no_longer_explains_what_is_stored_is_forgotten() {
    let mut cast = tensor("t", DType::Bf16, &[3]);
    cast.metadata.insert("safetensors", "logical_dtype", "f8_e4m3b11fnuz");
    let (contents, _) = read("m.safetensors", zeros(&place(&with(vec![cast]), &[]).unwrap())).unwrap();
    assert!(contents.checkpoint.tensors[0].metadata.is_empty());
    let carried = r#"{\"version\":1,\"tensors\":[{\"name\":\"t\",\"metadata\":{\"safetensors\":{\"logical_dtype\":\"i4\"}}}]}"#;
    let header = format!(r#"{{"__metadata__":{{"ckpt":"{carried}"}},{}}}"#, entry("t", "U8", "[1]", 0, 1));
    let (contents, _) = read_one(&file(&header, &[0])).unwrap();
    assert!(contents.checkpoint.tensors[0].metadata.is_empty());
}

#[test]
fn packed_elements_that_fill_bytes_stay_packed() {
    let placed = place(&with(vec![tensor("t", DType::F4E2m1, &[2, 3])]), &[]).unwrap();
    assert_eq!(
        (placed.placements[0].encoding.packing, placed.placements[0].extents[0].len),
        (Packing::Bits, 3)
    );
    assert!(placed.losses.is_empty());
}

#[test]
fn dtypes_without_a_holder_have_no_place_but_an_object_graph_is_kept_in_the_metadata() {
    let mut strings = tensor("s", DType::String, &[1]).with_role(Role::Counter);
    strings.lengths = Some([2].into());
    let mut object_graph = tensor("g", DType::String, &[]).with_role(Role::Bookkeeping);
    object_graph.lengths = Some([2].into());
    let mut checkpoint =
        with(vec![strings, object_graph, tensor("c", DType::C128, &[1]), tensor("w", DType::U8, &[1])]);
    checkpoint.metadata.insert("tf2", "object_graph", "…");
    let placed = place(&checkpoint, &[]).unwrap();
    let unplaced: Vec<&str> = placed.unplaced(&checkpoint).map(|(_, tensor)| tensor.name.as_str()).collect();
    assert_eq!(unplaced, ["s", "g", "c"]);
    assert_eq!(losses(&placed), [(LossKind::BookkeepingDropped, "g")]);
    assert_eq!(placed.losses[0].detail, "not stored as a tensor; a copy is in the metadata");
    assert_eq!(losses(&place(&checkpoint, &[("metadata", "none")]).unwrap()), []);
}

fn described() -> Checkpoint {
    let mut scaled = tensor("q", DType::I16, &[2]);
    scaled.quantization = Some(Quantization::Units { scale: 64.try_into().unwrap() });
    let mut weight = tensor("w", DType::F32, &[2, 3]).with_axes([Axis::In, Axis::Out]);
    weight.metadata.insert("tf2", "key", "layer/kernel/.ATTRIBUTES/VARIABLE_VALUE");
    let mut moment = tensor("m", DType::F32, &[2, 3]).with_role(Role::Optimizer);
    moment.slot = Some(Box::new(Slot { variable: "w".into(), name: "m".into() }));
    let mut checkpoint = with(vec![scaled, weight, moment]);
    let node = Node::new("fc", Op::Gemm).parameter("weight", "w");
    checkpoint.graph = Some(Graph::sequential("mlp", vec![None, Some(2)], vec![None, Some(3)], vec![node]));
    checkpoint.metadata.insert("nn", "json", "{}");
    checkpoint.metadata.insert("safetensors", "format", "pt");
    checkpoint
}

#[test]
fn all_that_a_checkpoint_says_comes_back_from_a_file_and_from_a_set() {
    let checkpoint = described();
    for given in [&[][..], &[("shard_size", "8")]] {
        let placed = place(&checkpoint, given).unwrap();
        assert!(placed.losses.is_empty());
        let files = zeros(&placed);
        assert_eq!(files.len(), if given.is_empty() { 1 } else { 4 });
        let (contents, _) = read("", files).unwrap();
        assert_eq!(contents.checkpoint, checkpoint);
        assert!(contents.notes.is_empty(), "{:?}", contents.notes);
    }
}

#[test]
fn without_metadata_every_aspect_is_left_out_with_what_is_no_text_of_its_own() {
    let mut checkpoint = described();
    checkpoint.metadata.insert("safetensors", "epoch", 3);
    let placed = place(&checkpoint, &[("metadata", "none")]).unwrap();
    assert!(placed.left_out.keys().eq(ckpt_api::Aspect::ALL));
    assert_eq!(losses(&placed), [(LossKind::MetadataDropped, "safetensors")]);
    let (contents, _) = read("m.safetensors", zeros(&placed)).unwrap();
    assert_eq!(contents.checkpoint.metadata.text("safetensors", "format"), Some("pt"));
    assert!(contents.checkpoint.graph.is_none() && contents.checkpoint.metadata.namespace("nn").is_none());
}

#[test]
fn the_framework_that_is_asked_for_is_named_in_every_file_and_replaces_another() {
    let mut checkpoint = with(vec![tensor("a", DType::U8, &[10]), tensor("b", DType::U8, &[10])]);
    checkpoint.metadata.insert("safetensors", "format", "tf");
    for (given, count) in [(&[("format", "pt")][..], 1), (&[("format", "pt"), ("shard_size", "10")], 2)] {
        let placed = place(&checkpoint, given).unwrap();
        let headers = placed.literals.iter().filter(|block| block.offset == 0);
        let named = headers.filter(|block| {
            String::from_utf8_lossy(&block.bytes).contains(r#""__metadata__":{"format":"pt"}"#)
        });
        assert_eq!(named.count(), count);
    }
}

#[test]
fn a_graph_that_cannot_come_back_is_a_loss() {
    let mut dangling = described();
    dangling.tensors[1].dtype = DType::C128;
    assert!(losses(&place(&dangling, &[]).unwrap()).contains(&(LossKind::GraphDropped, "mlp")));
}

#[test]
fn a_graph_with_numbers_that_json_lacks_is_no_loss() {
    let mut infinite = described();
    let graph = infinite.graph.as_mut().unwrap();
    graph.nodes[0].attributes.insert("alpha".into(), ckpt_api::Attribute::Float(f64::INFINITY));
    assert!(!losses(&place(&infinite, &[]).unwrap()).contains(&(LossKind::GraphDropped, "mlp")));
}

/// A file with this text under the key `ckpt`.
fn carrying(text: &str) -> Vec<u8> {
    let text = serde_json::Value::from(text);
    let tensors = [entry("w", "U8", "[2,1]", 0, 2), entry("x", "U8", "[]", 2, 3)].join(",");
    file(&format!(r#"{{"__metadata__":{{"ckpt":{text}}},{tensors}}}"#), &[0; 3])
}

#[test]
fn what_was_edited_since_is_left_out_with_a_note() {
    let text = r#"{"version":1,
        "graph":{"inputs":[],"outputs":[],"nodes":[{"name":"fc","op":"Gemm","inputs":[],"outputs":[],"parameters":{"weight":"gone"}}]},
        "metadata":{"nn":{"a":1}},
        "tensors":[{"name":"gone"},{"name":"x","role":"counter","slot":{"variable":"gone","name":"m"}},{"name":"w","shape":[1,2],"axes":["in","out"]}]}"#;
    let (contents, _) = read_one(&carrying(text)).unwrap();
    let names: Vec<&str> = contents.checkpoint.tensors.iter().map(|tensor| tensor.name.as_str()).collect();
    assert_eq!(names, ["x", "w"]);
    assert_eq!(contents.checkpoint.tensors[0].role, Role::Counter);
    assert_eq!(contents.checkpoint.tensors[0].slot, None);
    assert_eq!(contents.checkpoint.tensors[1].axes, None);
    assert!(contents.checkpoint.graph.is_none() && contents.checkpoint.metadata.namespace("nn").is_some());
    assert_eq!(contents.notes.len(), 3, "{:?}", contents.notes);
}

#[test]
fn a_part_that_is_not_understood_is_left_out_and_the_others_stay() {
    let text = r#"{"version":1,"graph":7,"metadata":{"nn":{"a":1}},"tensors":[{"name":"w","axes":["sideways","out"]}]}"#;
    let (contents, _) = read_one(&carrying(text)).unwrap();
    assert_eq!(contents.notes.len(), 2, "{:?}", contents.notes);
    assert!(contents.checkpoint.metadata.value("nn", "a").is_some());
}

#[test]
fn a_text_that_is_not_ours_is_kept_as_it_is() {
    for text in ["", "{", "[]", "{}", r#"{"version":2}"#, r#"{"version":"1"}"#, "\u{0}"] {
        let (contents, values) = read_one(&carrying(text)).unwrap();
        assert_eq!(contents.checkpoint.metadata.text("safetensors", "ckpt"), Some(text));
        assert_eq!(contents.notes.len(), 1, "{text}");
        let none = pairs(&[("metadata", "none")]);
        let written =
            ckpt_conformance::write(&Safetensors, &contents.checkpoint, &values, "m", &none).unwrap();
        assert_eq!(read_one(&written["m"]).unwrap().0.checkpoint, contents.checkpoint);
    }
}

#[test]
fn shards_that_disagree_about_a_key_are_noted() {
    let shard = |name: &str, value: &str| {
        file(&format!(r#"{{"__metadata__":{{"k":"{value}"}},{}}}"#, entry(name, "U8", "[1]", 0, 1)), &[0])
    };
    let index = r#"{"metadata":{"total_size":7},"weight_map":{"a":"1.safetensors","b":"2.safetensors"}}"#;
    let all = files([
        ("1.safetensors", shard("a", "x")),
        ("2.safetensors", shard("b", "y")),
        ("i.json", index.as_bytes().to_vec()),
    ]);
    let (contents, _) = read("i.json", all).unwrap();
    assert_eq!(contents.checkpoint.metadata.text("safetensors", "k"), Some("x"));
    assert_eq!(contents.notes.len(), 2, "{:?}", contents.notes);
}
