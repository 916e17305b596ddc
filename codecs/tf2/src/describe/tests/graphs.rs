//! Graphs of functions that are no chains.

use super::super::*;
use super::build::{
    Objects, call, constant, describe_with, float, function, ints, op, saved_model, taking, typed, with,
};
use super::why;
use crate::proto::attr_value::Value;
use crate::proto::op_def::ArgDef;
use crate::proto::{
    FunctionDef, GraphDef, MetaGraphDef, NameAttrList, NodeDef, SavedModel, SignatureDef, TensorInfo,
    TensorProto, TensorShapeProto, tensor_shape_proto,
};
use ckpt_api::{Attribute, Node};
use prost::Message;

const SHAPES: &[(&str, &[u64])] = &[
    ("w", &[4, 4]),
    ("b", &[4]),
    ("g", &[4]),
    ("m", &[4]),
    ("v", &[4]),
    ("k", &[3, 3, 4, 4]),
    ("s", &[3, 4, 4]),
    ("lk", &[4, 12]),
    ("lr", &[3, 12]),
    ("lb", &[12]),
];

/// Describes a function `f` of `x`, with these stated lengths, that returns the result of the last of `nodes`;
/// `name:value:0` is the variable `name`.
pub(super) fn described(dims: &[i64], nodes: Vec<NodeDef>, others: Vec<FunctionDef>) -> Description {
    let result = format!("{}:out:0", nodes.last().unwrap().name);
    let arguments: Vec<String> =
        std::iter::once("x".to_owned()).chain(SHAPES.iter().map(|(name, _)| format!("r{name}"))).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let reads = SHAPES.iter().map(|(name, _)| op(name, "ReadVariableOp", &[&format!("r{name}")]));
    let main = taking(function("f", &arguments, &result, reads.chain(nodes).collect()), dims);
    let mut objects = Objects::default();
    for (name, _) in SHAPES {
        objects.variable(0, name, name, name);
    }
    let bound: Vec<&str> = SHAPES.iter().map(|(name, _)| *name).collect();
    let functions = std::iter::once(main).chain(others).collect();
    let bytes = saved_model(functions, &bound);
    describe_with(&typed(SHAPES), Some(&objects.bytes()), Some(&bytes), None)
}

pub(super) fn nodes(description: &Description) -> &[Node] {
    &description.graph.as_ref().unwrap_or_else(|| panic!("{:?}", description.missing_graph)).nodes
}

pub(super) fn ops(description: &Description) -> Vec<&str> {
    nodes(description).iter().map(|node| node.op.name()).collect()
}

pub(super) fn node<'a>(description: &'a Description, op: &str) -> &'a Node {
    let found = nodes(description).iter().find(|node| node.op.name() == op);
    found.unwrap_or_else(|| panic!("no {op} in {:?}", ops(description)))
}

fn flag(node: NodeDef, name: &str) -> NodeDef {
    with(node, name, Value::B(true))
}

fn conv(name: &str, input: &str, padding: &str) -> NodeDef {
    let node = with(op(name, "Conv2D", &[input, "k:value:0"]), "strides", ints(&[1, 1, 1, 1]));
    with(node, "padding", Value::S(padding.as_bytes().to_vec().into()))
}

#[test]
fn results_have_their_names_even_where_a_layer_has_the_same() {
    let mut main = taking(
        function(
            "f",
            &["x", "rw"],
            "",
            vec![
                op("w", "ReadVariableOp", &["rw"]),
                op("m", "MatMul", &["x", "w:value:0"]),
                op("r", "Relu", &["m:product:0"]),
                op("n", "Neg", &["r:activations:0"]),
            ],
        ),
        &[-1, 4],
    );
    let signature = main.signature.as_mut().unwrap();
    let named = |name: &str| ArgDef { name: name.into(), ..ArgDef::default() };
    signature.output_arg = vec![named("w"), named("minus")];
    main.ret = [("w".into(), "r:activations:0".into()), ("minus".into(), "n:y:0".into())].into();
    let mut objects = Objects::default();
    objects.variable(0, "w", "w", "w");
    let bytes = saved_model(vec![main], &["w"]);
    let graph = describe_with(&typed(SHAPES), Some(&objects.bytes()), Some(&bytes), None).graph.unwrap();
    let names: Vec<&str> = graph.outputs.iter().map(|output| output.name.as_str()).collect();
    assert_eq!(names, ["w", "minus"]);
    assert_eq!((graph.nodes[0].name.as_str(), graph.nodes[0].outputs[0].as_str()), ("w", "w#2"));
    graph.check().unwrap();
}

