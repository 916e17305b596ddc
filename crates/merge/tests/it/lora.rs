//! What LoRA makes of the weights of a base.

use crate::fixture::{
    Array, Tensors, adapter, array, merged, model, plus_product, registry, rounded, tensors, transposed,
    written,
};
use ckpt_api::{DType, Input};
use ckpt_engine::Conversion;
use ckpt_engine::resources::Resources;
use ckpt_engine::source::OpenOptions;
use ckpt_merge::{Adapter, merge_adapters};
use serde_json::json;

/// The factors of a module.
fn factors(module: &str, rows: usize, columns: usize, rank: usize) -> Tensors {
    let (a, b) = (format!("{module}.lora_A.weight"), format!("{module}.lora_B.weight"));
    tensors([(a.as_str(), array(101, &[rank, columns])), (b.as_str(), array(102, &[rows, rank]))])
}

#[test]
fn a_weight_gets_the_product_times_alpha_over_the_rank() {
    let weights = tensors([("q.weight", array(1, &[9, 37])), ("norm.weight", array(2, &[9]))]);
    let low_rank = factors("q", 9, 37, 2);
    let (a, b) = (&low_rank["q.lora_A.weight"], &low_rank["q.lora_B.weight"]);
    for (settings, scale) in [
        (json!({"lora_alpha": 3}), 1.5),
        (json!({"lora_alpha": 3, "use_rslora": true}), (3.0 / 2.0_f64.sqrt()) as f32),
        (json!({"lora_alpha": 3, "alpha_pattern": {"q": 8}}), 4.0),
        (json!({"r": 7, "lora_alpha": 3, "rank_pattern": {"q": 2}}), 1.5),
    ] {
        let own = adapter(settings, &low_rank, 1.0).unwrap();
        let found = merged(&model(&weights, DType::F32), &[own]).unwrap();
        assert_eq!(found["q.weight"], plus_product(&weights["q.weight"], b, a, scale));
        assert_eq!(found["norm.weight"], weights["norm.weight"]);
    }
}

#[test]
fn numbers_are_rounded_once_to_the_dtype_of_the_base() {
    let weights = tensors([("q.weight", array(1, &[16, 48]))]);
    let low_rank = factors("q", 16, 48, 2);
    let (a, b) = (&low_rank["q.lora_A.weight"], &low_rank["q.lora_B.weight"]);
    for dtype in [DType::Bf16, DType::F16] {
        let own = adapter(json!({"lora_alpha": 0.3}), &low_rank, 1.0).unwrap();
        let found = merged(&model(&weights, dtype), &[own]).unwrap();
        let sum = plus_product(&weights["q.weight"], b, a, 0.15);
        assert_eq!(found["q.weight"], rounded(&sum, dtype));
    }
}

#[test]
fn a_dtype_that_is_asked_for_is_the_one_that_numbers_are_rounded_to() {
    let weights = tensors([("q.weight", array(1, &[16, 48]))]);
    let low_rank = factors("q", 16, 48, 2);
    let own = adapter(json!({}), &low_rank, 0.3).unwrap();
    let source = merge_adapters(&model(&weights, DType::Bf16), &[own]).unwrap();
    let (found, _) = written(&source, &Conversion::new().dtype(DType::F32)).unwrap();
    let (a, b) = (&low_rank["q.lora_A.weight"], &low_rank["q.lora_B.weight"]);
    assert_eq!(found["q.weight"], plus_product(&weights["q.weight"], b, a, 0.3));
}

#[test]
fn adapters_are_added_in_their_order_each_with_its_factor() {
    let weights = tensors([("q.weight", array(1, &[5, 17]))]);
    let low_rank = factors("q", 5, 17, 2);
    let (a, b) = (&low_rank["q.lora_A.weight"], &low_rank["q.lora_B.weight"]);
    let adapters = [0.8, -0.5].map(|factor| adapter(json!({}), &low_rank, factor).unwrap());
    let found = merged(&model(&weights, DType::F32), &adapters).unwrap();
    let first = plus_product(&weights["q.weight"], b, a, 0.8);
    assert_eq!(found["q.weight"], plus_product(&first, b, a, -0.5));
}

