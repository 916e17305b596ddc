//! Constants of the graph that are weights.

use super::super::*;
use super::build::{
    Objects, constant, describe_with, floats, function, ints, op, saved_model, taking, typed, with,
};
use super::graphs::{node, ops};
use super::why;
use crate::proto::attr_value::Value;
use crate::proto::{NodeDef, TensorProto};

/// Describes a function of `x`, with these stated lengths, that returns the result of the last of `nodes`, and returns
/// the file, too. Its only variable is `v`, with 4 numbers.
fn described(dims: &[i64], nodes: Vec<NodeDef>) -> (Description, Vec<u8>) {
    let result = format!("{}:out:0", nodes.last().unwrap().name);
    let read = op("read", "ReadVariableOp", &["rv"]);
    let body = function("f", &["x", "rv"], &result, std::iter::once(read).chain(nodes).collect());
    let mut objects = Objects::default();
    objects.variable(0, "v", "v", "v");
    let bytes = saved_model(vec![taking(body, dims)], &["v"]);
    (describe_with(&typed(&[("v", &[4])]), Some(&objects.bytes()), Some(&bytes), None), bytes)
}

fn convolution(name: &str, input: &str, kernel: &str) -> NodeDef {
    let node = with(op(name, "Conv2D", &[input, kernel]), "strides", ints(&[1, 1, 1, 1]));
    with(node, "padding", Value::S("SAME".into()))
}

/// Each constant's key, shape and numbers in the file.
fn constants(described: &(Description, Vec<u8>)) -> Vec<(&str, &[u64], Vec<f32>)> {
    let (description, file) = described;
    let numbers = |constant: &GraphConstant| {
        let (offset, len) =
            (usize::try_from(constant.offset).unwrap(), usize::try_from(constant.len).unwrap());
        let bytes = file[offset..offset + len].chunks_exact(4);
        bytes.map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap())).collect()
    };
    let constants = description.constants.iter();
    constants.map(|constant| (constant.key.as_str(), &constant.shape[..], numbers(constant))).collect()
}

#[test]
fn a_constant_kernel_is_a_tensor_whose_bytes_are_in_the_file_of_the_graph() {
    let values: Vec<f32> = (0..8).map(|value| value as f32).collect();
    let nodes =
        vec![floats("layer/kernel", &[1, 2, 1, 4], &values), convolution("y", "x", "layer/kernel:output:0")];
    let described = described(&[-1, 8, 8, 1], nodes);
    assert_eq!(constants(&described), [("layer/kernel", &[1, 2, 1, 4][..], values)]);
    let found = node(&described.0, "Conv");
    assert_eq!((found.name.as_str(), found.parameters["weight"].as_str()), ("layer", "layer/kernel"));
    assert_eq!(described.0.axes["layer/kernel"], [Axis::KernelY, Axis::KernelX, Axis::In, Axis::Out]);
}

#[test]
fn a_constant_shows_the_shape_of_an_input_that_the_file_does_not_state() {
    let nodes = vec![floats("c", &[3, 2], &[1.0; 6]), op("y", "MatMul", &["x", "c:output:0"])];
    let body = function("f", &["x", "rv"], "y:product:0", nodes);
    let mut objects = Objects::default();
    objects.variable(0, "v", "v", "v");
    let bytes = saved_model(vec![body], &["v"]);
    let description = describe_with(&typed(&[("v", &[4])]), Some(&objects.bytes()), Some(&bytes), None);
    assert_eq!(ops(&description), ["Gemm"]);
    assert_eq!(description.graph.unwrap().inputs[0].shape, [None, Some(3)]);
}

#[test]
fn a_constant_without_a_scope_leaves_its_layer_the_name_of_the_operation() {
    let nodes = vec![
        floats("Const", &[4, 2], &[1.0; 8]),
        floats("Const_1", &[2], &[1.0, 2.0]),
        op("product", "MatMul", &["x", "Const:output:0"]),
        op("sum", "BiasAdd", &["product:product:0", "Const_1:output:0"]),
    ];
    let described = described(&[-1, 4], nodes);
    let found = node(&described.0, "Gemm");
    assert_eq!(found.name, "sum");
    assert_eq!(
        (found.parameters["weight"].as_str(), found.parameters["bias"].as_str()),
        ("Const", "Const_1")
    );
}