#[test]
fn a_sum_of_two_branches_is_an_addition() {
    let description = described(
        &[-1, 4],
        vec![
            op("a", "MatMul", &["x", "w:value:0"]),
            op("r", "Relu", &["a:product:0"]),
            op("s", "AddV2", &["r:activations:0", "x"]),
        ],
        vec![],
    );
    assert_eq!(ops(&description), ["Gemm", "Relu", "Add"]);
    description.graph.unwrap().check().unwrap();
}

#[test]
fn images_are_transposed_once_for_all_branches_and_once_at_the_end() {
    let description = described(
        &[-1, 8, 8, 4],
        vec![
            conv("a", "x", "SAME"),
            op("r", "Relu", &["a:output:0"]),
            conv("c", "x", "SAME"),
            op("s", "AddV2", &["r:activations:0", "c:output:0"]),
            op("n", "Mul", &["s:z:0", "b:value:0"]),
        ],
        vec![],
    );
    assert_eq!(
        ops(&description),
        ["Transpose", "Conv", "Relu", "Conv", "Add", "Constant", "Unsqueeze", "Mul", "Transpose"]
    );
    assert_eq!(node(&description, "Unsqueeze").attributes["axes"], Attribute::Ints(vec![1, 2]));
}

#[test]
fn the_length_of_the_batch_stays_free_in_a_reshaping() {
    let shape = with(op("p", "Pack", &["l:output:0", "two:output:0", "two:output:0"]), "N", Value::I(3));
    let slice = op("l", "StridedSlice", &["h:output:0", "zero:output:0", "one:output:0", "one:output:0"]);
    let scalar = |name: &str, value: i32| {
        let tensor = TensorProto {
            dtype: 3,
            tensor_shape: Some(TensorShapeProto::default()),
            int_val: vec![value],
            ..TensorProto::default()
        };
        with(op(name, "Const", &[]), "value", Value::Tensor(tensor))
    };
    let description = described(
        &[-1, 4],
        vec![
            op("h", "Shape", &["x"]),
            constant("zero", &[0]),
            constant("one", &[1]),
            scalar("two", 2),
            with(slice, "shrink_axis_mask", Value::I(1)),
            shape,
            op("r", "Reshape", &["x", "p:output:0"]),
        ],
        vec![],
    );
    assert_eq!(ops(&description), ["Reshape"]);
    assert_eq!(nodes(&description)[0].attributes["shape"], Attribute::Ints(vec![0, 2, 2]));
}

#[test]
fn constants_of_narrow_integers_wrap_around() {
    let narrow = |name: &str, dtype: i32, values: &[i32]| {
        let dim = tensor_shape_proto::Dim { size: 3, ..Default::default() };
        let tensor = TensorProto {
            dtype,
            tensor_shape: Some(TensorShapeProto { dim: vec![dim], ..Default::default() }),
            int_val: values.to_vec(),
            ..TensorProto::default()
        };
        with(op(name, "Const", &[]), "value", Value::Tensor(tensor))
    };
    let of = |node: NodeDef, name: &str, dtype: i32| with(node, name, Value::Type(dtype));
    let cases = [
        (4, "AddV2", [250, 1, 2], [10, 10, 10], [4, 11, 12]),
        (6, "Mul", [120, -120, 2], [2, 2, 2], [-16, 16, 4]),
        (5, "Sub", [-32_768, 0, 7], [1, 1, 1], [32_767, -1, 6]),
        (17, "Sub", [0, 1, 2], [1, 1, 1], [65_535, 0, 1]),
        (3, "AddV2", [i32::MAX, i32::MIN, 2], [1, -1, 1], [i32::MIN, i32::MAX, 3]),
    ];
    for (dtype, kind, a, b, expected) in cases {
        let description = described(
            &[-1, 3],
            vec![
                narrow("a", dtype, &a),
                narrow("b", dtype, &b),
                of(op("s", kind, &["a:output:0", "b:output:0"]), "T", dtype),
                of(of(op("c", "Cast", &["s:z:0"]), "SrcT", dtype), "DstT", 1),
                op("y", "Mul", &["x", "c:y:0"]),
            ],
            vec![],
        );
        let expected: Vec<i64> = expected.into_iter().map(i64::from).collect();
        assert_eq!(node(&description, "Constant").attributes["value_ints"], Attribute::Ints(expected));
    }
    let description = described(
        &[-1, 3],
        vec![
            narrow("a", 3, &[70_000, 1, 2]),
            of(of(op("n", "Cast", &["a:output:0"]), "SrcT", 3), "DstT", 5),
            of(of(op("c", "Cast", &["n:y:0"]), "SrcT", 5), "DstT", 1),
            op("y", "Mul", &["x", "c:y:0"]),
        ],
        vec![],
    );
    let expected = Attribute::Ints(vec![4464, 1, 2]);
    assert_eq!(node(&description, "Constant").attributes["value_ints"], expected);
}

