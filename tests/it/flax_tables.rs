//! The tables for the Flax classes of transformers, on the names that these have.
//! (`tests/interop/flax_tables.py` compares the tensors with those that transformers makes.)

use crate::mapping_tables::{Expected, assert_maps};

/// A tensor that is called `from` and `to` below the same path.
fn below(path: &str, pairs: &[(&str, &str, &'static str)]) -> Expected {
    let named = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    pairs.iter().map(|(from, to, steps)| (named(from), named(to), *steps)).collect()
}

const DENSE: [(&str, &str, &str); 2] = [("kernel", "weight", "transpose"), ("bias", "bias", "")];

#[test]
fn bert_has_kernels_scales_and_embeddings() {
    let layer = "bert.encoder.layer.11.attention";
    let all = [
        below("bert.embeddings", &[("word_embeddings.embedding", "word_embeddings.weight", "")]),
        below("embeddings", &[("position_embeddings.embedding", "position_embeddings.weight", "")]),
        below("bert.embeddings.LayerNorm", &[("scale", "weight", ""), ("bias", "bias", "")]),
        below("lm_head.layer_norm", &[("scale", "weight", ""), ("bias", "bias", "")]),
        below(&format!("{layer}.self.query"), &DENSE),
        below(&format!("{layer}.output.dense"), &DENSE),
        below("classifier", &DENSE),
        below("cls.predictions", &[("bias", "bias", "")]),
    ];
    assert_maps("bert-flax-to-hf", 13, &all.concat(), &[]);
}

#[test]
fn gpt2_has_matrices_the_other_way_round() {
    let embeddings = [("wte.embedding", "wte.weight", ""), ("wpe.embedding", "wpe.weight", "")];
    let norm = [("ln_f.scale", "ln_f.weight", ""), ("ln_f.bias", "ln_f.bias", "")];
    let all = [
        below("transformer", &embeddings),
        below("", &embeddings),
        below("transformer", &norm),
        below("", &norm),
        below("transformer.h.11.attn.c_attn", &DENSE),
        below("h.0.mlp.c_fc", &DENSE),
    ];
    assert_maps("gpt2-flax-to-hf", 12, &all.concat(), &[]);
}

#[test]
fn t5_has_norms_of_the_same_name() {
    let bias = "SelfAttention.relative_attention_bias";
    let all = [
        below("shared", &[("embedding", "weight", "")]),
        below(&format!("encoder.block.0.layer.0.{bias}"), &[("embedding", "weight", "")]),
        below("encoder.block.0.layer.0.layer_norm", &[("weight", "weight", "")]),
        below("decoder.final_layer_norm", &[("weight", "weight", "")]),
        below("decoder.block.5.layer.1.EncDecAttention.q", &DENSE[..1]),
        below("decoder.block.5.layer.2.DenseReluDense.wi_0", &DENSE[..1]),
        below("lm_head", &DENSE[..1]),
    ];
    assert_maps("t5-flax-to-hf", 7, &all.concat(), &[]);
}

#[test]
fn vit_has_a_convolution() {
    let patches = [("kernel", "weight", "permute 3 2 0 1"), ("bias", "bias", "")];
    let norm = [("scale", "weight", ""), ("bias", "bias", "")];
    let all = [
        below("vit.embeddings", &[("cls_token", "cls_token", "")]),
        below("vit.embeddings", &[("position_embeddings", "position_embeddings", "")]),
        below("vit.embeddings.patch_embeddings.projection", &patches),
        below("vit.encoder.layer.0.layernorm_before", &norm),
        below("vit.layernorm", &norm),
        below("layernorm", &norm),
        below("vit.encoder.layer.0.attention.attention.query", &DENSE),
    ];
    assert_maps("vit-flax-to-hf", 12, &all.concat(), &[]);
}

#[test]
fn llama_has_norms_of_the_same_name() {
    let embeddings = [("embed_tokens.embedding", "embed_tokens.weight", "")];
    let all = [
        below("model", &embeddings),
        below("", &embeddings),
        below("model", &[("norm.weight", "norm.weight", "")]),
        below("", &[("norm.weight", "norm.weight", "")]),
        below("model.layers.31.input_layernorm", &[("weight", "weight", "")]),
        below("model.layers.31.post_attention_layernorm", &[("weight", "weight", "")]),
        below("model.layers.31.self_attn.q_proj", &DENSE[..1]),
        below("lm_head", &DENSE[..1]),
    ];
    assert_maps("llama-flax-to-hf", 8, &all.concat(), &[]);
}

#[test]
fn t5_of_t5x_numbers_its_layers_and_has_a_tree_within_the_optimizer() {
    const PROJECTIONS: [(&str, &str, &str); 4] = [
        ("query.kernel", "q.weight", "transpose"),
        ("key.kernel", "k.weight", "transpose"),
        ("value.kernel", "v.weight", "transpose"),
        ("out.kernel", "o.weight", "transpose"),
    ];
    let mut all = Expected::new();
    let mut add = |from: &str, to: &str, pairs: &[(&str, &str, &'static str)]| {
        let named = |(a, b, steps): &(&str, &str, &'static str)| {
            (format!("optimizer.target.{from}.{a}"), format!("{to}.{b}"), *steps)
        };
        all.extend(pairs.iter().map(named));
    };
    add("token_embedder", "shared", &[("embedding", "weight", "")]);
    add("decoder.logits_dense", "lm_head", &[("kernel", "weight", "transpose")]);
    for stack in ["encoder", "decoder"] {
        let norm = format!("{stack}_norm");
        add(&format!("{stack}.{norm}"), &format!("{stack}.final_layer_norm"), &[("scale", "weight", "")]);
        let bias = format!("{stack}.block.0.layer.0.SelfAttention.relative_attention_bias");
        add(&format!("{stack}.relpos_bias"), &bias, &[("rel_embedding", "weight", "transpose")]);
    }
    let layers = [
        ("encoder", 0, "pre_attention_layer_norm", "attention", "SelfAttention"),
        ("encoder", 1, "pre_mlp_layer_norm", "mlp", "DenseReluDense"),
        ("decoder", 0, "pre_self_attention_layer_norm", "self_attention", "SelfAttention"),
        ("decoder", 1, "pre_cross_attention_layer_norm", "encoder_decoder_attention", "EncDecAttention"),
        ("decoder", 2, "pre_mlp_layer_norm", "mlp", "DenseReluDense"),
    ];
    for (stack, layer, norm, from, to) in layers {
        let (own, block) = (format!("{stack}.layers_11"), format!("{stack}.block.11.layer.{layer}"));
        add(&format!("{own}.{norm}"), &format!("{block}.layer_norm"), &[("scale", "weight", "")]);
        let dense = [("wi_0.kernel", "wi_0.weight", "transpose"), ("wo.kernel", "wo.weight", "transpose")];
        let pairs: &[_] = if from == "mlp" { &dense } else { &PROJECTIONS };
        add(&format!("{own}.{from}"), &format!("{block}.{to}"), pairs);
    }
    assert_maps("t5-t5x-to-hf", 27, &all, &[]);
}
