//! An adapter of peft as a file for llama.cpp: the names of its model, and the scale of its products.

use crate::common::workplace::Workplace;
use crate::quantized_groups::{Stored, directory};
use ckpt::{Conversion, Error, Kind, OpenOptions, Registry, Source};
use ckpt_api::MetadataValue;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

/// Inputs, outputs and the rank: two heads of four rows.
const INPUTS: usize = 6;
const OUTPUTS: usize = 8;
const RANK: usize = 2;
const QUERY: &str = "q_proj";
const VALUE: &str = "v_proj";

fn bytes(numbers: &[f32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// A factor of the query's and of the value's product.
fn down(module: &str) -> Vec<f32> {
    (0..RANK * INPUTS).map(|at| at as f32 + if module == QUERY { 0.25 } else { 0.5 }).collect()
}

fn up(module: &str) -> Vec<f32> {
    (0..OUTPUTS * RANK).map(|at| at as f32 - if module == QUERY { 3.0 } else { 7.0 }).collect()
}

/// The directories of an adapter with these settings and more tensors, and of its model.
fn adapter(
    place: &Workplace,
    settings: Value,
    more: Option<(&'static str, Vec<usize>)>,
) -> (PathBuf, PathBuf) {
    let config = json!({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "num_attention_heads": 2,
        "num_key_value_heads": 2, "hidden_size": 6, "num_hidden_layers": 1, "vocab_size": 4,
    });
    let base = directory(place, "base", &config, &[("model.norm.weight", "F32", vec![1], bytes(&[1.0]))]);
    let mut tensors: Vec<Stored> = vec![
        (
            "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight",
            "F32",
            vec![RANK, INPUTS],
            bytes(&down(QUERY)),
        ),
        (
            "base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight",
            "F32",
            vec![OUTPUTS, RANK],
            bytes(&up(QUERY)),
        ),
        (
            "base_model.model.model.layers.0.self_attn.v_proj.lora_A.weight",
            "F32",
            vec![RANK, INPUTS],
            bytes(&down(VALUE)),
        ),
        (
            "base_model.model.model.layers.0.self_attn.v_proj.lora_B.weight",
            "F32",
            vec![OUTPUTS, RANK],
            bytes(&up(VALUE)),
        ),
    ];
    tensors.extend(more.map(|(name, shape)| {
        let count = shape.iter().product::<usize>();
        (name, "F32", shape, bytes(&vec![1.0; count]))
    }));
    let mut config = json!({
        "peft_type": "LORA", "r": RANK, "lora_alpha": 16, "base_model_name_or_path": "of/someone",
    });
    for (key, value) in settings.as_object().unwrap() {
        config[key] = value.clone();
    }
    let folder = directory(place, "adapter", &json!({}), &tensors);
    fs::rename(folder.join("model.safetensors"), folder.join("adapter_model.safetensors")).unwrap();
    fs::remove_file(folder.join("config.json")).unwrap();
    fs::write(folder.join("adapter_config.json"), config.to_string()).unwrap();
    (folder, base)
}

fn convert(adapter: &Path, base: Option<&Path>) -> Result<Source, Error> {
    let registry = Registry::builtin();
    let out = adapter.with_extension("gguf");
    let source = Source::open(&registry, adapter, &OpenOptions::new())?;
    let conversion = match base {
        Some(base) => Conversion::new().set("base", base.to_str().unwrap()),
        None => Conversion::new(),
    };
    conversion.plan(&registry, &source, &out)?.execute(&Default::default(), &|_| ())?;
    Source::open(&registry, out.as_path(), &OpenOptions::new())
}

fn numbers(source: &Source, name: &str) -> Vec<f32> {
    source.tensor(name).unwrap().read().unwrap()
}

fn value(source: &Source, key: &str) -> MetadataValue {
    source.checkpoint().metadata.namespace("gguf").unwrap().get(key).unwrap().clone()
}

fn alpha(source: &Source) -> f32 {
    match value(source, "adapter.lora.alpha") {
        MetadataValue::F32(alpha) => alpha,
        other => panic!("{other}"),
    }
}

#[test]
fn factors_have_the_names_of_the_model_and_the_order_of_its_rows() {
    let place = Workplace::new();
    let (folder, base) = adapter(&place, json!({}), None);
    let source = convert(&folder, Some(&base)).unwrap();
    let names: Vec<&str> = source.checkpoint().tensors.iter().map(|tensor| tensor.name.as_str()).collect();
    let expected =
        ["attn_q.weight.lora_a", "attn_q.weight.lora_b", "attn_v.weight.lora_a", "attn_v.weight.lora_b"];
    assert_eq!(names, expected.map(|name| format!("blk.0.{name}")));
    assert_eq!(numbers(&source, "blk.0.attn_q.weight.lora_a"), down(QUERY));
    assert_eq!(numbers(&source, "blk.0.attn_v.weight.lora_b"), up(VALUE));
    // Of each head, the first half of the rows is between those of the second.
    let rows: Vec<Vec<f32>> = up(QUERY).chunks(RANK).map(<[f32]>::to_vec).collect();
    let turned = [0, 2, 1, 3, 4, 6, 5, 7].map(|row: usize| rows[row].clone()).concat();
    assert_eq!(numbers(&source, "blk.0.attn_q.weight.lora_b"), turned);
    let keys = ["general.architecture", "general.type", "adapter.type"];
    assert_eq!(keys.map(|key| value(&source, key)), ["llama", "adapter", "lora"].map(MetadataValue::from));
    assert_eq!(alpha(&source), 16.0);
}

#[test]
fn the_scale_is_that_of_the_training() {
    let place = Workplace::new();
    let (folder, base) = adapter(&place, json!({"use_rslora": true}), None);
    let stabilized = convert(&folder, Some(&base)).unwrap();
    assert_eq!(alpha(&stabilized), 16.0 * 2f32.sqrt());

    let place = Workplace::new();
    let (folder, base) = adapter(&place, json!({"alpha_pattern": {"v_proj": 4}}), None);
    let source = convert(&folder, Some(&base)).unwrap();
    let (q, v) = (16.0, 4.0);
    let alpha = alpha(&source);
    let scaled: Vec<f32> = up(VALUE).iter().map(|number| number * (v / alpha)).collect();
    assert!(alpha == q || alpha == v, "{alpha}");
    assert_eq!(numbers(&source, "blk.0.attn_v.weight.lora_b"), scaled);
}

#[test]
fn an_adapter_without_its_model_is_refused_and_the_error_says_how_to_name_it() {
    let place = Workplace::new();
    let (folder, _) = adapter(&place, json!({}), None);
    let error = convert(&folder, None).unwrap_err();
    assert_eq!(error.kind(), Kind::Usage);
    let told = error.to_string();
    assert!(told.contains("of/someone") && told.contains("--set base=DIRECTORY"), "{told}");
    let error = convert(&folder, Some(&folder)).unwrap_err();
    assert!(error.to_string().contains("config.json"), "{error}");
}

#[test]
fn what_llama_cpp_has_no_place_for_is_refused_with_the_way_out() {
    let cases = [
        (json!({"use_dora": true}), None, "DoRA"),
        (
            json!({"modules_to_save": ["lm_head"]}),
            Some(("base_model.model.lm_head.weight", vec![4, 6])),
            "lm_head",
        ),
        (
            json!({"lora_bias": true}),
            Some(("base_model.model.model.layers.0.self_attn.q_proj.lora_B.bias", vec![8])),
            "bias",
        ),
    ];
    for (settings, more, word) in cases {
        let place = Workplace::new();
        let (folder, base) = adapter(&place, settings, more);
        let error = convert(&folder, Some(&base)).unwrap_err();
        assert_eq!(error.kind(), Kind::Unsupported, "{error}");
        assert!(error.to_string().contains(word) && error.to_string().contains("ckpt merge BASE"), "{error}");
        assert!(!folder.with_extension("gguf").exists());
    }
}