#[test]
fn a_product_between_two_reshapings_is_one_of_the_last_axis() {
    let description = described(
        &[-1, 5, 4],
        vec![
            constant("rows", &[-1, 4]),
            constant("whole", &[-1, 5, 4]),
            op("a", "Reshape", &["x", "rows:output:0"]),
            op("m", "MatMul", &["a:output:0", "w:value:0"]),
            op("t", "Reshape", &["m:product:0", "whole:output:0"]),
            op("d", "BiasAdd", &["t:output:0", "b:value:0"]),
        ],
        vec![],
    );
    assert_eq!(ops(&description), ["Gemm"]);
    assert_eq!(nodes(&description)[0].parameters["bias"], "b");
}

#[test]
fn a_normalization_without_gamma_has_no_scale() {
    let description = described(
        &[-1, 4],
        vec![
            float("e", 0.01),
            op("a", "AddV2", &["v:value:0", "e:output:0"]),
            op("r", "Rsqrt", &["a:z:0"]),
            op("s", "Mul", &["x", "r:y:0"]),
            op("p", "Mul", &["m:value:0", "r:y:0"]),
            op("d", "Sub", &["b:value:0", "p:z:0"]),
            op("y", "AddV2", &["s:z:0", "d:z:0"]),
        ],
        vec![],
    );
    assert_eq!(ops(&description), ["BatchNormalization"]);
    let roles: Vec<&String> = nodes(&description)[0].parameters.keys().collect();
    assert_eq!(roles, ["bias", "mean", "variance"]);
}

#[test]
fn a_normalization_by_the_statistics_of_the_last_axis_is_one_layer() {
    let mean = |name: &str, of: &str| flag(op(name, "Mean", &[of, "axis:output:0"]), "keep_dims");
    let description = described(
        &[-1, 5, 4],
        vec![
            constant("axis", &[-1]),
            float("e", 0.01),
            mean("mu", "x"),
            op("q", "SquaredDifference", &["x", "mu:output:0"]),
            mean("va", "q:z:0"),
            op("a", "AddV2", &["va:output:0", "e:output:0"]),
            op("r", "Rsqrt", &["a:z:0"]),
            op("sc", "Mul", &["r:y:0", "g:value:0"]),
            op("ng", "Neg", &["mu:output:0"]),
            op("p", "Mul", &["ng:y:0", "sc:z:0"]),
            op("sh", "AddV2", &["p:z:0", "b:value:0"]),
            op("xs", "Mul", &["x", "sc:z:0"]),
            op("y", "AddV2", &["xs:z:0", "sh:z:0"]),
        ],
        vec![],
    );
    assert_eq!(ops(&description), ["LayerNormalization"]);
    assert_eq!(nodes(&description)[0].parameters["scale"], "g");
}

