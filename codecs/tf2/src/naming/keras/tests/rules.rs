//! Layers, their names, and the order of their axes.

use super::*;
use ckpt_api::Kind;

/// The positions of layers with weights among all layers.
fn places(checkpoint: &Checkpoint, activations: Activations) -> Vec<String> {
    let naming = naming(checkpoint, Style::Keras3, activations).unwrap();
    let place = |key: String| key.split('/').nth(3).map(str::to_owned);
    let mut places: Vec<String> = keys(&naming).into_iter().filter_map(place).collect();
    places.dedup();
    places
}

/// A convolution of `[out, in, kernel_y, kernel_x]`.
fn conv(group: i64, dims: &[u64]) -> (Node, Tensor) {
    let node = Node::new("c", Op::Conv).parameter("weight", "c/w").attribute("group", Attribute::Int(group));
    let axes = [Axis::Out, Axis::In, Axis::KernelY, Axis::KernelX];
    (node, tensor("c/w", dims).with_axes(axes))
}

fn refused(checkpoint: &Checkpoint) -> (Kind, String) {
    let error = naming(checkpoint, Style::Keras3, Activations::Arguments).unwrap_err();
    (error.kind(), error.to_string())
}

#[test]
fn an_activation_after_a_dense_layer_is_an_argument_or_a_layer_as_the_option_says() {
    assert_eq!(places(&mlp(), Activations::Arguments), ["1", "2"]);
    assert_eq!(places(&mlp(), Activations::Layers), ["1", "3"]);
}

#[test]
fn an_activation_that_cannot_be_an_argument_is_a_layer() {
    let norm = ["scale", "bias", "mean", "variance"]
        .into_iter()
        .fold(Node::new("bn", Op::BatchNormalization), |node, role| node.parameter(role, role));
    let channels = ["scale", "bias", "mean", "variance"].map(|role| tensor(role, &[3]));
    let nodes = vec![
        dense("a"),
        norm,
        Node::new("r", Op::Relu),
        dense("b"),
        Node::new("l", Op::LeakyRelu),
        dense("c"),
        Node::new("s", Op::Relu),
        Node::new("t", Op::Softmax),
        Node::unspecified("x"),
        dense("d"),
    ];
    let tensors = [["a", "b", "c", "d"].map(dense_tensors).concat(), channels.to_vec()].concat();
    let mut places = places(&checkpoint("m", nodes, tensors), Activations::Arguments);
    places.sort();
    assert_eq!(places, ["1", "2", "4", "6", "9"]);
}

#[test]
fn moving_channels_is_not_a_layer() {
    let to = |name: &str, perm: [i64; 4]| {
        Node::new(name, Op::Transpose).attribute("perm", Attribute::Ints(perm.to_vec()))
    };
    let (node, weight) = conv(1, &[8, 4, 3, 5]);
    let last = to("last", [0, 2, 3, 1]);
    let nodes = vec![
        to("first", [0, 3, 1, 2]),
        node,
        Node::new("r", Op::Relu),
        Node::new("p", Op::MaxPool),
        last,
        Node::new("f", Op::Flatten),
        dense("d"),
    ];
    let tensors = [vec![weight], dense_tensors("d").to_vec()].concat();
    let mut checkpoint = checkpoint("", nodes.clone(), tensors);
    assert_eq!(places(&checkpoint, Activations::Arguments), ["1", "4"]);
    let without = nodes.into_iter().filter(|node| node.name != "last").collect();
    checkpoint.graph = Some(Graph::sequential("", vec![], vec![], without));
    let (kind, message) = refused(&checkpoint);
    assert!(
        kind == Kind::Unsupported && message.contains("channels last") && message.contains('f'),
        "{message}"
    );
}

#[test]
fn flattening_after_global_pooling_is_not_a_layer() {
    let (node, weight) = conv(1, &[4, 4, 3, 3]);
    let nodes = vec![node, Node::new("g", Op::GlobalAveragePool), Node::new("f", Op::Flatten), dense("d")];
    let tensors = [vec![weight], dense_tensors("d").to_vec()].concat();
    assert_eq!(places(&checkpoint("", nodes, tensors), Activations::Arguments), ["1", "3"]);
}

#[test]
fn axes_are_ordered_by_their_meaning() {
    let order = |node: Node, weight: Tensor, style| {
        let naming = named(&checkpoint("", vec![node], vec![weight]), style);
        (
            keys(&naming)[0].rsplit('/').next().unwrap().to_owned(),
            naming.tensors[0].clone().unwrap().order.to_vec(),
        )
    };
    let gemm = || Node::new("d", Op::Gemm).parameter("weight", "d/w");
    let torch = tensor("d/w", &[3, 4]).with_axes([Axis::Out, Axis::In]);
    assert_eq!(order(gemm(), torch, Style::Keras3), ("_kernel".into(), vec![1, 0]));
    let (node, weight) = conv(1, &[8, 4, 3, 5]);
    assert_eq!(order(node, weight, Style::Keras3), ("_kernel".into(), vec![2, 3, 1, 0]));
    let (node, weight) = conv(2, &[8, 2, 3, 5]);
    assert_eq!(order(node, weight, Style::Keras3), ("_kernel".into(), vec![2, 3, 1, 0]));
    // A group with one output for each channel is a depthwise convolution.
    let (node, weight) = conv(8, &[8, 1, 3, 5]);
    assert_eq!(order(node.clone(), weight.clone(), Style::Keras3), ("kernel".into(), vec![2, 3, 0, 1]));
    assert_eq!(order(node, weight, Style::Keras2), ("depthwise_kernel".into(), vec![2, 3, 0, 1]));
    let (node, weight) = conv(4, &[8, 1, 3, 5]);
    assert_eq!(order(node, weight, Style::Keras2), ("kernel".into(), vec![2, 3, 1, 0]));
    let (node, mut weight) = conv(4, &[2, 4, 3, 5]);
    weight.axes = Some([Axis::Multiplier, Axis::In, Axis::KernelY, Axis::KernelX].into());
    assert_eq!(order(node, weight, Style::Keras3), ("kernel".into(), vec![2, 3, 1, 0]));
}

