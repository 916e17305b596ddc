//! Each sign decides where it stands alone; conflicting or missing signs are told.

use crate::build::{file, json_a, json_of, mlp_a, mlp_b, place, read, rewrite};
use ckpt_api::{Kind, LossKind};

fn dialect(bytes: &[u8]) -> String {
    let (contents, _) = read(bytes, &[]).unwrap();
    contents.checkpoint.metadata.text("nn", "dialect").unwrap().to_owned()
}

/// Linear 4 → 4, ReLU, Linear 4 → 4 without names, so that only what a test adds speaks.
const SQUARE: &str = r#"{"layers":[{"type":"Linear","in_features":4,"out_features":4},{"type":"ReLU"},{"type":"Linear","in_features":4,"out_features":4}]}"#;
/// One square Linear layer.
const ONE: &str = r#"{"layers":[{"type":"Linear","in_features":4,"out_features":4}]}"#;

#[test]
fn the_weight_shape_tells_the_dialect() {
    let json = r#"{"layers":[{"type":"Linear","in_features":3,"out_features":2}]}"#;
    assert_eq!(dialect(&file(json, &[("layer0.weight", &[3, 2]), ("layer0.bias", &[2])])), "a");
    assert_eq!(dialect(&file(json, &[("layer0.weight", &[2, 3]), ("layer0.bias", &[2])])), "b");
}

#[test]
fn the_number_in_tensor_names_tells_the_dialect() {
    let square: &[u32] = &[4, 4];
    let tensors = |n: &'static str| {
        let names =
            if n == "2" { ["layer2.weight", "layer2.bias"] } else { ["layer1.weight", "layer1.bias"] };
        file(
            SQUARE,
            &[("layer0.weight", square), ("layer0.bias", &[4]), (names[0], square), (names[1], &[4])],
        )
    };
    assert_eq!(dialect(&tensors("2")), "a");
    assert_eq!(dialect(&tensors("1")), "b");
}

#[test]
fn a_bias_of_two_axes_tells_dialect_a() {
    assert_eq!(dialect(&file(ONE, &[("layer0.weight", &[4, 4]), ("layer0.bias", &[1, 4])])), "a");
}

#[test]
fn a_bias_of_one_axis_alone_is_taken_for_b_and_said() {
    let bytes = file(ONE, &[("layer0.weight", &[4, 4]), ("layer0.bias", &[4])]);
    assert_eq!(dialect(&bytes), "b");
    let (contents, _) = read(&bytes, &[]).unwrap();
    assert!(contents.notes.iter().any(|note| note.contains("dialect=a")), "{:?}", contents.notes);
    let (forced, _) = read(&bytes, &[("dialect", "a")]).unwrap();
    assert_eq!(forced.checkpoint.metadata.text("nn", "dialect"), Some("a"));
}

#[test]
fn the_stages_tell_the_dialect_by_lr_history() {
    let stage = r#""accuracy_history":null,"epochs":1,"frozen_layers":[],"frozen_params":0,"loss":null,"loss_history":null,"optimizer_params":null,"optimizer_type":null,"trainable_params":0,"val_accuracy_history":null,"val_loss_history":null"#;
    let with = |stage: &str| {
        let json = ONE.replace("}]}", &format!("}}],\"training\":{{\"stages\":[{{{stage}}}]}}}}"));
        file(&json, &[("layer0.weight", &[4, 4]), ("layer0.bias", &[4])])
    };
    assert_eq!(dialect(&with(stage)), "a");
    assert_eq!(dialect(&with(&format!("{stage},\"lr_history\":null"))), "b");
    assert_eq!(dialect(&with("\"epochs\":1")), "b", "a stage that lacks more says nothing");
}

