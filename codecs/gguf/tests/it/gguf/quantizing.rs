//! Files as llama.cpp's quantizer writes them, and rules of the user's own.

use super::build::{Build, Q8_0, q8_0, read_all, tensor};
use super::writing::{checkpoint, named, place, zeros};
use ckpt_api::{Checkpoint, DType, Kind, LossKind, OutputLayout, Tensor};
use std::fs;

/// A llama of eight layers, whose keys a file has in another order than llama.cpp writes them.
fn llama(tensors: Vec<Tensor>) -> Checkpoint {
    let mut checkpoint = checkpoint(tensors);
    let metadata = &mut checkpoint.metadata;
    metadata.insert("gguf", "general.file_type", 1u32);
    metadata.insert("gguf", "general.architecture", "llama");
    metadata.insert("gguf", "llama.block_count", 8u32);
    metadata.insert("gguf", "llama.attention.head_count", 8u32);
    checkpoint
}

/// The names of the tensors, each with its type, in the order of the file.
fn kinds(placed: &OutputLayout) -> Vec<String> {
    let kind = |placement: &ckpt_api::Placement| {
        let encoding = &placement.encoding;
        let kind = encoding.blocks().map_or(encoding.dtype.name(), |blocks| blocks.name()).to_owned();
        format!("{} {}", placement.name, kind.trim_start_matches("gguf."))
    };
    placed.placements.iter().map(kind).collect()
}

#[test]
fn a_mix_writes_tensors_by_layer_and_its_keys_behind_the_others() {
    let of = |name, lens: &[u64]| named(name, DType::F16, lens);
    let checkpoint = llama(vec![
        of("blk.7.ffn_down.weight", &[4, 256]),
        of("output.weight", &[4, 256]),
        of("blk.1.attn_v.weight", &[4, 256]),
        of("blk.0.attn_v.weight", &[4, 256]),
        of("blk.0.attn_norm.weight", &[256]),
        of("blk.0.ffn_gate.weight", &[4, 256]),
        of("token_embd.weight", &[4, 256]),
    ]);
    let placed = place(&checkpoint, "m.gguf", &[("type", "Q4_K_M")]).unwrap();
    let expected = [
        "output.weight Q6_K",
        "token_embd.weight Q4_K",
        "blk.0.attn_norm.weight f32",
        "blk.0.attn_v.weight Q4_K",
        "blk.0.ffn_gate.weight Q4_K",
        "blk.1.attn_v.weight Q6_K",
        "blk.7.ffn_down.weight Q6_K",
    ];
    // Of two tensors of values, the second is in the last eighth, and the first is not in the first.
    assert_eq!(kinds(&placed), expected);
    let read = read_all("m.gguf", zeros(&placed), &[]).unwrap();
    let keys: Vec<&str> =
        read.checkpoint.metadata.namespace("gguf").unwrap().iter().map(|(key, _)| key).collect();
    assert_eq!(keys[0], "general.architecture");
    assert_eq!(keys[3..], ["general.quantization_version", "general.file_type"]);
    assert_eq!(read.checkpoint.metadata.value("gguf", "general.file_type").unwrap().as_u64(), Some(15));
}

#[test]
fn rows_that_fill_no_block_of_256_get_blocks_of_32_or_halves() {
    let of = |name, row| named(name, DType::F32, &[2, row]);
    let tensors =
        || vec![of("output.weight", 96), of("blk.0.attn_q.weight", 96), of("blk.0.attn_k.weight", 33)];
    for (mix, output, query) in [
        ("q2_k", "Q8_0", "Q4_0"),
        ("q3_k_s", "Q8_0", "Q4_0"),
        ("q4_k_s", "Q8_0", "Q5_0"),
        ("q5_k_s", "Q8_0", "Q5_1"),
        ("q6_k", "Q8_0", "Q8_0"),
        ("iq4_xs", "Q8_0", "IQ4_NL"),
        ("iq3_s", "Q8_0", "IQ4_NL"),
        // The blocks of IQ4_NL fit, so the output is to be Q6_K, whose blocks do not.
        ("iq4_nl", "Q8_0", "IQ4_NL"),
        ("tq1_0", "Q8_0", "Q4_0"),
    ] {
        let placed = place(&llama(tensors()), "m.gguf", &[("type", mix)]).unwrap();
        let expected = [
            format!("output.weight {output}"),
            "blk.0.attn_k.weight f16".to_owned(),
            format!("blk.0.attn_q.weight {query}"),
        ];
        assert_eq!(kinds(&placed), expected, "{mix}");
        let narrowed = placed.losses.iter().filter(|loss| loss.kind == LossKind::Narrowed);
        assert_eq!(narrowed.map(|loss| &*loss.subject).collect::<Vec<_>>(), ["blk.0.attn_k.weight"]);
    }
}

