//! Checkpoints that TensorFlow wrote.

use super::super::catalog::path;
use super::super::*;
use super::build::{Owned, describe_with};
use super::why;
use crate::format::OBJECT_GRAPH;
use ckpt_api::{DType, Shape};
use serde_json::Value;
use std::path::{Path, PathBuf};

fn cases() -> Option<PathBuf> {
    let Some(cases) = std::env::var_os("CKPT_CASES") else {
        eprintln!("skipped: CKPT_CASES is not set");
        return None;
    };
    let cases = PathBuf::from(cases).join("tf2");
    assert!(cases.is_dir(), "CKPT_CASES has no folder tf2");
    Some(cases)
}

struct Case {
    entries: Owned,
    description: Description,
}

fn case(folder: &Path) -> Option<Case> {
    let json: Value = serde_json::from_slice(&std::fs::read(folder.join("expected.json")).ok()?).unwrap();
    let tensors = json["tensors"].as_array()?;
    let entries: Owned = tensors.iter().filter_map(entry).collect();
    let graph = tensors.iter().find(|tensor| tensor["name"] == OBJECT_GRAPH);
    let graph = graph.and_then(|tensor| Some(unhex(tensor["strings"][0].as_str()?)));
    let beside = |name: &str| std::fs::read(folder.join("sm").join(name)).ok();
    let (model, keras) = (beside("saved_model.pb"), beside("keras_metadata.pb"));
    let description = describe_with(&entries, graph.as_deref(), model.as_deref(), keras.as_deref());
    Some(Case { entries, description })
}

