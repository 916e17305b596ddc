//! What a checkpoint of any source becomes, and what is refused or told as lost.

use crate::build::{JSON_B, convolution, floats, json_a, json_of, mlp_b, place, read, write};
use ckpt_api::{
    Activation, Attribute, Axis, Checkpoint, DType, Error, Graph, Kind, LossKind, Node, Op, Quantization,
    Shape, Tensor,
};

/// A net as TensorFlow has it, 3 → 4 → ReLU → 2 → Softmax: kernels are [in, out].
fn keras() -> Checkpoint {
    let kernel = |name: &str, dims: [u64; 2]| tensor(name, &dims).with_axes([Axis::In, Axis::Out]);
    let bias = |name: &str, dim: u64| tensor(name, &[dim]).with_axes([Axis::Out]);
    let dense = |name: &str| {
        let node = Node::new(name, Op::Gemm).parameter("weight", format!("{name}/kernel"));
        node.parameter("bias", format!("{name}/bias"))
    };
    let nodes =
        vec![dense("a"), Node::new("a/relu", Op::Relu), dense("b"), Node::new("b/softmax", Op::Softmax)];
    Checkpoint {
        graph: Some(Graph::sequential("net", vec![None, Some(3)], vec![None, Some(2)], nodes)),
        tensors: vec![
            bias("a/bias", 4),
            kernel("a/kernel", [3, 4]),
            bias("b/bias", 2),
            kernel("b/kernel", [4, 2]),
        ],
        ..Checkpoint::default()
    }
}

fn tensor(name: &str, dims: &[u64]) -> Tensor {
    Tensor::new(name, DType::F32, Shape::new(dims).unwrap())
}

fn values(checkpoint: &Checkpoint) -> Vec<Vec<u8>> {
    let value = |id: usize, k: u64| (id as f32 * 100.0 + k as f32).to_le_bytes();
    let tensors = checkpoint.tensors.iter().enumerate();
    tensors.map(|(id, tensor)| (0..tensor.shape.elements()).flat_map(|k| value(id, k)).collect()).collect()
}

fn node(checkpoint: &mut Checkpoint, index: usize) -> &mut Node {
    &mut checkpoint.graph.as_mut().unwrap().nodes[index]
}

fn refusal(checkpoint: &Checkpoint, kind: Kind, parts: &[&str]) -> Error {
    let error = place(checkpoint, &[]).unwrap_err();
    assert_eq!(error.kind(), kind, "{error}");
    for part in parts {
        assert!(error.to_string().contains(part), "{error} lacks {part}");
    }
    error
}

fn losses(checkpoint: &Checkpoint, options: &[(&str, &str)]) -> Vec<(LossKind, String)> {
    let losses = place(checkpoint, options).unwrap().losses.into_iter();
    losses.map(|loss| (loss.kind, loss.subject)).filter(|(kind, _)| *kind != LossKind::NamesDropped).collect()
}

#[test]
fn a_tensorflow_net_becomes_dialect_b_with_transposed_kernels() {
    let net = keras();
    let bytes = write(&net, &values(&net), &[]).unwrap();
    assert_eq!(json_of(&bytes), JSON_B);
    let (contents, read) = read(&bytes, &[]).unwrap();
    assert_eq!(&contents.checkpoint.tensors[0].shape[..], [4, 3]);
    assert_eq!(floats(&read[0])[..4], [100.0, 104.0, 108.0, 101.0]);
    assert_eq!(floats(&read[1]), [0.0, 1.0, 2.0, 3.0]);
    assert_eq!(contents.checkpoint.metadata.text("nn", "dialect"), Some("b"));
}

#[test]
fn dialect_a_can_be_asked_for() {
    let net = keras();
    let bytes = write(&net, &values(&net), &[("dialect", "a")]).unwrap();
    assert_eq!(json_of(&bytes), json_a());
    let (contents, read) = read(&bytes, &[]).unwrap();
    assert_eq!(contents.checkpoint.metadata.text("nn", "dialect"), Some("a"));
    assert_eq!(&contents.checkpoint.tensor("layer2.bias").unwrap().1.shape[..], [1, 2]);
    assert_eq!(floats(&read[0])[..4], [100.0, 101.0, 102.0, 103.0]);
}

