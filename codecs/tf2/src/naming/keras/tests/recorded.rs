//! What the object graph of the source records: models within models, and optimizers of every kind.

use super::*;
use crate::describe::NESTED;
use crate::proto::trackable_object_graph::TrackableObject;
use crate::proto::trackable_object_graph::trackable_object::{ObjectReference, SerializedTensor};
use base64::prelude::{BASE64_STANDARD, Engine};
use ckpt_api::{Kind, Name};
use std::collections::BTreeMap;

/// Records an object graph with variables at these paths; several paths with one key are those of one object.
fn record(checkpoint: &mut Checkpoint, variables: &[(String, String)]) {
    let mut nodes = vec![TrackableObject::default()];
    let mut by_key = BTreeMap::new();
    for (path, key) in variables {
        let mut at = 0;
        for (depth, name) in path.split('/').enumerate() {
            let is_last = depth == path.matches('/').count();
            let known = nodes[at].children.iter().find(|child| child.local_name == name);
            let known = known.map(|child| usize::try_from(child.node_id).unwrap());
            let id = known.or_else(|| by_key.get(key).copied().filter(|_| is_last)).unwrap_or(nodes.len());
            if id == nodes.len() {
                nodes.push(TrackableObject::default());
            }
            if known.is_none() {
                let node_id = i32::try_from(id).unwrap();
                nodes[at].children.push(ObjectReference { node_id, local_name: name.to_owned() });
            }
            at = id;
        }
        if by_key.insert(key, at).is_none() {
            nodes[at].attributes.push(SerializedTensor {
                name: "VARIABLE_VALUE".into(),
                full_name: key.clone(),
                checkpoint_key: key.clone(),
            });
        }
    }
    let bytes = TrackableObjectGraph { nodes }.encode_to_vec();
    checkpoint.metadata.insert("tf2", "object_graph", BASE64_STANDARD.encode(bytes));
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(path, key)| ((*path).to_owned(), (*key).to_owned())).collect()
}

/// The paths of a layer's variables.
fn layer(place: &str, name: &str) -> Vec<(String, String)> {
    pairs(&[
        (&format!("model/_functional/_operations/{place}/_kernel"), &format!("m/{name}/kernel")),
        (&format!("model/_functional/_operations/{place}/bias"), &format!("m/{name}/bias")),
    ])
}

/// Three layers of the same shape. The first two are those of a model that is the first layer.
fn nested() -> Checkpoint {
    let mut checkpoint =
        checkpoint("m", ["a", "b", "c"].map(dense).to_vec(), ["a", "b", "c"].map(dense_tensors).concat());
    let inner = |number: u64| format!("1/_functional/_operations/{number}");
    record(&mut checkpoint, &[layer(&inner(1), "a"), layer(&inner(3), "b"), layer("2", "c")].concat());
    checkpoint
}

#[test]
fn a_layer_of_a_model_within_a_model_keeps_its_place() {
    let checkpoint = nested();
    let naming = named(&checkpoint, Style::Keras3);
    let prefix = "model/_functional/_operations";
    let kernels = keys(&naming).into_iter().step_by(2).collect::<Vec<_>>();
    let expected = ["1/_functional/_operations/1", "1/_functional/_operations/3", "2"];
    assert_eq!(kernels, expected.map(|place| format!("{prefix}/{place}/_kernel")));
    let objects = Objects::of(&naming);
    // The places of a functional model, too.
    assert_eq!(objects.variable("model/_operations/1/_operations/3/_kernel").0, kernels[1]);
    assert_eq!(objects.variable("_operations/2/_kernel").0, kernels[2]);
    assert!(objects.find("_operations/3").is_none());
}

#[test]
fn keras_2_numbers_the_layers_with_weights_of_each_model() {
    let naming = named(&nested(), Style::Keras2);
    let kernels = keys(&naming).into_iter().step_by(2).collect::<Vec<_>>();
    let inner = "layer_with_weights-0/layer_with_weights";
    assert_eq!(
        kernels,
        [format!("{inner}-0/kernel"), format!("{inner}-1/kernel"), "layer_with_weights-1/kernel".into()]
    );
    let objects = Objects::of(&naming);
    assert_eq!(objects.find("model/layer-0/layer-2"), objects.find(&format!("{inner}-1")));
}

