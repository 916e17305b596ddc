//! Optimizer state.

use super::*;

/// A model with these slots for each variable, and these numbers.
fn trained(slots: &[&str], numbers: &[&str]) -> Checkpoint {
    let mut checkpoint = mlp();
    for variable in checkpoint.tensors.clone() {
        for slot in slots {
            let mut kept = variable.clone().with_name(format!("{}.{slot}", variable.name));
            kept.role = Role::Optimizer;
            kept.slot = Some(Box::new(Slot { variable: variable.name.clone(), name: (*slot).to_owned() }));
            checkpoint.tensors.push(kept);
        }
    }
    for number in numbers {
        let mut tensor = Tensor::new(*number, DType::F32, Shape::scalar()).with_role(Role::Optimizer);
        tensor.metadata.insert("tf2", OPTIMIZER_NUMBER, *number);
        checkpoint.tensors.push(tensor);
    }
    checkpoint
}

fn key_of(checkpoint: &Checkpoint, naming: &Naming, name: &str) -> String {
    keys(naming)[checkpoint.tensor(name).unwrap().0.0].clone()
}

#[test]
fn keras_3_lists_moments_in_the_order_of_the_models_variables() {
    let checkpoint = trained(&["m", "v"], &["iteration", "learning_rate"]);
    let naming = named(&checkpoint, Style::Keras3);
    assert!(naming.losses.is_empty(), "{:?}", naming.losses);
    let objects = Objects::of(&naming);
    for (list, slot, word) in [("_momentums", "m", "momentum"), ("_velocities", "v", "velocity")] {
        let key = key_of(&checkpoint, &naming, &format!("m/dense_1/kernel.{slot}"));
        assert_eq!(key, format!("optimizer/{list}/2"));
        let full_name = format!("adam/m_dense_1_kernel_{word}");
        assert_eq!(objects.variable(&key), (key.as_str(), full_name.as_str()));
    }
    assert_eq!(objects.variable("optimizer/_iterations").1, "adam/iteration");
    assert_eq!(objects.find("model/optimizer"), objects.find("optimizer"), "a compiled model has it too");
    let all = ["_iterations", "_learning_rate", "_momentums/0", "_velocities/0", "_momentums/1"];
    for (number, path) in all.iter().enumerate() {
        let same = objects.find(&format!("optimizer/{path}"));
        assert_eq!(objects.find(&format!("optimizer/_variables/{number}")), same);
    }
}

#[test]
fn without_a_learning_rate_there_is_no_list_of_all_variables() {
    let objects = Objects::of(&named(&trained(&["m", "v"], &["iteration"]), Style::Keras3));
    assert!(
        objects.find("optimizer/_momentums/3").is_some() && objects.find("optimizer/_variables").is_none()
    );
}

#[test]
fn adams_greatest_second_moments_come_after_the_others() {
    let checkpoint = trained(&["m", "v", "vhat"], &["iteration", "learning_rate"]);
    let objects = Objects::of(&named(&checkpoint, Style::Keras3));
    assert_eq!(objects.find("optimizer/_variables/10"), objects.find("optimizer/_velocity_hats/0"));
}

#[test]
fn gradient_descent_has_its_velocity_or_none() {
    let checkpoint = trained(&["momentum"], &["iteration", "learning_rate"]);
    let naming = named(&checkpoint, Style::Keras3);
    assert_eq!(key_of(&checkpoint, &naming, "m/dense/bias.momentum"), "optimizer/momentums/1");
    assert_eq!(
        key_of(&checkpoint, &named(&checkpoint, Style::Tf1), "m/dense/bias.momentum"),
        "dense/bias/Momentum"
    );
    let checkpoint = trained(&[], &["iteration", "learning_rate"]);
    assert_eq!(
        Objects::of(&named(&checkpoint, Style::Keras3)).variable("optimizer/_iterations").1,
        "sgd/iteration"
    );
}

#[test]
fn keras_2_writes_a_legacy_optimizer_if_the_decay_is_known() {
    let checkpoint = trained(&["m", "v"], &["iteration", "beta_1", "beta_2", "decay", "learning_rate"]);
    let naming = named(&checkpoint, Style::Keras2);
    assert!(naming.losses.is_empty(), "{:?}", naming.losses);
    let key = key_of(&checkpoint, &naming, "m/dense_1/kernel.v");
    assert_eq!(key, "layer_with_weights-1/kernel/.OPTIMIZER_SLOT/optimizer/v");
    let objects = Objects::of(&naming);
    let optimizer = &objects.0.nodes[objects.find("model/optimizer").unwrap()];
    assert_eq!(optimizer.slot_variables.len(), 8);
    let id = |id: i32| usize::try_from(id).unwrap();
    let slot = optimizer
        .slot_variables
        .iter()
        .find(|slot| objects.value(id(slot.slot_variable_node_id)).0 == key)
        .unwrap();
    assert_eq!(slot.slot_name, "v");
    assert_eq!(objects.value(id(slot.original_variable_node_id)).0, "layer_with_weights-1/kernel");
    assert_eq!(objects.value(id(slot.slot_variable_node_id)).1, "Adam/dense_1/kernel/v");
    assert_eq!(objects.variable("optimizer/iter"), ("optimizer/iter", "Adam/iter"));
    assert_eq!(objects.variable("optimizer/decay").1, "Adam/decay");
}

