use super::*;

/// The keys of a llama with so many layers, heads, heads of values and experts.
fn keys(architecture: &str, numbers: [u32; 4]) -> MetadataMap {
    let names = ["block_count", "attention.head_count", "attention.head_count_kv", "expert_count"];
    let numbers = names
        .iter()
        .zip(numbers)
        .map(|(name, number)| (format!("{architecture}.{name}"), MetadataValue::U32(number)));
    let own = ("general.architecture".to_owned(), MetadataValue::from(architecture));
    [own].into_iter().chain(numbers.filter(|(_, number)| *number != MetadataValue::U32(0))).collect()
}

/// The types of tensors of 256 columns, in this order.
fn types(mix: Mix, keys: &MetadataMap, names: &[&str]) -> Vec<BlockType> {
    let mut chooser = Chooser::new(mix, keys, names.iter().copied()).unwrap();
    let shape = Shape::new([256, 256]).unwrap();
    names.iter().map(|name| chooser.choose(name, &shape).unwrap()).collect()
}

/// The types of one kind of tensor in each layer, in a file with an output of its own.
fn of_layers(mix: Mix, keys: &MetadataMap, kind: &str, layers: usize) -> Vec<BlockType> {
    let names: Vec<String> = (0..layers).map(|layer| format!("blk.{layer}.{kind}.weight")).collect();
    let names: Vec<&str> = ["output.weight"].into_iter().chain(names.iter().map(String::as_str)).collect();
    types(mix, keys, &names)[1..].to_vec()
}

/// The layers of which a kind of tensor has this type.
fn layers_of(mix: Mix, kind: &str, wanted: BlockType) -> Vec<usize> {
    let all = of_layers(mix, &keys("llama", [16, 8, 8, 0]), kind, 16);
    (0..16).filter(|layer| all[*layer] == wanted).collect()
}

const MIXES: [Mix; 16] = [
    Mix::Q2_K,
    Mix::Q3_K_S,
    Mix::Q3_K_M,
    Mix::Q3_K_L,
    Mix::Q4_K_S,
    Mix::Q4_K_M,
    Mix::Q5_K_S,
    Mix::Q5_K_M,
    Mix::Q6_K,
    Mix::IQ4_NL,
    Mix::IQ4_XS,
    Mix::IQ3_S,
    Mix::IQ3_M,
    Mix::TQ1_0,
    Mix::TQ2_0,
    Mix::MXFP4_MOE,
];

#[test]
fn the_output_and_tied_embeddings_have_six_bits_or_eight() {
    let keys = keys("llama", [2, 8, 8, 0]);
    for mix in MIXES {
        let expected = if mix == Mix::MXFP4_MOE { Q8_0 } else { Q6_K };
        assert_eq!(types(mix, &keys, &["token_embd.weight"]), [expected], "{mix:?}");
        let both = types(mix, &keys, &["output.weight", "token_embd.weight"]);
        let embedding = match mix {
            Mix::TQ1_0 | Mix::TQ2_0 => Q4_K,
            Mix::MXFP4_MOE => Q8_0,
            other => other.base(),
        };
        assert_eq!(both, [expected, embedding], "{mix:?}");
        let shape = Shape::new([4, 96]).unwrap();
        let mut chooser = Chooser::new(mix, &keys, ["output.weight"].into_iter()).unwrap();
        let of_short_rows = if mix == Mix::IQ4_NL { Q6_K } else { Q8_0 };
        assert_eq!(chooser.choose("output.weight", &shape).unwrap(), of_short_rows, "{mix:?}");
    }
}

#[test]
fn values_get_more_bits_by_their_count() {
    let of = |mix| of_layers(mix, &keys("llama", [16, 8, 8, 0]), "attn_v", 16);
    assert_eq!(layers_of(Mix::Q4_K_M, "attn_v", Q6_K), [0, 1, 4, 7, 10, 13, 14, 15]);
    assert_eq!(layers_of(Mix::Q5_K_M, "attn_v", Q6_K), [0, 1, 4, 7, 10, 13, 14, 15]);
    assert_eq!(layers_of(Mix::Q4_K_S, "attn_v", Q5_K), [0, 1, 2, 3]);
    assert_eq!(layers_of(Mix::Q3_K_M, "attn_v", Q5_K), [0, 1]);
    assert_eq!(of(Mix::Q3_K_M)[2..], [Q4_K; 14]);
    for (mix, expected) in [
        (Mix::Q2_K, Q3_K),
        (Mix::Q3_K_S, Q3_K),
        (Mix::Q3_K_L, Q5_K),
        (Mix::Q5_K_S, Q5_K),
        (Mix::Q6_K, Q6_K),
        (Mix::IQ4_NL, IQ4_NL),
        (Mix::IQ4_XS, IQ4_XS),
        (Mix::IQ3_S, IQ3_S),
        (Mix::IQ3_M, Q4_K),
        (Mix::TQ1_0, TQ1_0),
        (Mix::MXFP4_MOE, Q8_0),
    ] {
        assert_eq!(of(mix), [expected; 16], "{mix:?}");
    }
}