#[test]
fn layers_within_layers_are_refused_if_their_places_are_unknown() {
    let mut unknown = nested();
    unknown.metadata.remove("tf2");
    unknown.metadata.insert("tf2", NESTED, true);
    let mut keras2 = nested();
    let inner = |number: u64| format!("layer_with_weights-0/layer_with_weights-{number}/kernel");
    let path = |path: String, layer: &str| (path, format!("m/{layer}/kernel"));
    record(
        &mut keras2,
        &[path(inner(0), "a"), path(inner(1), "b"), path("layer_with_weights-1/kernel".into(), "c")],
    );
    let mut reordered = nested();
    reordered.graph = Some(Graph::sequential("m", vec![], vec![], ["c", "a", "b"].map(dense).to_vec()));
    for checkpoint in [&unknown, &keras2, &reordered] {
        for style in [Style::Keras3, Style::Keras2] {
            let error = naming(checkpoint, style, Activations::Arguments).unwrap_err();
            assert_eq!(error.kind(), Kind::Unsupported);
            assert!(error.to_string().contains("places of layers"), "{error}");
        }
        assert!(naming(checkpoint, Style::Tf1, Activations::Arguments).is_ok());
    }
}

/// A model whose optimizer has slots `rms` and `mg`, and a number `_u_product`. Keras 3 lists the trained variables.
fn with_optimizer(is_keras3: bool, order: [usize; 4]) -> Checkpoint {
    let mut checkpoint = mlp();
    let weights: Vec<Name> = checkpoint.tensors.iter().map(|tensor| tensor.name.clone()).collect();
    let mut paths = [layer("1", "dense"), layer("2", "dense_1")].concat();
    let mut add = |paths: &mut Vec<_>, name: String, like: Option<&str>, slot: &str, at: &str| {
        let mut tensor = Tensor::new(&name, DType::F32, Shape::scalar());
        if let Some((_, like)) = like.and_then(|like| checkpoint.tensor(like)) {
            tensor = like.clone().with_name(&name);
            tensor.slot = Some(Box::new(Slot { variable: like.name.clone(), name: slot.to_owned() }));
        }
        checkpoint.tensors.push(tensor.with_role(Role::Optimizer));
        paths.push((format!("model/optimizer/{at}"), name));
    };
    add(&mut paths, "iteration".into(), None, "", "_iterations");
    add(&mut paths, "u".into(), None, "", "_u_product");
    add(&mut paths, "rate".into(), None, "", "_learning_rate");
    for (place, weight) in order.map(|at| &weights[at]).into_iter().enumerate() {
        add(&mut paths, format!("{weight}.rms"), Some(weight), "rms", &format!("_velocities/{place}"));
        // A list that only the list of all variables names, as that of Adafactor.
        add(&mut paths, format!("{weight}.mg"), Some(weight), "mg", &format!("_variables/{}", place + 3));
        if is_keras3 {
            paths.push((format!("model/optimizer/_trainable_variables/{place}"), weight.to_string()));
        }
    }
    paths.push(("model/optimizer/_variables/0".into(), "iteration".into()));
    record(&mut checkpoint, &paths);
    checkpoint
}

#[test]
fn the_state_of_an_optimizer_of_any_kind_keeps_its_places() {
    for style in [Style::Keras3, Style::Keras2] {
        let checkpoint = with_optimizer(style == Style::Keras3, [0, 1, 2, 3]);
        let naming = named(&checkpoint, style);
        assert!(naming.losses.is_empty(), "{style:?} {:?}", naming.losses);
        let objects = Objects::of(&naming);
        for (path, name) in [
            ("_velocities/2", "m/dense_1/kernel.rms"),
            ("_variables/5", "m/dense_1/kernel.mg"),
            ("_u_product", "u"),
        ] {
            let id = checkpoint.tensor(name).unwrap().0.0;
            assert_eq!(objects.variable(&format!("optimizer/{path}")), (keys(&naming)[id].as_str(), name));
        }
        assert_eq!(objects.find("optimizer/_variables/0"), objects.find("model/optimizer/_iterations"));
        assert!(objects.find("optimizer/_trainable_variables").is_none());
    }
}

#[test]
fn a_list_of_slots_in_another_order_than_the_models_is_a_loss() {
    for style in [Style::Keras3, Style::Keras2] {
        let checkpoint = with_optimizer(style == Style::Keras3, [2, 1, 0, 3]);
        let naming = named(&checkpoint, style);
        assert_eq!(losses(&naming).len(), 11, "{style:?}");
        assert!(losses(&naming).iter().all(|(kind, _)| *kind == LossKind::OptimizerDropped));
    }
}

#[test]
fn an_unknown_optimizer_of_the_other_keras_is_a_loss() {
    let losses_of = |is_keras3, style| named(&with_optimizer(is_keras3, [0, 1, 2, 3]), style).losses.len();
    assert_eq!((losses_of(true, Style::Keras2), losses_of(false, Style::Keras3)), (11, 11));
}