#[test]
fn weights_with_inputs_as_rows_get_the_transposed_product() {
    // Of a square matrix, the shape does not tell.
    for (rows, columns) in [(12, 7), (8, 8)] {
        let weights = tensors([("c.weight", array(1, &[columns, rows]))]);
        let low_rank = factors("c", rows, columns, 2);
        let (a, b) = (&low_rank["c.lora_A.weight"], &low_rank["c.lora_B.weight"]);
        let own = adapter(json!({"fan_in_fan_out": true}), &low_rank, 1.0).unwrap();
        let found = merged(&model(&weights, DType::F32), &[own]).unwrap();
        let expected = plus_product(&weights["c.weight"], &transposed(a), &transposed(b), 1.0);
        assert_eq!(found["c.weight"], expected);
    }
}

#[test]
fn embeddings_get_the_transposed_product() {
    let weights = tensors([("e.weight", array(1, &[40, 6]))]);
    let (a, b) = (array(3, &[2, 40]), array(4, &[6, 2]));
    let own = tensors([("e.lora_embedding_A", a.clone()), ("e.lora_embedding_B", b.clone())]);
    let found = merged(&model(&weights, DType::F32), &[adapter(json!({}), &own, 1.0).unwrap()]).unwrap();
    let expected = plus_product(&weights["e.weight"], &transposed(&a), &transposed(&b), 1.0);
    assert_eq!(found["e.weight"], expected);
}

#[test]
fn a_convolution_gets_the_product_of_its_channels() {
    let weights = tensors([("c.weight", array(1, &[6, 3, 2, 2]))]);
    let (a, b) = (array(3, &[2, 3, 2, 2]), array(4, &[6, 2, 1, 1]));
    let own = tensors([("c.lora_A.weight", a.clone()), ("c.lora_B.weight", b.clone())]);
    let found = merged(&model(&weights, DType::F32), &[adapter(json!({}), &own, 1.0).unwrap()]).unwrap();
    assert_eq!(found["c.weight"], plus_product(&weights["c.weight"], &b, &a, 1.0));
}

#[test]
fn rows_get_the_magnitudes_that_the_adapter_states() {
    let (rows, columns) = (7, 3000);
    let weights = tensors([("q.weight", array(1, &[rows, columns]))]);
    let mut low_rank = factors("q", rows, columns, 2);
    low_rank.insert("q.lora_magnitude_vector".to_owned(), array(5, &[rows]));
    let (a, b) = (&low_rank["q.lora_A.weight"], &low_rank["q.lora_B.weight"]);
    let own = adapter(json!({"use_dora": true, "lora_alpha": 3}), &low_rank, 1.0).unwrap();
    // Items of 4 KiB are parts of rows.
    let found = merged(&model(&weights, DType::F32), &[own]).unwrap();
    let mut expected = plus_product(&weights["q.weight"], b, a, 1.5);
    for (row, magnitude) in
        expected.numbers.chunks_mut(columns).zip(&low_rank["q.lora_magnitude_vector"].numbers)
    {
        let mut sums = [0.0_f64; 8];
        row.iter()
            .enumerate()
            .for_each(|(index, number)| sums[index % 8] += f64::from(*number) * f64::from(*number));
        let norm = sums.iter().sum::<f64>().sqrt() as f32;
        row.iter_mut().for_each(|number| *number *= magnitude / norm);
    }
    assert!(found["q.weight"] == expected);
}

#[test]
fn modules_and_biases_that_were_trained_as_a_whole_take_the_place_of_the_bases() {
    let weights = tensors([
        ("q.weight", array(1, &[4, 4])),
        ("q.bias", array(2, &[4])),
        ("head.weight", array(3, &[6, 4])),
    ]);
    let mut own = factors("q", 4, 4, 2);
    own.extend(tensors([
        ("q.bias", array(5, &[4])),
        ("head.weight", array(6, &[6, 4])),
        ("score.weight", array(7, &[2, 4])),
    ]));
    let settings = json!({"bias": "lora_only", "modules_to_save": ["head", "score"]});
    for dtype in [DType::F32, DType::F16] {
        let own_adapter = adapter(settings.clone(), &own, 1.0).unwrap();
        let found = merged(&model(&weights, dtype), &[own_adapter]).unwrap();
        for name in ["q.bias", "head.weight"] {
            assert_eq!(found[name], rounded(&own[name], dtype), "{name}");
        }
        assert_eq!(found["score.weight"], own["score.weight"], "which the base lacks");
    }
}