#[test]
fn keras_2_writes_lists_of_slots_if_the_decay_is_unknown() {
    let checkpoint = trained(&["m", "v"], &["iteration", "learning_rate"]);
    let naming = named(&checkpoint, Style::Keras2);
    assert!(naming.losses.is_empty(), "{:?}", naming.losses);
    let objects = Objects::of(&naming);
    assert_eq!(objects.variable("optimizer/_velocities/2").1, "Adam/v/dense_1/kernel");
    assert_eq!(objects.variable("optimizer/_learning_rate").1, "learning_rate");
    assert_eq!(objects.find("optimizer/_variables/1"), objects.find("optimizer/_momentums/0"));
    assert!(objects.0.nodes.iter().all(|node| node.slot_variables.is_empty()));
}

#[test]
fn tensorflow_1_has_numbered_slots_and_powers_of_decay_rates() {
    let checkpoint = trained(&["m", "v"], &["beta1_power", "beta2_power", "global_step"]);
    let naming = named(&checkpoint, Style::Tf1);
    assert!(naming.losses.is_empty(), "{:?}", naming.losses);
    for (name, key) in [
        ("m/dense/kernel.m", "dense/kernel/Adam"),
        ("m/dense/kernel.v", "dense/kernel/Adam_1"),
        ("beta1_power", "beta1_power"),
    ] {
        assert_eq!(key_of(&checkpoint, &naming, name), key);
    }
}

#[test]
fn missing_powers_of_decay_rates_are_losses_in_tensorflow_1() {
    let checkpoint = trained(&["m", "v"], &["iteration", "beta_1"]);
    let naming = named(&checkpoint, Style::Tf1);
    assert_eq!(key_of(&checkpoint, &naming, "iteration"), "global_step");
    let lost = |name| (LossKind::OptimizerDropped, name);
    assert_eq!(losses(&naming), [lost("beta_1"), lost("beta1_power"), lost("beta2_power")]);
}

#[test]
fn the_global_step_of_tensorflow_1_is_the_iteration_of_keras() {
    let checkpoint = trained(&["m", "v"], &["beta1_power", "beta2_power", "global_step"]);
    for (style, key) in [(Style::Keras3, "optimizer/_iterations"), (Style::Keras2, "optimizer/_iterations")] {
        let naming = named(&checkpoint, style);
        assert_eq!(key_of(&checkpoint, &naming, "global_step"), key);
        assert_eq!(losses(&naming).len(), 2, "the powers cannot be stored");
    }
}

#[test]
fn a_slot_has_the_stored_axes_of_its_variable() {
    let mut checkpoint = trained(&["m", "v"], &["iteration"]);
    checkpoint.tensors[0] = tensor("m/dense/kernel", &[3, 3]).with_axes([Axis::Out, Axis::In]);
    let (id, _) = checkpoint.tensor("m/dense/kernel.v").unwrap();
    checkpoint.tensors[id.0].axes = None;
    let naming = named(&checkpoint, Style::Keras3);
    let order = |name: &str| naming.tensors[checkpoint.tensor(name).unwrap().0.0].clone().unwrap().order;
    assert_eq!(order("m/dense/kernel"), [1, 0]);
    assert_eq!(order("m/dense/kernel.m"), [0, 1], "it has its own axes");
    assert_eq!(order("m/dense/kernel.v"), [1, 0], "it has none");
}

#[test]
fn incomplete_slots_and_slots_of_another_shape_are_losses() {
    let mut checkpoint = trained(&["m", "v"], &[]);
    let (id, _) = checkpoint.tensor("m/dense/kernel.v").unwrap();
    checkpoint.tensors[id.0].shape = Shape::new(vec![4, 2]).unwrap();
    let (id, _) = checkpoint.tensor("m/dense_1/bias.m").unwrap();
    checkpoint.tensors[id.0].slot = None;
    let naming = named(&checkpoint, Style::Keras3);
    let expected = ["m/dense/kernel.m", "m/dense/kernel.v", "m/dense_1/bias.m", "m/dense_1/bias.v"];
    assert_eq!(losses(&naming), expected.map(|name| (LossKind::OptimizerDropped, name)));
}

#[test]
fn an_unsupported_optimizer_is_a_loss() {
    let checkpoint = trained(&["rms"], &["iteration"]);
    for style in [Style::Keras3, Style::Keras2] {
        let naming = named(&checkpoint, style);
        assert_eq!(losses(&naming).len(), 5);
        assert!(Objects::of(&naming).find("optimizer").is_none());
    }
}

#[test]
fn written_slots_and_numbers_are_read_again() {
    let all = ["iteration", "learning_rate", "decay"];
    for (style, numbers) in [(Style::Keras3, &all[..2]), (Style::Keras2, &all[..2]), (Style::Keras2, &all)] {
        for slots in [&["m", "v"][..], &["m", "v", "vhat"], &["momentum"]] {
            let checkpoint = trained(slots, numbers);
            let naming = named(&checkpoint, style);
            let description = read_back(&checkpoint, &naming);
            let key = |name: &str| {
                let id = checkpoint.tensor(name).unwrap().0.0;
                String::from_utf8(naming.tensors[id].as_ref().unwrap().key.to_vec()).unwrap()
            };
            for tensor in &checkpoint.tensors {
                let slot =
                    tensor.slot.clone().map(|slot| Slot { variable: key(&slot.variable).into(), ..*slot });
                assert_eq!(description.slots.get(&key(&tensor.name)), slot.as_ref(), "{style:?} {slots:?}");
                let number = tensor.metadata.text("tf2", OPTIMIZER_NUMBER);
                assert_eq!(description.numbers.get(&key(&tensor.name)).copied(), number, "{style:?}");
            }
        }
    }
}
