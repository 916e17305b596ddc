//! What is written.

use super::build::{Build, F32, Q8_0, array, floats, key, q8_0, read_all, tensor};
use ckpt_api::{
    Blocks, Checkpoint, Codec, DType, Kind, LossKind, Metadata, Options, OutputLayout, Placement, Result,
    Shape, Side, Tensor,
};
use ckpt_gguf::Gguf;

pub fn checkpoint(tensors: Vec<Tensor>) -> Checkpoint {
    Checkpoint { tensors, ..Checkpoint::default() }
}

pub fn named(name: &str, dtype: DType, dims: &[u64]) -> Tensor {
    Tensor::new(name, dtype, Shape::new(dims).unwrap())
}

pub fn place(checkpoint: &Checkpoint, name: &str, options: &[(&str, &str)]) -> Result<OutputLayout> {
    let pairs: Vec<(String, String)> =
        options.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let options = Options::parse("gguf", Gguf.info().options, Side::Write, &pairs)?;
    let placed = Gguf.place(checkpoint, name, &options)?;
    placed.check(checkpoint)?;
    Ok(placed)
}

/// The dtypes that the tensors are stored with.
fn dtypes(placed: &OutputLayout) -> Vec<DType> {
    placed.placements.iter().map(|placement| placement.encoding.dtype).collect()
}

/// Files of zeros.
pub fn zeros(placed: &OutputLayout) -> std::collections::BTreeMap<String, Vec<u8>> {
    let mut files: Vec<Vec<u8>> =
        placed.files.iter().map(|file| vec![0; file.len.unwrap() as usize]).collect();
    for literal in &placed.literals {
        files[literal.file.0][literal.offset as usize..][..literal.bytes.len()]
            .copy_from_slice(&literal.bytes);
    }
    placed.files.iter().map(|file| file.name.clone()).zip(files).collect()
}

#[test]
fn a_dtype_that_gguf_lacks_is_stored_as_one_that_holds_its_values_or_not_at_all() {
    let all = [DType::F64, DType::U8, DType::U16, DType::U32, DType::Bool, DType::U64, DType::F8E4m3];
    let tensors = all.iter().map(|dtype| named(dtype.name(), *dtype, &[2])).collect();
    let placed = place(&checkpoint(tensors), "m.gguf", &[]).unwrap();
    assert_eq!(dtypes(&placed), [DType::F64, DType::I16, DType::I32, DType::I64, DType::F16]);
}

#[test]
fn five_axes_and_names_of_64_bytes_are_refused() {
    let error = |tensor| place(&checkpoint(vec![tensor]), "m.gguf", &[]).unwrap_err();
    assert_eq!(error(named("w", DType::F32, &[1; 5])).kind(), Kind::Unsupported);
    assert!(error(named(&"w".repeat(64), DType::F32, &[1])).to_string().contains("64 bytes"));
    place(&checkpoint(vec![named(&"w".repeat(63), DType::F32, &[1; 4])]), "m.gguf", &[]).unwrap();
}

#[test]
fn a_type_applies_to_floats_of_two_axes_or_more() {
    let tensors = || {
        vec![
            named("w", DType::F32, &[2, 3]),
            named("b", DType::F32, &[3]),
            named("i", DType::I32, &[2, 2]),
            named("h", DType::Bf16, &[2, 2]),
        ]
    };
    let placed = place(&checkpoint(tensors()), "m.gguf", &[("type", "f16")]).unwrap();
    assert_eq!(dtypes(&placed), [DType::F16, DType::F32, DType::I32, DType::F16]);
}