#[test]
fn a_constant_has_the_shape_in_which_it_is_used() {
    let reshaped =
        vec![constant("shape", &[1, 1, 1, 4]), op("k", "Reshape", &["c:output:0", "shape:output:0"])];
    let last = vec![constant("axis", &[-1]), op("k", "ExpandDims", &["c:output:0", "axis:output:0"])];
    let stacks = [constant("zeros", &[0, 0, 0, 0]), constant("ones", &[1, 1, 1, 1])];
    let inputs = ["c:output:0", "zeros:output:0", "zeros:output:0", "ones:output:0"];
    let sliced = with(op("k", "StridedSlice", &inputs), "begin_mask", Value::I(15));
    let sliced = with(with(sliced, "end_mask", Value::I(15)), "new_axis_mask", Value::I(2));
    let sliced = stacks.into_iter().chain([sliced]).collect::<Vec<_>>();
    for (dims, nodes, expected) in [
        (&[4][..], reshaped, [1, 1, 1, 4]),
        (&[1, 1, 4], last, [1, 1, 4, 1]),
        (&[1, 1, 4], sliced, [1, 1, 1, 4]),
    ] {
        let kernel = floats("c", dims, &[1.0, 2.0, 3.0, 4.0]);
        let channels = i64::try_from(expected[2]).unwrap();
        let all = [vec![kernel], nodes, vec![convolution("y", "x", "k:output:0")]].concat();
        let described = described(&[-1, 8, 8, channels], all);
        assert_eq!(
            constants(&described),
            [("c", &expected[..], vec![1.0, 2.0, 3.0, 4.0])],
            "{}",
            ops(&described.0).len()
        );
    }
}

#[test]
fn the_name_of_another_tensor_is_not_taken_and_a_constant_that_is_used_twice_is_one() {
    let nodes = vec![
        floats("v", &[4, 4], &[2.0; 16]),
        op("a", "MatMul", &["x", "v:output:0"]),
        op("b", "MatMul", &["a:product:0", "v:output:0"]),
    ];
    let described = described(&[-1, 4], nodes);
    assert_eq!(constants(&described), [("v_1", &[4, 4][..], vec![2.0; 16])]);
    assert_eq!(ops(&described.0), ["Gemm", "Gemm"]);
}

#[test]
fn constants_that_no_layer_has_as_a_weight_stay_in_the_graph() {
    let nodes = vec![
        floats("mean", &[1, 4], &[1.0, 2.0, 3.0, 4.0]),
        op("y", "Sub", &["x", "mean:output:0"]),
        op("z", "Mul", &["y:z:0", "read:value:0"]),
    ];
    let described = described(&[-1, 4], nodes);
    assert_eq!(constants(&described), []);
    assert!(ops(&described.0).contains(&"Constant"));
}

#[test]
fn a_kernel_of_which_the_file_lacks_numbers_is_named() {
    let short = floats("k", &[1, 1, 1, 4], &[1.0; 3]);
    let long = floats("k", &[1, 1, 1, 4], &[1.0; 5]);
    let mut repeated = floats("k", &[1, 1, 1, 4], &[]);
    let Some(Value::Tensor(tensor)) = repeated.attr.get_mut("value").unwrap().value.as_mut() else {
        panic!()
    };
    *tensor = TensorProto { float_val: vec![0.5], ..tensor.clone() };
    for (kernel, reason) in [
        (short, "Conv2D ('y') has a kernel that is no variable"),
        (long, "Const ('k')"),
        (repeated, "Conv2D ('y') has a kernel that is no variable"),
    ] {
        let (description, _) = described(&[-1, 8, 8, 1], vec![kernel, convolution("y", "x", "k:output:0")]);
        assert!(description.graph.is_none() && description.constants.is_empty());
        assert!(why(&description).contains(reason), "{}", why(&description));
    }
}
