//! The rules of the lowering.

use super::*;
use ckpt_api::{Attribute, Axis, Shape, Value};

fn tensor(name: &str, shape: &[u64], axes: &[Axis]) -> Tensor {
    let mut tensor = Tensor::new(name, DType::F32, Shape::new(shape).unwrap());
    tensor.axes = Some(axes.into());
    tensor
}

fn node(name: &str, op: Op, inputs: &[&str]) -> Node {
    let mut node = Node::new(name, op);
    node.inputs = inputs.iter().map(|input| (*input).to_owned()).collect();
    node.outputs = vec![name.to_owned()];
    node
}

fn model(
    tensors: Vec<Tensor>,
    nodes: Vec<Node>,
    shape: &[Option<u64>],
    outputs: &[&str],
    program: Program,
) -> Result<Model> {
    let outputs = outputs.iter().map(|name| Value::new(*name, [])).collect();
    let graph = Graph { name: String::new(), inputs: vec![Value::new("x", shape)], outputs, nodes };
    let checkpoint = Checkpoint { tensors, ..Checkpoint::default() };
    model_of(&checkpoint, &graph, program)
}

const KERNEL: [Axis; 4] = [Axis::Out, Axis::In, Axis::KernelY, Axis::KernelX];
const IMAGES: [Option<u64>; 4] = [None, Some(2), Some(5), Some(6)];

fn conv(weight: &str) -> Node {
    node("conv", Op::Conv, &["x"]).parameter("weight", weight)
}

#[test]
fn a_kernel_has_the_order_of_its_program() {
    let made = |program| {
        let model =
            model(vec![tensor("w", &[7, 2, 3, 4], &KERNEL)], vec![conv("w")], &IMAGES, &["conv"], program)
                .unwrap();
        let own = model.tensors.into_iter().find(|own| own.name == "w").unwrap();
        (own.shape, own.content)
    };
    let content = |order: [usize; 4]| Content::Tensor { id: 0, order: order.to_vec() };
    assert_eq!(made(Program::Lite), (vec![7, 3, 4, 2], content([0, 2, 3, 1])));
    assert_eq!(made(Program::JavaScript), (vec![3, 4, 2, 7], content([2, 3, 1, 0])));
}

#[test]
fn an_activation_belongs_to_the_layer_before_it_unless_others_take_its_result() {
    let tensors = || vec![tensor("w", &[7, 2, 3, 4], &KERNEL)];
    let nodes = || vec![conv("w"), node("relu", Op::Relu, &["conv"])];
    let alone = model(tensors(), nodes(), &IMAGES, &["relu"], Program::JavaScript).unwrap();
    let layer = alone.steps.iter().find(|step| matches!(step.operator, Operator::Conv(_))).unwrap();
    assert_eq!(layer.activation, Activation::Relu);
    let shared = model(tensors(), nodes(), &IMAGES, &["relu", "conv"], Program::JavaScript).unwrap();
    let layer = shared.steps.iter().find(|step| matches!(step.operator, Operator::Conv(_))).unwrap();
    assert_eq!(layer.activation, Activation::None);
}

#[test]
fn groups_are_convolutions_of_their_own_if_the_program_has_none() {
    let convolutions = |program| {
        let nodes = vec![conv("w").attribute("group", Attribute::Int(2))];
        let shape = [None, Some(4), Some(5), Some(6)];
        let model =
            model(vec![tensor("w", &[6, 2, 3, 3], &KERNEL)], nodes, &shape, &["conv"], program).unwrap();
        model.steps.iter().filter(|step| matches!(step.operator, Operator::Conv(_))).count()
    };
    assert_eq!((convolutions(Program::Lite), convolutions(Program::JavaScript)), (1, 2));
}

fn lstm(steps: Option<u64>) -> Result<Model> {
    let weights = vec![
        tensor("w", &[3, 8], &[Axis::In, Axis::Out]),
        tensor("r", &[2, 8], &[Axis::In, Axis::Out]),
        tensor("b", &[8], &[Axis::Out]),
    ];
    let mut own = node("lstm", Op::LSTM, &["x"])
        .parameter("weight", "w")
        .parameter("recurrent_weight", "r")
        .parameter("bias", "b");
    own.outputs = vec!["all".to_owned(), "last".to_owned(), String::new()];
    model(weights, vec![own], &[steps, None, Some(3)], &["all", "last"], Program::Lite)
}

#[test]
fn a_recurrent_layer_multiplies_its_state_once_for_each_step_but_the_first() {
    let model = lstm(Some(5)).unwrap();
    let products = model.steps.iter().filter(|step| step.operator == Operator::Dense).count();
    assert_eq!(products, 1 + 4);
    let shapes: Vec<_> =
        model.outputs.iter().map(|output| model.tensors[*output].signature.clone()).collect();
    assert_eq!(shapes, [Some(vec![5, 1, -1, 2]), Some(vec![1, -1, 2])]);
}

#[test]
fn a_recurrent_layer_needs_the_length_of_its_sequence() {
    assert_eq!(lstm(None).unwrap_err().kind(), ckpt_api::Kind::Unsupported);
    assert_eq!(lstm(Some(1 << 20)).unwrap_err().kind(), ckpt_api::Kind::Unsupported);
}

#[test]
fn equal_numbers_are_one_tensor() {
    let relu6 = |name: &str, input: &str| {
        let clip = node(name, Op::Clip, &[input]);
        clip.attribute("min", Attribute::Float(-2.0)).attribute("max", Attribute::Float(3.0))
    };
    let nodes = vec![relu6("a", "x"), relu6("b", "a")];
    let model = model(Vec::new(), nodes, &[None, Some(3)], &["b"], Program::Lite).unwrap();
    let numbers = model.tensors.iter().filter(|tensor| matches!(tensor.content, Content::Bytes(_))).count();
    assert_eq!((model.steps.len(), numbers), (4, 2));
}