#[test]
fn a_tensor_of_one_axis_is_f32_with_any_type_unless_the_user_names_its_dtype() {
    let tensors = vec![
        named("blk.0.attn_norm.weight", DType::Bf16, &[4]),
        named("blk.0.attn_q.bias", DType::F16, &[4]),
        named("blk.0.ffn_gate_inp.weight", DType::Bf16, &[2, 4]),
    ];
    for name in ["f32", "f16", "bf16", "q8_0", "q4_0"] {
        let placed = place(&checkpoint(tensors.clone()), "m.gguf", &[("type", name)]).unwrap();
        assert_eq!(dtypes(&placed), [DType::F32; 3], "{name}");
    }
    let placed = place(&checkpoint(tensors.clone()), "m.gguf", &[]).unwrap();
    assert_eq!(dtypes(&placed), [DType::Bf16, DType::F16, DType::Bf16]);
    let options = [("type".to_owned(), "bf16".to_owned())];
    let info = Gguf.info();
    let options = Options::parse(info.id, info.options, Side::Write, &options).unwrap();
    let placed = Gguf.place(&checkpoint(tensors), "m.gguf", &options.with_dtype(Some(DType::Bf16))).unwrap();
    assert_eq!(dtypes(&placed), [DType::Bf16, DType::F32, DType::Bf16]);
}

#[test]
fn what_llama_cpp_does_not_load_is_a_loss() {
    let unloadable = |pairs: &[(&str, &str)]| {
        let mut checkpoint = checkpoint(vec![named("blk.0.attn_norm.weight", DType::Bf16, &[4])]);
        for (key, value) in pairs {
            checkpoint.metadata.insert("gguf", key, *value);
        }
        let placed = place(&checkpoint, "m.gguf", &[]).unwrap();
        let losses = placed.losses.into_iter().filter(|loss| loss.kind == LossKind::Unloadable);
        losses.map(|loss| loss.subject).collect::<Vec<_>>()
    };
    assert_eq!(unloadable(&[]), ["general.architecture"]);
    let llama = unloadable(&[("general.architecture", "llama"), ("tokenizer.ggml.model", "gpt2")]);
    assert_eq!(llama.len(), 7, "six keys, and a norm that is no f32: {llama:?}");
    assert!(llama.contains(&"blk.0.attn_norm.weight".to_owned()));
    assert_eq!(unloadable(&[("general.architecture", "flux")]), [""; 0]);
}

#[test]
fn a_shape_that_a_key_states_is_the_tensors_and_the_file_comes_back() {
    let file = Build::new(
        vec![key(
            "comfy.gguf.orig_shape.w",
            9,
            array(5, 5, [2i32, 1, 4, 1, 2].map(i32::to_le_bytes).concat()),
        )],
        vec![tensor("w", &[4, 4], F32, vec![7; 64])],
    );
    let contents = read_all("m.gguf", [("m.gguf".to_owned(), file.bytes())].into(), &[]).unwrap();
    assert_eq!(contents.checkpoint.tensors[0].shape[..], [2, 1, 4, 1, 2]);
    let placed = place(&contents.checkpoint, "m.gguf", &[]).unwrap();
    let header = placed.literals[0].bytes.len();
    assert_eq!(placed.literals[0].bytes, file.bytes()[..header]);
}

#[test]
fn a_type_of_blocks_applies_to_whole_rows_and_leaves_the_rest_as_llama_cpp_does() {
    let tensors = vec![
        named("blk.0.attn_q.weight", DType::Bf16, &[2, 64]),
        named("b", DType::F16, &[64]),
        named("i", DType::I32, &[2, 32]),
        named("odd", DType::F32, &[2, 33]),
        named("half", DType::F16, &[2, 33]),
        named("blk.0.attn_q_norm.weight", DType::F32, &[2, 32]),
        named("token_types.weight", DType::F16, &[2, 32]),
        named("empty", DType::F32, &[2, 0]),
    ];
    for (name, of_blocks) in [("q8_0", "gguf.Q8_0"), ("q4_0", "gguf.Q4_0"), ("q5_1", "gguf.Q5_1")] {
        let placed = place(&checkpoint(tensors.clone()), "m.gguf", &[("type", name)]).unwrap();
        let kinds = placed.placements.iter().map(|Placement { encoding, .. }| {
            encoding.blocks().map_or(encoding.dtype.name(), |blocks| blocks.name()).to_owned()
        });
        let expected = [of_blocks, "f32", "i32", "f16", "f16", "f32", "f32", of_blocks];
        assert_eq!(kinds.collect::<Vec<_>>(), expected);
        let narrowed = placed.losses.iter().filter(|loss| loss.kind == LossKind::Narrowed);
        assert_eq!(narrowed.map(|loss| loss.subject.as_str()).collect::<Vec<_>>(), ["odd"]);
    }
    let mut big = checkpoint(tensors);
    big.metadata.insert("gguf.file", "endian", "big");
    let placed = place(&big, "m.gguf", &[("type", "q4_1")]).unwrap();
    assert_eq!(placed.placements[0].encoding.blocks().unwrap().name(), "gguf.Q4_1.big_endian");
}

