//! Keys, and the object graph from which TensorFlow finds them.

use super::*;
use proptest::prelude::*;

#[test]
fn keras_3_keys_are_those_of_a_sequential_model() {
    let expected = ["1/_kernel", "1/bias", "2/_kernel", "2/bias"];
    let naming = named(&mlp(), Style::Keras3);
    assert_eq!(keys(&naming), expected.map(|key| format!("model/_functional/_operations/{key}")));
    assert!(naming.losses.is_empty());
}

#[test]
fn a_keras_3_variable_is_found_from_sequential_and_functional_models_and_from_both_roots() {
    let naming = named(&mlp(), Style::Keras3);
    let objects = Objects::of(&naming);
    for model in ["model/_functional", "model", "_functional"]
        .map(|path| format!("{path}/"))
        .iter()
        .chain([&String::new()])
    {
        for (local, full) in [("1/_kernel", "m/dense/kernel"), ("2/bias", "m/dense_1/bias")] {
            let key = format!("model/_functional/_operations/{local}");
            assert_eq!(objects.variable(&format!("{model}_operations/{local}")), (key.as_str(), full));
        }
    }
    let input = objects.find("model/_functional/_operations/0").unwrap();
    assert_eq!(objects.0.nodes[input], Default::default(), "the input layer has no variables");
}

#[test]
fn a_keras_2_variable_is_found_by_the_number_of_its_layer_among_those_with_weights() {
    let mut checkpoint = mlp();
    let nodes = checkpoint.graph.as_ref().unwrap().nodes.clone();
    let flatten = vec![Node::new("flatten", Op::Flatten)];
    checkpoint.graph = Some(Graph::sequential("m", vec![], vec![], [flatten, nodes].concat()));
    let naming = named(&checkpoint, Style::Keras2);
    let expected = ["0/kernel", "0/bias", "1/kernel", "1/bias"];
    assert_eq!(keys(&naming), expected.map(|key| format!("layer_with_weights-{key}")));
    let objects = Objects::of(&naming);
    for model in ["", "model/"] {
        let found = objects.variable(&format!("{model}layer_with_weights-1/kernel"));
        assert_eq!(found, ("layer_with_weights-1/kernel", "dense_1/kernel"));
        assert_eq!(objects.find(&format!("{model}layer-2")), objects.find("layer_with_weights-1"));
    }
}

#[test]
fn keras_2_layers_are_listed_by_their_overall_number_last() {
    let objects = Objects::of(&named(&mlp(), Style::Keras2));
    for id in [0, objects.find("model").unwrap()] {
        let names: Vec<&str> =
            objects.0.nodes[id].children.iter().map(|child| child.local_name.as_str()).collect();
        let last = names.iter().rposition(|name| name.starts_with("layer_with_weights-")).unwrap();
        let first = names.iter().position(|name| name.starts_with("layer-")).unwrap();
        assert!(last < first, "{names:?}");
    }
}

#[test]
fn tensorflow_1_has_no_object_graph() {
    let naming = named(&mlp(), Style::Tf1);
    assert_eq!(keys(&naming), ["dense/kernel", "dense/bias", "dense_1/kernel", "dense_1/bias"]);
    assert!(naming.extra.is_empty());
}

#[test]
fn a_save_counter_is_kept_or_created() {
    let extra = named(&mlp(), Style::Keras3).extra;
    assert_eq!(text(&extra[0].key), "save_counter");
    assert_eq!((extra[0].dtype, extra[0].value.as_slice()), (DType::I64, &1i64.to_le_bytes()[..]));
    let mut checkpoint = mlp();
    let counter = Tensor::new("save_counter", DType::I64, Shape::scalar()).with_role(Role::Counter);
    checkpoint.tensors.push(counter);
    for style in [Style::Keras3, Style::Keras2] {
        let naming = named(&checkpoint, style);
        assert_eq!((naming.extra.len(), keys(&naming)[4].as_str()), (1, "save_counter"));
        assert_eq!(Objects::of(&naming).variable("save_counter").0, "save_counter");
    }
}

#[test]
fn a_model_without_a_name_takes_the_common_prefix_of_its_tensors_names() {
    let mut checkpoint = mlp();
    checkpoint.graph.as_mut().unwrap().name.clear();
    let full_name = |checkpoint: &Checkpoint| {
        let objects = Objects::of(&named(checkpoint, Style::Keras3));
        objects.variable("model/_operations/1/_kernel").1.to_owned()
    };
    assert_eq!(full_name(&checkpoint), "m/dense/kernel");
    let renames = [("m/dense/kernel".to_owned(), "other/dense/kernel".to_owned())];
    checkpoint.rename(&renames.into()).unwrap();
    assert_eq!(full_name(&checkpoint), "dense/kernel");
}