fn entry(tensor: &Value) -> Option<(String, DType, Shape)> {
    let dtype = match tensor["enum"].as_u64()? {
        1 => DType::F32,
        2 => DType::F64,
        3 => DType::I32,
        7 => DType::String,
        9 => DType::I64,
        _ => DType::U8,
    };
    let dims: Vec<u64> = tensor["shape"].as_array()?.iter().map(|dim| dim.as_u64().unwrap_or(0)).collect();
    Some((tensor["name"].as_str()?.to_owned(), dtype, Shape::new(dims).ok()?))
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

fn with_graph(name: &str) -> Option<Case> {
    Some(case(&cases()?.join(name)).unwrap())
}

/// Name, operator, weight and bias of each node.
fn nodes(case: &Case) -> Vec<(&str, &str, &str, &str)> {
    let graph = case.description.graph.as_ref().unwrap_or_else(|| panic!("{:?}", case.description.notes));
    assert_eq!(
        (&graph.inputs[0].shape, &graph.outputs[0].shape),
        (&vec![None, Some(784)], &vec![None, Some(10)])
    );
    let chain = graph.chain().unwrap().iter();
    chain
        .map(|node| {
            let key = |role: &str| node.parameters.get(role).map_or("", |key| path(key));
            (node.name.as_str(), node.op.name(), key("weight"), key("bias"))
        })
        .collect()
}

fn role(case: &Case, key: &str) -> Role {
    case.description.roles.get(key).copied().unwrap_or_default()
}

fn count(case: &Case, wanted: Role) -> usize {
    case.entries.iter().filter(|(key, _, _)| role(case, key) == wanted).count()
}

const OPEN: &str = "ckpt.Unspecified";

#[test]
fn layers_of_keras_3_have_their_names() {
    let Some(case) = with_graph("keras3_mlp") else { return };
    let base = "model/_functional/_operations";
    let (k1, b1) = (format!("{base}/1/_kernel"), format!("{base}/1/bias"));
    let (k2, b2) = (format!("{base}/2/_kernel"), format!("{base}/2/bias"));
    let expected: [(&str, &str, &str, &str); 4] = [
        ("dense", "Gemm", &k1, &b1),
        ("dense/activation", OPEN, "", ""),
        ("dense_1", "Gemm", &k2, &b2),
        ("dense_1/activation", OPEN, "", ""),
    ];
    assert_eq!(nodes(&case), expected);
    assert_eq!(case.description.names[&format!("{k1}/.ATTRIBUTES/VARIABLE_VALUE")], "mlp/dense/kernel");
    assert_eq!(count(&case, Role::Weight), 4);
    assert!(case.description.notes.is_empty());
}

#[test]
fn keras_3_weights_with_keys_from_the_optimizers_list_belong_to_their_layers() {
    let Some(case) = with_graph("keras3_mlp_adam") else { return };
    let list = |n| format!("optimizer/_trainable_variables/{n}");
    let first = nodes(&case)[0];
    assert_eq!((first.0, first.2, first.3), ("dense", list(0).as_str(), list(1).as_str()));
    assert_eq!(
        (count(&case, Role::Weight), count(&case, Role::Optimizer), count(&case, Role::Counter)),
        (4, 9, 2)
    );
    let slot = "optimizer/_variables/2/.ATTRIBUTES/VARIABLE_VALUE";
    assert_eq!(case.description.axes[slot], [Axis::In, Axis::Out]);
    assert_eq!(case.description.names[slot], "adam/mlp_dense_kernel_momentum");
}

#[test]
fn a_keras_3_model_of_other_layers_has_names_but_no_graph() {
    let Some(case) = with_graph("keras3_cnn") else { return };
    assert!(case.description.graph.is_none());
    assert!(why(&case.description).contains("functional"), "{}", why(&case.description));
    let axes =
        |key: &str| case.description.axes.get(&format!("model/_operations/{key}/.ATTRIBUTES/VARIABLE_VALUE"));
    let conv = vec![Axis::KernelY, Axis::KernelX, Axis::In, Axis::Out];
    assert_eq!(axes("1/_kernel"), Some(&conv));
    assert_eq!(axes("5/kernel"), None, "a depthwise kernel is not a convolution's");
    assert_eq!(axes("4/_embeddings"), Some(&vec![Axis::Feature, Axis::Out]));
}

#[test]
fn a_keras_3_export_has_activations_and_duplicates() {
    let Some(case) = with_graph("keras3_export") else { return };
    let expected = [
        ("dense", "Gemm", "variables/0", "variables/1"),
        ("dense/activation", "Relu", "", ""),
        ("dense_1", "Gemm", "variables/2", "variables/3"),
        ("dense_1/activation", "Softmax", "", ""),
    ];
    assert_eq!(nodes(&case), expected);
    assert_eq!((count(&case, Role::Weight), count(&case, Role::Duplicate)), (4, 4));
    assert_eq!(role(&case, "_all_variables/3/.ATTRIBUTES/VARIABLE_VALUE"), Role::Duplicate);
    assert_eq!(case.description.names["variables/0/.ATTRIBUTES/VARIABLE_VALUE"], "mlp/dense/kernel");
}

#[test]
fn a_keras_2_saved_model_has_activations_with_and_without_its_metadata() {
    let Some(cases) = cases() else { return };
    let folder = cases.join("keras2_saved_model");
    let stated = case(&folder).unwrap();
    let base = "layer_with_weights";
    let (k0, b0) = (format!("{base}-0/kernel"), format!("{base}-0/bias"));
    let (k1, b1) = (format!("{base}-1/kernel"), format!("{base}-1/bias"));
    let expected: [(&str, &str, &str, &str); 4] = [
        ("dense", "Gemm", &k0, &b0),
        ("dense/activation", "Relu", "", ""),
        ("dense_1", "Gemm", &k1, &b1),
        ("dense_1/activation", "Softmax", "", ""),
    ];
    assert_eq!(nodes(&stated), expected);
    assert_eq!(stated.description.graph.as_ref().unwrap().name, "mlp");

    let json: Value = serde_json::from_slice(&std::fs::read(folder.join("expected.json")).unwrap()).unwrap();
    let graph = unhex(json["tensors"][0]["strings"][0].as_str().unwrap());
    let model = std::fs::read(folder.join("sm/saved_model.pb")).unwrap();
    let description = describe_with(&stated.entries, Some(&graph), Some(&model), None);
    assert_eq!(nodes(&Case { entries: stated.entries, description }), expected);
}

#[test]
fn layers_of_keras_2_have_their_names() {
    let Some(cases) = cases() else { return };
    for (name, prefix) in
        [("keras2_checkpoint", "model/"), ("keras2_legacy_adam", "model/"), ("keras2_weights", "")]
    {
        let case = case(&cases.join(name)).unwrap();
        let key = |layer: u32, variable: &str| format!("{prefix}layer_with_weights-{layer}/{variable}");
        let expected: [(&str, &str, &str, &str); 4] = [
            ("dense", "Gemm", &key(0, "kernel"), &key(0, "bias")),
            ("dense/activation", OPEN, "", ""),
            ("dense_1", "Gemm", &key(1, "kernel"), &key(1, "bias")),
            ("dense_1/activation", OPEN, "", ""),
        ];
        assert_eq!(nodes(&case), expected, "{name}");
        assert_eq!(count(&case, Role::Weight), 4, "{name}");
    }
}

#[test]
fn keras_2_slots_are_optimizer_state_with_the_axes_of_their_variables() {
    let Some(case) = with_graph("keras2_legacy_adam") else { return };
    assert_eq!((count(&case, Role::Optimizer), count(&case, Role::Counter)), (12, 2));
    let slot = "model/layer_with_weights-0/kernel/.OPTIMIZER_SLOT/optimizer/m/.ATTRIBUTES/VARIABLE_VALUE";
    assert_eq!(case.description.names[slot], "Adam/dense/kernel/m");
    assert_eq!(case.description.axes[slot], [Axis::In, Axis::Out]);
}

#[test]
fn tensorflow_1_keys_determine_optimizer_state() {
    let Some(case) = with_graph("tf1_saver") else { return };
    assert_eq!(
        (count(&case, Role::Weight), count(&case, Role::Optimizer), count(&case, Role::Counter)),
        (5, 12, 1)
    );
    assert_eq!(case.description.axes["dense/kernel/Adam_1"], [Axis::In, Axis::Out]);
}

/// The variable's key and the canonical name of a slot.
fn slot<'a>(case: &'a Case, key: &str) -> (&'a str, &'a str) {
    let slot = &case.description.slots[key];
    (path(&slot.variable), &slot.name)
}

