//! Rules of descriptions, on messages that the tests build.

mod build;
mod cases;
mod functions;
mod graphs;
mod hostile;
mod images;
mod keras2;
mod loops;
mod weights;

use super::*;
use build::{Objects, describe_with, entries, run, typed};
use ckpt_api::{DType, Op};

/// Why there is no graph.
fn why(description: &Description) -> &str {
    description.missing_graph.as_ref().map_or("", |missing| &missing.reason)
}

/// A Keras 3 Sequential model of two dense layers, 4 → 3 → 2, with its input layer.
fn keras3() -> Objects {
    let mut objects = Objects::default();
    let model = objects.child(0, "model");
    let functional = objects.child(model, "_functional");
    let operations = objects.child(functional, "_operations");
    objects.child(operations, "0");
    for (number, name) in ["1", "2"].into_iter().zip(["dense", "dense_1"]) {
        let layer = objects.child(operations, number);
        let path = format!("model/_operations/{number}");
        objects.variable(layer, "_kernel", &format!("mlp/{name}/kernel"), &format!("{path}/_kernel"));
        objects.variable(layer, "bias", &format!("mlp/{name}/bias"), &format!("{path}/bias"));
    }
    let counter = objects.child(0, "save_counter");
    objects.store(counter, "save_counter", "save_counter");
    objects
}

const KERAS3: &[(&str, &[u64])] = &[
    ("model/_operations/1/_kernel", &[4, 3]),
    ("model/_operations/1/bias", &[3]),
    ("model/_operations/2/_kernel", &[3, 2]),
    ("model/_operations/2/bias", &[2]),
];

#[test]
fn names_axes_and_layers_come_from_the_object_graph() {
    let description = run(KERAS3, &keras3());
    assert_eq!(description.names["model/_operations/1/_kernel"], "mlp/dense/kernel");
    assert_eq!(description.axes["model/_operations/1/_kernel"], [Axis::In, Axis::Out]);
    assert_eq!(description.axes["model/_operations/2/bias"], [Axis::Out]);
    let graph = description.graph.unwrap();
    assert_eq!(graph.unspecified(), ["dense", "dense_1"]);
    assert_eq!(graph.nodes[0].parameters["weight"], "model/_operations/1/_kernel");
    assert_eq!(
        (&graph.inputs[0].shape, &graph.outputs[0].shape),
        (&vec![None, Some(4)], &vec![None, Some(2)])
    );
}

#[test]
fn layers_that_are_dense_only_by_their_variables_are_assumed_to_be_and_a_note_names_them() {
    let notes = run(KERAS3, &keras3()).graph_notes;
    assert_eq!(notes.len(), 1);
    assert!(notes[0].contains("assumed to be dense") && notes[0].ends_with(": dense, dense_1"), "{notes:?}");
}

#[test]
fn a_layer_without_variables_is_no_chain_and_the_note_names_it() {
    let mut objects = keras3();
    let operations = objects.find(&["model", "_functional", "_operations"]);
    objects.child(operations, "3");
    let description = run(KERAS3, &objects);
    assert!(description.graph.is_none());
    assert!(why(&description).contains("layer 3 has no variables"), "{}", why(&description));
    assert!(description.missing_graph.is_some_and(|missing| missing.is_unstated));
}

#[test]
fn a_layer_that_is_not_dense_is_named_by_its_tensor_as_the_table_names_it() {
    let mut shapes = KERAS3.to_vec();
    shapes[0].1 = &[3, 3, 4, 3];
    let description = run(&shapes, &keras3());
    assert!(why(&description).contains("layer 1 (with 'mlp/dense/kernel') looks like a convolution"));
}

#[test]
fn layers_whose_shapes_do_not_match_are_no_chain() {
    let mut shapes = KERAS3.to_vec();
    shapes[2].1 = &[4, 2];
    let description = run(&shapes, &keras3());
    assert!(description.graph.is_none());
    assert!(why(&description).contains("its input has shape [?, 3]"), "{}", why(&description));
}

#[test]
fn a_layer_with_other_variables_is_no_chain() {
    let mut objects = keras3();
    let layer = objects.find(&["model", "_functional", "_operations", "1"]);
    objects.variable(layer, "gamma", "mlp/dense/gamma", "gamma");
    assert!(run(KERAS3, &objects).graph.is_none());
}