#[test]
fn the_classes_of_a_library_may_put_other_words_first() {
    let low_rank = factors("transformer.h.q", 5, 17, 2);
    let (a, b) = (array(101, &[2, 17]), array(102, &[5, 2]));
    for name in ["h.q.weight", "transformer.h.q.weight", "model.transformer.h.q.weight"] {
        let weights = tensors([(name, array(1, &[5, 17]))]);
        let own = adapter(json!({}), &low_rank, 1.0).unwrap();
        let found = merged(&model(&weights, DType::F32), &[own]).unwrap();
        assert_eq!(found[name], plus_product(&weights[name], &b, &a, 1.0), "{name}");
    }
}

#[test]
fn the_bytes_do_not_depend_on_threads_memory_and_items() {
    // The right factor is too large to be held as a whole.
    let (rows, columns, rank) = (24, 9001, 64);
    let weights = tensors([("q.weight", array(1, &[rows, columns]))]);
    let low_rank = factors("q", rows, columns, rank);
    let (a, b) = (&low_rank["q.lora_A.weight"], &low_rank["q.lora_B.weight"]);
    let expected = rounded(&plus_product(&weights["q.weight"], b, a, 2.0 / 64.0), DType::Bf16);
    let own = adapter(json!({"r": rank}), &low_rank, 1.0).unwrap();
    let source = merge_adapters(&model(&weights, DType::Bf16), &[own]).unwrap();
    let with = |resources: Resources| written(&source, &Conversion::new().resources(resources)).unwrap();
    let (found, bytes) = with(Resources::new().threads(1));
    assert!(found["q.weight"] == expected);
    for resources in [
        Resources::new().threads(3).item_size(1000),
        Resources::new().threads(2).item_size(70_000).max_memory(40 << 20),
    ] {
        assert!(with(resources).1 == bytes, "{resources:?}");
    }
}

/// Each output, which is a column, with the norm that `magnitudes` state.
fn with_column_norms(matrix: &Array, magnitudes: &Array) -> Array {
    let columns = matrix.shape[1];
    let square = |column: usize| {
        let own = matrix.numbers.iter().skip(column).step_by(columns);
        own.map(|number| f64::from(*number) * f64::from(*number)).sum::<f64>()
    };
    let scales: Vec<f32> =
        (0..columns).map(|column| magnitudes.numbers[column] / square(column).sqrt() as f32).collect();
    let numbers = matrix.numbers.iter().enumerate().map(|(index, number)| number * scales[index % columns]);
    Array { shape: matrix.shape.clone(), numbers: numbers.collect() }
}

#[test]
fn outputs_that_are_columns_get_the_magnitudes_that_adapters_state_one_after_the_other() {
    let weights = tensors([("q.weight", array(1, &[37, 9]))]);
    let adapters = [3, 4].map(|seed| {
        let mut own = factors("q", 9, 37, 2);
        own.insert("q.lora_magnitude_vector".to_owned(), array(seed, &[9]));
        own
    });
    let settings = json!({"use_dora": true, "fan_in_fan_out": true, "lora_alpha": 3});
    for dtype in [DType::F32, DType::Bf16] {
        let opened = adapters.each_ref().map(|own| adapter(settings.clone(), own, 1.0).unwrap());
        let found = merged(&model(&weights, dtype), &opened).unwrap();
        let mut expected = weights["q.weight"].clone();
        for own in &adapters {
            let (a, b) = (transposed(&own["q.lora_A.weight"]), transposed(&own["q.lora_B.weight"]));
            let sum = plus_product(&expected, &a, &b, 1.5);
            expected = with_column_norms(&sum, &own["q.lora_magnitude_vector"]);
        }
        assert_eq!(found["q.weight"], rounded(&expected, dtype));
    }
}

#[test]
fn a_trained_bias_is_added_times_the_scale() {
    let weights = tensors([("q.weight", array(1, &[9, 37])), ("q.bias", array(2, &[9]))]);
    let mut own = factors("q", 9, 37, 2);
    own.insert("q.lora_B.bias".to_owned(), array(5, &[9]));
    let opened = adapter(json!({"lora_bias": true, "lora_alpha": 3}), &own, 0.5).unwrap();
    let found = merged(&model(&weights, DType::F32), &[opened]).unwrap();
    let sum = weights["q.bias"].numbers.iter().zip(&own["q.lora_B.bias"].numbers).map(|(a, b)| a + b * 0.75);
    assert_eq!(found["q.bias"].numbers, sum.collect::<Vec<f32>>());
    let without = tensors([("q.weight", array(1, &[9, 37]))]);
    let opened = adapter(json!({"lora_bias": true}), &own, 1.0).unwrap();
    let error = merged(&model(&without, DType::F32), &[opened]).unwrap_err().to_string();
    assert!(error.contains("lora_bias") && error.contains("lacks a bias"), "{error}");
}

