//! `ckpt merge`: a conversion with several sources.

use crate::common::workplace::{Tensor, Workplace};
use serde_json::{Value, json};
use std::fs;

/// Numbers of both signs.
fn tensor(name: &str, shape: &[usize]) -> Tensor {
    let number = |k: usize| ((k * 7919 + name.len() * 104_729) as f32 * 0.618_034).fract() - 0.5;
    (name.to_owned(), shape.to_vec(), (0..shape.iter().product()).map(number).collect())
}

/// The files `base` and `adapter` of a small model and a LoRA.
fn workplace() -> Workplace {
    let place = Workplace::new();
    for directory in ["base", "adapter"] {
        fs::create_dir(place.path(directory)).unwrap();
    }
    let config =
        json!({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "float32"});
    place.write("base/config.json", config.to_string());
    place.write("base/tokenizer.json", "{}");
    place
        .checkpoint("base/model.safetensors", &[tensor("q.weight", &[24, 40]), tensor("norm.weight", &[24])]);
    let adapter =
        json!({"peft_type": "LORA", "r": 2, "lora_alpha": 4, "base_model_name_or_path": "org/base"});
    place.write("adapter/adapter_config.json", adapter.to_string());
    place.checkpoint(
        "adapter/adapter_model.safetensors",
        &[
            tensor("base_model.model.q.lora_A.weight", &[2, 40]),
            tensor("base_model.model.q.lora_B.weight", &[24, 2]),
        ],
    );
    place
}

const MERGE: [&str; 5] = ["merge", "base", "--lora", "adapter", "out/"];

fn weights(place: &Workplace, directory: &str) -> Vec<u8> {
    fs::read(place.path(directory).join("model.safetensors")).unwrap()
}

#[test]
fn a_merged_directory_has_the_files_of_the_base() {
    let place = workplace();
    place.says(&[&MERGE[..], &["--verify", "-q"]].concat());
    for name in ["config.json", "tokenizer.json"] {
        assert_eq!(
            fs::read(place.path("out").join(name)).unwrap(),
            fs::read(place.path("base").join(name)).unwrap()
        );
    }
    let differences = place.ckpt(&["diff", "base/model.safetensors", "out/model.safetensors"]);
    let told = String::from_utf8(differences.stdout).unwrap();
    assert!(told.contains("q.weight") && !told.contains("norm.weight"), "{told}");
}

#[test]
fn a_factor_behind_an_adapter_is_no_part_of_its_path() {
    let place = workplace();
    place.says(&["merge", "base", "whole/", "--lora", "adapter=1.0", "-q"]);
    place.says(&[&MERGE[..], &["-q"]].concat());
    assert_eq!(weights(&place, "whole"), weights(&place, "out"));
    place.says(&["merge", "base", "none/", "--lora", "adapter=0", "-q"]);
    place.says(&["diff", "base/model.safetensors", "none/model.safetensors"]);
}

#[test]
fn a_plan_of_a_merge_gives_the_same_bytes_in_other_processes() {
    let place = workplace();
    place.says(&[&MERGE[..], &["-q"]].concat());
    place.says(&["merge", "base", "planned/", "--lora", "adapter", "--plan", "plan.json"]);
    place.says(&["run-plan", "plan.json", "--receipts", "receipts", "-q"]);
    place.says(&["commit", "plan.json", "receipts", "--verify", "-q"]);
    assert_eq!(weights(&place, "planned"), weights(&place, "out"));
}

#[test]
fn a_plan_stops_if_a_file_of_an_adapter_has_changed_since() {
    let place = workplace();
    place.says(&[&MERGE[..], &["--plan", "plan.json"]].concat());
    let config = json!({"peft_type": "LORA", "r": 2, "lora_alpha": 40});
    place.write("adapter/adapter_config.json", config.to_string());
    place.refuses(&["run-plan", "plan.json", "--receipts", "r"], 1, &["changed", "adapter_config.json"]);
}

