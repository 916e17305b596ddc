//! The contract's checks over files of every shape that the format has.

use crate::common::{data, entry, file, files, set};
use ckpt_api::DType;
use ckpt_conformance::Sample;
use ckpt_safetensors::Safetensors;

fn single(name: &'static str, header: &str, len: usize) -> Sample {
    Sample::new(name, "m.safetensors", files([("m.safetensors", file(header, &data(len)))]))
}

fn plain() -> Sample {
    let pairs = r#""__metadata__":{"format":"pt","author":"ä \"quoted\""}"#;
    let tensors = [entry("w", "F32", "[2,3]", 0, 24), entry("b", "F16", "[1]", 24, 26)];
    single("pairs and two tensors", &format!("{{{pairs},{}}}", tensors.join(",")), 26)
        .tensor("w", DType::F32, &[2, 3], &data(26)[..24])
        .tensor("b", DType::F16, &[1], &data(26)[24..])
}

/// As other tools write it.
fn usual() -> Sample {
    let header = format!("{{{},{}}}", entry("b", "F32", "[1]", 0, 4), entry("a", "U8", "[4]", 4, 8));
    let padded = format!("{header:<0$}", header.len().next_multiple_of(8));
    single("a padded header without spaces", &padded, 8).tensor("b", DType::F32, &[1], &data(8)[..4]).tensor(
        "a",
        DType::U8,
        &[4],
        &data(8)[4..],
    )
}

const REWRITTEN: &str = "the writer sorts the header's entries, leaves spaces out, and pads it";

