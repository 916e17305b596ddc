//! What is refused before there is output, each with an error of its own.

use crate::fixture::{Tensors, adapter, adapter_files, array, file, merged, model, registry, tensors};
use ckpt_api::{DType, Error, Input, Kind};
use ckpt_engine::source::OpenOptions;
use ckpt_merge::Adapter;
use serde_json::{Value, json};
use std::collections::BTreeMap;

fn weights() -> Tensors {
    tensors([("q.weight", array(1, &[9, 37])), ("q.bias", array(2, &[9]))])
}

fn factors() -> Tensors {
    tensors([("q.lora_A.weight", array(3, &[2, 37])), ("q.lora_B.weight", array(4, &[9, 2]))])
}

/// The error of merging an adapter with these settings and tensors.
fn error(settings: Value, tensors: &Tensors) -> Error {
    match adapter(settings, tensors, 1.0) {
        Ok(adapter) => merged(&model(&weights(), DType::F32), &[adapter]).unwrap_err(),
        Err(error) => error,
    }
}

fn assert_says(error: &Error, kind: Kind, texts: &[&str]) {
    let text = error.to_string();
    assert_eq!(error.kind(), kind, "{text}");
    for expected in texts {
        assert!(text.contains(expected), "{text} does not say {expected}");
    }
}

#[test]
fn a_base_without_the_modules() {
    let others = factors().into_iter().map(|(name, array)| (name.replace("q.", "v."), array)).collect();
    let settings = json!({"base_model_name_or_path": "org/model"});
    assert_says(&error(settings, &others), Kind::Mapping, &["lacks modules", "v", "org/model"]);
}

#[test]
fn a_base_of_other_shapes() {
    let mut others = factors();
    others.insert("q.lora_A.weight".to_owned(), array(3, &[2, 36]));
    assert_says(&error(json!({}), &others), Kind::Mapping, &["another shape", "q.weight", "[9, 37]"]);
    let mut others = factors();
    others.insert("q.bias".to_owned(), array(3, &[8]));
    assert_says(&error(json!({"bias": "all"}), &others), Kind::Mapping, &["another shape", "[8]", "[9]"]);
}

#[test]
fn an_adapter_of_another_kind() {
    let settings = json!({"peft_type": "IA3"});
    assert_says(&error(settings, &factors()), Kind::Unsupported, &["peft_type", "IA3", "LORA"]);
}

#[test]
fn an_adapter_of_another_rank_than_it_states() {
    assert_says(&error(json!({"r": 4}), &factors()), Kind::Corrupt, &["another rank", "rank 4"]);
}

#[test]
fn a_tensor_that_nothing_explains() {
    let mut others = factors();
    others.insert("prompt.weight".to_owned(), array(5, &[3]));
    assert_says(&error(json!({}), &others), Kind::Unsupported, &["prompt.weight", "modules_to_save"]);
    let mut others = factors();
    others.insert("q.bias".to_owned(), array(5, &[9]));
    assert_says(&error(json!({}), &others), Kind::Corrupt, &["bias"]);
}

#[test]
fn what_is_no_adapter() {
    let open = |files: BTreeMap<String, Vec<u8>>| {
        Adapter::open(&registry(), Input::memory("", files), 1.0, &OpenOptions::new()).unwrap_err()
    };
    let model = BTreeMap::from([("model.safetensors".to_owned(), file(&weights(), DType::F32))]);
    assert_says(&open(model), Kind::Usage, &["no adapter", "adapter_config.json", "model.safetensors"]);
    let mut files = adapter_files(&json!({"peft_type": "LORA", "r": 2}), &factors());
    files.insert("adapter_model.safetensors".to_owned(), file(&weights(), DType::F32));
    assert_says(&open(files), Kind::Usage, &["no adapter", "base_model.model."]);
}

#[test]
fn two_adapters_that_both_have_a_tensor_as_a_whole() {
    let mut own = factors();
    own.insert("q.bias".to_owned(), array(5, &[9]));
    let adapters = [1.0, 2.0].map(|factor| adapter(json!({"bias": "all"}), &own, factor).unwrap());
    let error = merged(&model(&weights(), DType::F32), &adapters).unwrap_err();
    assert_says(&error, Kind::Usage, &["two adapters", "q.bias"]);
}

#[test]
fn magnitudes_that_are_missing_or_do_not_fit() {
    let settings = || json!({"use_dora": true});
    assert_says(&error(settings(), &factors()), Kind::Corrupt, &["use_dora", "lacks the magnitudes"]);
    let mut own = factors();
    own.insert("q.lora_magnitude_vector".to_owned(), array(5, &[8]));
    assert_says(&error(settings(), &own), Kind::Mapping, &["magnitudes", "[8]", "9 numbers"]);
    let turned = adapter(json!({"use_dora": true, "fan_in_fan_out": true}), &own, 1.0).unwrap();
    let base = tensors([("q.weight", array(1, &[37, 9]))]);
    let found = merged(&model(&base, DType::F32), &[turned]).unwrap_err();
    assert_says(&found, Kind::Mapping, &["magnitudes", "[8]", "9 numbers"]);
}

#[test]
fn a_base_of_integers() {
    let base = tensors([("q.weight", array(1, &[9, 37]))]);
    let integers = file(&base, DType::F16);
    let text = String::from_utf8_lossy(&integers).find("F16").unwrap();
    let mut integers = integers;
    integers[text..text + 3].copy_from_slice(b"I16");
    let input = Input::memory("m.safetensors", BTreeMap::from([("m.safetensors".to_owned(), integers)]));
    let base = ckpt_engine::source::Source::open(&registry(), input, &OpenOptions::new()).unwrap();
    let error = merged(&base, &[adapter(json!({}), &factors(), 1.0).unwrap()]).unwrap_err();
    assert_says(&error, Kind::Unsupported, &["q.weight", "i16"]);
}
