//! Chains from a SavedModel's functions.

use super::super::*;
use super::build::{
    Objects, call, constant, describe_with, float, function, ints, op, saved_model, taking, typed, with,
};
use super::why;
use crate::proto::attr_value::Value;
use crate::proto::saved_object::Kind;
use crate::proto::trackable_object_graph::trackable_object::ObjectReference;
use crate::proto::{
    FunctionDef, FunctionDefLibrary, GraphDef, MetaGraphDef, NodeDef, SavedFunction, SavedModel, SavedObject,
    SavedObjectGraph,
};
use ckpt_api::{Attribute, Node, Op};
use prost::Message;

const SHAPES: &[(&str, &[u64])] =
    &[("w", &[4, 3]), ("b", &[3]), ("v", &[2, 3]), ("c", &[2]), ("k", &[3, 3, 1, 4])];
const ARGUMENTS: &[&str] = &["x", "rw", "rb", "rv", "rc", "rk"];

fn describe_functions(functions: Vec<FunctionDef>) -> Description {
    let mut objects = Objects::default();
    for (name, _) in SHAPES {
        objects.variable(0, name, name, name);
    }
    let bound: Vec<&str> = SHAPES.iter().map(|(name, _)| *name).collect();
    let bytes = saved_model(functions, &bound);
    describe_with(&typed(SHAPES), Some(&objects.bytes()), Some(&bytes), None)
}

/// A function that reads all variables (`w`, `b`, …) and returns the result of the last of `nodes`.
fn body(nodes: Vec<NodeDef>) -> FunctionDef {
    let result = format!("{}:out:0", nodes.last().unwrap().name);
    let reads = SHAPES.iter().map(|(name, _)| op(name, "ReadVariableOp", &[&format!("r{name}")]));
    function("f", ARGUMENTS, &result, reads.chain(nodes).collect())
}

fn nodes(description: &Description) -> &[Node] {
    description.graph.as_ref().unwrap_or_else(|| panic!("{:?}", description.notes)).chain().unwrap()
}

fn ops(description: &Description) -> Vec<&str> {
    nodes(description).iter().map(|node| node.op.name()).collect()
}

fn two_layers() -> Vec<NodeDef> {
    vec![
        op("m", "MatMul", &["x", "w:value:0"]),
        op("a", "BiasAdd", &["m:product:0", "b:value:0"]),
        op("r", "Relu", &["a:output:0"]),
        with(op("n", "MatMul", &["r:activations:0", "v:value:0"]), "transpose_b", Value::B(true)),
        op("p", "AddV2", &["c:value:0", "n:product:0"]),
        op("s", "Softmax", &["p:z:0"]),
    ]
}

#[test]
fn dense_layers_and_activations_are_read_from_the_serving_function() {
    let description = describe_functions(vec![taking(body(two_layers()), &[-1, 4])]);
    assert_eq!(ops(&description), ["Gemm", "Relu", "Gemm", "Softmax"]);
    assert_eq!(nodes(&description)[0].parameters["bias"], "b");
    let graph = description.graph.as_ref().unwrap();
    assert_eq!(
        (&graph.inputs[0].shape, &graph.outputs[0].shape),
        (&vec![None, Some(4)], &vec![None, Some(2)])
    );
    assert!(description.notes.is_empty());
}

#[test]
fn a_transposed_matrix_has_its_output_axis_first() {
    let description = describe_functions(vec![body(two_layers())]);
    assert_eq!(description.axes["w"], [Axis::In, Axis::Out]);
    assert_eq!(description.axes["v"], [Axis::Out, Axis::In]);
}

#[test]
fn calls_within_calls_are_followed() {
    let mut inner = body(two_layers());
    inner.signature.as_mut().unwrap().name = "inner".into();
    let wrap = |name: &str, called: &str| {
        let nodes = vec![call("c", called, ARGUMENTS), op("i", "Identity", &["c:output:0", "^c"])];
        function(name, ARGUMENTS, "i:output:0", nodes)
    };
    let description = describe_functions(vec![wrap("outer", "middle"), wrap("middle", "inner"), inner]);
    assert_eq!(ops(&description), ["Gemm", "Relu", "Gemm", "Softmax"]);
}

