//! Whole models: Hugging Face directories to GGUF files and back. `CKPT_CASES` names the folder with directories and the hashes of
//! the files that llama.cpp's converter writes.

use crate::common::{cases, npy};
use ckpt::store::MemoryStore;
use ckpt::verify::{DEFAULT_MEMORY, Inputs, RuleName, devices, run, verify};
use ckpt::{Conversion, OpenOptions, Registry, Source};
use ckpt_api::{DType, MetadataValue};
use ckpt_forward::{Array, Value as Tensor};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A directory with this configuration and matrices under these names.
fn directory(config: &Value, names: &[&str]) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("config.json"), config.to_string()).unwrap();
    let mut header = serde_json::Map::new();
    let mut end = 0;
    for name in names {
        let (shape, len) = if name.contains("norm") { (json!([4]), 16) } else { (json!([4, 4]), 64) };
        header.insert(
            (*name).to_owned(),
            json!({"dtype": "F32", "shape": shape, "data_offsets": [end, end + len]}),
        );
        end += len;
    }
    let header = Value::Object(header).to_string();
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.bytes());
    file.extend((0..end).map(|byte| (byte % 64) as u8));
    fs::write(directory.path().join("model.safetensors"), file).unwrap();
    directory
}

const NAMES: [&str; 12] = [
    "model.embed_tokens.weight",
    "model.norm.weight",
    "lm_head.weight",
    "model.layers.0.input_layernorm.weight",
    "model.layers.0.post_attention_layernorm.weight",
    "model.layers.0.self_attn.q_proj.weight",
    "model.layers.0.self_attn.k_proj.weight",
    "model.layers.0.self_attn.v_proj.weight",
    "model.layers.0.self_attn.o_proj.weight",
    "model.layers.0.mlp.gate_proj.weight",
    "model.layers.0.mlp.up_proj.weight",
    "model.layers.0.mlp.down_proj.weight",
];

fn llama() -> Value {
    json!({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4, "intermediate_size": 4,
        "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2, "max_position_embeddings": 64,
        "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "vocab_size": 4,
    })
}

fn converted(source: &Path, conversion: &Conversion) -> ckpt::Result<Source> {
    let (registry, memory) = (Registry::builtin(), MemoryStore::new());
    conversion.run(&registry, source, memory.at("model.gguf"))?;
    ckpt::open(memory.at("model.gguf"))
}

/// What the plan of a conversion to GGUF says.
fn notes(source: &Path) -> Vec<String> {
    let (registry, memory) = (Registry::builtin(), MemoryStore::new());
    let source = ckpt::open(source).unwrap();
    let planned = Conversion::new().plan(&registry, &source, memory.at("m.gguf")).unwrap();
    planned.plan().notes().map(str::to_owned).collect()
}

fn key<'a>(source: &'a Source, name: &str) -> Option<&'a MetadataValue> {
    source.checkpoint().metadata.value("gguf", name)
}

#[test]
fn every_directory_becomes_the_file_of_llama_cpps_converter_and_comes_back() {
    let Some(root) = cases("hf") else { return };
    let mut seen = 0;
    let mut directories: Vec<PathBuf> =
        fs::read_dir(&root).unwrap().map(|entry| entry.unwrap().path()).collect();
    directories.sort();
    for directory in directories.iter().filter(|path| path.join("expected.json").is_file()) {
        let expected: Value =
            serde_json::from_slice(&fs::read(directory.join("expected.json")).unwrap()).unwrap();
        let config: Value =
            serde_json::from_slice(&fs::read(directory.join("config.json")).unwrap()).unwrap();
        for (kind, outcome) in expected["outtypes"].as_object().unwrap() {
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("model.gguf");
            let conversion = Conversion::new().set("type", kind);
            conversion.run(&Registry::builtin(), directory.as_path(), file.as_path()).unwrap();
            let bytes = fs::read(&file).unwrap();
            let hash: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(hash, outcome["sha256"].as_str().unwrap(), "{} {kind}", directory.display());
            // In another dtype than the model's own, vectors hold numbers that matrices have no room for.
            let own = if config["dtype"] == "float32" { "f32" } else { "bf16" };
            if kind == own {
                let (back, again) = (folder.path().join("back"), folder.path().join("again.gguf"));
                ckpt::convert(file.as_path(), back.as_path()).unwrap();
                ckpt::convert(back.as_path(), again.as_path()).unwrap();
                assert!(fs::read(&again).unwrap() == bytes, "{} {kind}", directory.display());
            }
            seen += 1;
        }
    }
    assert!(seen >= 20, "{seen} files");
}