#[test]
fn a_weight_with_unknown_axes_is_refused_with_advice() {
    let mut checkpoint = mlp();
    checkpoint.tensors[2].axes = None;
    let (kind, message) = refused(&checkpoint);
    assert_eq!(kind, Kind::Usage);
    assert!(
        ["m/dense_1/kernel", "weight_axes", "OpenOptions::architecture"]
            .iter()
            .all(|part| message.contains(part)),
        "{message}"
    );
}

#[test]
fn an_unsupported_graph_is_refused_with_the_name_of_the_layer() {
    type Damage = fn(&mut Checkpoint);
    fn nodes(checkpoint: &mut Checkpoint) -> &mut Vec<Node> {
        &mut checkpoint.graph.as_mut().unwrap().nodes
    }
    let damages: &[(Kind, &str, Damage)] = &[
        (Kind::Usage, "OpenOptions::architecture", |c| c.graph = None),
        (Kind::Unsupported, "not a chain", |c| nodes(c)[2].inputs.push("input".into())),
        (Kind::Unsupported, "dense_1/activation", |c| nodes(c)[3].op = Op::custom("Swish")),
        (Kind::Unsupported, "'dense/activation'", |c| nodes(c)[1].op = Op::Transpose),
        (Kind::Unsupported, "share", |c| {
            nodes(c)[2].parameters.insert("bias".into(), "m/dense/bias".into());
        }),
        (Kind::Unsupported, "running", |c| {
            nodes(c)[2].parameters.insert("running".into(), "m/dense/bias".into());
        }),
        (Kind::Usage, "weight", |c| {
            nodes(c)[2].parameters.remove("weight");
        }),
        (Kind::Usage, "gone", |c| {
            nodes(c)[2].parameters.insert("weight".into(), "gone".into());
        }),
        (Kind::Unsupported, "in, bucket", |c| c.tensors[2].axes = Some([Axis::In, Axis::Bucket].into())),
        (Kind::Unsupported, "one axis", |c| c.tensors[3].shape = Shape::new(vec![3, 1]).unwrap()),
    ];
    for (kind, part, damage) in damages {
        let mut checkpoint = mlp();
        damage(&mut checkpoint);
        let (found, message) = refused(&checkpoint);
        assert_eq!(found, *kind, "{message}");
        assert!(
            message.contains(part.trim_matches('\'')) && message.contains("names=plain"),
            "{part}: {message}"
        );
    }
}

#[test]
fn invalid_names_of_layers_are_replaced_by_numbered_ones() {
    let named_layers = |names: &[&str]| -> Vec<String> {
        let nodes = names
            .iter()
            .enumerate()
            .map(|(at, name)| Node { name: (*name).to_owned(), ..dense(&at.to_string()) });
        let tensors: Vec<Tensor> = (0..names.len()).flat_map(|at| dense_tensors(&at.to_string())).collect();
        let keys = keys(&named(&checkpoint("net", nodes.collect(), tensors), Style::Tf1));
        keys.iter().step_by(2).map(|key| key.strip_suffix("/kernel").unwrap().to_owned()).collect()
    };
    assert_eq!(named_layers(&["net/in", "hidden", "a/b"]), ["in", "hidden", "a/b"]);
    assert_eq!(named_layers(&["", "dense", "x y", "dense#2"]), ["dense_1", "dense", "dense_2", "dense_3"]);
    assert_eq!(named_layers(&["net/a", "a", "_", "a//b"]), ["a", "dense", "dense_1", "dense_2"]);
}

#[test]
fn tensors_that_no_layer_uses_are_losses() {
    let mut checkpoint = mlp();
    let roles = [Role::Weight, Role::Optimizer, Role::Counter, Role::Bookkeeping, Role::Duplicate];
    checkpoint
        .tensors
        .extend(roles.iter().enumerate().map(|(at, role)| tensor(&format!("t{at}"), &[2]).with_role(*role)));
    let expected = [
        (LossKind::WeightDropped, "t0"),
        (LossKind::OptimizerDropped, "t1"),
        (LossKind::CounterDropped, "t2"),
        (LossKind::BookkeepingDropped, "t3"),
        (LossKind::DuplicateDropped, "t4"),
    ];
    for style in [Style::Keras3, Style::Keras2, Style::Tf1] {
        let naming = named(&checkpoint, style);
        assert_eq!(losses(&naming), expected, "{style:?}");
        assert!(naming.tensors[4..].iter().all(Option::is_none));
    }
}