#[test]
fn an_unknown_operation_is_no_chain_and_the_note_names_it() {
    let mut nodes = two_layers();
    nodes[2].op = "Lgamma".into();
    let description = describe_functions(vec![taking(body(nodes), &[-1, 4])]);
    assert!(description.graph.is_none());
    assert!(why(&description).contains("Lgamma ('r')"), "{}", why(&description));
}

#[test]
fn a_sum_of_two_branches_is_no_chain() {
    let nodes = vec![
        op("m", "MatMul", &["x", "w:value:0"]),
        op("r", "Relu", &["m:product:0"]),
        op("s", "AddV2", &["m:product:0", "r:activations:0"]),
    ];
    let graph = describe_functions(vec![body(nodes)]).graph.unwrap();
    assert!(graph.chain().is_err());
    assert_eq!(graph.inputs[0].shape, [None, Some(4)], "the matrix states the features of the input");
}

#[test]
fn a_recursive_function_is_followed_for_8192_calls() {
    let nodes = || vec![call("c", "f", ARGUMENTS)];
    let description = describe_functions(vec![function("f", ARGUMENTS, "c:output:0", nodes())]);
    assert!(why(&description).contains("more than 8192 calls"), "{}", why(&description));
}

#[test]
fn operations_that_refer_to_each_other_are_no_chain() {
    let nodes = vec![op("a", "Identity", &["b:output:0"]), op("b", "Identity", &["a:output:0"])];
    let description = describe_functions(vec![function("f", ARGUMENTS, "a:output:0", nodes)]);
    assert!(why(&description).contains("refer to each other"), "{}", why(&description));
}

#[test]
fn reshaping_to_two_axes_is_a_flatten() {
    let flatten = |shape: &[i32]| {
        let nodes = vec![
            constant("d", shape),
            op("f", "Reshape", &["x", "d:output:0"]),
            op("m", "MatMul", &["f:output:0", "w:value:0"]),
        ];
        describe_functions(vec![taking(body(nodes), &[-1, 2, 2])])
    };
    assert_eq!(ops(&flatten(&[-1, 4])), ["Flatten", "Gemm"]);
    assert!(flatten(&[-1, 2]).graph.is_none(), "2 and 2 do not make rows of 2");
    assert!(flatten(&[2, -1]).graph.is_none(), "the batch is not 2");
}

#[test]
fn a_convolution_has_channels_first_and_explicit_padding() {
    let conv = with(op("k2", "Conv2D", &["x", "k:value:0"]), "strides", ints(&[1, 2, 2, 1]));
    let conv = with(conv, "padding", Value::S("SAME".into()));
    let description = describe_functions(vec![taking(body(vec![conv.clone()]), &[-1, 8, 8, 1])]);
    assert_eq!(ops(&description), ["Transpose", "Conv", "Transpose"]);
    let node = &nodes(&description)[1];
    assert_eq!(node.attributes["pads"], Attribute::Ints(vec![0, 0, 1, 1]));
    assert_eq!(node.attributes["strides"], Attribute::Ints(vec![2, 2]));
    assert_eq!(description.axes["k"], [Axis::KernelY, Axis::KernelX, Axis::In, Axis::Out]);
    assert_eq!(description.graph.as_ref().unwrap().outputs[0].shape, [None, Some(4), Some(4), Some(4)]);

    let unknown = describe_functions(vec![taking(body(vec![conv]), &[-1, -1, -1, 1])]);
    assert_eq!(nodes(&unknown)[1].attributes["auto_pad"], Attribute::Text("SAME_UPPER".into()));
}