#[test]
fn the_names_that_a_source_gave_are_told_as_dropped() {
    let placed = place(&keras(), &[]).unwrap();
    assert_eq!(placed.losses.iter().map(|loss| loss.kind).collect::<Vec<_>>(), [LossKind::NamesDropped]);
    assert!(placed.placements.iter().all(|placement| placement.name.starts_with("layer")));
}

#[test]
fn a_layer_outside_the_six_types_is_an_error_that_names_it() {
    for op in [Op::LeakyRelu, Op::Gelu, Op::LogSoftmax, Op::Conv, Op::custom("Swish")] {
        let mut net = keras();
        node(&mut net, 1).op = op.clone();
        refusal(
            &net,
            Kind::Lossy,
            &["layer 'a/relu'", op.name(), "Linear, ReLU, Sigmoid, Tanh, Softmax, Flatten"],
        );
    }
}

#[test]
fn an_attribute_that_changes_the_function_is_an_error() {
    let mut net = keras();
    node(&mut net, 3).attributes.insert("axis".into(), Attribute::Int(-1));
    place(&net, &[]).unwrap();
    node(&mut net, 3).attributes.insert("axis".into(), Attribute::Int(0));
    refusal(&net, Kind::Lossy, &["b/softmax", "axis"]);
}

#[test]
fn an_activation_that_the_source_does_not_state_is_asked_for() {
    let mut net = keras();
    *node(&mut net, 1) =
        Node { inputs: vec!["a".into()], outputs: vec!["a/relu".into()], ..Node::unspecified("a") };
    refusal(&net, Kind::Usage, &["the option `activations=", "OpenOptions::architecture"]);
    net.graph.as_mut().unwrap().specify(&[Activation::Relu]).unwrap();
    place(&net, &[]).unwrap();
}

#[test]
fn a_graph_that_branches_is_refused() {
    let mut net = keras();
    node(&mut net, 2).inputs = vec!["input".into()];
    refusal(&net, Kind::Unsupported, &["chain"]);
}

#[test]
fn identity_is_skipped() {
    let mut net = keras();
    let mut nodes = net.graph.take().unwrap().nodes;
    nodes.insert(1, Node::new("dropout", Op::Identity));
    net.graph = Some(Graph::sequential("", vec![None, Some(3)], vec![None, Some(2)], nodes));
    assert_eq!(json_of(&write(&net, &values(&net), &[]).unwrap()), JSON_B);
}

#[test]
fn a_weight_without_axes_asks_for_an_architecture() {
    let mut net = keras();
    net.tensors[1].axes = None;
    refusal(&net, Kind::Usage, &["a/kernel", "weight_axes", "OpenOptions::architecture"]);
}

#[test]
fn a_missing_bias_is_an_error_unless_zeros_are_asked_for() {
    let mut net = keras();
    node(&mut net, 0).parameters.remove("bias");
    net.tensors.remove(0);
    refusal(&net, Kind::Unsupported, &["layer 'a'", "zero_bias=true"]);
    assert_eq!(losses(&net, &[("zero_bias", "true")]), [(LossKind::Filled, "layer0.bias".to_owned())]);
    let bytes = write(&net, &values(&net), &[("zero_bias", "true")]).unwrap();
    let (contents, read) = read(&bytes, &[]).unwrap();
    assert_eq!(contents.checkpoint.tensors[1].name, "layer0.bias");
    assert_eq!(floats(&read[1]), [0.0; 4]);
}

#[test]
fn floats_are_cast_and_other_dtypes_refused() {
    let mut net = keras();
    net.tensors[0].dtype = DType::F64;
    net.tensors[1].dtype = DType::Bf16;
    assert!(
        place(&net, &[]).unwrap().placements.iter().all(|placement| placement.encoding.dtype == DType::F32)
    );
    net.tensors[1].dtype = DType::I32;
    refusal(&net, Kind::Unsupported, &["a/kernel", "i32"]);
    net.tensors[1].dtype = DType::F32;
    net.tensors[1].quantization = Some(Quantization::Units { scale: 64.try_into().unwrap() });
    refusal(&net, Kind::Unsupported, &["a/kernel", "scaled integers"]);
}