#[test]
fn layers_of_a_model_within_a_model_are_read() {
    let mut objects = Objects::default();
    let outer = objects.child(0, "layer_with_weights-0");
    objects.link(0, "layer-0", outer);
    for number in ["0", "1"] {
        let layer = objects.child(outer, &format!("layer-{number}"));
        objects.link(outer, &format!("layer_with_weights-{number}"), layer);
        objects.variable(layer, "kernel", &format!("dense_{number}/kernel"), &format!("k{number}"));
    }
    let graph = run(&[("k0", &[2, 3]), ("k1", &[3, 1])], &objects).graph.unwrap();
    assert_eq!(graph.unspecified(), ["dense_0", "dense_1"]);
}

#[test]
fn a_functional_model_is_a_chain_only_if_that_is_assumed() {
    let mut keras3 = keras3();
    let operations = keras3.find(&["model", "_functional", "_operations"]);
    let model = keras3.find(&["model"]);
    keras3.0.nodes[model].children.clear();
    keras3.link(model, "_operations", operations);
    let mut keras2 = Objects::default();
    keras2.child(0, "layer-0");
    let layer = keras2.child(0, "layer-1");
    keras2.link(0, "layer_with_weights-0", layer);
    keras2.variable(layer, "kernel", "dense/kernel", "model/_operations/1/_kernel");
    for (objects, reason) in [(keras3, "functional model"), (keras2, "layer 0 has no variables")] {
        let description = run(KERAS3, &objects);
        assert!(description.graph.is_none());
        assert!(why(&description).contains(reason), "{}", why(&description));
        let list = typed(KERAS3);
        let entries: Vec<TensorInfo> =
            list.iter().map(|(key, dtype, shape)| TensorInfo { key, dtype: *dtype, shape }).collect();
        let bytes = objects.bytes();
        let (saved_model, keras_metadata, file) = (None, None, "m.index");
        let sources = Sources {
            object_graph: Some(&bytes),
            saved_model,
            keras_metadata,
            meta_graph: None,
            assume_chain: true,
            file,
        };
        let description = describe(&entries, &sources, &Limits::default()).unwrap();
        assert!(description.graph.is_some());
        assert!(description.graph_notes[1].contains("assumed to form a chain"), "{description:?}");
    }
}

#[test]
fn a_model_that_lists_its_layers_in_both_ways_is_a_chain() {
    let mut keras3 = keras3();
    let operations = keras3.find(&["model", "_functional", "_operations"]);
    let model = keras3.find(&["model"]);
    keras3.link(model, "_operations", operations);
    assert!(run(KERAS3, &keras3).graph.is_some());
}

#[test]
fn a_subclassed_model_is_no_chain() {
    let mut objects = Objects::default();
    let layer = objects.child(0, "first");
    objects.variable(layer, "_kernel", "first/kernel", "k");
    let description = run(&[("k", &[2, 3])], &objects);
    assert!(description.graph.is_none());
    assert!(why(&description).contains("subclassed"), "{}", why(&description));
}

#[test]
fn canonical_names_of_slots_depend_on_the_optimizer() {
    type Lists = &'static [(&'static str, &'static str)];
    let kinds: [Lists; 4] = [
        &[("_momentums", "m"), ("_velocities", "v"), ("_velocity_hats", "vhat")],
        &[("_momentums", "momentum"), ("_velocities", "rms"), ("_average_gradients", "mg")],
        &[("momentums", "momentum")],
        &[("_accumulators", "accumulators")],
    ];
    for lists in kinds {
        let mut objects = Objects::default();
        let layer = objects.child(0, "layer");
        let kernel = objects.variable(layer, "kernel", "dense/kernel", "k");
        let optimizer = objects.child(0, "optimizer");
        let trained = objects.child(optimizer, "_trainable_variables");
        objects.link(trained, "0", kernel);
        for (list, name) in lists {
            let list = objects.child(optimizer, list);
            objects.variable(list, "0", "", name);
        }
        let shapes: Vec<(&str, &[u64])> =
            lists.iter().map(|(_, name)| (*name, &[2, 3][..])).chain([("k", &[2, 3][..])]).collect();
        let slots = run(&shapes, &objects).slots;
        assert_eq!(slots.len(), lists.len());
        for (key, slot) in slots {
            assert_eq!((slot.variable.as_str(), slot.name), ("k", key));
        }
    }
}

#[test]
fn keras_2_11_names_a_slot_after_its_variable() {
    let mut objects = Objects::default();
    let layer = objects.child(0, "layer");
    objects.variable(layer, "kernel", "dense/kernel", "k");
    let optimizer = objects.child(0, "optimizer");
    let list = objects.child(optimizer, "momentums");
    objects.variable(list, "0", "SGD/m/dense/kernel", "s");
    objects.variable(list, "1", "SGD/m/dense/bias", "t");
    let slots = run(&[("k", &[2, 3]), ("s", &[2, 3]), ("t", &[3])], &objects).slots;
    let slot = &slots["s"];
    assert_eq!((slot.variable.as_str(), slot.name.as_str(), slots.len()), ("k", "momentum", 1));
}