#[test]
fn an_unfused_gelu_is_recognized() {
    let gelu = |half: f32| {
        let nodes = vec![
            op("m", "MatMul", &["x", "w:value:0"]),
            float("half", half),
            float("root", -std::f32::consts::FRAC_1_SQRT_2),
            op("h", "Mul", &["half:output:0", "m:product:0"]),
            op("u", "Mul", &["m:product:0", "root:output:0"]),
            op("e", "Erfc", &["u:z:0"]),
            op("g", "Mul", &["h:z:0", "e:y:0"]),
        ];
        describe_functions(vec![body(nodes)])
    };
    assert_eq!(ops(&gelu(0.5)), ["Gemm", "Gelu"]);
    assert!(other_ops(&gelu(0.25)).iter().all(|op| op != "Gelu"));
}

#[test]
fn an_approximate_gelu_has_the_attribute() {
    let nodes = vec![
        op("m", "MatMul", &["x", "w:value:0"]),
        float("three", 3.0),
        float("small", 0.044_715),
        float("root", 0.797_884_6),
        float("one", 1.0),
        float("half", 0.5),
        op("cube", "Pow", &["m:product:0", "three:output:0"]),
        op("cs", "Mul", &["small:output:0", "cube:z:0"]),
        op("sum", "AddV2", &["m:product:0", "cs:z:0"]),
        op("rs", "Mul", &["root:output:0", "sum:z:0"]),
        op("t", "Tanh", &["rs:z:0"]),
        op("t1", "AddV2", &["one:output:0", "t:y:0"]),
        op("h", "Mul", &["half:output:0", "m:product:0"]),
        op("g", "Mul", &["h:z:0", "t1:z:0"]),
    ];
    let description = describe_functions(vec![body(nodes)]);
    assert_eq!(nodes_of(&description, Op::Gelu).attributes["approximate"], Attribute::Text("tanh".into()));
}

/// The operators of a graph that is no chain.
fn other_ops(description: &Description) -> Vec<String> {
    let graph = description.graph.as_ref().unwrap_or_else(|| panic!("{:?}", description.missing_graph));
    graph.nodes.iter().map(|node| node.op.name().to_owned()).collect()
}

fn nodes_of(description: &Description, op: Op) -> &Node {
    nodes(description).iter().find(|node| node.op == op).unwrap()
}

#[test]
fn casts_to_16_bits_are_followed_with_a_note() {
    let cast = |name: &str, of: &str, to: i32| {
        with(with(op(name, "Cast", &[of]), "SrcT", Value::Type(1)), "DstT", Value::Type(to))
    };
    let half = |name: &str, of: &str| cast(name, of, 19);
    let nodes = vec![
        half("x16", "x"),
        half("w16", "w:value:0"),
        op("m", "MatMul", &["x16:y:0", "w16:y:0"]),
        op("r", "Relu", &["m:product:0"]),
    ];
    let description = describe_functions(vec![body(nodes)]);
    assert_eq!(ops(&description), ["Gemm", "Relu"]);
    assert!(description.graph_notes[0].contains("16 bits"), "{:?}", description.graph_notes);
    let product = with(op("m", "MatMul", &["x", "w:value:0"]), "T", Value::Type(14));
    let notes = describe_functions(vec![body(vec![product])]).graph_notes;
    assert!(notes.iter().any(|note| note.contains("16 bits")), "{notes:?}");
    let nodes = vec![cast("xi", "x", 3), op("m", "MatMul", &["xi:y:0", "w:value:0"])];
    assert_eq!(other_ops(&describe_functions(vec![body(nodes)])), ["Cast", "Gemm"], "this cast rounds");
}