fn described() -> Sample {
    let ckpt = serde_json::json!({
        "version": 1,
        "graph": {
            "name": "mlp",
            "inputs": [{"name": "input", "shape": [null, 3]}],
            "outputs": [{"name": "fc", "shape": [null, 2]}],
            "nodes": [{"name": "fc", "op": "Gemm", "inputs": ["input"], "outputs": ["fc"],
                "parameters": {"weight": "w"}, "attributes": {"alpha": 1.0, "k": 3, "pads": [1, 2], "t": "x"}}]
        },
        "metadata": {"nn": {"json": "{\"a\": 1}", "n": [1.5, null]}, "safetensors": {"ckpt": "theirs", "n": 5}},
        "tensors": [{"name": "step", "role": "counter"},
            {"name": "w", "shape": [2, 3], "axes": ["out", "in"], "quantisation": {"scale": 64}}]
    });
    let text = serde_json::Value::String(ckpt.to_string()).to_string();
    let tensors = [entry("w", "F32", "[2,3]", 0, 24), entry("step", "I64", "[]", 24, 32)];
    single(
        "graph, metadata, axes and roles",
        &format!(r#"{{"__metadata__":{{"ckpt":{text}}},{}}}"#, tensors.join(",")),
        32,
    )
    .tensor("w", DType::F32, &[2, 3], &data(32)[..24])
    .tensor("step", DType::I64, &[], &data(32)[24..])
    .ignoring("m.safetensors", .., "the text under the key 'ckpt' may have keys of a later version")
}

fn foreign_ckpt() -> Sample {
    let header = format!(r#"{{"__metadata__":{{"ckpt":"not ours"}},{}}}"#, entry("w", "U8", "[3]", 0, 3));
    single("somebody else's key 'ckpt'", &header, 3).tensor("w", DType::U8, &[3], data(3))
}

fn odd_shapes() -> Sample {
    let tensors = [
        entry("z_empty", "F32", "[0,4]", 0, 0),
        entry("scalar", "F64", "[]", 0, 8),
        entry("a_empty", "U8", "[0]", 8, 8),
        entry("", "BOOL", "[1,1,1]", 8, 9),
    ];
    single("scalars, empty tensors, an empty name, another order", &format!("{{{}}}", tensors.join(",")), 9)
        .tensor("z_empty", DType::F32, &[0, 4], [])
        .tensor("scalar", DType::F64, &[], &data(9)[..8])
        .tensor("a_empty", DType::U8, &[0], [])
        .tensor("", DType::Bool, &[1, 1, 1], &data(9)[8..])
}

fn packed() -> Sample {
    let tensors = [
        entry("f4", "F4", "[2,3]", 0, 3),
        entry("f6a", "F6_E2M3", "[4]", 3, 6),
        entry("f6b", "F6_E3M2", "[2,2]", 6, 9),
    ];
    single("packed elements", &format!("{{{}}}   ", tensors.join(",")), 9)
        .tensor("f4", DType::F4E2m1, &[2, 3], unpacked(&data(9)[..3], 4))
        .tensor("f6a", DType::F6E2m3, &[4], unpacked(&data(9)[3..6], 6))
        .tensor("f6b", DType::F6E3m2, &[2, 2], unpacked(&data(9)[6..], 6))
}

/// Each element in a byte of its own: elements begin with the lowest bits.
fn unpacked(packed: &[u8], bits: usize) -> Vec<u8> {
    let all: u32 = packed.iter().rev().fold(0, |all, byte| all << 8 | u32::from(*byte));
    (0..packed.len() * 8 / bits).map(|k| (all >> (k * bits) & ((1 << bits) - 1)) as u8).collect()
}

fn every_dtype() -> Sample {
    let sizes = [
        ("BOOL", 1),
        ("U8", 1),
        ("I8", 1),
        ("F8_E5M2", 1),
        ("F8_E4M3", 1),
        ("F8_E8M0", 1),
        ("F8_E4M3FNUZ", 1),
        ("F8_E5M2FNUZ", 1),
        ("I16", 2),
        ("U16", 2),
        ("F16", 2),
        ("BF16", 2),
        ("I32", 4),
        ("U32", 4),
        ("F32", 4),
        ("C64", 8),
        ("F64", 8),
        ("I64", 8),
        ("U64", 8),
    ];
    let mut end = 0;
    let tensors = sizes.map(|(dtype, size)| {
        let start = end;
        end += 2 * size;
        entry(dtype, dtype, "[2]", start, end)
    });
    let data = data(end as usize);
    let mut values = data.as_slice();
    let sample = single("every dtype in whole bytes", &format!("{{{}}}", tensors.join(",")), data.len());
    sizes.into_iter().fold(sample, |sample, (name, size)| {
        let (value, rest) = values.split_at(2 * size as usize);
        values = rest;
        sample.tensor(name, DType::from_name(&name.to_lowercase()).unwrap(), &[2], value)
    })
}

fn no_tensors() -> Sample {
    single("no tensors", "{}", 0).without_tensors()
}

fn sharded() -> Sample {
    let metadata =
        r#"{"total_size":30,"total_parameters":9,"ckpt":"{\"version\":1,\"metadata\":{\"nn\":{\"a\":1}}}"}"#;
    of_set(Sample::new("a sharded set", "m.safetensors.index.json", set(metadata)))
        .writing("shard_size", "20")
}

fn set_to_single() -> Sample {
    of_set(Sample::new("a directory with an index, written as one file", "", set(r#"{"a":[1]}"#)))
        .written_as("m.safetensors")
        .rewritten("a set becomes one file")
}

/// The tensors of [`set`].
fn of_set(sample: Sample) -> Sample {
    sample
        .tensor("a", DType::F32, &[2, 2], &data(22)[..16])
        .tensor("b", DType::Bf16, &[3], &data(22)[16..])
        .tensor("c", DType::I64, &[], data(8))
}

fn directory() -> Sample {
    let mut sample = plain();
    sample.name = "a directory with one file";
    sample.entry = String::new();
    sample
}

#[test]
fn the_contract_holds_for_single_files() {
    let samples = [
        plain(),
        described(),
        foreign_ckpt(),
        odd_shapes(),
        packed(),
        every_dtype(),
        no_tensors(),
        directory(),
    ];
    ckpt_conformance::check(&Safetensors, &samples.map(|sample| sample.rewritten(REWRITTEN)));
    ckpt_conformance::check(&Safetensors, &[usual()]);
}

#[test]
fn the_contract_holds_for_sharded_sets() {
    ckpt_conformance::check(&Safetensors, &[sharded().rewritten(REWRITTEN), set_to_single()]);
}