#[test]
fn slots_belong_to_their_variables_in_every_naming() {
    let Some(cases) = cases() else { return };
    let read = |name: &str| case(&cases.join(name)).unwrap();
    let keras3 = read("keras3_mlp_adam");
    let key = |path: &str| format!("{path}/.ATTRIBUTES/VARIABLE_VALUE");
    assert_eq!(keras3.description.slots.len(), 8);
    let kernel = "optimizer/_trainable_variables/0";
    assert_eq!(slot(&keras3, &key("optimizer/_variables/2")), (kernel, "m"));
    assert_eq!(slot(&keras3, &key("optimizer/_variables/3")), (kernel, "v"));
    let keras2 = read("keras2_legacy_adam");
    assert_eq!(keras2.description.slots.len(), 8);
    let kernel = "model/layer_with_weights-1/kernel";
    assert_eq!(slot(&keras2, &key(&format!("{kernel}/.OPTIMIZER_SLOT/optimizer/v"))), (kernel, "v"));
    let tf1 = read("tf1_saver");
    assert_eq!(slot(&tf1, "dense/kernel/Adam"), ("dense/kernel", "m"));
    assert_eq!(slot(&tf1, "dense/kernel/Adam_1"), ("dense/kernel", "v"));
}

#[test]
fn the_numbers_of_optimizers_are_known_in_every_naming() {
    let Some(cases) = cases() else { return };
    let expected: [(&str, &[(&str, &str)]); 3] = [
        (
            "keras3_mlp_adam",
            &[("optimizer/_iterations", "iteration"), ("optimizer/_learning_rate", "learning_rate")],
        ),
        (
            "keras2_legacy_adam",
            &[
                ("optimizer/beta_1", "beta_1"),
                ("optimizer/beta_2", "beta_2"),
                ("optimizer/decay", "decay"),
                ("optimizer/iter", "iteration"),
                ("optimizer/learning_rate", "learning_rate"),
            ],
        ),
        (
            "tf1_saver",
            &[("beta1_power", "beta1_power"), ("beta2_power", "beta2_power"), ("global_step", "global_step")],
        ),
    ];
    for (name, numbers) in expected {
        let case = case(&cases.join(name)).unwrap();
        let found: Vec<(&str, &str)> =
            case.description.numbers.iter().map(|(key, name)| (path(key), *name)).collect();
        assert_eq!(found, numbers, "{name}");
    }
}

#[test]
fn counters_of_a_bare_checkpoint_are_counters() {
    let Some(case) = with_graph("manager") else { return };
    assert_eq!(
        (count(&case, Role::Weight), count(&case, Role::Counter), count(&case, Role::Bookkeeping)),
        (1, 2, 1)
    );
}

#[test]
fn a_dangling_reference_in_an_object_graph_is_noted() {
    let Some(case) = with_graph("bad_object_graph_cycle") else { return };
    assert!(case.description.notes[0].contains("ignored 1 reference"), "{:?}", case.description.notes);
    assert!(case.description.graph.is_none());
}

#[test]
fn names_are_unique_in_every_case() {
    let Some(cases) = cases() else { return };
    let mut seen = 0;
    for folder in std::fs::read_dir(cases).unwrap() {
        let Some(case) = case(&folder.unwrap().path()) else { continue };
        let names = case.entries.iter().map(|(key, _, _)| case.description.names.get(key).unwrap_or(key));
        let unique: std::collections::HashSet<&String> = names.collect();
        assert_eq!(
            unique.len(),
            case.entries.iter().map(|(key, _, _)| key).collect::<std::collections::HashSet<_>>().len()
        );
        seen += 1;
    }
    assert!(seen >= 40, "{seen} cases");
}