#[test]
fn layer_names_tell_the_dialect_where_the_tensors_say_nothing() {
    // Position and count agree for the tensors that are there; the names of the second layer differ.
    let error = |name: &str| {
        let json =
            SQUARE.replace(r#"{"type":"ReLU"},{"#, &format!(r#"{{"type":"ReLU"}},{{"name":"{name}","#));
        read(&file(&json, &[("layer0.weight", &[4, 4]), ("layer0.bias", &[4])]), &[]).unwrap_err().to_string()
    };
    assert!(error("layer2").contains("tensor layer2.weight"), "{}", error("layer2"));
    assert!(error("layer1").contains("tensor layer1.weight"), "{}", error("layer1"));
}

#[test]
fn a_chain_whose_weights_would_fit_other_layers_is_no_conflict() {
    let linear = |i, o| format!(r#"{{"type":"Linear","in_features":{i},"out_features":{o}}}"#);
    let json =
        format!(r#"{{"layers":[{},{{"type":"ReLU"}},{},{}]}}"#, linear(5, 3), linear(3, 4), linear(4, 3));
    let tensors: [(&str, &[u32]); 6] = [
        ("layer0.weight", &[5, 3]),
        ("layer0.bias", &[3]),
        ("layer2.weight", &[3, 4]),
        ("layer2.bias", &[4]),
        ("layer3.weight", &[4, 3]),
        ("layer3.bias", &[3]),
    ];
    assert_eq!(dialect(&file(&json, &tensors)), "a");
}

#[test]
fn conflicting_evidence_is_listed_and_the_option_asked_for() {
    let bytes = file(crate::build::JSON_SMALL, &[("layer0.weight", &[2, 3]), ("layer0.bias", &[1, 2])]);
    for options in [&[][..], &[("lenient", "true")]] {
        let error = read(&bytes, options).unwrap_err();
        assert_eq!(error.kind(), Kind::Corrupt);
        let text = error.to_string();
        for part in ["layer0.weight: [2, 3] is [out, in]", "layer0.bias: [1, 2] is [1, out]", "dialect=a"] {
            assert!(text.contains(part), "{text}");
        }
    }
    let (contents, _) = read(&bytes, &[("dialect", "b"), ("lenient", "true")]).unwrap();
    assert_eq!(contents.repairs.len(), 1, "{:?}", contents.repairs);
    assert!(contents.checkpoint.graph.is_some());
}

#[test]
fn missing_evidence_is_said_and_the_option_asked_for() {
    let bytes = file(ONE, &[("layer0.weight", &[4, 4])]);
    let error = read(&bytes, &[("lenient", "true")]).unwrap_err();
    assert_eq!(error.kind(), Kind::Usage);
    assert!(error.to_string().contains("dialect=a"), "{error}");
}

#[test]
fn dialect_a_may_have_a_bias_of_one_axis_and_keeps_it() {
    let tensors: [(&str, &[u32]); 4] = [
        ("layer0.weight", &[3, 4]),
        ("layer0.bias", &[4]),
        ("layer2.weight", &[4, 2]),
        ("layer2.bias", &[2]),
    ];
    let bytes = file(&json_a(), &tensors);
    assert_eq!(dialect(&bytes), "a");
    assert_eq!(rewrite(&bytes, &[], &[]).unwrap(), bytes);
}

#[test]
fn a_becomes_b_and_b_becomes_a() {
    let b = rewrite(&mlp_a(), &[], &[("dialect", "b")]).unwrap();
    assert_eq!(json_of(&b), crate::build::JSON_B);
    assert_eq!(dialect(&b), "b");
    let (a_contents, a_values) = read(&mlp_a(), &[]).unwrap();
    let (b_contents, b_values) = read(&b, &[]).unwrap();
    let names: Vec<&str> = b_contents.checkpoint.tensors.iter().map(|tensor| tensor.name.as_str()).collect();
    assert_eq!(names, ["layer0.weight", "layer0.bias", "layer1.weight", "layer1.bias"]);
    assert_eq!(&b_contents.checkpoint.tensors[0].shape[..], [4, 3]);
    assert_eq!(&b_contents.checkpoint.tensors[1].shape[..], [4]);
    let (a, b_floats) = (crate::build::floats(&a_values[0]), crate::build::floats(&b_values[0]));
    for (input, output) in (0..3).flat_map(|i| (0..4).map(move |o| (i, o))) {
        assert_eq!(a[input * 4 + output], b_floats[output * 3 + input]);
    }
    assert_eq!(a_values[1], b_values[1]);
    assert_eq!(rewrite(&b, &[], &[("dialect", "a")]).unwrap(), mlp_a());
    assert!(place(&a_contents.checkpoint, &[("dialect", "b")]).unwrap().losses.is_empty());
}

#[test]
fn a_convolution_stored_as_linear_changes_dialect_too() {
    let a = rewrite(&crate::build::convolution(), &[], &[("dialect", "a")]).unwrap();
    assert_eq!(dialect(&a), "a");
    let (contents, _) = read(&a, &[]).unwrap();
    assert_eq!(&contents.checkpoint.tensor("layer0.weight").unwrap().1.shape[..], [2, 1, 3, 3]);
    assert_eq!(rewrite(&a, &[], &[("dialect", "b")]).unwrap(), crate::build::convolution());
}

#[test]
fn stages_gain_and_lose_lr_history_and_keep_every_number() {
    let optimizers = [
        ("SGD", r#"{"lr":0.009999999776482582}"#),
        ("Momentum", r#"{"beta":0.9,"lr":1e-8}"#),
        ("NAG", r#"{"beta":0.8999999761581421,"lr":0.1}"#),
        ("Adagrad", r#"{"epsilon":9.99999993922529e-9,"lr":0.01}"#),
        ("RMSprop", r#"{"epsilon":1e-8,"gamma":0.9,"lr":0.001}"#),
        ("adam", r#"{"beta1":0.9,"beta2":0.999,"epsilon":1e-8,"lr":0.0010000000474974513}"#),
        ("AdamW", r#"{"beta1":0.9,"beta2":0.999,"epsilon":1e-8,"lr":0.001,"weight_decay":0.01}"#),
    ];
    let stages = |lr_history: &str| {
        let stage = |(name, params): &(&str, &str)| {
            format!(
                r#"{{"accuracy_history":[0.8966831564903259],"epochs":1,"frozen_layers":[],"frozen_params":0,"loss":"mse","loss_history":[0.37143418192863464],{lr_history}"optimizer_params":{params},"optimizer_type":"{name}","trainable_params":26,"val_accuracy_history":null,"val_loss_history":null}}"#
            )
        };
        format!("\"stages\":[{}]", optimizers.iter().map(stage).collect::<Vec<_>>().join(","))
    };
    let tensors: [(&str, &[u32]); 4] = [
        ("layer0.weight", &[4, 3]),
        ("layer0.bias", &[4]),
        ("layer1.weight", &[2, 4]),
        ("layer1.bias", &[2]),
    ];
    let legacy = crate::build::JSON_B.replace(r#""loss":null"#, r#""loss":"cross_entropy""#);
    let json = legacy.replace(r#""stages":[]"#, &stages(r#""lr_history":null,"#));
    let b = file(&json, &tensors);
    assert_eq!(rewrite(&b, &[], &[]).unwrap(), b);
    let a = rewrite(&b, &[], &[("dialect", "a")]).unwrap();
    let second = r#""in_features":4,"name":"layer1""#;
    let expected =
        legacy.replace(r#""stages":[]"#, &stages("")).replace(second, &second.replace("layer1", "layer2"));
    assert_eq!(json_of(&a), expected);
    assert_eq!(rewrite(&a, &[], &[("dialect", "b")]).unwrap(), b);
}

#[test]
fn more_stages_than_dialect_b_keeps_are_a_told_loss() {
    let stages = ["{}"; 11].join(",");
    let json = json_a().replace(r#""stages":[]"#, &format!(r#""stages":[{stages}]"#));
    let tensors: [(&str, &[u32]); 4] = [
        ("layer0.weight", &[3, 4]),
        ("layer0.bias", &[1, 4]),
        ("layer2.weight", &[4, 2]),
        ("layer2.bias", &[1, 2]),
    ];
    let (contents, _) = read(&file(&json, &tensors), &[]).unwrap();
    let placed = place(&contents.checkpoint, &[("dialect", "b")]).unwrap();
    let kinds: Vec<LossKind> = placed.losses.iter().map(|loss| loss.kind).collect();
    assert_eq!(kinds, [LossKind::MetadataDropped]);
    assert!(place(&contents.checkpoint, &[]).unwrap().losses.is_empty());
}

#[test]
fn both_dialects_are_found_in_what_datacode_writes() {
    assert_eq!((dialect(&mlp_a()).as_str(), dialect(&mlp_b()).as_str()), ("a", "b"));
}