/// A file of a LoRA that is no adapter of peft's.
fn lora_file(tensors: &Tensors) -> ckpt_api::Result<Adapter> {
    let files = [("lora.safetensors".to_owned(), crate::fixture::file(tensors, DType::F32))].into();
    Adapter::open(&registry(), Input::memory("lora.safetensors", files), 1.0, &OpenOptions::new())
}

#[test]
fn names_of_kohya_have_underscores_and_a_scale_beside_the_factors() {
    let weights = tensors([
        ("down.0.to_q.weight", array(1, &[9, 37])),
        ("down.1.conv.weight", array(2, &[9, 4, 1, 1])),
    ]);
    let alpha = Array { shape: vec![], numbers: vec![1.0] };
    let linear = tensors([
        ("lora_unet_down_0_to_q.lora_down.weight", array(3, &[2, 37])),
        ("lora_unet_down_0_to_q.lora_up.weight", array(4, &[9, 2])),
        ("lora_unet_down_0_to_q.alpha", alpha),
    ]);
    let mut all = linear.clone();
    all.extend(tensors([
        ("lora_unet_down_1_conv.lora_down.weight", array(5, &[2, 4, 1, 1])),
        ("lora_unet_down_1_conv.lora_up.weight", array(6, &[9, 2, 1, 1])),
        // Of a text encoder, which is another model.
        ("lora_te_text_model_q.lora_down.weight", array(7, &[2, 5])),
        ("lora_te_text_model_q.lora_up.weight", array(8, &[5, 2])),
    ]));
    let source = merge_adapters(&model(&weights, DType::F32), &[lora_file(&all).unwrap()]).unwrap();
    assert!(source.contents().notes.iter().any(|note| note.to_string().contains("lora_te_")));
    let (found, _) = written(&source, &Conversion::new()).unwrap();
    let (down, up) =
        (&all["lora_unet_down_0_to_q.lora_down.weight"], &all["lora_unet_down_0_to_q.lora_up.weight"]);
    assert_eq!(found["down.0.to_q.weight"], plus_product(&weights["down.0.to_q.weight"], up, down, 0.5));
    // Without an alpha, the product is not scaled.
    let (down, up) =
        (&all["lora_unet_down_1_conv.lora_down.weight"], &all["lora_unet_down_1_conv.lora_up.weight"]);
    assert_eq!(found["down.1.conv.weight"], plus_product(&weights["down.1.conv.weight"], up, down, 1.0));
    let other = tensors([("mid.weight", array(1, &[9, 37]))]);
    let error =
        merge_adapters(&model(&other, DType::F32), &[lora_file(&linear).unwrap()]).unwrap_err().to_string();
    assert!(error.contains("lacks modules") && error.contains("down_0_to_q"), "{error}");
}

#[test]
fn names_of_diffusers_state_their_model_or_none() {
    let weights = tensors([("mid.attn1.to_out.0.weight", array(1, &[9, 37]))]);
    for [down, up] in [
        ["unet.mid.attn1.to_out.0.lora_A.weight", "unet.mid.attn1.to_out.0.lora_B.weight"],
        ["mid.attn1.to_out.0.lora.down.weight", "mid.attn1.to_out.0.lora.up.weight"],
        [
            "unet.mid.attn1.processor.to_out_lora.down.weight",
            "unet.mid.attn1.processor.to_out_lora.up.weight",
        ],
    ] {
        let own = tensors([(down, array(3, &[2, 37])), (up, array(4, &[9, 2]))]);
        let found = merged(&model(&weights, DType::F32), &[lora_file(&own).unwrap()]).unwrap();
        let name = "mid.attn1.to_out.0.weight";
        assert_eq!(found[name], plus_product(&weights[name], &own[up], &own[down], 1.0), "{down}");
    }
}