#[test]
fn a_tensor_that_no_layer_uses_has_no_place() {
    let mut net = keras();
    net.tensors.push(tensor("other", &[1]));
    let placed = place(&net, &[]).unwrap();
    let unplaced: Vec<&str> = placed.unplaced(&net).map(|(_, tensor)| tensor.name.as_str()).collect();
    assert_eq!(unplaced, ["other"]);
}

#[test]
fn metadata_of_other_formats_is_not_kept() {
    use ckpt_api::{Aspect, Codec};
    let keeps = ckpt_nn::Nn.info().keeps;
    assert!(!keeps.contains(&Aspect::Metadata) && !keeps.contains(&Aspect::TensorMetadata));
}

#[test]
fn metadata_that_does_not_describe_the_layers_is_told_as_dropped() {
    let mut net = keras();
    for json in [JSON_B.replace("ReLU", "Tanh"), "not JSON".to_owned()] {
        net.metadata.insert("nn", "json", json);
        net.metadata.insert("nn", "dialect", "b");
        assert_eq!(losses(&net, &[]), [(LossKind::MetadataDropped, "nn".to_owned())]);
    }
    assert_eq!(json_of(&write(&net, &values(&net), &[]).unwrap()), JSON_B);
}

#[test]
fn tensors_that_do_not_fit_are_refused() {
    let mut net = keras();
    net.tensors[0].shape = Shape::new([5]).unwrap();
    refusal(&net, Kind::Usage, &["a/bias", "[4]"]);
    let mut net = keras();
    net.tensors[3].shape = Shape::new([5, 2]).unwrap();
    refusal(&net, Kind::Usage, &["layer 'b'", "5 input features"]);
    let mut net = keras();
    net.tensors[1].shape = Shape::new([3, 0]).unwrap();
    refusal(&net, Kind::Unsupported, &["a/kernel", "empty"]);
    let mut net = keras();
    net.tensors.remove(3);
    refusal(&net, Kind::Mapping, &["layer 'b'", "b/kernel"]);
}

#[test]
fn a_tensor_shared_by_two_layers_is_refused() {
    let mut net = keras();
    net.tensors[1].shape = Shape::new([4, 4]).unwrap();
    let shared = node(&mut net, 0).parameters.clone();
    node(&mut net, 2).parameters = shared;
    refusal(&net, Kind::Unsupported, &["field b", "a/kernel", "share"]);
}

#[test]
fn sizes_that_the_format_cannot_hold_are_refused() {
    let mut net = keras();
    net.tensors[1].shape = Shape::new([1 << 33, 4]).unwrap();
    refusal(&net, Kind::Unsupported, &["layer0.weight", "2^32"]);
}

#[test]
fn a_graph_without_layers_is_refused() {
    let net =
        Checkpoint { graph: Some(Graph::sequential("", vec![], vec![], vec![])), ..Checkpoint::default() };
    refusal(&net, Kind::Unsupported, &["at least one"]);
}

#[test]
fn tensors_alone_ask_for_an_architecture() {
    let net = Checkpoint { graph: None, ..keras() };
    refusal(&net, Kind::Usage, &["OpenOptions::architecture"]);
    let (mut contents, _) = read(&convolution(), &[]).unwrap();
    contents.checkpoint.tensors[0].name = "renamed".into();
    // No file describes a convolution before a dense layer.
    let parts = ["layer0.weight", "cannot describe this model", "a convolution ('renamed')"];
    refusal(&contents.checkpoint, Kind::Usage, &parts);
}

#[test]
fn renamed_tensors_of_a_nn_file_find_their_way_back() {
    let (mut contents, values) = read(&mlp_b(), &[]).unwrap();
    let names = contents.checkpoint.tensors.iter().enumerate();
    let names = names.map(|(id, tensor)| (tensor.name.to_string(), format!("{}/renamed", 9 - id))).collect();
    contents.checkpoint.rename(&names).unwrap();
    assert_eq!(write(&contents.checkpoint, &values, &[]).unwrap(), mlp_b());
}