#[test]
fn an_unfused_batch_normalization_is_one_node() {
    let normalize = |scale_again: &str| {
        let nodes = vec![
            op("m", "MatMul", &["x", "w:value:0"]),
            float("e", 0.001),
            op("s1", "AddV2", &["b:value:0", "e:output:0"]),
            op("s2", "Rsqrt", &["s1:z:0"]),
            op("s", "Mul", &["s2:y:0", "b:value:0"]),
            op("t", "Mul", &["m:product:0", "s:z:0"]),
            op("u", "Mul", &["b:value:0", scale_again]),
            op("v2", "Sub", &["b:value:0", "u:z:0"]),
            op("z", "AddV2", &["t:z:0", "v2:z:0"]),
        ];
        describe_functions(vec![body(nodes)])
    };
    let description = normalize("s:z:0");
    assert_eq!(ops(&description), ["Gemm", "BatchNormalization"]);
    let node = nodes_of(&description, Op::BatchNormalization);
    assert_eq!((node.attributes["epsilon"].clone(), node.parameters.len()), (Attribute::Float(0.001), 4));
    let other = other_ops(&normalize("s2:y:0"));
    assert!(!other.contains(&"BatchNormalization".to_owned()), "the mean is scaled by something else");
}

#[test]
fn a_leaky_relu_keeps_its_alpha() {
    let leaky = with(op("l", "LeakyRelu", &["m:product:0"]), "alpha", Value::F(0.3));
    let description = describe_functions(vec![body(vec![op("m", "MatMul", &["x", "w:value:0"]), leaky])]);
    assert_eq!(nodes_of(&description, Op::LeakyRelu).attributes["alpha"], Attribute::Float(0.3));
}

#[test]
fn a_relu6_is_a_clip_with_both_limits() {
    let nodes = vec![op("m", "MatMul", &["x", "w:value:0"]), op("r", "Relu6", &["m:product:0"])];
    let description = describe_functions(vec![body(nodes)]);
    let limits = &nodes_of(&description, Op::Clip).attributes;
    assert_eq!([&limits["min"], &limits["max"]], [&Attribute::Float(0.0), &Attribute::Float(6.0)]);
}

#[test]
fn the_names_of_operations_show_models_within_a_model() {
    let named = |first: &str, second: &str| {
        let rename = |mut node: NodeDef| {
            let of = |name: &str| match name {
                "m" => format!("{first}/MatMul"),
                "a" => format!("{first}/BiasAdd"),
                "n" => format!("{second}/MatMul"),
                "p" => format!("{second}/Add"),
                other => other.to_owned(),
            };
            node.name = of(&node.name);
            for input in &mut node.input {
                if let Some((name, rest)) = input.clone().split_once(':') {
                    *input = format!("{}:{rest}", of(name));
                }
            }
            node
        };
        let nodes = two_layers().into_iter().map(rename).collect();
        describe_functions(vec![taking(body(nodes), &[-1, 4])]).is_nested
    };
    assert!(!named("net_1/dense_1", "net_1/dense_2"));
    assert!(!named("dense", "dense_1"));
    assert!(named("net_1/inner_1/dense", "net_1/dense_2"));
    assert!(named("net_1/inner_1/dense", "net_1/inner_1/dense_1"));
    assert!(named("first/dense", "second/dense"));
}

#[test]
fn a_saved_model_that_cannot_be_parsed_is_a_note() {
    let objects = super::keras3();
    let description = describe_with(&typed(super::KERAS3), Some(&objects.bytes()), Some(b"\xff\xff"), None);
    assert!(description.graph.is_none());
    assert!(why(&description).contains("in saved_model.pb: it cannot be parsed"), "{}", why(&description));
    assert_eq!(description.names.len(), 4);
}

#[test]
fn reshaping_an_axis_of_unknown_length_is_no_flatten() {
    let nodes = vec![
        constant("d", &[-1, 4]),
        op("f", "Reshape", &["x", "d:output:0"]),
        op("m", "MatMul", &["f:output:0", "w:value:0"]),
    ];
    let description = describe_functions(vec![taking(body(nodes), &[-1, -1, 4])]);
    assert_eq!(ops(&description), ["Reshape", "Gemm"]);
    assert_eq!(self::nodes(&description)[0].attributes["shape"], Attribute::Ints(vec![-1, 4]));
}