#[test]
fn values_that_four_heads_share_get_more_bits() {
    for (mix, expected) in
        [(Mix::Q2_K, Q4_K), (Mix::IQ3_S, Q4_K), (Mix::IQ4_NL, Q5_K), (Mix::IQ4_XS, Q5_K), (Mix::Q3_K_S, Q3_K)]
    {
        assert_eq!(of_layers(mix, &keys("qwen2", [1, 8, 2, 0]), "attn_v", 1), [expected], "{mix:?}");
        assert_eq!(of_layers(mix, &keys("qwen2", [1, 8, 2, 0]), "attn_qkv", 1), [expected], "{mix:?}");
    }
    // Without the number of heads of values, each has its own.
    assert_eq!(of_layers(Mix::Q2_K, &keys("qwen2", [1, 8, 0, 0]), "attn_v", 1), [Q3_K]);
}

#[test]
fn the_number_of_heads_may_be_a_list_and_its_first_counts() {
    let mut keys = keys("llama", [1, 8, 0, 0]);
    keys.insert("llama.attention.head_count_kv", vec![2u32, 8]);
    assert_eq!(of_layers(Mix::Q2_K, &keys, "attn_v", 1), [Q4_K]);
    keys.insert("llama.attention.head_count_kv", "two");
    let mut chooser = Chooser::new(Mix::Q2_K, &keys, [].into_iter()).unwrap();
    let error = chooser.choose("attn_v.weight", &Shape::new([1, 256]).unwrap()).unwrap_err();
    assert!(error.to_string().contains("llama.attention.head_count_kv"), "{error}");
}

#[test]
fn values_of_the_largest_models_get_five_bits() {
    let of = |mix, architecture, numbers| of_layers(mix, &keys(architecture, numbers), "attn_v", 80)[40];
    assert_eq!(of(Mix::Q3_K_S, "llama", [80, 64, 8, 0]), Q5_K);
    assert_eq!(of(Mix::Q4_K_S, "llama", [80, 64, 8, 0]), Q5_K);
    assert_eq!(of(Mix::Q4_K_S, "llama", [80, 64, 64, 0]), Q4_K);
    assert_eq!(of(Mix::Q4_K_S, "llama", [79, 64, 8, 0]), Q4_K);
    assert_eq!(of(Mix::Q4_K_S, "qwen2", [80, 64, 64, 0]), Q5_K);
    assert_eq!(of(Mix::Q6_K, "llama", [80, 64, 8, 0]), Q6_K);
}

#[test]
fn the_way_down_gets_more_bits_in_some_layers() {
    assert_eq!(layers_of(Mix::Q4_K_M, "ffn_down", Q6_K), [0, 1, 4, 7, 10, 13, 14, 15]);
    assert_eq!(layers_of(Mix::Q5_K_M, "ffn_down", Q6_K), [0, 1, 4, 7, 10, 13, 14, 15]);
    assert_eq!(layers_of(Mix::Q4_K_S, "ffn_down", Q5_K), [0, 1]);
    assert_eq!(layers_of(Mix::Q3_K_M, "ffn_down", Q5_K), [0]);
    assert_eq!(layers_of(Mix::IQ4_NL, "ffn_down", Q5_K), [0, 1]);
    assert_eq!(layers_of(Mix::IQ4_XS, "ffn_down", Q5_K), [0, 1]);
    assert_eq!(layers_of(Mix::IQ3_M, "ffn_down", Q4_K), [0, 1]);
    for (mix, expected) in [(Mix::Q2_K, Q3_K), (Mix::Q3_K_L, Q5_K), (Mix::Q3_K_S, Q3_K), (Mix::IQ3_S, IQ3_S)]
    {
        assert_eq!(layers_of(mix, "ffn_down", expected).len(), 16, "{mix:?}");
    }
}

#[test]
fn the_output_of_attention_gets_more_bits_in_a_few_mixes() {
    let of = |mix, experts| of_layers(mix, &keys("llama", [1, 8, 8, experts]), "attn_output", 1)[0];
    for (mix, expected, of_eight) in [
        (Mix::Q2_K, Q3_K, Q5_K),
        (Mix::Q3_K_S, Q3_K, Q5_K),
        (Mix::Q3_K_M, Q4_K, Q5_K),
        (Mix::Q3_K_L, Q5_K, Q3_K),
        (Mix::Q4_K_S, Q4_K, Q5_K),
        (Mix::Q4_K_M, Q4_K, Q5_K),
        (Mix::Q5_K_M, Q5_K, Q5_K),
        (Mix::Q6_K, Q6_K, Q6_K),
        (Mix::IQ4_NL, IQ4_NL, Q5_K),
        (Mix::IQ3_S, IQ3_S, Q5_K),
        (Mix::IQ3_M, Q4_K, Q5_K),
        (Mix::TQ2_0, TQ2_0, TQ2_0),
    ] {
        assert_eq!((of(mix, 0), of(mix, 8)), (expected, of_eight), "{mix:?}");
    }
}