#[test]
fn what_llama_cpp_does_not_quantize_keeps_its_type_in_a_mix() {
    let file = Build::new(vec![], vec![tensor("blk.0.time_mix_w1.weight", &[32, 2], Q8_0, q8_0().0)]);
    let contents = read_all("m.gguf", [("m.gguf".to_owned(), file.bytes())].into(), &[]).unwrap();
    let mut tensors = contents.checkpoint.tensors;
    tensors.push(named("blk.0.cross.proj", DType::Bf16, &[4, 256]));
    tensors.push(named("blk.0.gate.weight", DType::F16, &[1, 256]));
    tensors.push(named("blk.0.ids.weight", DType::I32, &[4, 256]));
    let placed = place(&checkpoint(tensors), "m.gguf", &[("type", "q6_k")]).unwrap();
    let expected = [
        "blk.0.cross.proj bf16",
        "blk.0.gate.weight f16",
        "blk.0.ids.weight i32",
        "blk.0.time_mix_w1.weight Q8_0",
    ];
    assert_eq!(kinds(&placed), expected);
}

#[test]
fn a_mix_names_the_key_of_the_model_that_it_needs() {
    let tensors = vec![named("blk.0.ffn_down.weight", DType::F16, &[4, 256])];
    let error = place(&checkpoint(tensors.clone()), "m.gguf", &[("type", "q4_k_m")]).unwrap_err();
    let text = error.to_string();
    assert!(error.kind() == Kind::Usage && text.contains(".block_count"), "{text}");
    place(&checkpoint(tensors), "m.gguf", &[("type", "q6_k")]).unwrap();
}

#[test]
fn rules_choose_types_before_a_mix_or_alone() {
    let folder = std::env::temp_dir().join(format!("ckpt-gguf-rules-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join("types.toml").to_str().unwrap().to_owned();
    let of = |name| named(name, DType::F16, &[4, 256]);
    let checkpoint =
        llama(vec![of("blk.0.attn_q.weight"), of("blk.0.attn_k.weight"), of("blk.0.attn_q_norm.weight")]);
    let with = |rules: &str, options: &[(&str, &str)]| {
        fs::write(&path, rules).unwrap();
        place(&checkpoint, "m.gguf", &[options, &[("types", &*path)]].concat())
    };
    let rule = "[[rules]]\npattern = 'blk.*.attn_q*.weight'\ntype = 'q3_k'\n";
    assert_eq!(
        kinds(&with(rule, &[]).unwrap()),
        ["blk.0.attn_q.weight Q3_K", "blk.0.attn_k.weight f16", "blk.0.attn_q_norm.weight f16"]
    );
    assert_eq!(
        kinds(&with(rule, &[("type", "q4_k_s")]).unwrap()),
        ["blk.0.attn_k.weight Q4_K", "blk.0.attn_q.weight Q3_K", "blk.0.attn_q_norm.weight f32"]
    );
    assert_eq!(
        kinds(&with(rule, &[("type", "q8_0")]).unwrap()),
        ["blk.0.attn_q.weight Q3_K", "blk.0.attn_k.weight Q8_0", "blk.0.attn_q_norm.weight f32"]
    );
    let norms = "[[rules]]\npattern = '*_norm.weight'\ntype = 'q8_0'\n";
    let error = with(norms, &[]).err().unwrap().to_string();
    assert!(error.contains("'*_norm.weight'") && error.contains("keep their type"), "{error}");
    let error = with("[[rules]]\npattern = '**'\ntype = 'q9_0'\n", &[]).err().unwrap().to_string();
    assert!(error.contains("'q9_0'") && error.contains("types.toml"), "{error}");
    fs::remove_dir_all(folder).unwrap();
}