#[test]
fn the_statistics_of_a_normalization_are_not_its_result() {
    let normalized = |result: &str| {
        let convolution = with(op("v", "Conv2D", &["x", "k:value:0"]), "strides", ints(&[1, 1, 1, 1]));
        let convolution = with(convolution, "padding", Value::S("VALID".into()));
        let inputs = ["v:output:0", "c4:value:0", "c4:value:0", "c4:value:0", "c4:value:0"];
        let normalization = with(op("n", "FusedBatchNormV3", &inputs), "is_training", Value::B(false));
        let read = op("c4", "ReadVariableOp", &["rn"]);
        let result = op("r", "Relu", &[&format!("n:{result}:0")]);
        let nodes = vec![convolution, read, normalization, result];
        let k = op("k", "ReadVariableOp", &["rk"]);
        let body = function("f", &["x", "rk", "rn"], "r:activations:0", [vec![k], nodes].concat());
        let shapes: &[(&str, &[u64])] = &[("k", &[3, 3, 1, 4]), ("n", &[4])];
        let mut objects = Objects::default();
        for (name, _) in shapes {
            objects.variable(0, name, name, name);
        }
        let bytes = saved_model(vec![taking(body, &[-1, 8, 8, 1])], &["k", "n"]);
        describe_with(&typed(shapes), Some(&objects.bytes()), Some(&bytes), None)
    };
    assert!(ops(&normalized("y")).contains(&"BatchNormalization"));
    let description = normalized("batch_mean");
    assert!(description.graph.is_none());
    assert!(why(&description).contains("batch_mean"), "{}", why(&description));
}

#[test]
fn a_convolution_whose_kernel_is_no_variable_says_that_the_kernel_is_what_is_not_supported() {
    let of_kernel = |kernel: &str| {
        let convolution = with(op("v", "Conv2D", &["x", kernel]), "strides", ints(&[1, 1, 1, 1]));
        let convolution = with(convolution, "padding", Value::S("VALID".into()));
        let (read, computed) = (op("k", "ReadVariableOp", &["rk"]), op("t", "Neg", &["k:value:0"]));
        let body = function("f", &["x", "rk"], "v:output:0", vec![read, computed, convolution]);
        let mut objects = Objects::default();
        objects.variable(0, "k", "k", "k");
        let bytes = saved_model(vec![taking(body, &[-1, 8, 8, 1])], &["k"]);
        describe_with(&typed(&[("k", &[3, 3, 1, 4])]), Some(&objects.bytes()), Some(&bytes), None)
    };
    assert!(ops(&of_kernel("k:value:0")).contains(&"Conv"));
    let description = of_kernel("t:y:0");
    assert!(description.graph.is_none());
    assert!(
        why(&description).contains("Conv2D ('v') has a kernel that is no variable"),
        "{}",
        why(&description)
    );
}

/// Whether the file leaves the layers open, and the reason why there is no graph.
fn refused(nodes: Vec<NodeDef>) -> (bool, String) {
    let description = describe_functions(vec![taking(body(nodes), &[-1, 4])]);
    let missing = description.missing_graph.expect("no graph");
    (missing.is_unstated, missing.reason.as_str().to_owned())
}