#[test]
fn variables_of_the_optimizer_alone_are_its_state_and_slots_have_the_axes_of_their_variables() {
    let mut objects = Objects::default();
    let layer = objects.child(0, "layer");
    let kernel = objects.variable(layer, "kernel", "dense/kernel", "k");
    let optimizer = objects.child(0, "optimizer");
    objects.variable(optimizer, "learning_rate", "Adam/lr", "lr");
    objects.variable(optimizer, "iter", "Adam/iter", "iter");
    let slot = objects.add();
    objects.store(slot, "", "m");
    objects.slot(optimizer, kernel, "m", slot);
    let description = run(&[("k", &[2, 3]), ("m", &[2, 3]), ("lr", &[]), ("iter", &[])], &objects);
    assert_eq!(description.roles["m"], Role::Optimizer);
    assert_eq!(description.roles["lr"], Role::Optimizer);
    assert_eq!(description.roles["iter"], Role::Counter);
    assert!(!description.roles.contains_key("k"));
    assert_eq!(description.axes["m"], [Axis::In, Axis::Out]);
    assert_eq!(description.names["m"], "dense/kernel/m");
}

#[test]
fn weights_with_keys_from_the_optimizers_list_are_weights() {
    let mut objects = Objects::default();
    let optimizer = objects.child(0, "optimizer");
    let trained = objects.child(optimizer, "_trainable_variables");
    objects.variable(trained, "0", "dense/kernel", "optimizer/_trainable_variables/0");
    let momentums = objects.child(optimizer, "_momentums");
    objects.variable(momentums, "0", "adam/dense_kernel_momentum", "optimizer/_variables/2");
    let shapes: &[(&str, &[u64])] =
        &[("optimizer/_trainable_variables/0", &[2, 3]), ("optimizer/_variables/2", &[2, 3])];
    let description = run(shapes, &objects);
    assert_eq!(description.roles.len(), 1);
    assert_eq!(description.roles["optimizer/_variables/2"], Role::Optimizer);
    assert_eq!(description.axes["optimizer/_variables/2"], [Axis::In, Axis::Out]);
}

#[test]
fn names_that_are_not_unique_fall_back_to_the_key() {
    let mut objects = Objects::default();
    for key in ["a", "b"] {
        objects.variable(0, key, "s/kernel", key);
    }
    objects.variable(0, "c", "a", "c");
    objects.variable(0, "d", "free", "d");
    let description = run(&[("a", &[1]), ("b", &[1]), ("c", &[1]), ("d", &[1])], &objects);
    assert_eq!(description.names, BTreeMap::from([("d".to_owned(), "free".to_owned())]));
}

#[test]
fn kernels_of_an_export_have_axes_by_the_names_of_their_layers() {
    let mut objects = Objects::default();
    let list = objects.child(0, "variables");
    for (number, name) in ["conv2d", "conv2d_transpose", "einsum_dense"].into_iter().enumerate() {
        objects.variable(
            list,
            &number.to_string(),
            &format!("cnn/{name}/kernel"),
            &format!("variables/{number}"),
        );
    }
    let dims: &[u64] = &[3, 3, 1, 8];
    let axes = run(&[("variables/0", dims), ("variables/1", dims), ("variables/2", dims)], &objects).axes;
    let image = vec![Axis::KernelY, Axis::KernelX, Axis::In, Axis::Out];
    assert_eq!(axes, BTreeMap::from([("variables/0".to_owned(), image)]));
}

#[test]
fn a_second_copy_is_a_duplicate_only_if_there_is_an_original() {
    let mut objects = Objects::default();
    let (first, second) = (objects.child(0, "variables"), objects.child(0, "_all_variables"));
    objects.variable(first, "0", "dense/kernel", "variables/0");
    objects.variable(second, "0", "dense/kernel", "_all_variables/0");
    objects.variable(second, "1", "dense/bias", "_all_variables/1");
    let shapes: &[(&str, &[u64])] =
        &[("variables/0", &[2, 3]), ("_all_variables/0", &[2, 3]), ("_all_variables/1", &[3])];
    let description = run(shapes, &objects);
    assert_eq!(description.roles, BTreeMap::from([("_all_variables/0".to_owned(), Role::Duplicate)]));
    assert_eq!(description.names["variables/0"], "dense/kernel");
}