#[test]
fn a_convolution_of_pieces_has_dilations() {
    let pairs = |name: &str, values: &[i32]| {
        let mut node = constant(name, values);
        let dim = |size| tensor_shape_proto::Dim { size, ..Default::default() };
        let value = node.attr.get_mut("value").unwrap().value.as_mut().unwrap();
        let Value::Tensor(tensor) = value else { unreachable!() };
        tensor.tensor_shape = Some(TensorShapeProto { dim: vec![dim(2), dim(2)], ..Default::default() });
        node
    };
    let described = |crops: &[i32]| {
        described(
            &[-1, 9, 9, 4],
            vec![
                constant("block", &[2, 2]),
                pairs("pads", &[2, 3, 2, 3]),
                pairs("crops", crops),
                op("in", "SpaceToBatchND", &["x", "block:output:0", "pads:output:0"]),
                conv("c", "in:output:0", "VALID"),
                op("out", "BatchToSpaceND", &["c:output:0", "block:output:0", "crops:output:0"]),
            ],
            vec![],
        )
    };
    let description = described(&[0, 1, 0, 1]);
    assert_eq!(ops(&description), ["Transpose", "Conv", "Transpose"]);
    let conv = node(&description, "Conv");
    assert_eq!(conv.attributes["dilations"], Attribute::Ints(vec![2, 2]));
    assert_eq!(conv.attributes["pads"], Attribute::Ints(vec![2; 4]));
    let other = described(&[1, 1, 0, 1]);
    assert!(why(&other).contains("SpaceToBatchND ('in') is not supported"), "{}", why(&other));
}

#[test]
fn a_branch_on_a_constant_is_taken() {
    let truth = |value: bool| {
        let tensor = TensorProto { dtype: 10, bool_val: vec![value], ..TensorProto::default() };
        with(op("t", "Const", &[]), "value", Value::Tensor(tensor))
    };
    let branch = |name: &str, kind: &str| function(name, &["a"], "y:out:0", vec![op("y", kind, &["a"])]);
    let of = |name: &str| Value::Func(NameAttrList { name: name.to_owned() });
    for (value, expected) in [(true, "Tanh"), (false, "Relu")] {
        let choice = with(op("i", "If", &["t:output:0", "x"]), "then_branch", of("yes"));
        let nodes = vec![truth(value), with(choice, "else_branch", of("no"))];
        let description = described(&[-1, 4], nodes, vec![branch("yes", "Tanh"), branch("no", "Relu")]);
        assert_eq!(ops(&description), [expected]);
    }
    let choice = with(op("i", "If", &["x", "x"]), "then_branch", of("yes"));
    let nodes = vec![with(choice, "else_branch", of("no"))];
    let open = described(&[-1, 4], nodes, vec![branch("yes", "Tanh"), branch("no", "Relu")]);
    assert!(why(&open).contains("the operation If ('i') is not supported"), "{}", why(&open));
}

/// A file of TensorFlow 1 with a signature from `x` to the tensor `result`.
fn first_version(nodes: Vec<NodeDef>, result: &str) -> Description {
    let dim = |size| tensor_shape_proto::Dim { size, ..Default::default() };
    let shape = TensorShapeProto { dim: vec![dim(-1), dim(4)], ..Default::default() };
    let input = TensorInfo { name: "x:0".into(), dtype: 1, tensor_shape: Some(shape) };
    let output = TensorInfo { name: result.into(), ..TensorInfo::default() };
    let signature =
        SignatureDef { inputs: [("x".into(), input)].into(), outputs: [("y".into(), output)].into() };
    let nodes = std::iter::once(op("x", "Placeholder", &[])).chain(nodes).collect();
    let meta = MetaGraphDef {
        graph_def: Some(GraphDef { node: nodes, library: None }),
        signature_def: [("serving_default".into(), signature)].into(),
        ..MetaGraphDef::default()
    };
    let model = SavedModel { meta_graphs: vec![meta] };
    describe_with(&typed(SHAPES), None, Some(&model.encode_to_vec()), None)
}

#[test]
fn variables_of_both_kinds_are_read_from_a_graph_of_tensorflow_1() {
    let description = first_version(
        vec![
            op("w", "VariableV2", &[]),
            op("w/read", "Identity", &["w"]),
            op("b", "VarHandleOp", &[]),
            op("b/read", "ReadVariableOp", &["b"]),
            op("m", "MatMul", &["x", "w/read"]),
            op("a", "BiasAdd", &["m", "b/read"]),
        ],
        "a:0",
    );
    assert_eq!(ops(&description), ["Gemm"]);
    assert_eq!(
        (
            nodes(&description)[0].parameters["weight"].as_str(),
            nodes(&description)[0].parameters["bias"].as_str()
        ),
        ("w", "b")
    );
}