#[test]
fn blocks_of_gguf_stay_and_those_of_other_formats_do_not() {
    let file = Build::new(vec![], vec![tensor("q", &[32, 2], Q8_0, q8_0().0)]);
    let contents = read_all("m.gguf", [("m.gguf".to_owned(), file.bytes())].into(), &[]).unwrap();
    let blocks = contents.placements[0].encoding.blocks().cloned();
    let with = |blocks: Option<Blocks>| {
        let mut tensor = named("q", DType::F32, &[2, 32]);
        tensor.blocks = blocks.map(Box::new);
        place(&checkpoint(vec![tensor]), "m.gguf", &[]).unwrap().placements[0].encoding.blocks().cloned()
    };
    assert_eq!(with(blocks.clone()), blocks);
    assert_eq!(with(Some(Blocks::opaque("toy.q8", 32, 34))), None);
}

#[test]
fn a_set_has_the_keys_in_its_first_file_and_its_alignment_in_all() {
    let tensors = (0..4).map(|number| named(&format!("w{number}"), DType::F32, &[16])).collect();
    let mut metadata = Metadata::default();
    metadata.insert("gguf", "general.architecture", "llama");
    metadata.insert("gguf", "general.alignment", 64u32);
    let checkpoint = Checkpoint { metadata, ..checkpoint(tensors) };
    let placed = place(&checkpoint, "m.gguf", &[("shard_size", "130")]).unwrap();
    let names = ["m-00001-of-00002.gguf", "m-00002-of-00002.gguf"];
    assert_eq!(placed.files.iter().map(|file| file.name.as_str()).collect::<Vec<_>>(), names);
    assert_eq!(placed.readings[0].entry, names[0]);
    let read = read_all(names[0], zeros(&placed), &[]).unwrap();
    assert_eq!(read.checkpoint, checkpoint);
    assert_eq!(read.notes, [""; 0]);
    let second = zeros(&placed).remove(names[1]).unwrap();
    assert!(!second.windows(12).any(|bytes| bytes == b"architecture"));
    assert_eq!(place(&checkpoint, "m.gguf", &[("shard_size", "1k")]).unwrap().files[0].name, "m.gguf");
    assert_eq!(place(&checkpoint, "m.gguf", &[("shard_size", "0")]).unwrap_err().kind(), Kind::Usage);
}

#[test]
fn a_set_of_one_file_keeps_its_keys_while_they_are_true() {
    let keys = vec![
        key("split.no", 2, 0u16.to_le_bytes()),
        key("split.tensors.count", 5, 1i32.to_le_bytes()),
        key("split.count", 2, 1u16.to_le_bytes()),
    ];
    let file = Build::new(keys, vec![tensor("w", &[8], F32, floats(&[0.0; 8]))]);
    let name = "m-00001-of-00001.gguf";
    let contents = read_all(name, [(name.to_owned(), file.bytes())].into(), &[]).unwrap();
    let mut checkpoint = contents.checkpoint;
    assert!(zeros(&place(&checkpoint, name, &[]).unwrap()).remove(name).unwrap() == file.bytes());
    checkpoint.tensors.push(named("v", DType::F32, &[8]));
    let placed = place(&checkpoint, name, &[]).unwrap();
    assert!(!placed.literals[0].bytes.windows(6).any(|bytes| bytes == b"split."));
}