/// The logits of one text.
fn logits(source: &Source, ids: &[i32]) -> Vec<f64> {
    let ids = Tensor::new(vec![1, ids.len()], Array::I32(ids.to_vec())).unwrap();
    let inputs = Inputs { arrays: vec![(Some("input_ids".to_owned()), ids)], ..Inputs::default() };
    let mut cpu = devices::open("cpu", Default::default()).unwrap();
    let pass = run(&Registry::builtin(), source, &inputs, None, &mut *cpu, DEFAULT_MEMORY).unwrap();
    let (_, value) = pass.outputs.iter().find(|(name, _)| name == "logits").unwrap();
    value.array.to_f64()
}

#[test]
fn a_directory_and_its_file_compute_the_logits_of_transformers() {
    let Some(root) = cases("hf") else { return };
    let mut seen = 0;
    for directory in fs::read_dir(&root).unwrap().map(|entry| entry.unwrap().path()) {
        let Ok(expected) = fs::read(directory.join("expected.json")) else { continue };
        let expected: Value = serde_json::from_slice(&expected).unwrap();
        let ids: Vec<i32> = serde_json::from_value(expected["ids"].clone()).unwrap();
        let (_, expected) = npy(&fs::read(directory.join("logits.npy")).unwrap());
        let own = ckpt::open(directory.as_path()).unwrap();
        let file = converted(&directory, &Conversion::new().set("type", "f32")).unwrap();
        let largest = expected.iter().fold(0.0, |most: f64, logit| most.max(f64::from(logit.abs())));
        for source in [&own, &file] {
            let found = logits(source, &ids);
            assert_eq!(found.len(), expected.len());
            for (found, expected) in found.iter().zip(&expected) {
                let error = (found - f64::from(*expected)).abs() / largest;
                assert!(error <= 1e-5, "{}: {error}", directory.display());
            }
        }
        let report = verify(&Registry::builtin(), &own, &file, &Default::default()).unwrap();
        assert!(report.verdict.passes(), "{}", directory.display());
        assert_eq!(report.runs[0].rule.name, RuleName::Bits, "{}", directory.display());
        let blocks = converted(&directory, &Conversion::new().set("type", "q8_0")).unwrap();
        let report = verify(&Registry::builtin(), &own, &blocks, &Default::default()).unwrap();
        assert!(report.verdict.passes(), "{}", directory.display());
        assert_eq!(report.runs[0].rule.name, RuleName::Bound, "{}", directory.display());
        seen += 1;
    }
    assert!(seen >= 5, "{seen} directories");
}

#[test]
fn a_file_runs_as_its_directory_and_a_wrong_key_is_found_in_its_layer() {
    let mut config = llama();
    let own = directory(&config, &NAMES);
    let source = ckpt::open(own.path()).unwrap();
    let file = converted(own.path(), &Conversion::new()).unwrap();
    let report = verify(&Registry::builtin(), &source, &file, &Default::default()).unwrap();
    assert!(report.verdict.passes());
    assert_eq!((report.runs.len(), report.runs[0].rule.name), (1, RuleName::Bits));
    // The keys are a part of what the file computes.
    config["rms_norm_eps"] = json!(1e-2);
    let other = converted(directory(&config, &NAMES).path(), &Conversion::new()).unwrap();
    let report = verify(&Registry::builtin(), &source, &other, &Default::default()).unwrap();
    let first = report.runs[0].layers.iter().find(|layer| !layer.verdict.passes()).unwrap();
    assert_eq!(first.b.as_deref(), Some("layers.0.input_layernorm"));
}