#[test]
fn what_one_program_lacks_another_may_have() {
    let nodes = || vec![node("y", Op::Softplus, &["x"])];
    let made = |program| model(Vec::new(), nodes(), &[None, Some(3)], &["y"], program);
    assert_eq!(made(Program::JavaScript).unwrap().steps.len(), 1);
    assert_eq!(made(Program::Lite).unwrap_err().kind(), ckpt_api::Kind::Unsupported);
}

#[test]
fn volumes_are_pooled_as_images_where_a_program_has_no_windows_over_volumes() {
    let pools = |program| {
        let pool = node("y", Op::MaxPool, &["x"])
            .attribute("kernel_shape", Attribute::Ints(vec![2, 2, 2]))
            .attribute("strides", Attribute::Ints(vec![2, 2, 2]));
        let shape = [None, Some(3), Some(4), Some(6), Some(8)];
        let model = model(Vec::new(), vec![pool], &shape, &["y"], program).unwrap();
        model.steps.iter().filter(|step| matches!(step.operator, Operator::Pool { .. })).count()
    };
    assert_eq!((pools(Program::Lite), pools(Program::JavaScript)), (2, 1));
}

#[test]
fn a_transposed_convolution_is_written_only_if_the_operator_cuts_as_much_at_the_beginning() {
    let made = |pads: [i64; 4], more: i64| {
        let node = node("y", Op::ConvTranspose, &["x"])
            .parameter("weight", "w")
            .attribute("strides", Attribute::Ints(vec![3, 3]))
            .attribute("pads", Attribute::Ints(pads.to_vec()))
            .attribute("output_padding", Attribute::Ints(vec![more; 2]));
        let weight = tensor("w", &[2, 7, 5, 5], &[Axis::In, Axis::Out, Axis::KernelY, Axis::KernelX]);
        model(vec![weight], vec![node], &[Some(1), Some(2), Some(4), Some(4)], &["y"], Program::Lite)
    };
    assert!(made([0; 4], 0).is_ok(), "no padding");
    assert!(made([1; 4], 0).is_ok(), "padding that keeps the size times the stride");
    // As long as without padding, and one place further on.
    assert_eq!(made([1; 4], 2).unwrap_err().kind(), ckpt_api::Kind::Unsupported);
}

#[test]
fn a_resize_by_a_scale_that_is_not_the_quotient_of_its_lengths_is_refused() {
    let made = |scales: [f64; 4]| {
        let node = node("y", Op::Resize, &["x"])
            .attribute("mode", Attribute::Text("linear".to_owned()))
            .attribute("scales", Attribute::Floats(scales.to_vec()));
        model(Vec::new(), vec![node], &[Some(1), Some(2), Some(5), Some(6)], &["y"], Program::Lite)
    };
    assert!(made([1.0, 1.0, 2.0, 1.5]).is_ok());
    for scales in [[1.0, 1.0, 1.5, 1.5], [1.0, 2.0, 2.0, 2.0]] {
        assert_eq!(made(scales).unwrap_err().kind(), ckpt_api::Kind::Unsupported, "{scales:?}");
    }
}

#[test]
fn an_activation_is_no_part_of_a_concatenation() {
    let joined = node("joined", Op::Concat, &["x", "x"]).attribute("axis", Attribute::Int(1));
    let nodes = vec![joined, node("y", Op::Relu, &["joined"])];
    let model = model(Vec::new(), nodes, &[None, Some(3)], &["y"], Program::Lite).unwrap();
    assert_eq!(model.steps[0].activation, Activation::None);
    assert_eq!(model.steps[1].operator, Operator::Unary(Unary::Relu));
}

#[test]
fn bounds_of_integers_are_integers() {
    let made = |max: f64| {
        let whole = node("whole", Op::Cast, &["x"]).attribute("to", Attribute::Text("int".to_owned()));
        let clip = node("y", Op::Clip, &["whole"])
            .attribute("min", Attribute::Float(0.0))
            .attribute("max", Attribute::Float(max));
        model(Vec::new(), vec![whole, clip], &[None, Some(3)], &["y"], Program::Lite)
    };
    let model = made(6.0).unwrap();
    let bounds: Vec<DType> = model
        .tensors
        .iter()
        .filter(|tensor| matches!(tensor.content, Content::Bytes(_)))
        .map(|own| own.dtype)
        .collect();
    assert_eq!(bounds, [DType::I32, DType::I32]);
    assert!(made(5.5).is_err());
}

#[test]
fn an_index_from_the_end_is_one_from_the_beginning() {
    let index = node("at", Op::Constant, &[]).attribute("value_ints", Attribute::Ints(vec![-1, 0]));
    let gather = node("y", Op::Gather, &["x", "at"]).attribute("axis", Attribute::Int(1));
    let model = model(Vec::new(), vec![index, gather], &[None, Some(3)], &["y"], Program::Lite).unwrap();
    let indices = [2_i32, 0].map(i32::to_le_bytes).concat();
    assert!(model.tensors.iter().any(|own| own.content == Content::Bytes(indices.clone())));
}

#[test]
fn what_the_graph_computes_is_not_taken_for_equal_parts() {
    let mut split = node("a", Op::Split, &["x", "sizes"]).attribute("axis", Attribute::Int(1));
    split.outputs.push("b".to_owned());
    let sizes = node("sizes", Op::Constant, &[]).attribute("value_ints", Attribute::Ints(vec![1, 5]));
    let made = model(Vec::new(), vec![sizes, split], &[None, Some(6)], &["a", "b"], Program::Lite);
    assert_eq!(made.unwrap_err().kind(), ckpt_api::Kind::Unsupported);
}