#[test]
fn a_placeholder_with_a_default_that_is_no_input_has_its_default() {
    let tensor = TensorProto { dtype: 10, bool_val: vec![false], ..TensorProto::default() };
    let description = first_version(
        vec![
            with(op("off", "Const", &[]), "value", Value::Tensor(tensor)),
            op("training", "PlaceholderWithDefault", &["off"]),
            op("s", "Switch", &["x", "training"]),
            op("yes", "Tanh", &["s:1"]),
            op("no", "Relu", &["s"]),
            op("both", "Merge", &["no", "yes"]),
        ],
        "both:0",
    );
    assert_eq!(ops(&description), ["Relu"]);
}

#[test]
fn conditions_of_conditions_are_bounded() {
    let mut all = vec![op("c0", "Switch", &["x", "flag"])];
    for at in 1..50_000 {
        all.push(op(&format!("c{at}"), "Switch", &["x", &format!("c{}", at - 1)]));
    }
    let description = first_version(all, "c49999:0");
    assert!(why(&description).contains("more than 32 others"), "{}", why(&description));
}

#[test]
fn references_in_a_circle_are_refused() {
    let identity = |at: usize| op(&format!("i{at}"), "Identity", &[&format!("i{}", (at + 1) % 7)]);
    let lead = [op("a", "Identity", &["b"]), op("b", "Identity", &["i3"])];
    let description = first_version(lead.into_iter().chain((0..7).map(identity)).collect(), "a:0");
    assert!(why(&description).contains("in a circle"), "{}", why(&description));
}

#[test]
fn calls_that_double_at_each_depth_are_bounded() {
    let name = |depth: usize| format!("f{depth}");
    let twice = |depth: usize| {
        let nodes = vec![
            call("a", &name(depth + 1), &["v"]),
            call("b", &name(depth + 1), &["a:out:0"]),
            op("s", "AddV2", &["a:out:0", "b:out:0"]),
        ];
        function(&name(depth), &["v"], "s:z:0", nodes)
    };
    let last = function(&name(40), &["v"], "r:out:0", vec![op("r", "Lgamma", &["v"])]);
    let others: Vec<FunctionDef> = (0..40).map(twice).chain([last]).collect();
    let description = described(&[-1, 4], vec![call("c", "f0", &["x"])], others);
    assert!(why(&description).contains("more than 8192 calls"), "{}", why(&description));
}

#[test]
fn more_operations_than_any_network_has_are_refused() {
    let mut before = "x".to_owned();
    let mut all = Vec::new();
    for at in 0..(1 << 17) + 2 {
        let name = format!("n{at}");
        all.push(op(&name, "Tanh", &[&before, "x"]));
        before = format!("{name}:y:0");
    }
    let description = described(&[-1, 4], all, vec![]);
    assert!(why(&description).contains("operations"), "{}", why(&description));
}

#[test]
fn shapes_of_any_size_cost_nothing() {
    let tensor = TensorProto {
        dtype: 3,
        tensor_shape: Some(TensorShapeProto {
            dim: vec![tensor_shape_proto::Dim { size: 1 << 40, ..Default::default() }; 3],
            ..Default::default()
        }),
        int_val: vec![7],
        ..TensorProto::default()
    };
    let bomb = with(op("t", "Const", &[]), "value", Value::Tensor(tensor));
    let cases = [
        vec![bomb.clone(), op("a", "AddV2", &["x", "t:output:0"])],
        vec![bomb, op("a", "Reshape", &["x", "t:output:0"])],
        vec![
            constant("z", &[0]),
            constant("n", &[i32::MAX]),
            constant("d", &[1]),
            op("a", "Range", &["z:output:0", "n:output:0", "d:output:0"]),
        ],
        vec![constant("n", &[i32::MAX, i32::MAX]), op("a", "Fill", &["n:output:0", "n:output:0"])],
        vec![constant("n", &[i32::MAX; 40]), op("a", "Reshape", &["x", "n:output:0"])],
        vec![with(op("a", "Unpack", &["x"]), "num", Value::I(i64::MAX))],
        vec![
            constant("n", &[i32::MIN, i32::MAX]),
            op("a", "StridedSlice", &["x", "n:output:0", "n:output:0", "n:output:0"]),
        ],
    ];
    for nodes in cases {
        described(&[-1, 4], nodes, vec![]);
    }
}