#[test]
fn a_receipt_has_the_files_of_all_sources() {
    let place = workplace();
    place.says(&[&MERGE[..], &["--receipt", "receipt.json", "-q"]].concat());
    let receipt: Value = serde_json::from_slice(&fs::read(place.path("receipt.json")).unwrap()).unwrap();
    let names = |side: &Value| -> Vec<String> {
        let files = side["files"].as_array().unwrap();
        files.iter().map(|file| file["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&receipt["source"]), ["config.json", "model.safetensors", "tokenizer.json"]);
    assert_eq!(receipt["others"][0]["directory"], "adapter");
    assert_eq!(names(&receipt["others"][0]), ["adapter_config.json", "adapter_model.safetensors"]);
    crate::schemas::assert_receipt(&receipt);
}

#[cfg(feature = "forward")]
#[test]
fn a_receipt_finds_an_adapter_that_was_replaced() {
    let place = workplace();
    place.says(&[&MERGE[..], &["--receipt", "receipt.json", "-q"]].concat());
    place.says(&["verify", "--receipt", "receipt.json"]);
    place.write("adapter/adapter_config.json", "{}");
    let told = place.refused(&["verify", "--receipt", "receipt.json"]);
    assert!(told.contains("adapter_config.json"), "{told}");
}

#[test]
fn the_plan_of_a_merge_is_what_its_schema_says() {
    let place = workplace();
    crate::schemas::assert_plan(&place.json(&[&MERGE[..], &["--dry-run"]].concat()));
}

#[test]
fn a_quantized_base_is_read_as_numbers_if_a_dtype_is_named() {
    let place = workplace();
    let config = json!({"architectures": ["LlamaForCausalLM"], "model_type": "llama",
        "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}});
    place.write("base/config.json", config.to_string());
    // 0x38 is 1; the scale doubles it.
    let header = json!({"q.weight": {"dtype": "F8_E4M3", "shape": [24, 40], "data_offsets": [0, 960]},
        "q.weight_scale_inv": {"dtype": "F32", "shape": [1, 1], "data_offsets": [960, 964]}});
    let header = header.to_string();
    let data = [vec![0x38; 960], 2.0_f32.to_le_bytes().to_vec()].concat();
    let file = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &data].concat();
    place.write("base/model.safetensors", file);
    place.refuses(&MERGE, 2, &["quantized", "--dtype bf16"]);
    place.says(&["merge", "base", "out/", "--lora", "adapter=0", "--dtype", "bf16", "-q"]);
    let shown = place.json(&["show", "out/model.safetensors", "q.weight", "--rows", "0..1"]);
    assert_eq!(shown["values"], json!([vec![2; 40]]));
    let config: Value = serde_json::from_slice(&fs::read(place.path("out/config.json")).unwrap()).unwrap();
    assert!(config.get("quantization_config").is_none(), "{config}");
}

#[test]
fn a_change_of_embeddings_that_are_the_output_layer_too_is_refused() {
    let place = workplace();
    let config =
        json!({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "tie_word_embeddings": true});
    place.write("base/config.json", config.to_string());
    place.says(&[&MERGE[..], &["-q"]].concat());
    place.checkpoint("base/model.safetensors", &[tensor("embed_tokens.weight", &[24, 40])]);
    place.checkpoint(
        "adapter/adapter_model.safetensors",
        &[
            tensor("base_model.model.embed_tokens.lora_embedding_A", &[2, 24]),
            tensor("base_model.model.embed_tokens.lora_embedding_B", &[40, 2]),
        ],
    );
    let merge = ["merge", "base", "other/", "--lora", "adapter"];
    place.refuses(&merge, 1, &["tie_word_embeddings", "embed_tokens"]);
}

#[test]
fn models_are_merged_with_the_files_of_the_first_or_of_the_base() {
    let place = workplace();
    fs::create_dir(place.path("other")).unwrap();
    place.write("other/config.json", "{}");
    place.checkpoint(
        "other/model.safetensors",
        &[tensor("q.weight", &[24, 40]), tensor("norm.weight", &[24])],
    );
    place.says(&["merge", "--method", "linear", "base=0.5", "other=0.5", "mean/", "--verify", "-q"]);
    place.says(&["diff", "base/model.safetensors", "mean/model.safetensors"]);
    assert!(place.path("mean/tokenizer.json").is_file());
    place.says(&["merge", "--method", "task", "--base", "base", "other=1", "sum/", "-q"]);
    assert!(place.path("sum/tokenizer.json").is_file());
    place.refuses(
        &["merge", "--method", "linear", "base", "other=0.5", "no/"],
        2,
        &["no weight", "base=0.5"],
    );
    place.refuses(&["merge", "--method", "tie", "base=1", "other=0.5", "no/"], 2, &["--method", "slerp"]);
    place.refuses(&["merge", "base", "other", "no/", "--lora", "adapter"], 2, &["one model"]);
    place.refuses(&["merge", "base", "--lora", "adapter"], 2, &["missing", "checkpoint to write"]);
}

/// The models `a` and `b`, of two layers.
fn layers(place: &Workplace) {
    for (directory, factor) in [("a", 1.0), ("b", 0.5)] {
        fs::create_dir(place.path(directory)).unwrap();
        let config =
            json!({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "num_hidden_layers": 2});
        place.write(&format!("{directory}/config.json"), config.to_string());
        let names = ["embed_tokens.w", "layers.0.q.w", "layers.1.q.w", "norm.w"];
        let tensors = names.map(|name| {
            let (name, shape, numbers) = tensor(&format!("model.{name}"), &[6, 4]);
            (name, shape, numbers.into_iter().map(|number| number * factor).collect())
        });
        place.checkpoint(&format!("{directory}/model.safetensors"), &tensors);
    }
}

#[test]
fn a_recipe_makes_a_model_of_layers_of_others() {
    let place = workplace();
    layers(&place);
    place.write(
        "recipe.yaml",
        "merge_method: passthrough\nslices:\n- sources: [{model: a, layer_range: [0, 2]}]\n- sources: [{model: b, layer_range: [1, 2]}]\n",
    );
    place.says(&["merge", "recipe.yaml", "out/", "--verify", "-q"]);
    let config: Value = serde_json::from_slice(&fs::read(place.path("out/config.json")).unwrap()).unwrap();
    assert_eq!(config["num_hidden_layers"], 3);
    let listed = place.json(&["inspect", "out/model.safetensors"]);
    let names = listed["tensors"].as_array().unwrap().iter().map(|tensor| tensor["name"].as_str().unwrap());
    let expected = [
        "model.embed_tokens.w",
        "model.layers.0.q.w",
        "model.layers.1.q.w",
        "model.layers.2.q.w",
        "model.norm.w",
    ];
    let mut names: Vec<&str> = names.collect();
    names.sort_unstable();
    assert_eq!(names, expected);
}

#[test]
fn a_recipe_is_refused_with_the_place_of_what_is_wrong() {
    let place = workplace();
    layers(&place);
    place.write("recipe.yml", "merge_method: linear\nmodels:\n- model: a\n  parameters: {weigth: 1}\n");
    place.refuses(&["merge", "recipe.yml", "out/"], 2, &["recipe.yml", "line 4, column 16", "weight"]);
    place.refuses(&["merge", "a", "out/"], 2, &["nothing to merge", ".yaml"]);
    place.refuses(&["merge", "none.yaml", "out/"], 1, &["none.yaml"]);
}

#[test]
fn a_plan_of_changes_that_are_chosen_gives_the_same_bytes_in_other_processes() {
    let place = workplace();
    layers(&place);
    for method in ["ties", "dare_ties"] {
        let (out, planned) = (format!("{method}/"), format!("{method}-planned/"));
        let merge = ["merge", "--method", method, "--base", "a", "b=0.7", "--parameter", "density=0.5"];
        place.says(&[&merge[..], &[&out, "-q"]].concat());
        place.says(&[&merge[..], &[&planned, "--plan", "plan.json", "--force"]].concat());
        crate::schemas::assert_plan(&place.json(&[&merge[..], &["dry/", "--dry-run"]].concat()));
        place.says(&["run-plan", "plan.json", "--receipts", &format!("{method}-r"), "-q"]);
        place.says(&["commit", "plan.json", &format!("{method}-r"), "--verify", "-q"]);
        assert_eq!(weights(&place, &planned), weights(&place, &out), "{method}");
    }
}

#[test]
fn an_adapter_of_a_difference_leads_back_to_the_model() {
    let place = workplace();
    place.says(&["merge", "base", "tuned/", "--lora", "adapter", "-q"]);
    let extract = ["merge", "--extract-lora", "tuned", "base", "again", "--rank", "2"];
    let shown = place.json(&extract);
    assert_eq!((&shown["products"], &shown["whole"]), (&json!(1), &json!(0)));
    let config: Value =
        serde_json::from_slice(&fs::read(place.path("again/adapter_config.json")).unwrap()).unwrap();
    assert_eq!((&config["r"], &config["target_modules"]), (&json!(2), &json!(["q"])));
    place.says(&["merge", "base", "back/", "--lora", "again", "-q"]);
    let diff = ["diff", "tuned/model.safetensors", "back/model.safetensors", "--atol", "1e-5"];
    place.says(&diff);
    place.refuses(&extract, 2, &["not empty"]);
    place.refuses(&["merge", "--extract-lora", "base", "base", "no"], 2, &["nothing to extract"]);
    place.refuses(&["merge", "--extract-lora", "tuned", "base", "no", "--rank", "0"], 2, &["rank"]);
    place.refuses(&["merge", "--extract-lora", "tuned", "adapter", "no"], 3, &["other tensors"]);
    assert!(!place.path("no").exists());
}

#[test]
fn what_does_not_fit_is_refused_and_leaves_nothing() {
    let place = workplace();
    place.refuses(&["merge", "base", "out/", "--lora", "base"], 2, &["no adapter", "adapter_config.json"]);
    place.refuses(&["merge", "base", "out/", "--lora", "none"], 1, &["none"]);
    place.refuses(&["merge", "base", "out/", "--lora", "adapter=inf"], 2, &["not finite"]);
    place.refuses(
        &["merge", "adapter/adapter_model.safetensors", "o.safetensors", "--lora", "adapter"],
        3,
        &["lacks modules", "q", "org/base"],
    );
    place.write("adapter/adapter_config.json", json!({"peft_type": "LOHA", "r": 2}).to_string());
    place.refuses(&MERGE, 1, &["LOHA"]);
    place.checkpoint("base/model.safetensors", &[tensor("q.weight", &[24, 41])]);
    place.write("adapter/adapter_config.json", json!({"peft_type": "LORA", "r": 2}).to_string());
    place.refuses(&MERGE, 3, &["another shape", "[24, 41]"]);
}