#[test]
fn options_set_what_the_keys_of_a_file_do_not_state() {
    let (own, folder) = (directory(&llama(), &NAMES), tempfile::tempdir().unwrap());
    let (registry, file) = (Registry::builtin(), folder.path().join("model.gguf"));
    Conversion::new().run(&registry, own.path(), file.as_path()).unwrap();
    let mut options = OpenOptions::default();
    options.options = [("arch.model", "mistral"), ("arch.window", "3")]
        .map(|(key, value)| (key.into(), value.into()))
        .to_vec();
    let source = Source::open(&registry, file.as_path(), &options).unwrap();
    assert_eq!(logits(&source, &[0, 1, 2, 3, 0]).len(), 20);
}

#[test]
fn a_family_without_a_graph_is_refused_by_its_name() {
    let config = json!({"architectures": ["FooForCausalLM"], "model_type": "foo"});
    let own = directory(&config, &["a.weight"]);
    let source = ckpt::open(own.path()).unwrap();
    let other = ckpt::open(directory(&llama(), &NAMES).path()).unwrap();
    let mut cpu = devices::open("cpu", Default::default()).unwrap();
    let run =
        run(&Registry::builtin(), &source, &Inputs::default(), None, &mut *cpu, DEFAULT_MEMORY).map(|_| ());
    let compared = verify(&Registry::builtin(), &other, &source, &Default::default()).map(|_| ());
    for refused in [run, compared] {
        let error = refused.unwrap_err();
        assert_eq!(error.kind(), ckpt::Kind::Unsupported);
        assert_eq!((error.context().field, error.context().found), (Some("model_type"), Some("'foo'")));
    }
}

#[test]
fn keys_come_from_the_configuration_and_vectors_are_f32() {
    let directory = directory(&llama(), &NAMES);
    let model = converted(directory.path(), &Conversion::new().set("type", "bf16")).unwrap();
    assert_eq!(key(&model, "general.architecture").and_then(|value| value.as_text()), Some("llama"));
    assert_eq!(key(&model, "llama.block_count").and_then(|value| value.as_u64()), Some(1));
    assert_eq!(key(&model, "llama.rope.dimension_count").and_then(|value| value.as_u64()), Some(2));
    assert_eq!(key(&model, "general.file_type").and_then(|value| value.as_u64()), Some(32));
    let dtype = |name: &str| model.tensor(name).unwrap().dtype().name();
    assert_eq!((dtype("output_norm.weight"), dtype("blk.0.attn_q.weight")), ("f32", "bf16"));
}