/// A transposed convolution of stride 2 of 4 · 4 images with a kernel of 3 · 3, to images of `size` · `size`.
fn transposed(size: i32, pads: &[i64]) -> Description {
    let node = op("t", "Conv2DBackpropInput", &["size:output:0", "k:value:0", "x"]);
    let node = with(node, "padding", Value::S(b"EXPLICIT".to_vec().into()));
    let node = with(node, "explicit_paddings", ints(pads));
    let node = with(node, "strides", ints(&[1, 2, 2, 1]));
    described(&[2, 4, 4, 4], vec![constant("size", &[2, size, size, 4]), node], vec![])
}

#[test]
fn a_transposed_convolution_keeps_its_explicit_padding() {
    let description = transposed(8, &[0, 0, 0, 2, 0, 2, 0, 0]);
    let made = node(&description, "ConvTranspose");
    assert_eq!(made.attributes["pads"], Attribute::Ints(vec![0, 0, 2, 2]));
    assert_eq!(made.attributes["output_padding"], Attribute::Ints(vec![1, 1]));
}

#[test]
fn a_transposed_convolution_with_padding_that_does_not_fit_is_refused() {
    // Too small and too large for what is missing to be less than a stride.
    for size in [6, 9] {
        let description = transposed(size, &[0, 0, 0, 2, 0, 2, 0, 0]);
        let expected = "its explicit padding does not fit the size of its result";
        assert!(why(&description).contains(expected), "{size}: {}", why(&description));
    }
}

#[test]
fn negative_lengths_are_unknown() {
    let sources = [
        vec![constant("n", &[-5]), op("s", "Fill", &["n:output:0", "n:output:0"])],
        vec![constant("n", &[-5]), op("s", "Reshape", &["x", "n:output:0"])],
        vec![constant("n", &[-5]), constant("z", &[0]), op("s", "Slice", &["x", "z:output:0", "n:output:0"])],
        vec![constant("n", &[-9, 0]), op("s", "Pad", &["x", "n:output:0"])],
    ];
    for source in sources {
        for (end, step) in [(3, 1), (-3, -1)] {
            let bounds = [constant("begin", &[0]), constant("end", &[end]), constant("step", &[step])];
            let slice =
                op("a", "StridedSlice", &["s:output:0", "begin:output:0", "end:output:0", "step:output:0"]);
            let nodes = source.iter().cloned().chain(bounds).chain([slice]).collect();
            let description = described(&[4], nodes, vec![]);
            for output in description.graph.iter().flat_map(|graph| &graph.outputs) {
                assert_eq!(output.shape, [None]);
            }
        }
    }
}

#[test]
fn what_is_computed_otherwise_with_integers_is_refused_by_name() {
    let of = |name: &str, number: i32| with(op("a", name, &["x", "x"]), "T", Value::Type(number));
    for narrow in [4, 5, 6, 17] {
        let description = described(&[-1, 4], vec![of("Mul", narrow)], vec![]);
        assert!(why(&description).contains("fewer than 32 bits"), "{}", why(&description));
    }
    assert!(described(&[-1, 4], vec![of("Mul", 1)], vec![]).graph.is_some());
    assert!(described(&[-1, 4], vec![of("Mul", 3)], vec![]).graph.is_some());
    for (number, is_read) in [(1, true), (3, false), (4, false), (9, false)] {
        let mean = with(op("a", "Mean", &["x", "axes:output:0"]), "T", Value::Type(number));
        let description = described(&[-1, 4], vec![constant("axes", &[1]), mean], vec![]);
        assert_eq!(description.graph.is_some(), is_read, "{number}");
        assert_eq!(why(&description).contains("is a mean of integers"), !is_read, "{}", why(&description));
    }
}