#[test]
fn padding_that_is_not_zero_is_written_again() {
    let tensors = vec![
        tensor("a", &[3], F32, floats(&[1.0, 2.0, 3.0])),
        tensor("b", &[8], F32, floats(&[0.0; 8])),
        tensor("c", &[1], F32, floats(&[4.0])),
    ];
    let file = Build::new(vec![], tensors);
    let mut bytes = file.bytes();
    let header = file.header(3, 0).len();
    let data = header.next_multiple_of(32);
    for at in [header, data - 1, data + 12, data + 31, data + 64 + 4] {
        bytes[at] = 0xab;
    }
    let contents = read_all("m.gguf", [("m.gguf".to_owned(), bytes.clone())].into(), &[]).unwrap();
    let placed = place(&contents.checkpoint, "m.gguf", &[]).unwrap();
    let mut written = zeros(&placed).remove("m.gguf").unwrap();
    for (from, to) in contents.placements.iter().zip(&placed.placements) {
        let [from, to] = [from, to].map(|placement| {
            let extent = &placement.extents[0];
            extent.offset as usize..(extent.offset + extent.len) as usize
        });
        written[to].copy_from_slice(&bytes[from]);
    }
    assert!(written == bytes);
    // Behind a header of another length, the padding between it and the data would be other bytes.
    let mut longer = contents.checkpoint.clone();
    longer.metadata.insert("gguf", "key", 1u8);
    let placed = place(&longer, "m.gguf", &[]).unwrap();
    let header = placed.literals.iter().find(|literal| literal.offset == 0).unwrap();
    assert!(!header.bytes.contains(&0xab));
}

#[test]
fn metadata_comes_from_another_file_and_from_json() {
    let folder = std::env::temp_dir().join(format!("ckpt-gguf-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let keys = vec![key("a", 4, 1u32.to_le_bytes()), key("b", 4, 2u32.to_le_bytes())];
    let like = Build::new(keys, vec![tensor("x", &[1], F32, floats(&[0.0]))]);
    std::fs::write(path("like.gguf"), like.bytes()).unwrap();
    std::fs::write(path("more.json"), r#"{"b": null, "c": [1, 2]}"#).unwrap();
    let mut metadata = Metadata::default();
    metadata.insert("gguf", "own", 7u8);
    let checkpoint = Checkpoint { metadata, ..checkpoint(vec![named("w", DType::F32, &[2])]) };
    let written = |options: &[(&str, &str)]| {
        let placed = place(&checkpoint, "m.gguf", options).unwrap();
        let read = read_all("m.gguf", zeros(&placed), &[]).unwrap();
        let pairs = read.checkpoint.metadata.namespace("gguf").cloned().unwrap_or_default();
        pairs.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(written(&[]), r#"own={"$u8":7}"#);
    assert_eq!(written(&[("like", &path("like.gguf"))]), r#"a={"$u32":1} b={"$u32":2}"#);
    let both = [("like", &*path("like.gguf")), ("metadata", &*path("more.json"))];
    assert_eq!(written(&both), r#"a={"$u32":1} c=[{"$i32":1},{"$i32":2}]"#);
    assert!(place(&checkpoint, "m.gguf", &[("metadata", &path("none.json"))]).is_err());
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_value_that_gguf_has_no_type_for_is_refused_by_its_key() {
    let mixed = vec![ckpt_api::MetadataValue::U8(1), "a".into()];
    for value in
        [ckpt_api::MetadataValue::Null, ckpt_api::MetadataValue::List(mixed), Vec::<u8>::new().into()]
    {
        let mut metadata = Metadata::default();
        metadata.insert("gguf", "k.odd", value);
        let error = place(&Checkpoint { metadata, ..checkpoint(vec![]) }, "m.gguf", &[]).unwrap_err();
        assert!(error.kind() == Kind::Unsupported && error.to_string().contains("k.odd"), "{error}");
    }
}

#[test]
fn an_alignment_that_makes_a_small_file_huge_is_refused() {
    let mut checkpoint = checkpoint(vec![named("w", DType::F32, &[2])]);
    for (alignment, is_written) in [(1u32 << 20, true), (1 << 21, false)] {
        let mut metadata = Metadata::default();
        metadata.insert("gguf", "general.alignment", alignment);
        checkpoint.metadata = metadata;
        let placed = place(&checkpoint, "m.gguf", &[]);
        assert_eq!(placed.as_ref().err().map(ckpt_api::Error::kind), (!is_written).then_some(Kind::Limit));
    }
}
