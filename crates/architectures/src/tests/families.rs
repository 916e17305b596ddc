//! Models of the built-in architectures that their configurations tell apart.

use super::{choices, configuration, tensors};
use crate::{Described, known};
use ckpt_api::{Kind, Limits, Op, Result};
use ckpt_engine::formats::Choices;
use ckpt_engine::source::Configuration;

type Shapes = Vec<(&'static str, &'static [u64])>;

/// Describes a checkpoint by a built-in template, with a `config.json`.
fn described(
    name: &str,
    all: &[(&str, &[u64])],
    config: &str,
    settings: &[(&str, &str)],
) -> Result<Described> {
    describe(name, all, configuration(config)?.as_ref(), settings)
}

fn describe(
    name: &str,
    all: &[(&str, &[u64])],
    config: Option<&Configuration>,
    settings: &[(&str, &str)],
) -> Result<Described> {
    let template = known::template(name).unwrap().unwrap();
    template.describe(&tensors(all), config, &choices(settings), &Limits::default())
}

fn note(described: &Described, name: &str) -> String {
    described.note(&known::template(name).unwrap().unwrap())
}

/// The shape of an output, if there is one.
fn output(described: &Described, name: &str) -> Option<Vec<Option<u64>>> {
    let outputs = &described.expanded.graph.outputs;
    outputs.iter().find(|output| output.name == name).map(|output| output.shape.clone())
}

fn refused(described: Result<Described>) -> String {
    let error = described.map(drop).unwrap_err();
    assert_eq!(error.kind(), Kind::Unsupported, "{error}");
    error.to_string()
}

fn t5(is_gated: bool) -> Shapes {
    let mut all: Shapes = vec![
        ("shared.weight", &[7, 4]),
        ("encoder.block.0.layer.0.layer_norm.weight", &[4]),
        ("encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight", &[8, 2]),
        ("encoder.block.0.layer.0.SelfAttention.q.weight", &[4, 4]),
        ("encoder.block.0.layer.0.SelfAttention.k.weight", &[4, 4]),
        ("encoder.block.0.layer.0.SelfAttention.v.weight", &[4, 4]),
        ("encoder.block.0.layer.0.SelfAttention.o.weight", &[4, 4]),
        ("encoder.block.0.layer.1.layer_norm.weight", &[4]),
        ("encoder.block.0.layer.1.DenseReluDense.wo.weight", &[4, 6]),
        ("encoder.final_layer_norm.weight", &[4]),
    ];
    match is_gated {
        true => all.extend([
            ("encoder.block.0.layer.1.DenseReluDense.wi_0.weight", &[6, 4][..]),
            ("encoder.block.0.layer.1.DenseReluDense.wi_1.weight", &[6, 4]),
        ]),
        false => all.push(("encoder.block.0.layer.1.DenseReluDense.wi.weight", &[6, 4])),
    }
    all
}