#[test]
fn written_layers_are_read_again() {
    for style in [Style::Keras3, Style::Keras2] {
        let checkpoint = mlp();
        let naming = named(&checkpoint, style);
        let description = read_back(&checkpoint, &naming);
        let graph = description.graph.unwrap_or_else(|| panic!("{style:?}: {:?}", description.notes));
        assert_eq!(graph.unspecified(), ["dense", "dense_1"], "{style:?}");
        let prefix = if style == Style::Keras3 { "m/" } else { "" };
        assert_eq!(
            description.names[std::str::from_utf8(&naming.tensors[0].clone().unwrap().key).unwrap()],
            format!("{prefix}dense/kernel")
        );
    }
}

fn any_node() -> impl Strategy<Value = Node> {
    let ops = [
        "Gemm",
        "Gemm",
        "Conv",
        "BatchNormalization",
        "Relu",
        "LeakyRelu",
        "Flatten",
        "MaxPool",
        "Identity",
        "GlobalAveragePool",
        "Transpose",
        "ckpt.Unspecified",
        "Swish",
    ];
    let roles = prop::sample::select(vec!["weight", "bias", "scale", "mean", "variance"]);
    let parameters = prop::collection::btree_map(roles.prop_map(str::to_owned), "[tu][0-4]", 0..3);
    ("[a-c/# ]{0,4}", prop::sample::select(ops.to_vec()), parameters)
        .prop_map(|(name, op, parameters)| Node { parameters, ..Node::new(name, Op::from(op.to_owned())) })
}

fn any_tensor() -> impl Strategy<Value = Tensor> {
    let axes =
        prop::sample::select(vec![Axis::In, Axis::Out, Axis::KernelY, Axis::KernelX, Axis::Multiplier]);
    let roles = prop::sample::select(vec![Role::Weight, Role::Optimizer, Role::Counter]);
    let slot = prop::option::of(("[tu][0-4]", prop::sample::select(vec!["m", "v", "momentum", "x"])));
    let number = prop::option::of(prop::sample::select(vec!["iteration", "decay", "global_step"]));
    (
        prop::collection::vec(1u64..4, 0..5),
        prop::option::of(prop::collection::vec(axes, 0..5)),
        roles,
        slot,
        number,
    )
        .prop_map(|(dims, axes, role, slot, number)| {
            let mut tensor = tensor("", &dims).with_role(role);
            tensor.axes = axes.filter(|axes| axes.len() == dims.len()).map(Into::into);
            tensor.slot = slot
                .map(|(variable, name)| Box::new(Slot { variable: variable.into(), name: name.to_owned() }));
            if let Some(number) = number {
                tensor.metadata.insert("tf2", OPTIMIZER_NUMBER, number);
            }
            tensor
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 512 }, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_tensor_has_a_unique_key_or_a_loss(
        nodes in prop::collection::vec(any_node(), 0..6),
        tensors in prop::collection::vec(any_tensor(), 0..10),
        layers in any::<bool>(),
    ) {
        let mut checkpoint = checkpoint("m", nodes, tensors);
        for (at, tensor) in checkpoint.tensors.iter_mut().enumerate() {
            tensor.name = format!("{}{}", if at < 5 { "t" } else { "u" }, at % 5).into();
        }
        let activations = if layers { Activations::Layers } else { Activations::Arguments };
        for style in [Style::Keras3, Style::Keras2, Style::Tf1] {
            let Ok(naming) = naming(&checkpoint, style, activations) else { continue };
            let mut keys: Vec<&[u8]> = naming.tensors.iter().flatten().map(|named| &named.key[..]).collect();
            keys.extend(naming.extra.iter().map(|extra| &extra.key[..]));
            let count = keys.len();
            keys.sort_unstable();
            keys.dedup();
            prop_assert_eq!(keys.len(), count);
            for (tensor, named) in checkpoint.tensors.iter().zip(&naming.tensors) {
                let lost = naming.losses.iter().any(|loss| loss.subject == tensor.name);
                prop_assert_eq!(lost, named.is_none(), "{}", tensor.name);
                let mut order = named.as_ref().map(|named| named.order.to_vec()).unwrap_or_default();
                order.sort_unstable();
                prop_assert!(named.is_none() || order == (0..tensor.shape.rank()).collect::<Vec<_>>());
            }
        }
    }
}
