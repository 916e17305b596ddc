//! The built-in mappings and their inverses on the names of published checkpoints, at their published depth.
//! (`tests/interop/transformers_tables.py` compares the tensors with those of other programs.)

use crate::common::cases;
use ckpt::{RegisteredMapping, Registry};
use ckpt_api::{DType, Limits, Shape, Tensor};
use std::collections::BTreeSet;

/// The expected result of a mapping: (source, target, steps).
pub(crate) type Expected = Vec<(String, String, &'static str)>;

/// Adds tensors with these prefixes on both sides.
fn add(expected: &mut Expected, from: &str, to: &str, pairs: &[(&str, &str, &'static str)]) {
    expected.extend(pairs.iter().map(|(a, b, steps)| (format!("{from}{a}"), format!("{to}{b}"), *steps)));
}

/// As [`maps`]; asserts that every rule is used.
pub(crate) fn assert_maps(table: &str, count: usize, expected: &Expected, dropped: &[&str]) {
    assert_eq!(maps(table, count, expected, dropped), [""; 0], "{table}");
}

/// Asserts that the mapping maps these names and drops the others, and that its inverse makes the sources again.
/// Returns the unused rules.
fn maps(table: &str, count: usize, expected: &Expected, dropped: &[&str]) -> Vec<String> {
    assert_eq!(expected.len(), count, "{table}");
    let mapping = Registry::builtin().mapping(table).unwrap();
    let sources: Vec<&str> = expected.iter().map(|(source, ..)| source.as_str()).collect();
    let applied = mapping.apply(&[&sources, dropped].concat(), &Limits::default()).unwrap();
    let found: BTreeSet<_> = applied
        .targets
        .iter()
        .map(|target| (target.sources.join(" "), target.name.clone(), target.recipe.describe()))
        .collect();
    let wanted: BTreeSet<_> =
        expected.iter().map(|(a, b, steps)| (a.clone(), b.clone(), (*steps).to_owned())).collect();
    assert_eq!(found, wanted, "{table}");
    assert_eq!(applied.dropped.len(), dropped.len(), "{table}");

    let targets: Vec<&str> = expected.iter().map(|(_, target, _)| target.as_str()).collect();
    for inverse in [applied.inverse.unwrap(), mapping.inverse().unwrap()] {
        let back = inverse.apply(&targets, &Limits::default()).unwrap();
        let found: BTreeSet<_> =
            back.targets.iter().map(|target| (target.name.as_str(), target.sources.join(" "))).collect();
        let wanted: BTreeSet<_> = expected.iter().map(|(a, b, _)| (a.as_str(), b.clone())).collect();
        assert_eq!(found, wanted, "{table} backwards");
    }
    applied.unused
}

#[test]
fn every_table_has_a_title_and_an_inverse_unless_it_dequantizes_or_drops_names() {
    let names: Vec<_> = Registry::builtin().mappings().map(RegisteredMapping::name).collect();
    assert_eq!(names.len(), 59);
    let mut one_way = Vec::new();
    for name in names {
        let mapping = Registry::builtin().mapping(name).unwrap();
        assert!(mapping.title().is_some_and(|title| !title.contains('\n')), "{name}");
        match mapping.inverse() {
            Ok(_) => {}
            Err(error) => {
                let (says, class) = (error.to_string(), "the capture 'model' does not appear in 'to'");
                let reasons = ["dequantizes", class, "inverse = false"];
                assert!(reasons.iter().any(|reason| says.contains(reason)), "{name}: {error}");
                one_way.push(name);
            }
        }
    }
    assert_eq!(
        one_way,
        [
            "bert-h5-to-hf",
            "bert-heads-hf-to-gguf",
            "fp8-blocks-to-bf16",
            "fp8-scales-to-bf16",
            "gpt-oss-mxfp4-hf-to-gguf",
            "gpt2-h5-to-hf",
            "mxfp4-to-bf16"
        ]
    );
    assert!(Registry::builtin().mapping("gpt2").is_none());
}

/// GPT-2 with the names of OpenAI; `projection` is the step on its projections.
fn gpt2(projection: &'static str) -> Expected {
    let mut all = Expected::new();
    add(&mut all, "model/", "", &[("wte", "wte.weight", ""), ("wpe", "wpe.weight", "")]);
    add(&mut all, "model/", "", &[("ln_f/g", "ln_f.weight", ""), ("ln_f/b", "ln_f.bias", "")]);
    for layer in 0..12 {
        let (from, to) = (format!("model/h{layer}/"), format!("h.{layer}."));
        for norm in ["ln_1", "ln_2"] {
            add(
                &mut all,
                &format!("{from}{norm}/"),
                &format!("{to}{norm}."),
                &[("g", "weight", ""), ("b", "bias", "")],
            );
        }
        for (scope, part) in [("attn", "c_attn"), ("attn", "c_proj"), ("mlp", "c_fc"), ("mlp", "c_proj")] {
            let pairs = [("w", "weight", projection), ("b", "bias", "")];
            add(&mut all, &format!("{from}{scope}/{part}/"), &format!("{to}{scope}.{part}."), &pairs);
        }
    }
    all
}

#[test]
fn gpt2_of_openai_loses_the_first_axis_of_its_projections() {
    assert_maps("gpt2-tf-to-hf", 148, &gpt2("squeeze 0"), &[]);
}

/// An index file that OpenAI published; its shapes prove that the removed axis has length 1.
#[test]
fn gpt2_as_it_was_published_has_these_names_and_shapes() {
    let Some(directory) = cases("tf2/swift_transformer") else { return };
    let json: serde_json::Value =
        serde_json::from_slice(&std::fs::read(directory.join("expected.json")).unwrap()).unwrap();
    let published = json["tensors"].as_array().unwrap();
    let table = gpt2("squeeze 0");
    assert_eq!(published.len(), table.len());
    for tensor in published {
        let name = tensor["name"].as_str().unwrap();
        let (_, _, steps) = table.iter().find(|(source, ..)| source == name).unwrap();
        let shape = tensor["shape"].as_array().unwrap();
        assert_eq!(shape.len() == 3 && shape[0] == 1, *steps == "squeeze 0", "{name}");
    }
}

#[test]
fn gpt2_as_swift_models_writes_it_keeps_its_axes() {
    assert_maps("gpt2-swift-to-hf", 148, &gpt2(""), &[]);
}

#[test]
fn gpt2_by_the_property_paths_of_swift_models_has_the_same_targets() {
    let mut all = Expected::new();
    add(
        &mut all,
        "",
        "",
        &[("embedding/weight", "wte.weight", ""), ("positionalEmbeddings", "wpe.weight", "")],
    );
    add(&mut all, "norm/", "ln_f.", &[("scale", "weight", ""), ("offset", "bias", "")]);
    let mut dropped = Vec::new();
    for layer in 0..12 {
        let (from, to) = (format!("layers/[{layer}]/"), format!("h.{layer}."));
        for (a, b) in [("selfAttentionNorm", "ln_1"), ("feedForwardNorm", "ln_2")] {
            let pairs = [("scale", "weight", ""), ("offset", "bias", "")];
            add(&mut all, &format!("{from}{a}/"), &format!("{to}{b}."), &pairs);
        }
        let parts = [
            ("selfAttention/wqkv", "attn.c_attn"),
            ("selfAttention/wo", "attn.c_proj"),
            ("feedForward/dense1", "mlp.c_fc"),
            ("feedForward/dense2", "mlp.c_proj"),
        ];
        for (a, b) in parts {
            let pairs = [("weight", "weight", ""), ("bias", "bias", "")];
            add(&mut all, &format!("{from}{a}/dense/"), &format!("{to}{b}."), &pairs);
        }
        dropped.push(format!("{from}selfAttention/attention/scale"));
    }
    let dropped: Vec<&str> = dropped.iter().map(String::as_str).collect();
    assert_maps("gpt2-swift-paths-to-hf", 148, &all, &dropped);
    let targets = |all: &Expected| all.iter().map(|(_, target, _)| target.clone()).collect::<BTreeSet<_>>();
    assert_eq!(targets(&all), targets(&gpt2("")));
}

const DENSE: &[(&str, &str, &str)] = &[("kernel", "weight", "transpose"), ("bias", "bias", "")];
const NORM: &[(&str, &str, &str)] = &[("gamma", "weight", ""), ("beta", "bias", "")];

fn embeddings(all: &mut Expected, from: &str, to: &str) {
    for table in ["word", "position", "token_type"] {
        add(
            all,
            from,
            to,
            &[(
                &format!("/embeddings/{table}_embeddings"),
                &format!(".embeddings.{table}_embeddings.weight"),
                "",
            )],
        );
    }
    add(all, &format!("{from}/embeddings/LayerNorm/"), &format!("{to}.embeddings.LayerNorm."), NORM);
}

/// The twelve layers that BERT and ELECTRA have in common.
fn encoder(all: &mut Expected, from: &str, to: &str) {
    for layer in 0..12 {
        let (from, to) = (format!("{from}/encoder/layer_{layer}/"), format!("{to}.encoder.layer.{layer}."));
        for part in ["query", "key", "value"] {
            add(all, &format!("{from}attention/self/{part}/"), &format!("{to}attention.self.{part}."), DENSE);
        }
        for part in ["attention/output", "intermediate", "output"] {
            add(
                all,
                &format!("{from}{part}/dense/"),
                &format!("{to}{}.dense.", part.replace('/', ".")),
                DENSE,
            );
        }
        for part in ["attention/output", "output"] {
            add(
                all,
                &format!("{from}{part}/LayerNorm/"),
                &format!("{to}{}.LayerNorm.", part.replace('/', ".")),
                NORM,
            );
        }
    }
}

/// The variables of Google's optimizer for BERT and ALBERT.
const ADAM: &[&str] = &[
    "global_step",
    "bert/pooler/dense/bias/adam_m",
    "bert/pooler/dense/bias/adam_v",
    "cls/predictions/output_bias/AdamWeightDecayOptimizer",
    "cls/predictions/output_bias/AdamWeightDecayOptimizer_1",
];

#[test]
fn bert_has_its_kernels_transposed_and_its_optimizer_dropped() {
    let mut all = Expected::new();
    embeddings(&mut all, "bert", "bert");
    encoder(&mut all, "bert", "bert");
    add(&mut all, "bert/pooler/dense/", "bert.pooler.dense.", DENSE);
    add(&mut all, "cls/predictions/transform/dense/", "cls.predictions.transform.dense.", DENSE);
    add(&mut all, "cls/predictions/transform/LayerNorm/", "cls.predictions.transform.LayerNorm.", NORM);
    add(&mut all, "cls/predictions/", "cls.predictions.", &[("output_bias", "bias", "")]);
    let heads = [("output_weights", "weight", ""), ("output_bias", "bias", "")];
    add(&mut all, "cls/seq_relationship/", "cls.seq_relationship.", &heads);
    assert_maps("bert-tf-to-hf", 206, &all, ADAM);
}

#[test]
fn albert_has_one_layer_with_names_of_its_own() {
    let mut all = Expected::new();
    embeddings(&mut all, "bert", "albert");
    let mapped = "embedding_hidden_mapping_in";
    add(&mut all, &format!("bert/encoder/{mapped}/"), &format!("albert.encoder.{mapped}."), DENSE);
    let from = "bert/encoder/transformer/group_0/inner_group_0/";
    let to = "albert.encoder.albert_layer_groups.0.albert_layers.0.";
    for (a, b) in [
        ("attention_1/self/query/", "attention.query."),
        ("attention_1/self/key/", "attention.key."),
        ("attention_1/self/value/", "attention.value."),
        ("attention_1/output/dense/", "attention.dense."),
        ("ffn_1/intermediate/dense/", "ffn."),
        ("ffn_1/intermediate/output/dense/", "ffn_output."),
    ] {
        add(&mut all, &format!("{from}{a}"), &format!("{to}{b}"), DENSE);
    }
    add(&mut all, &format!("{from}LayerNorm/"), &format!("{to}attention.LayerNorm."), NORM);
    add(&mut all, &format!("{from}LayerNorm_1/"), &format!("{to}full_layer_layer_norm."), NORM);
    add(&mut all, "bert/pooler/dense/", "albert.pooler.", DENSE);
    add(&mut all, "cls/predictions/transform/dense/", "predictions.dense.", DENSE);
    add(&mut all, "cls/predictions/transform/LayerNorm/", "predictions.LayerNorm.", NORM);
    add(&mut all, "cls/predictions/", "predictions.", &[("output_bias", "bias", "")]);
    let heads = [("output_weights", "weight", ""), ("output_bias", "bias", "")];
    add(&mut all, "cls/seq_relationship/", "sop_classifier.classifier.", &heads);
    assert_maps("albert-tf-to-hf", 32, &all, ADAM);
}

const ELECTRA_TRAINING: &[&str] =
    &["global_step", "temperature", "generator/temperature", "electra/x/adam_m", "electra/x/adam_v"];

#[test]
fn electra_is_its_discriminator_without_the_generator() {
    let mut all = Expected::new();
    embeddings(&mut all, "electra", "electra");
    encoder(&mut all, "electra", "electra");
    add(&mut all, "electra/embeddings_project/", "electra.embeddings_project.", DENSE);
    add(&mut all, "discriminator_predictions/dense/", "discriminator_predictions.dense.", DENSE);
    add(&mut all, "discriminator_predictions/dense_1/", "discriminator_predictions.dense_prediction.", DENSE);
    let dropped = ["generator/encoder/layer_0/output/dense/bias", "generator_predictions/output_bias"];
    assert_maps("electra-tf-to-hf", 203, &all, &[ELECTRA_TRAINING, &dropped].concat());
}

#[test]
fn electras_generator_takes_the_embeddings_that_it_shares() {
    let mut all = Expected::new();
    embeddings(&mut all, "electra", "electra");
    encoder(&mut all, "generator", "electra");
    add(&mut all, "generator/embeddings_project/", "electra.embeddings_project.", DENSE);
    add(&mut all, "generator_predictions/dense/", "generator_predictions.dense.", DENSE);
    add(&mut all, "generator_predictions/LayerNorm/", "generator_predictions.LayerNorm.", NORM);
    add(&mut all, "generator_predictions/", "generator_lm_head.", &[("output_bias", "bias", "")]);
    let dropped = [
        "electra/encoder/layer_0/output/dense/bias",
        "electra/embeddings_project/bias",
        "discriminator_predictions/dense/bias",
    ];
    assert_maps("electra-generator-tf-to-hf", 204, &all, &[ELECTRA_TRAINING, &dropped].concat());
}

/// T5 with `blocks` blocks in each stack, these inner projections, and these names for the norms of layers and stacks.
fn t5(blocks: usize, inner: &[&str], norm: &str, last_norm: &str) -> Expected {
    let mut all = Expected::new();
    add(&mut all, "shared/", "shared.", &[("embedding", "weight", "")]);
    for (stack, kinds) in
        [("encoder", &["SelfAttention"][..]), ("decoder", &["SelfAttention", "EncDecAttention"])]
    {
        add(&mut all, stack, stack, &[(&format!("/{last_norm}/scale"), ".final_layer_norm.weight", "")]);
        for block in 0..blocks {
            for layer in 0..=kinds.len() {
                let from = format!("{stack}/block_{block:03}/layer_{layer:03}/");
                let to = format!("{stack}.block.{block}.layer.{layer}.");
                add(&mut all, &from, &to, &[(&format!("{norm}/scale"), "layer_norm.weight", "")]);
                let Some(kind) = kinds.get(layer) else {
                    for part in inner {
                        let (from, to) =
                            (format!("{from}DenseReluDense/{part}/"), format!("{to}DenseReluDense.{part}."));
                        add(&mut all, &from, &to, &[("kernel", "weight", "transpose")]);
                    }
                    continue;
                };
                for part in ["q", "k", "v", "o"] {
                    let (from, to) = (format!("{from}{kind}/"), format!("{to}{kind}."));
                    add(&mut all, &from, &to, &[(part, &format!("{part}.weight"), "transpose")]);
                }
            }
        }
        let (from, to) = (format!("{stack}/block_000/layer_000/"), format!("{stack}.block.0.layer.0."));
        let bias = "SelfAttention.relative_attention_bias.weight";
        add(&mut all, &from, &to, &[("SelfAttention/relative_attention_bias", bias, "transpose")]);
    }
    all
}

const ADAFACTOR: &[&str] =
    &["global_step", "shared/embedding_slot_vr", "encoder/final_layer_norm/scale_slot_v"];

#[test]
fn t5_loses_and_regains_the_leading_zeros_of_its_numbers() {
    let small = t5(6, &["wi", "wo"], "layer_norm", "final_layer_norm");
    let unused = maps("t5-mesh-to-hf", 131, &small, ADAFACTOR);
    assert_eq!(unused.len(), 1, "{unused:?}");
    assert!(unused[0].contains("lm_head"), "T5 1.0 has no head of its own: {unused:?}");
}

#[test]
fn t5_1_1_is_gated_and_has_a_head_and_mt5_has_other_names_for_norms() {
    let tables =
        [("t5-mesh-to-hf", "layer_norm", "final_layer_norm"), ("mt5-mesh-to-hf", "rms_norm", "rms_norm")];
    for (table, norm, last_norm) in tables {
        let mut large = t5(24, &["wi_0", "wi_1", "wo"], norm, last_norm);
        add(&mut large, "decoder/logits/", "lm_head.", &[("kernel", "weight", "transpose")]);
        assert_maps(table, 558, &large, ADAFACTOR);
    }
}

fn resnet(blocks: [usize; 4]) -> Expected {
    const NORM: &[(&str, &str, &str)] = &[
        ("gamma", "weight", ""),
        ("beta", "bias", ""),
        ("moving_mean", "running_mean", ""),
        ("moving_variance", "running_var", ""),
    ];
    const CONVOLUTION: &[(&str, &str, &str)] =
        &[("kernel", "weight", "permute 3 2 0 1"), ("bias", "bias", "")];
    let mut all = Expected::new();
    add(&mut all, "conv1_conv/", "conv1.", CONVOLUTION);
    add(&mut all, "conv1_bn/", "bn1.", NORM);
    for (stage, blocks) in blocks.into_iter().enumerate() {
        for block in 0..blocks {
            let from = format!("conv{}_block{}_", stage + 2, block + 1);
            let to = format!("layer{}.{block}.", stage + 1);
            if block == 0 {
                add(&mut all, &format!("{from}0_conv/"), &format!("{to}downsample.0."), CONVOLUTION);
                add(&mut all, &format!("{from}0_bn/"), &format!("{to}downsample.1."), NORM);
            }
            for n in 1..=3 {
                add(&mut all, &format!("{from}{n}_conv/"), &format!("{to}conv{n}."), CONVOLUTION);
                add(&mut all, &format!("{from}{n}_bn/"), &format!("{to}bn{n}."), NORM);
            }
        }
    }
    add(&mut all, "predictions/", "fc.", &[("kernel", "weight", "transpose"), ("bias", "bias", "")]);
    all
}

#[test]
fn resnets_stages_and_blocks_are_counted_from_one_less() {
    let around = ["_CHECKPOINTABLE_OBJECT_GRAPH", "save_counter"];
    for (blocks, count) in [([3, 4, 6, 3], 320), ([3, 4, 23, 3], 626), ([3, 8, 36, 3], 932)] {
        assert_maps("resnet-keras-to-torchvision", count, &resnet(blocks), &around);
    }
}

/// The prefix of a layer's experts, the parts of each, and the router.
fn experts(table: &str) -> (&'static str, [&'static str; 3]) {
    match table {
        "llama-hf-to-gguf" | "mixtral-experts-to-stacked" => {
            ("model.layers.0.block_sparse_moe.", ["w1.weight", "w2.weight", "w3.weight"])
        }
        _ => ("model.layers.0.mlp.", ["gate_proj.weight", "up_proj.weight", "down_proj.weight"]),
    }
}

#[test]
fn a_missing_last_expert_is_an_error_in_every_table_that_stacks_them() {
    let stacks =
        |name: &&str| Registry::builtin().mapping(name).unwrap().to_toml().contains("\nstack_count = ");
    let tables: Vec<_> = Registry::builtin().mappings().map(RegisteredMapping::name).filter(stacks).collect();
    let expected = [
        "deepseek-hf-to-gguf",
        "glm4moe-hf-to-gguf",
        "llama-hf-to-gguf",
        "mixtral-experts-to-stacked",
        "qwen-experts-to-stacked",
        "qwen-hf-to-gguf",
    ];
    assert_eq!(tables, expected);
    for table in tables {
        let mut mapping = Registry::builtin().mapping(table).unwrap();
        for parameter in mapping.clone().parameters() {
            mapping = mapping.with_parameter(parameter, 1).unwrap();
        }
        let (prefix, parts) = experts(table);
        let tensor = |name: String, shape: &[u64]| Tensor::new(name, DType::F32, Shape::new(shape).unwrap());
        let of = |found: u64, routed: u64| {
            let each =
                (0..found).flat_map(|expert| parts.map(|part| format!("{prefix}experts.{expert}.{part}")));
            let mut tensors: Vec<Tensor> = each.map(|name| tensor(name, &[2, 2])).collect();
            tensors.push(tensor(format!("{prefix}gate.weight"), &[routed, 2]));
            mapping.apply_to(&tensors, &Limits::default())
        };
        assert!(of(8, 8).unwrap().inverse.is_ok(), "{table}");
        for (found, says) in [(7, "experts.7."), (9, "experts.8.")] {
            let error = of(found, 8).unwrap_err().to_string();
            for text in [says, "8 elements, the length of axis 0", "gate.weight'"] {
                assert!(error.contains(text), "{table}: {error}");
            }
        }
    }
}