#[test]
fn the_factors_of_llama_3s_frequencies_come_first() {
    let mut config = llama();
    config["rope_scaling"] = json!({
        "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    });
    let directory = directory(&config, &NAMES);
    let model = converted(directory.path(), &Conversion::new()).unwrap();
    let tensors = &model.checkpoint().tensors;
    assert_eq!((tensors[0].name.as_str(), &tensors[0].shape[..]), ("rope_freqs.weight", &[1][..]));
    assert_eq!(model.tensor("rope_freqs.weight").unwrap().read::<f32>().unwrap(), [1.0]);
}

#[test]
fn an_output_layer_that_is_the_embeddings_again_is_left_out_if_the_configuration_ties_them() {
    let mut config = llama();
    config["tie_word_embeddings"] = json!(true);
    // Matrices of a directory are equal if their distance is a multiple of 64 bytes.
    let mut equal = NAMES;
    equal.swap(1, 2);
    let output = |config: &Value, names: &[&str]| {
        let model = converted(directory(config, names).path(), &Conversion::new()).unwrap();
        model.tensor("output.weight").is_ok()
    };
    assert!(!output(&config, &equal));
    assert!(output(&config, &NAMES));
    assert!(output(&llama(), &equal));
}

#[test]
fn a_language_model_is_taken_out_of_a_larger_one() {
    let text = llama().as_object().unwrap().clone();
    let config = json!({
        "architectures": ["Mistral3ForConditionalGeneration"], "model_type": "mistral3",
        "text_config": Value::Object(text.into_iter().chain([("model_type".to_owned(), json!("mistral"))]).collect()),
    });
    let old = |name: &str| format!("language_model.{name}");
    let new = |name: &str| match name.strip_prefix("model.") {
        Some(rest) => format!("model.language_model.{rest}"),
        None => name.to_owned(),
    };
    for (names, tower) in
        [(NAMES.map(old), "vision_tower.ln_pre.weight"), (NAMES.map(new), "model.vision_tower.ln_pre.weight")]
    {
        let names: Vec<&str> = names.iter().map(String::as_str).chain([tower]).collect();
        let directory = directory(&config, &names);
        let notes = notes(directory.path());
        assert!(notes.iter().any(|note| note.contains(tower) && note.contains("mmproj")), "{notes:?}");
        let model = converted(directory.path(), &Conversion::new()).unwrap();
        assert_eq!(key(&model, "general.architecture").and_then(|value| value.as_text()), Some("mistral3"));
        assert_eq!(key(&model, "mistral3.attention.head_count").and_then(|value| value.as_u64()), Some(2));
        assert_eq!(model.checkpoint().tensors.len(), NAMES.len());
        assert!(model.tensor("blk.0.attn_q.weight").is_ok() && model.tensor("output.weight").is_ok());
    }
    let mut other = config;
    other["text_config"]["model_type"] = "mistral4".into();
    let error = converted(directory(&other, &["lm_head.weight"]).path(), &Conversion::new()).unwrap_err();
    assert_eq!(
        (error.kind(), error.context().field),
        (ckpt::Kind::Unsupported, Some("text_config.model_type"))
    );
}

#[test]
fn layers_behind_those_of_the_model_are_left_out_with_a_note() {
    let config = json!({
        "architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3", "hidden_size": 4, "intermediate_size": 4,
        "num_hidden_layers": 1, "num_attention_heads": 1, "max_position_embeddings": 64, "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0, "vocab_size": 4, "kv_lora_rank": 4, "qk_nope_head_dim": 1, "qk_rope_head_dim": 2,
        "v_head_dim": 3, "moe_intermediate_size": 4, "first_k_dense_replace": 1,
    });
    let kv = "model.layers.0.self_attn.kv_b_proj.weight";
    let names =
        ["model.embed_tokens.weight", kv, "model.layers.1.eh_proj.weight", "model.layers.1.enorm.weight"];
    let directory = directory(&config, &names);
    let notes = notes(directory.path());
    let says = "left out: 2 tensors of layers from 1 on";
    assert!(notes.iter().any(|note| note.starts_with(says) && note.contains("eh_proj")), "{notes:?}");
    let model = converted(directory.path(), &Conversion::new()).unwrap();
    assert_eq!(model.checkpoint().tensors.len(), 3);
    let number = |name: &str| key(&model, name).and_then(MetadataValue::as_u64);
    assert_eq!(number("deepseek2.attention.head_count_kv"), Some(1));
    assert_eq!(number("deepseek2.attention.key_length"), Some(6));
    assert_eq!(number("deepseek2.attention.key_length_mla"), Some(3));
    let shape = |name: &str| model.tensor(name).unwrap().shape().to_vec();
    assert_eq!(
        (shape("blk.0.attn_k_b.weight"), shape("blk.0.attn_v_b.weight")),
        (vec![1, 4, 1], vec![1, 3, 4])
    );
}

#[test]
fn a_scaling_that_the_file_has_no_key_for_is_noted() {
    for (class, is_noted) in [("StableLmForCausalLM", true), ("LlamaForCausalLM", false)] {
        let mut config = llama();
        config["architectures"] = json!([class]);
        config["rope_scaling"] = json!({"rope_type": "linear", "factor": 2.0});
        config["layer_norm_eps"] = json!(1e-5);
        config["use_parallel_residual"] = json!(false);
        config["partial_rotary_factor"] = json!(1.0);
        let notes = notes(directory(&config, &NAMES).path());
        let found = notes.iter().any(|note| note.contains("does not scale the rotary frequencies"));
        assert_eq!(found, is_noted, "{class}: {notes:?}");
    }
}

#[test]
fn a_configuration_that_lacks_a_key_is_named() {
    let mut config = llama();
    config.as_object_mut().unwrap().remove("vocab_size");
    let directory = directory(&config, &NAMES);
    let error = converted(directory.path(), &Conversion::new()).unwrap_err();
    assert_eq!(error.kind(), ckpt::Kind::Mapping);
    assert_eq!(error.context().field, Some("vocab_size"));
    assert!(error.context().file.unwrap().ends_with("config.json"), "{error}");
}

#[test]
fn a_configuration_that_contradicts_the_tensors_is_an_error_that_names_both() {
    let cases = [
        ("hidden_size", 8, "4, the last axis of 'token_embd.weight' [4, 4]"),
        ("vocab_size", 5, "4, the rows of 'token_embd.weight' [4, 4]"),
        ("num_hidden_layers", 2, "1, the number of blocks that have tensors"),
        ("intermediate_size", 6, "4, the last axis of 'blk.0.ffn_down.weight' [4, 4]"),
        ("head_dim", 0, "4, the rows of 'blk.0.attn_k.weight' [4, 4]"),
        ("num_key_value_heads", 1, "4, the rows of 'blk.0.attn_k.weight' [4, 4]"),
    ];
    for (key, value, expected) in cases {
        let mut config = llama();
        config[key] = json!(value);
        let error = converted(directory(&config, &NAMES).path(), &Conversion::new()).unwrap_err();
        assert_eq!(error.kind(), ckpt::Kind::Mapping, "{error}");
        assert_eq!(error.context().field, Some(key), "{error}");
        assert_eq!(error.context().expected.unwrap(), expected, "{error}");
        assert!(error.context().file.unwrap().ends_with("config.json"), "{error}");
    }
}

#[test]
fn an_unknown_family_is_named_and_its_tensors_keep_their_names() {
    let config = json!({"architectures": ["FooForCausalLM"], "model_type": "foo"});
    let directory = directory(&config, &["a.weight"]);
    let notes = notes(directory.path());
    assert!(notes.iter().any(|note| note.contains("model_type 'foo' is not known")), "{notes:?}");
}

#[test]
fn from_directory_to_directory_what_belongs_to_the_model_comes_along() {
    let mut config = llama();
    config["torch_dtype"] = json!("float32");
    let directory = directory(&config, &NAMES);
    for (name, text) in [("generation_config.json", "{}"), ("LICENSE", "free"), ("notes.txt", "mine")] {
        fs::write(directory.path().join(name), text).unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let mut conversion = Conversion::new();
    conversion.dtype = Some(DType::Bf16);
    conversion.run(&Registry::builtin(), directory.path(), out.as_path()).unwrap();
    let mut names: Vec<String> =
        fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names, ["LICENSE", "config.json", "generation_config.json", "model.safetensors"]);
    let config: Value = serde_json::from_slice(&fs::read(out.join("config.json")).unwrap()).unwrap();
    assert_eq!(config["torch_dtype"], "bfloat16");
    let model = ckpt::open(out.as_path()).unwrap();
    assert_eq!(model.checkpoint().metadata.text("safetensors", "format"), Some("pt"));
}

#[test]
fn a_directory_with_files_is_refused_and_so_is_one_with_tensors_that_would_stay() {
    let directory = directory(&llama(), &NAMES);
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let run = |conversion: &Conversion| conversion.run(&Registry::builtin(), directory.path(), out.as_path());
    run(&Conversion::new()).unwrap();
    let error = run(&Conversion::new()).unwrap_err();
    assert!(error.to_string().contains("not empty"), "{error}");
    run(&Conversion::new().overwrite(true)).unwrap();
    let error = run(&Conversion::new().overwrite(true).set("shard_size", "100")).unwrap_err();
    assert!(error.to_string().contains("the tensors of another model"), "{error}");
}