#[test]
fn the_activation_of_t5_is_the_one_that_its_projection_names() {
    let with = |is_gated, projection: &str| {
        let config = format!(r#"{{"model_type": "t5", "feed_forward_proj": "{projection}"}}"#);
        described("t5", &t5(is_gated), &config, &[])
    };
    for (is_gated, projection, expected) in [
        (false, "relu", "Relu"),
        (false, "gelu_new", "Gelu"),
        (false, "tanh", "Tanh"),
        (false, "swish", "Swish"),
        (false, "not_known", "not_known"),
        (true, "gated-gelu", "Gelu"),
        (true, "gated-relu", "Relu"),
        (true, "gated-silu", "Swish"),
    ] {
        let described = with(is_gated, projection).unwrap();
        let node = described.expanded.graph.nodes.iter().find(|node| node.name.ends_with(".act")).unwrap();
        assert_eq!(node.op, Op::from(expected.to_owned()), "{projection}");
    }
    for (is_gated, projection, text) in [
        (false, "gated-gelu", "gated-gelu without the tensors of a gate"),
        (true, "gated-tanh", "gated-tanh, which is none of"),
        (true, "relu", "the tensors of a gate with a projection of the kind relu"),
    ] {
        let error = refused(with(is_gated, projection));
        assert!(error.contains(text), "{error}");
    }
}

fn bert(types: &'static [u64], more: &[(&'static str, &'static [u64])]) -> Shapes {
    let mut all: Shapes = vec![
        ("bert.embeddings.word_embeddings.weight", &[9, 4]),
        ("bert.embeddings.position_embeddings.weight", &[6, 4]),
        ("bert.embeddings.token_type_embeddings.weight", types),
        ("bert.embeddings.LayerNorm.weight", &[4]),
        ("bert.embeddings.LayerNorm.bias", &[4]),
        ("bert.encoder.layer.0.attention.self.query.weight", &[4, 4]),
        ("bert.encoder.layer.0.attention.self.key.weight", &[4, 4]),
        ("bert.encoder.layer.0.attention.self.value.weight", &[4, 4]),
        ("bert.encoder.layer.0.attention.output.dense.weight", &[4, 4]),
        ("bert.encoder.layer.0.attention.output.LayerNorm.weight", &[4]),
        ("bert.encoder.layer.0.attention.output.LayerNorm.bias", &[4]),
        ("bert.encoder.layer.0.intermediate.dense.weight", &[6, 4]),
        ("bert.encoder.layer.0.output.dense.weight", &[4, 6]),
        ("bert.encoder.layer.0.output.LayerNorm.weight", &[4]),
        ("bert.encoder.layer.0.output.LayerNorm.bias", &[4]),
    ];
    all.extend_from_slice(more);
    all
}

fn albert(more: &[(&'static str, &'static [u64])]) -> Shapes {
    let mut all: Shapes = vec![
        ("albert.embeddings.word_embeddings.weight", &[9, 3]),
        ("albert.embeddings.position_embeddings.weight", &[6, 3]),
        ("albert.embeddings.token_type_embeddings.weight", &[2, 3]),
        ("albert.embeddings.LayerNorm.weight", &[3]),
        ("albert.embeddings.LayerNorm.bias", &[3]),
        ("albert.encoder.embedding_hidden_mapping_in.weight", &[4, 3]),
        ("albert.encoder.albert_layer_groups.0.albert_layers.0.attention.query.weight", &[4, 4]),
        ("albert.encoder.albert_layer_groups.0.albert_layers.0.attention.key.weight", &[4, 4]),
        ("albert.encoder.albert_layer_groups.0.albert_layers.0.attention.value.weight", &[4, 4]),
        ("albert.encoder.albert_layer_groups.0.albert_layers.0.attention.dense.weight", &[4, 4]),
        ("albert.encoder.albert_layer_groups.0.albert_layers.0.attention.LayerNorm.weight", &[4]),
        ("albert.encoder.albert_layer_groups.0.albert_layers.0.attention.LayerNorm.bias", &[4]),
        ("albert.encoder.albert_layer_groups.0.albert_layers.0.ffn.weight", &[6, 4]),
        ("albert.encoder.albert_layer_groups.0.albert_layers.0.ffn_output.weight", &[4, 6]),
        ("albert.encoder.albert_layer_groups.0.albert_layers.0.full_layer_layer_norm.weight", &[4]),
        ("albert.encoder.albert_layer_groups.0.albert_layers.0.full_layer_layer_norm.bias", &[4]),
    ];
    all.extend_from_slice(more);
    all
}

#[test]
fn a_classifier_is_for_tokens_or_sequences_as_the_configuration_or_the_pooler_tells() {
    const CLASSIFIER: (&str, &[u64]) = ("classifier.weight", &[3, 4]);
    let tokens = Some(vec![None, None, Some(3)]);
    let sequences = Some(vec![None, Some(3)]);
    for (name, class, pooler) in
        [("bert", "Bert", "bert.pooler.dense.weight"), ("albert", "Albert", "albert.pooler.weight")]
    {
        let make = |more: &[(&'static str, &'static [u64])]| match name {
            "bert" => bert(&[2, 4], more),
            _ => albert(more),
        };
        let (bare, pooled) = (make(&[CLASSIFIER]), make(&[CLASSIFIER, (pooler, &[4, 4])]));
        let with = |all: &[(&str, &[u64])], task: &str| {
            let numbers = r#""num_attention_heads": 2, "num_hidden_layers": 1"#;
            let config =
                format!(r#"{{"model_type": "{name}", {numbers}, "architectures": ["{class}{task}"]}}"#);
            described(name, all, &config, &[])
        };
        let logits = |all, task| output(&with(all, task).unwrap(), "logits");
        assert_eq!(logits(&bare, "ForTokenClassification"), tokens);
        assert_eq!(logits(&pooled, "ForTokenClassification"), tokens);
        assert_eq!(logits(&pooled, "ForSequenceClassification"), sequences);
        let error = refused(with(&bare, "ForSequenceClassification"));
        assert!(error.contains("a classifier of sequences without a pooler"), "{error}");
        let other = with(&pooled, "ForMultipleChoice").unwrap();
        assert_eq!((output(&other, "logits"), other.unused), (None, vec!["classifier.weight".to_owned()]));

        let settings = match name {
            "bert" => &[("heads", "2")][..],
            _ => &[("heads", "2"), ("layers", "1")],
        };
        for (all, expected, text) in [
            (&bare, &tokens, "task token classification"),
            (&pooled, &sequences, "task sequence classification"),
        ] {
            let found = describe(name, all, None, settings).unwrap();
            assert_eq!(output(&found, "logits"), *expected);
            assert!(note(&found, name).contains(text), "{}", note(&found, name));
        }
    }
}

#[test]
fn names_of_bert_with_one_type_of_tokens_need_a_configuration() {
    let one = bert(&[1, 4], &[]);
    let error = refused(describe("bert", &one, None, &[("heads", "2")]));
    assert!(error.contains("one type of tokens, like RoBERTa"), "{error}");
    refused(described("bert", &one, r#"{"num_attention_heads": 2}"#, &[]));
    for family in ["bert", "electra"] {
        let config = format!(r#"{{"model_type": "{family}", "num_attention_heads": 2}}"#);
        assert!(described("bert", &one, &config, &[]).is_ok());
    }
}

const LLAMA: &[(&str, &[u64])] = &[
    ("model.embed_tokens.weight", &[7, 4]),
    ("model.layers.0.input_layernorm.weight", &[4]),
    ("model.layers.0.self_attn.q_proj.weight", &[4, 4]),
    ("model.layers.0.self_attn.k_proj.weight", &[4, 4]),
    ("model.layers.0.self_attn.v_proj.weight", &[4, 4]),
    ("model.layers.0.self_attn.o_proj.weight", &[4, 4]),
    ("model.layers.0.post_attention_layernorm.weight", &[4]),
    ("model.layers.0.mlp.gate_proj.weight", &[6, 4]),
    ("model.layers.0.mlp.up_proj.weight", &[6, 4]),
    ("model.layers.0.mlp.down_proj.weight", &[4, 6]),
    ("model.norm.weight", &[4]),
];

/// Two stages of ResNet's bottlenecks; the others have no block.
const RESNET: &[(&str, &[u64])] = &[
    ("conv1.weight", &[4, 3, 7, 7]),
    ("bn1.weight", &[4]),
    ("bn1.bias", &[4]),
    ("bn1.running_mean", &[4]),
    ("bn1.running_var", &[4]),
    ("layer1.0.conv1.weight", &[4, 4, 1, 1]),
    ("layer1.0.bn1.weight", &[4]),
    ("layer1.0.bn1.bias", &[4]),
    ("layer1.0.bn1.running_mean", &[4]),
    ("layer1.0.bn1.running_var", &[4]),
    ("layer1.0.conv2.weight", &[4, 4, 3, 3]),
    ("layer1.0.bn2.weight", &[4]),
    ("layer1.0.bn2.bias", &[4]),
    ("layer1.0.bn2.running_mean", &[4]),
    ("layer1.0.bn2.running_var", &[4]),
    ("layer1.0.conv3.weight", &[4, 4, 1, 1]),
    ("layer1.0.bn3.weight", &[4]),
    ("layer1.0.bn3.bias", &[4]),
    ("layer1.0.bn3.running_mean", &[4]),
    ("layer1.0.bn3.running_var", &[4]),
    ("layer2.0.conv1.weight", &[4, 4, 1, 1]),
    ("layer2.0.bn1.weight", &[4]),
    ("layer2.0.bn1.bias", &[4]),
    ("layer2.0.bn1.running_mean", &[4]),
    ("layer2.0.bn1.running_var", &[4]),
    ("layer2.0.conv2.weight", &[4, 4, 3, 3]),
    ("layer2.0.bn2.weight", &[4]),
    ("layer2.0.bn2.bias", &[4]),
    ("layer2.0.bn2.running_mean", &[4]),
    ("layer2.0.bn2.running_var", &[4]),
    ("layer2.0.conv3.weight", &[4, 4, 1, 1]),
    ("layer2.0.bn3.weight", &[4]),
    ("layer2.0.bn3.bias", &[4]),
    ("layer2.0.bn3.running_mean", &[4]),
    ("layer2.0.bn3.running_var", &[4]),
    ("layer4.0.conv2.weight", &[4, 4, 3, 3]),
    ("layer4.0.bn3.weight", &[4]),
];

const GPT2: &[(&str, &[u64])] = &[
    ("wte.weight", &[7, 4]),
    ("wpe.weight", &[6, 4]),
    ("h.0.ln_1.weight", &[4]),
    ("h.0.ln_1.bias", &[4]),
    ("h.0.attn.c_attn.weight", &[4, 12]),
    ("h.0.attn.c_attn.bias", &[12]),
    ("h.0.attn.c_proj.weight", &[4, 4]),
    ("h.0.attn.c_proj.bias", &[4]),
    ("h.0.ln_2.weight", &[4]),
    ("h.0.ln_2.bias", &[4]),
    ("h.0.mlp.c_fc.weight", &[4, 8]),
    ("h.0.mlp.c_fc.bias", &[8]),
    ("h.0.mlp.c_proj.weight", &[8, 4]),
    ("h.0.mlp.c_proj.bias", &[4]),
    ("ln_f.weight", &[4]),
    ("ln_f.bias", &[4]),
];

#[test]
fn embeddings_give_logits_only_if_they_are_tied() {
    let headed = [LLAMA, &[("lm_head.weight", &[7, 4])]].concat();
    let has_logits = |name: &str, all: &[(&str, &[u64])], more: &str| {
        let config =
            format!(r#"{{"model_type": "{name}", "num_attention_heads": 2, "rope_theta": 10000.0 {more}}}"#);
        output(&described(name, all, &config, &[]).unwrap(), "logits").is_some()
    };
    let (tied, untied) = (r#", "tie_word_embeddings": true"#, r#", "tie_word_embeddings": false"#);
    assert!(has_logits("llama", LLAMA, tied));
    assert!(!has_logits("llama", LLAMA, untied));
    assert!(!has_logits("llama", LLAMA, ""), "Llama's are not tied unless its configuration says so");
    assert!(has_logits("llama", &headed, untied) && has_logits("llama", &headed, ""));
    assert!(has_logits("gpt2", GPT2, tied) && has_logits("gpt2", GPT2, ""));
    assert!(!has_logits("gpt2", GPT2, untied));

    let alone = describe("llama", LLAMA, None, &[("heads", "2"), ("theta", "10000.0")]).unwrap();
    assert!(output(&alone, "logits").is_some());
    let note = note(&alone, "llama");
    assert!(note.split_once("; assumed: ").unwrap().1.contains("tied true"), "{note}");
}

#[test]
fn a_note_lists_what_no_configuration_can_state_as_assumed() {
    let source = super::TWO_LAYERS.replacen(r#""config": ["bound"], "#, "", 1);
    for (json, is_listed) in [(source.as_str(), true), (super::TWO_LAYERS, false)] {
        let template = super::template(json);
        let config = configuration(r#"{"model_type": "net", "slope": 1}"#).unwrap();
        let found = template
            .describe(&tensors(super::NET), config.as_ref(), &Choices::default(), &Limits::default())
            .unwrap();
        let note = found.note(&template);
        assert_eq!(note.contains("; assumed: bound 6.0"), is_listed, "{note}");
    }
}

#[test]
fn a_configuration_states_which_layers_have_a_window() {
    let masks = |more: &str| {
        let config = format!(
            r#"{{"model_type": "qwen2", "num_attention_heads": 2, "rope_theta": 10000.0, "sliding_window": 3 {more}}}"#
        );
        let nodes = described("llama", LLAMA, &config, &[]).unwrap().expanded.graph.nodes;
        let node = nodes.iter().find(|node| node.name == "layers.0.attention.masked").unwrap();
        node.inputs[0].clone()
    };
    assert_eq!(masks(r#", "use_sliding_window": false, "max_window_layers": 0"#), "causal");
    assert_eq!(masks(r#", "use_sliding_window": true"#), "causal");
    assert_eq!(masks(r#", "use_sliding_window": true, "max_window_layers": 0"#), "sliding");
    let kinds = |kind: &str| format!(r#", "use_sliding_window": true, "layer_types": ["{kind}"]"#);
    assert_eq!(masks(&kinds("sliding_attention")), "sliding");
    assert_eq!(masks(&format!("{}, \"max_window_layers\": 0", kinds("full_attention"))), "causal");
}

#[test]
fn the_graph_has_the_optional_inputs_that_are_given_or_named_by_an_option() {
    let all = bert(&[2, 4], &[]);
    let inputs = |choices: &Choices| {
        let template = known::template("bert").unwrap().unwrap();
        let described = template.describe(&tensors(&all), None, choices, &Limits::default())?;
        let names = described.expanded.graph.inputs.iter().map(|input| input.name.clone());
        Ok::<_, ckpt_api::Error>((names.collect::<Vec<_>>(), described.note(&template)))
    };
    let heads = choices(&[("heads", "2")]);
    let (without, text) = inputs(&heads).unwrap();
    assert_eq!(without, ["input_ids"]);
    assert!(text.contains("may be given, too: attention_mask, token_type_ids, position_ids"), "{text}");
    let mut given = heads;
    given.inputs = vec!["attention_mask".to_owned(), "other".to_owned()];
    assert_eq!(inputs(&given).unwrap().0, ["input_ids", "attention_mask"]);
    let named = choices(&[("heads", "2"), ("inputs", "position_ids, token_type_ids")]);
    assert_eq!(inputs(&named).unwrap().0, ["input_ids", "token_type_ids", "position_ids"]);
    let error = inputs(&choices(&[("heads", "2"), ("inputs", "atention_mask")])).map(drop).unwrap_err();
    assert!(error.to_string().contains("did you mean 'attention_mask'"), "{error}");
}

#[test]
fn a_note_does_not_call_a_family_assumed_that_the_user_names() {
    let all = bert(&[2, 4], &[]);
    let template = known::template("bert").unwrap().unwrap();
    for (is_named, is_assumed) in [(true, false), (false, true)] {
        let mut choices = choices(&[("heads", "2")]);
        choices.is_named = is_named;
        let described = template.describe(&tensors(&all), None, &choices, &Limits::default()).unwrap();
        let note = described.note(&template);
        assert_eq!(note.contains("the family is assumed"), is_assumed, "{note}");
    }
}

#[test]
fn a_configuration_states_which_convolution_of_a_block_has_the_stride() {
    let strides = |config: &str| {
        let config = configuration(config).unwrap();
        let described = describe("resnet", RESNET, config.as_ref(), &[]).unwrap();
        let nodes = described.expanded.graph.nodes;
        ["layer2.0.conv1", "layer2.0.conv2"].map(|name| {
            let node = nodes.iter().find(|node| node.name == name).unwrap();
            node.ints("strides").unwrap().unwrap()[0]
        })
    };
    assert_eq!(strides("{}"), [1, 2]);
    assert_eq!(strides(r#"{"downsample_in_bottleneck": false}"#), [1, 2]);
    assert_eq!(strides(r#"{"downsample_in_bottleneck": true}"#), [2, 1]);
}

#[test]
fn a_note_says_that_a_family_is_assumed_unless_a_configuration_states_it() {
    let text = "the family is assumed from the names";
    let (all, settings) = (bert(&[2, 4], &[]), [("heads", "2")]);
    let alone = describe("bert", &all, None, &settings).unwrap();
    assert!(note(&alone, "bert").contains(text), "{}", note(&alone, "bert"));
    let unnamed = described("bert", &all, "{}", &settings).unwrap();
    assert!(note(&unnamed, "bert").contains(text), "{}", note(&unnamed, "bert"));
    let named = described("bert", &all, r#"{"model_type": "bert"}"#, &settings).unwrap();
    assert!(!note(&named, "bert").contains("assumed"), "{}", note(&named, "bert"));
}