#[test]
fn without_an_object_graph_keys_determine_roles() {
    let list = entries(&[
        ("dense/kernel", DType::F32, &[2, 3]),
        ("dense/kernel/Adam", DType::F32, &[2, 3]),
        ("dense/kernel/Adam_1", DType::F32, &[2, 3]),
        ("dense/bias/Adam", DType::F32, &[3]),
        ("beta1_power", DType::F32, &[]),
        ("global_step", DType::I64, &[]),
        ("step/weights", DType::F32, &[3]),
    ]);
    let description = build::describe_with(&list, None, None, None);
    let roles: Vec<(&str, Role)> =
        description.roles.iter().map(|(key, role)| (key.as_str(), *role)).collect();
    let expected = [
        ("beta1_power", Role::Optimizer),
        ("dense/kernel/Adam", Role::Optimizer),
        ("dense/kernel/Adam_1", Role::Optimizer),
        ("global_step", Role::Counter),
    ];
    assert_eq!(roles, expected);
    assert_eq!(description.axes["dense/kernel/Adam_1"], [Axis::In, Axis::Out]);
    assert!(description.graph.is_none() && description.notes.is_empty());
}

#[test]
fn without_an_object_graph_only_unambiguous_axes_are_inferred() {
    let list = entries(&[
        ("conv/kernel", DType::F32, &[3, 3, 1, 8]),
        ("conv2d_transpose/kernel", DType::F32, &[3, 3, 1, 8]),
        ("bn/moving_mean", DType::F32, &[8]),
        ("bn/gamma", DType::F32, &[8, 2]),
        ("bn/beta", DType::I32, &[8]),
    ]);
    let axes = describe_with(&list, None, None, None).axes;
    let convolution = vec![Axis::KernelY, Axis::KernelX, Axis::In, Axis::Out];
    let expected = [("bn/moving_mean", vec![Axis::Out]), ("conv/kernel", convolution)];
    assert_eq!(axes, expected.map(|(key, axes)| (key.to_owned(), axes)).into());
}

#[test]
fn a_kernel_whose_bias_has_another_length_gets_no_axes() {
    let bare = entries(&[("up/kernel", DType::F32, &[3, 3, 6, 4]), ("up/bias", DType::F32, &[6])]);
    assert_eq!(describe_with(&bare, None, None, None).axes.into_keys().collect::<Vec<_>>(), ["up/bias"]);
    let mut objects = Objects::default();
    let layer = objects.child(0, "einsum");
    objects.variable(layer, "_kernel", "einsum/kernel", "k");
    objects.variable(layer, "bias", "einsum/bias", "b");
    let axes = |kernel: &[u64]| run(&[("k", kernel), ("b", &[12])], &objects).axes;
    assert_eq!(axes(&[12, 16]).get("k"), None);
    assert_eq!(axes(&[16, 12])["k"], [Axis::In, Axis::Out]);
}

#[test]
fn a_kernel_that_may_be_depthwise_gets_no_axes() {
    let axes = |name: &str, shape: &[u64], bias: Option<u64>| {
        let mut objects = Objects::default();
        objects.variable(0, "0", &format!("{name}/kernel"), "k");
        objects.variable(0, "1", &format!("{name}/bias"), "b");
        let bias = bias.map(|len| [len]);
        let shapes: Vec<(&str, &[u64])> =
            [("k", shape)].into_iter().chain(bias.iter().map(|bias| ("b", &bias[..]))).collect();
        run(&shapes, &objects).axes.contains_key("k")
    };
    assert!(!axes("filter", &[3, 3, 4, 1], Some(4)));
    assert!(!axes("filter", &[3, 3, 4, 1], None));
    assert!(!axes("conv_dw_1", &[3, 3, 4, 2], None));
    assert!(axes("filter", &[3, 3, 4, 1], Some(1)));
    assert!(axes("filter", &[3, 3, 4, 8], None));
}

#[test]
fn a_chain_refers_only_to_tensors_that_exist() {
    let mut shapes = KERAS3.to_vec();
    shapes.remove(3);
    let description = run(&shapes, &keras3());
    assert!(description.graph.is_none());
    assert!(why(&description).contains("model/_operations/2/bias"), "{}", why(&description));
}

#[test]
fn an_unspecified_activation_follows_each_dense_layer() {
    let graph = run(KERAS3, &keras3()).graph.unwrap();
    let ops: Vec<&Op> = graph.nodes.iter().map(|node| &node.op).collect();
    assert_eq!(ops, [&Op::Gemm, &Op::Unspecified, &Op::Gemm, &Op::Unspecified]);
}
