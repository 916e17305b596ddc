//! Constants of the graph that are weights.

use super::super::*;
use super::build::{
    Objects, constant, describe_with, floats, function, ints, op, saved_model, taking, typed, with,
};
use super::graphs::{node, ops};
use super::why;
use crate::proto::attr_value::Value;
use crate::proto::{NodeDef, TensorProto};
use std::ops::Range;

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
        let number = |bytes: &[u8]| f32::from_le_bytes(bytes.try_into().unwrap());
        let bytes = |range: &Range<u64>| file[range.start as usize..range.end as usize].to_vec();
        let stored = constant.ranges.iter().flat_map(bytes).collect::<Vec<u8>>();
        let numbers: Vec<f32> = stored.chunks_exact(4).map(number).collect();
        match constant.is_repeated {
            true => numbers.repeat(usize::try_from(constant.shape.elements()).unwrap()),
            false => numbers,
        }
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
    for (kernel, reason) in [(short, "Conv2D ('y') has a kernel that is no variable"), (long, "Const ('k')")]
    {
        let (description, _) = described(&[-1, 8, 8, 1], vec![kernel, convolution("y", "x", "k:output:0")]);
        assert!(description.graph.is_none() && description.constants.is_empty());
        assert!(why(&description).contains(reason), "{}", why(&description));
    }
}

/// The output of an operation that moves a constant.
fn result_of(node: &NodeDef) -> &'static str {
    match node.op.as_str() {
        "Transpose" => "k:y:0",
        _ => "k:output:0",
    }
}

/// A constant that stores these numbers for a shape of more.
fn splat(name: &str, dims: &[i64], numbers: &[f32]) -> NodeDef {
    let mut node = floats(name, dims, &[]);
    let Some(Value::Tensor(tensor)) = node.attr.get_mut("value").unwrap().value.as_mut() else { panic!() };
    *tensor = TensorProto { float_val: numbers.to_vec(), ..tensor.clone() };
    node
}

#[test]
fn a_kernel_that_is_one_number_is_a_tensor_of_that_number() {
    for (numbers, value) in [(&[0.37f32][..], 0.37f32), (&[0.0], 0.0), (&[], 0.0)] {
        // Zeros are not stored.
        let zeros = floats("zeros", &[2], &[0.0, 0.0]);
        let kernel = splat("k", &[3, 3, 1, 2], numbers);
        let nodes = vec![zeros, kernel, convolution("y", "x", "k:output:0")];
        let described = described(&[-1, 8, 8, 1], nodes);
        assert_eq!(constants(&described), [("k", &[3, 3, 1, 2][..], vec![value; 18])]);
        assert_eq!(described.0.constants[0].ranges.len(), 1);
    }
}

#[test]
fn a_kernel_of_one_number_that_is_too_large_or_lacks_numbers_is_named() {
    let few = splat("k", &[1, 1, 1, 4], &[0.5, 0.25]);
    let large = splat("k", &[1, 1, 1, 1 << 23], &[0.5]);
    for (kernel, reason) in [(few, "Conv2D ('y') has a kernel that is no variable"), (large, "Const ('k')")] {
        let (description, _) = described(&[-1, 8, 8, 1], vec![kernel, convolution("y", "x", "k:output:0")]);
        assert!(description.graph.is_none() && description.constants.is_empty());
        assert!(why(&description).contains(reason), "{}", why(&description));
    }
}

#[test]
fn a_kernel_that_is_filled_with_a_number_is_a_tensor_of_that_number() {
    let nodes = vec![
        constant("lens", &[3, 3, 1, 2]),
        splat("number", &[], &[0.37]),
        op("k", "Fill", &["lens:output:0", "number:output:0"]),
        convolution("y", "x", "k:output:0"),
    ];
    let described = described(&[-1, 8, 8, 1], nodes);
    assert_eq!(constants(&described), [("k", &[3, 3, 1, 2][..], vec![0.37; 18])]);
}

#[test]
fn a_part_in_too_many_ranges_is_no_tensor() {
    let numbers = vec![0.5; 8192];
    let moved = [
        floats("c", &[4096, 2], &numbers),
        constant("p", &[1, 0]),
        op("k", "Transpose", &["c:output:0", "p:output:0"]),
        op("y", "MatMul", &["x", "k:y:0"]),
    ];
    let (description, _) = described(&[-1, 2], moved.to_vec());
    assert!(description.constants.is_empty());
}

#[test]
fn a_part_of_a_constant_and_one_that_is_turned_are_tensors_of_ranges_of_the_file() {
    let numbers: Vec<f32> = (0..12).map(|number| number as f32).collect();
    let lists = |lists: &[(&str, &[i32])]| -> Vec<NodeDef> {
        lists.iter().map(|(name, values)| constant(name, values)).collect()
    };
    let reversed = |axes: &[i32]| {
        [lists(&[("a", axes)]), vec![op("k", "ReverseV2", &["c:output:0", "a:output:0"])]].concat()
    };
    let strided = |begin: [i32; 2], end: [i32; 2], step: [i32; 2]| {
        let inputs = ["c:output:0", "b:output:0", "e:output:0", "s:output:0"];
        let node = op("k", "StridedSlice", &inputs);
        [lists(&[("b", &begin), ("e", &end), ("s", &step)]), vec![node]].concat()
    };
    let slice = [
        lists(&[("b", &[1, 1]), ("n", &[2, -1])]),
        vec![op("k", "Slice", &["c:output:0", "b:output:0", "n:output:0"])],
    ]
    .concat();
    let turned = [lists(&[("p", &[1, 0])]), vec![op("k", "Transpose", &["c:output:0", "p:output:0"])]];
    let turned = turned.concat();
    for (nodes, shape, expected, ranges) in [
        (reversed(&[0]), [4, 3], &[9, 10, 11, 6, 7, 8, 3, 4, 5, 0, 1, 2][..], 4),
        (reversed(&[-1]), [4, 3], &[2, 1, 0, 5, 4, 3, 8, 7, 6, 11, 10, 9], 12),
        (strided([1, 0], [3, 3], [1, 1]), [2, 3], &[3, 4, 5, 6, 7, 8], 1),
        (strided([3, 0], [-5, 3], [-2, 2]), [2, 2], &[9, 11, 3, 5], 4),
        (slice, [2, 2], &[4, 5, 7, 8], 2),
        (turned, [3, 4], &[0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11], 12),
    ] {
        let last = op("y", "MatMul", &["x", result_of(nodes.last().unwrap())]);
        let all = [vec![floats("c", &[4, 3], &numbers)], nodes, vec![last]].concat();
        let described = described(&[-1, i64::try_from(shape[0]).unwrap()], all);
        let expected: Vec<f32> = expected.iter().map(|number| *number as f32).collect();
        assert_eq!(constants(&described), [("c", &shape[..], expected)]);
        assert_eq!(described.0.constants[0].ranges.len(), ranges);
    }
}