#[test]
fn the_reason_names_the_operation_that_is_not_supported_where_it_stands() {
    let product = op("m", "MatMul", &["x", "w:value:0"]);
    let after = |name: &str, kind: &str, inputs: &[&str]| vec![product.clone(), op(name, kind, inputs)];
    for (nodes, reason) in [
        (
            after("s", "AddV2", &["m:product:0", "x"]),
            "the operation AddV2 ('s'): it combines shapes that do not fit: [?, 3], [?, 4]",
        ),
        (after("g", "Lgamma", &["m:product:0"]), "the operation Lgamma ('g') is not supported"),
        (after("i", "If", &["m:product:0"]), "the operation If ('i') is not supported"),
        (
            vec![op("e", "Einsum", &["x", "w:value:0"]), op("a", "BiasAdd", &["e:output:0", "b:value:0"])],
            "the operation Einsum ('e'): it has no equation",
        ),
        (
            vec![op("m", "MatMul", &["x", "b:value:0"])],
            "MatMul ('m'): it multiplies values that are no matrices",
        ),
        (
            after("n", "MatMul", &["m:product:0", "w:value:0"]),
            "MatMul ('n'): it multiplies matrices of shapes [?, 3] and [4, 3]",
        ),
        (
            vec![product.clone(), op("u", "Unpack", &["m:product:0"]), op("r", "Relu", &["u:output:1"])],
            "the operation Unpack ('u'): the number of its parts is not stated, or too large",
        ),
    ] {
        let (is_unstated, found) = refused(nodes);
        assert!(found.starts_with("in saved_model.pb: ") && found.contains(reason), "{found}");
        assert!(!is_unstated, "{found}");
    }
}

#[test]
fn the_reason_names_what_uses_a_constant_that_is_not_in_the_checkpoint() {
    let objects = Objects::default();
    let nodes = vec![op("v", "ReadVariableOp", &["rw"]), op("m", "MatMul", &["x", "v:value:0"])];
    let bytes = saved_model(vec![function("f", &["x", "rw"], "m:product:0", nodes)], &["w"]);
    let description = describe_with(&typed(SHAPES), Some(&objects.bytes()), Some(&bytes), None);
    let reason = "the operation MatMul ('m') uses the constant or table 'rw', which is not in the checkpoint";
    assert!(why(&description).ends_with(reason), "{}", why(&description));
}

#[test]
fn a_saved_model_of_tensorflow_1_says_why_it_has_no_graph() {
    let model = SavedModel {
        meta_graphs: vec![MetaGraphDef { graph_def: Some(GraphDef::default()), ..MetaGraphDef::default() }],
    };
    let description = describe_with(&typed(SHAPES), None, Some(&model.encode_to_vec()), None);
    assert!(why(&description).contains("TensorFlow 1"), "{}", why(&description));
    assert!(description.missing_graph.is_some_and(|missing| missing.is_unstated));
}

#[test]
fn the_reason_lists_functions_among_which_none_is_the_model() {
    let trace = |names: &[&str]| {
        Kind::Function(SavedFunction {
            concrete_functions: names.iter().map(|name| (*name).into()).collect(),
        })
    };
    let described = |functions: &[(&str, &[&str])]| {
        let children = functions.iter().zip(1..);
        let children =
            children.map(|((name, _), id)| ObjectReference { node_id: id, local_name: (*name).into() });
        let root = SavedObject { children: children.collect(), ..SavedObject::default() };
        let own = functions
            .iter()
            .map(|(_, names)| SavedObject { kind: Some(trace(names)), ..SavedObject::default() });
        let graph = SavedObjectGraph { nodes: [root].into_iter().chain(own).collect(), ..Default::default() };
        let library = Some(FunctionDefLibrary::default());
        let meta = MetaGraphDef {
            graph_def: Some(GraphDef { library, ..GraphDef::default() }),
            object_graph_def: Some(graph),
            ..MetaGraphDef::default()
        };
        let bytes = SavedModel { meta_graphs: vec![meta] }.encode_to_vec();
        let description =
            describe_with(&typed(SHAPES), Some(&Objects::default().bytes()), Some(&bytes), None);
        why(&description).to_owned()
    };
    let several = described(&[("decode", &["f"]), ("encode", &["g"])]);
    assert!(several.contains("2 functions (decode, encode)"), "{several}");
    let traced = described(&[("__call__", &["f", "g"])]);
    assert!(traced.contains("the function '__call__' has 2 traces"), "{traced}");
    assert!(described(&[]).contains("there is no function"), "{}", described(&[]));
}