#[test]
fn keys_and_values_of_exactly_eight_experts_have_eight_bits() {
    for mix in MIXES {
        for kind in ["attn_v", "attn_k"] {
            assert_eq!(of_layers(mix, &keys("llama", [1, 8, 8, 8]), kind, 1), [Q8_0], "{mix:?}");
        }
        if mix != Mix::MXFP4_MOE {
            assert_eq!(of_layers(mix, &keys("llama", [1, 8, 8, 16]), "attn_k", 1), [mix.base()], "{mix:?}");
        }
    }
    let eight = of_layers(Mix::IQ3_M, &keys("llama", [16, 8, 8, 8]), "ffn_down_exps", 16);
    assert_eq!(eight.iter().filter(|own| **own == Q4_K).count(), 8);
}

#[test]
fn the_layer_of_an_expert_is_in_its_name() {
    let keys = keys("llama", [16, 8, 8, 4]);
    let names = ["blk.5.ffn_down_exps.weight", "blk.15.ffn_down_shexp.weight"];
    assert_eq!(types(Mix::Q4_K_M, &keys, &names), [Q4_K, Q6_K]);
    let mut chooser = Chooser::new(Mix::Q4_K_M, &keys, [].into_iter()).unwrap();
    for wrong in ["ffn_down_exps.weight", "blk.16.ffn_down_exps.weight"] {
        let error = chooser.choose(wrong, &Shape::new([256, 256]).unwrap()).unwrap_err().to_string();
        assert!(error.contains(wrong) && error.contains("from 0 to 15"), "{error}");
    }
}

#[test]
fn experts_alone_are_stored_in_four_bit_floats() {
    let keys = keys("llama", [1, 8, 8, 4]);
    let mut chooser = Chooser::new(Mix::MXFP4_MOE, &keys, ["output.weight"].into_iter()).unwrap();
    let mut of = |name: &str, lens: &[u64]| chooser.choose(name, &Shape::new(lens).unwrap()).unwrap();
    assert_eq!(of("blk.0.ffn_up_exps.weight", &[4, 8, 64]), MXFP4);
    assert_eq!(of("blk.0.ffn_up_shexp.weight", &[8, 64]), Q8_0);
    assert_eq!(of("blk.0.attn_k_b.weight", &[1, 8, 64]), Q8_0);
}

#[test]
fn falcon_has_rules_of_its_own() {
    let keys = keys("falcon", [16, 8, 1, 0]);
    assert_eq!(types(Mix::Q4_K_M, &keys, &["output.weight"]), [Q8_0]);
    let down = of_layers(Mix::Q4_K_M, &keys, "ffn_down", 16);
    assert_eq!(down[..5], [Q6_K, Q5_K, Q4_K, Q4_K, Q5_K]);
    assert_eq!(of_layers(Mix::Q3_K_L, &keys, "ffn_down", 1), [Q4_K]);
    assert_eq!(of_layers(Mix::Q3_K_M, &keys, "ffn_down", 3), [Q5_K, Q4_K, Q3_K]);
    assert_eq!(of_layers(Mix::Q4_K_S, &keys, "ffn_down", 1), [Q4_K]);
    assert_eq!(of_layers(Mix::Q3_K_L, &keys, "attn_output", 1), [Q4_K]);
}

#[test]
fn a_key_that_a_mix_needs_is_named_and_others_are_not_needed() {
    let none = MetadataMap::default();
    assert_eq!(of_layers(Mix::Q6_K, &none, "attn_v", 1), [Q6_K]);
    assert_eq!(of_layers(Mix::Q5_K_S, &none, "ffn_down", 1), [Q5_K]);
    let error = |keys: &MetadataMap, mix, name: &str| {
        let mut chooser = Chooser::new(mix, keys, [].into_iter()).unwrap();
        chooser.choose(name, &Shape::new([256, 256]).unwrap()).unwrap_err().to_string()
    };
    assert!(error(&none, Mix::Q4_K_M, "ffn_down.weight").contains("ARCHITECTURE.block_count"));
    let qwen = keys("qwen3", [2, 0, 0, 0]);
    assert!(error(&qwen, Mix::Q2_K, "attn_v.weight").contains("qwen3.attention.head_count"));
}
