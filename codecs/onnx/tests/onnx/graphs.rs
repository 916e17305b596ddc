//! How graphs are read: what becomes of constant inputs, old operator sets, and operators without a counterpart.

use crate::build::{
    Model, external, floats, int, int_attribute, ints_attribute, tensor, text, text_attribute,
};
use ckpt_api::{Attribute, Axis, Codec, Contents, Graph, Input, Kind, Limits, Node, Op, Options, Text};
use ckpt_onnx::Onnx;
use std::collections::HashSet;

pub fn read(model: &Model) -> Contents {
    let contents =
        Onnx.read(&Input::memory("m.onnx", model.files()), &Options::default(), &Limits::default()).unwrap();
    contents.check(&Limits::default()).unwrap();
    contents
}

pub fn graph(model: &Model) -> Graph {
    let contents = read(model);
    contents.checkpoint.graph.unwrap_or_else(|| panic!("{:?}", contents.missing_graph))
}

pub fn ops(graph: &Graph) -> Vec<&str> {
    graph.nodes.iter().map(|node| node.op.name()).collect()
}

pub fn last(graph: &Graph) -> &Node {
    graph.nodes.last().unwrap()
}

/// A tensor of 64-bit integers.
pub fn list(name: &str, values: &[i64]) -> Vec<u8> {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    [crate::build::head(name, 7, &[values.len() as i64]), crate::build::field(9, &bytes)].concat()
}

pub fn of(x: &[i64]) -> Model {
    Model::new().input("x", x)
}

#[test]
fn a_product_with_a_tensor_and_its_bias_are_one_layer() {
    let graph = graph(
        &of(&[-1, 4, 2])
            .node("MatMul", &["x", "w"], &["p"], &[])
            .node("Add", &["p", "b"], &["y"], &[])
            .tensor(tensor("w", &[2, 3], &[0.0; 6]))
            .tensor(tensor("b", &[3], &[0.0; 3]))
            .output("y", &[-1, 4, 3]),
    );
    assert_eq!(ops(&graph), ["Gemm"]);
    assert_eq!(last(&graph).parameters["bias"], "b");
}

#[test]
fn a_product_that_two_nodes_take_keeps_its_addition() {
    let graph = graph(
        &of(&[-1, 2])
            .node("MatMul", &["x", "w"], &["p"], &[])
            .node("Add", &["p", "b"], &["q"], &[])
            .node("Mul", &["p", "q"], &["y"], &[])
            .tensor(tensor("w", &[2, 3], &[0.0; 6]))
            .tensor(tensor("b", &[3], &[0.0; 3]))
            .output("y", &[-1, 3]),
    );
    assert_eq!(ops(&graph), ["Gemm", "Constant", "Add", "Mul"]);
}

#[test]
fn a_tensor_with_two_meanings_is_an_operand() {
    let contents = read(
        &of(&[-1, 2])
            .node("MatMul", &["x", "w"], &["p"], &[])
            .node("Gemm", &["p", "w"], &["y"], &[int_attribute("transB", 1)])
            .tensor(tensor("w", &[2, 2], &[0.0; 4]))
            .output("y", &[-1, 2]),
    );
    let graph = contents.checkpoint.graph.unwrap();
    assert_eq!(ops(&graph), ["Gemm", "Constant", "Transpose", "MatMul"]);
    assert_eq!(contents.checkpoint.tensors[0].axes.as_deref(), Some(&[Axis::In, Axis::Out][..]));
}

#[test]
fn a_shape_that_depends_on_the_batch_has_an_open_entry() {
    let graph = graph(
        &of(&[-1, 24])
            .node("Shape", &["x"], &["s"], &[])
            .node("Slice", &["s", "zero", "one"], &["n"], &[])
            .node("Concat", &["n", "rest"], &["t"], &[int_attribute("axis", 0)])
            .node("Reshape", &["x", "t"], &["y"], &[])
            .tensor(list("zero", &[0]))
            .tensor(list("one", &[1]))
            .tensor(list("rest", &[4, 6]))
            .output("y", &[-1, 4, 6]),
    );
    assert_eq!(ops(&graph), ["Reshape"]);
    assert_eq!(last(&graph).attributes["shape"], Attribute::Ints(vec![0, 4, 6]));
}

#[test]
fn softmax_before_operator_set_13_is_over_all_axes_from_its_own_on() {
    let mut model = of(&[-1, 2, 3]).node("Softmax", &["x"], &["y"], &[]).output("y", &[-1, 2, 3]);
    assert_eq!(ops(&graph(&model)), ["Softmax"]);
    model.opset = 12;
    let graph = graph(&model);
    assert_eq!(ops(&graph), ["Reshape", "Softmax", "Reshape"]);
    assert_eq!(graph.nodes[0].attributes["shape"], Attribute::Ints(vec![-1, 6]));
}

#[test]
fn an_attribute_of_an_old_operator_set_is_the_same_as_an_input_of_a_new_one() {
    let axes = || ints_attribute("axes", &[1]);
    let mut old = of(&[-1, 1, 3]).node("Squeeze", &["x"], &["y"], &[axes()]).output("y", &[-1, 3]);
    old.opset = 11;
    let new = of(&[-1, 1, 3])
        .node("Squeeze", &["x", "a"], &["y"], &[])
        .tensor(list("a", &[1]))
        .output("y", &[-1, 3]);
    assert_eq!(graph(&old), graph(&new));
}

#[test]
fn dropout_passes_its_input_on() {
    let graph = graph(&of(&[-1, 3]).node("Dropout", &["x"], &["y"], &[]).output("y", &[-1, 3]));
    assert_eq!(ops(&graph), ["Identity"]);
}

#[test]
fn an_operator_that_is_not_read_is_named_with_its_node_and_leaves_the_tensors() {
    let contents = read(
        &of(&[-1, 3])
            .node("NonMaxSuppression", &["x", "w"], &["y"], &[])
            .tensor(tensor("w", &[3], &[0.0; 3]))
            .output("y", &[-1, 3]),
    );
    assert_eq!(contents.checkpoint.tensors.len(), 1);
    let reason = contents.missing_graph.unwrap().reason;
    assert!(reason.contains("NonMaxSuppression") && reason.contains("node 'y'"), "{reason:?}");
}

#[test]
fn a_shape_that_is_computed_from_numbers_of_the_input_is_an_input() {
    let graph = graph(
        &of(&[-1, 3])
            .node("Cast", &["x"], &["t"], &[int_attribute("to", 7)])
            .node("Reshape", &["x", "t"], &["y"], &[])
            .output("y", &[-1, 3]),
    );
    let computed: Vec<_> = last(&graph).computed_attributes().collect();
    assert_eq!((last(&graph).op.name(), computed), ("Reshape", vec![("shape", "t")]));
}

#[test]
fn a_chain_of_100_000_nodes_of_one_name_is_read_with_a_name_for_each() {
    let mut model = of(&[-1, 3]);
    let names: Vec<String> =
        (0..=100_000).map(|k| if k == 0 { "x".to_owned() } else { format!("v{k}") }).collect();
    for pair in names.windows(2) {
        model.nodes.push([text(1, &pair[0]), text(2, &pair[1]), text(3, "a"), text(4, "Relu")].concat());
    }
    let graph = graph(&model.output(&names[100_000], &[-1, 3]));
    let layers: HashSet<&str> = graph.nodes.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(layers.len(), 100_000);
    assert!(layers.contains("a") && layers.contains("a#100000"));
}

/// What a graph of `x` and integers computes on shapes, as the constant that is added to `x`.
fn folded(model: Model) -> Vec<i64> {
    let graph =
        graph(&model.node("Cast", &["k"], &["real"], &[int_attribute("to", 7)]).output("real", &[-1]));
    let constant = graph.nodes.iter().find(|node| node.op == Op::Constant).unwrap();
    match &constant.attributes.get("value_ints").or_else(|| constant.attributes.get("value_int")) {
        Some(Attribute::Ints(ints)) => ints.clone(),
        Some(Attribute::Int(int)) => vec![*int],
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_shape_of_a_batched_product_has_the_longer_of_the_leading_axes() {
    let model = of(&[1, 2, 3]).input("b", &[5, 3, 4]).node("MatMul", &["x", "b"], &["p"], &[]).node(
        "Shape",
        &["p"],
        &["k"],
        &[],
    );
    assert_eq!(folded(model), [5, 2, 4]);
}

#[test]
fn expand_broadcasts_both_ways() {
    let model = of(&[3, 1, 4])
        .node("Expand", &["x", "wanted"], &["e"], &[])
        .node("Shape", &["e"], &["k"], &[])
        .tensor(list("wanted", &[2, 1]));
    assert_eq!(folded(model), [3, 2, 4]);
}

#[test]
fn a_remainder_has_the_sign_of_the_divisor_or_with_fmod_of_the_dividend() {
    let rest = |a: i64, b: i64, attributes: &[Vec<u8>]| {
        folded(
            of(&[1])
                .node("Mod", &["a", "b"], &["k"], attributes)
                .tensor(list("a", &[a]))
                .tensor(list("b", &[b])),
        )
    };
    assert_eq!(rest(-7, 3, &[]), [2]);
    assert_eq!(rest(7, -3, &[]), [-2]);
    assert_eq!(rest(-7, 3, &[int_attribute("fmod", 1)]), [-1]);
    assert_eq!(rest(6, -3, &[]), [0]);
}

#[test]
fn a_number_gets_as_many_axes_as_unsqueeze_names() {
    let model = of(&[7, 3])
        .node("Shape", &["x"], &["s"], &[])
        .node("Gather", &["s", "zero"], &["n"], &[])
        .node("Unsqueeze", &["n", "axes"], &["u"], &[])
        .node("Shape", &["u"], &["k"], &[])
        .tensor([crate::build::head("zero", 7, &[]), crate::build::field(9, &0i64.to_le_bytes())].concat())
        .tensor(list("axes", &[0, 1]));
    assert_eq!(folded(model), [1, 1]);
}

#[test]
fn a_reduction_of_no_axes_is_its_function_of_each_element() {
    let noop = || int_attribute("noop_with_empty_axes", 1);
    for (op, expected) in
        [("ReduceL1", "Abs"), ("ReduceL2", "Abs"), ("ReduceSumSquare", "Mul"), ("ReduceSum", "Identity")]
    {
        let graph = graph(&of(&[2, 3]).node(op, &["x"], &["y"], &[noop()]).output("y", &[2, 3]));
        assert_eq!(ops(&graph), [expected], "{op}");
    }
}

/// Why a graph cannot be read.
fn refused(model: &Model) -> Text {
    read(model).missing_graph.unwrap().reason
}

#[test]
fn what_graphs_would_compute_otherwise_is_refused_by_name() {
    let cast = |to: i64| of(&[3]).node("Cast", &["x"], &["y"], &[int_attribute("to", to)]).output("y", &[3]);
    assert!(refused(&cast(24)).contains("makes numbers of type f8_e8m0"), "{}", refused(&cast(24)).as_str());
    assert_eq!(ops(&graph(&cast(6))), ["Cast"]);
    let like = of(&[3]).node("CastLike", &["x", "u"], &["y"], &[]).tensor(list("u", &[1])).output("y", &[3]);
    assert_eq!(ops(&graph(&like)), ["Cast"]);
    let mut kept = of(&[1, 1, 4, 8]);
    kept = kept.node(
        "Resize",
        &["x", "", "", "sizes"],
        &["y"],
        &[crate::build::text_attribute("keep_aspect_ratio_policy", "not_larger")],
    );
    let kept = kept.tensor(list("sizes", &[1, 1, 8, 8])).output("y", &[1, 1, 4, 8]);
    assert!(refused(&kept).contains("keeps the ratio"), "{}", refused(&kept).as_str());
    let wide =
        of(&[1]).node("Add", &["x", "k"], &["y"], &[]).tensor(list("k", &[5_000_000_000])).output("y", &[1]);
    assert!(refused(&wide).contains("more than 32 bits"), "{}", refused(&wide).as_str());
}

#[test]
fn constants_of_narrow_integers_wrap_around_when_the_graph_runs() {
    let bytes = |name: &str| [crate::build::head(name, 2, &[1]), crate::build::field(9, &[200])].concat();
    let model = of(&[1])
        .node("Add", &["a", "b"], &["s"], &[])
        .node("Cast", &["s"], &["f"], &[int_attribute("to", 1)])
        .node("Add", &["x", "f"], &["y"], &[]);
    let model = model.tensor(bytes("a")).tensor(bytes("b")).output("y", &[1]);
    let graph = graph(&model);
    let is_sum = |node: &Node| node.op == Op::Add && node.name == "s";
    assert!(graph.nodes.iter().any(is_sum) && ops(&graph).contains(&"BitwiseAnd"), "{:?}", ops(&graph));
}

#[test]
fn an_output_whose_shape_is_not_stated_has_the_one_that_is_known() {
    let mut model = of(&[2, 3]).node("Relu", &["x"], &["y"], &[]);
    model.outputs.push(crate::build::shapeless("y"));
    assert_eq!(graph(&model).outputs[0].shape, [Some(2), Some(3)]);
}

#[test]
#[cfg(unix)]
fn external_data_behind_a_link_out_of_the_directory_is_refused_and_in_a_hubs_cache_is_read() {
    let directory = std::env::temp_dir().join(format!("ckpt-onnx-{}", std::process::id()));
    let inside = directory.join("inside");
    std::fs::create_dir_all(&inside).unwrap();
    std::fs::write(directory.join("w.bin"), floats(&[1.0, 2.0])).unwrap();
    std::fs::write(inside.join("own.bin"), floats(&[1.0, 2.0])).unwrap();
    std::os::unix::fs::symlink(directory.join("w.bin"), inside.join("out.bin")).unwrap();
    std::os::unix::fs::symlink("own.bin", inside.join("in.bin")).unwrap();
    let (snapshot, blobs) = (directory.join("snapshots/1/onnx"), directory.join("blobs"));
    std::fs::create_dir_all(&snapshot).unwrap();
    std::fs::create_dir_all(&blobs).unwrap();
    std::fs::write(blobs.join("0f"), floats(&[1.0, 2.0])).unwrap();
    std::os::unix::fs::symlink("../../../blobs/0f", snapshot.join("in.bin")).unwrap();
    let read = |directory: &std::path::Path, location: &str| {
        let model = Model::new().tensor(external("w", &[2], location, 0, 8));
        std::fs::write(directory.join("m.onnx"), model.bytes()).unwrap();
        Onnx.read(&Input::open(directory.join("m.onnx")).unwrap(), &Options::default(), &Limits::default())
    };
    let found = [
        read(&inside, "in.bin").map(drop),
        read(&inside, "out.bin").map(drop),
        read(&snapshot, "in.bin").map(drop),
    ];
    std::fs::remove_dir_all(&directory).unwrap();
    assert!(found[0].is_ok() && found[2].is_ok(), "{found:?}");
    let error = found[1].as_ref().unwrap_err();
    assert!(error.kind() == Kind::Usage && error.to_string().contains("symbolic link"), "{error}");
}

#[test]
fn long_lists_among_the_attributes_stay_in_the_file_and_are_never_taken_for_absent() {
    let floats = |count: usize| -> Vec<u8> {
        let values = (0..count).flat_map(|_| [0x3d, 0, 0, 0x80, 0x3f]).collect::<Vec<u8>>();
        [text(1, "scale"), values, int(20, 6)].concat()
    };
    let packed =
        |count: usize| [text(1, "scale"), crate::build::field(7, &vec![0; 4 * count]), int(20, 6)].concat();
    let read = |op: &str, domain: &str, attribute: Vec<u8>| {
        let mut model = of(&[-1, 3]).output("y", &[-1, 3]);
        model.nodes.push([crate::build::node(op, &["x"], &["y"], &[attribute]), text(7, domain)].concat());
        Onnx.read(&Input::memory("m.onnx", model.files()), &Options::default(), &Limits::default()).unwrap()
    };
    for attribute in [floats(1 << 17), packed(1 << 18)] {
        let own = read("Relu", "", attribute.clone());
        assert!(own.missing_graph.unwrap().reason.contains("'scale'"));
        let of_trees = read("Scaler", "ai.onnx.ml", attribute);
        let stated = of_trees.checkpoint.metadata.text("onnx", ckpt_api::KEY_WEIGHTS);
        assert_eq!(stated, Some("scale of Scaler"));
    }
    let few = read("Scaler", "ai.onnx.ml", floats(2));
    assert_eq!(few.checkpoint.metadata.text("onnx", ckpt_api::KEY_WEIGHTS), None);
    assert_eq!(few.checkpoint.tensors[0].name, "y.scale");
    let none = read("Normalizer", "ai.onnx.ml", text(1, "norm"));
    assert_eq!(none.checkpoint.metadata.text("onnx", ckpt_api::KEY_WEIGHTS), None);
}

#[test]
fn lookups_and_updates_by_place_keep_their_attributes() {
    let model = of(&[2, 3])
        .node("GatherND", &["x", "i"], &["a"], &[])
        .node("ScatterND", &["x", "i", "a"], &["b"], &[text_attribute("reduction", "max")])
        .node("GatherElements", &["b", "e"], &["c"], &[int_attribute("axis", 1)])
        .node(
            "ScatterElements",
            &["x", "e", "c"],
            &["d"],
            &[int_attribute("axis", 1), text_attribute("reduction", "add")],
        )
        .node("IsInf", &["d"], &["f"], &[int_attribute("detect_negative", 0)])
        .node("Cast", &["f"], &["y"], &[int_attribute("to", 1)])
        .tensor([crate::build::head("i", 7, &[1, 2]), crate::build::field(9, &[0; 16])].concat())
        .tensor([crate::build::head("e", 7, &[1, 2]), crate::build::field(9, &[0; 16])].concat())
        .output("y", &[2, 3]);
    let graph = graph(&model);
    let found: Vec<&str> = ops(&graph).into_iter().filter(|op| *op != "Constant").collect();
    assert_eq!(found, ["GatherND", "ScatterND", "GatherElements", "ScatterElements", "IsInf", "Cast"]);
    let of = |op: &str| graph.nodes.iter().find(|node| node.op.name() == op).unwrap();
    assert_eq!(of("ScatterND").attributes["reduction"], Attribute::Text("max".into()));
    assert_eq!(of("ScatterElements").attributes["axis"], Attribute::Int(1));
    assert_eq!(of("IsInf").attributes["detect_negative"], Attribute::Int(0));
}

#[test]
fn a_shape_that_the_model_does_not_state_is_left_to_the_graph() {
    let model = of(&[-1, 3])
        .node("TopK", &["x", "k"], &["a", "b"], &[])
        .node("Shape", &["a"], &["s"], &[int_attribute("start", 1)])
        .node("Cast", &["s"], &["y"], &[int_attribute("to", 1)])
        .tensor(list("k", &[2]))
        .output("y", &[1]);
    let graph = graph(&model);
    assert_eq!(ops(&graph), ["TopK", "Shape", "Cast"]);
    assert_eq!(graph.nodes[1].attributes["start"], Attribute::Int(1));
}

#[test]
fn a_power_has_the_type_of_its_base() {
    let power = |inputs: &[&str]| {
        of(&[-1, 2]).tensor(list("two", &[2])).node("Pow", inputs, &["y"], &[]).output("y", &[-1, 2])
    };
    assert_eq!(ops(&graph(&power(&["x", "two"]))), ["Constant", "Cast", "Pow"]);
    assert_eq!(ops(&graph(&power(&["two", "two"]))), ["Constant", "Pow"]);
    assert_eq!(ops(&graph(&power(&["two", "x"]))), ["Constant", "Cast", "Pow", "Cast"]);
}

#[test]
fn a_scale_for_each_place_of_an_axis_broadcasts_along_it() {
    let scale = || tensor("s", &[3], &[0.5, 1.0, 2.0]);
    let model = |x: &[i64], axis: i64| {
        of(x)
            .tensor(scale())
            .node("QuantizeLinear", &["x", "s"], &["y"], &[int_attribute("axis", axis)])
            .output("y", x)
    };
    let graph = graph(&model(&[-1, 3, 4], -2));
    assert_eq!(ops(&graph), ["Constant", "Reshape", "Div", "Round", "Clip", "Cast"]);
    assert_eq!(graph.nodes[1].attributes["shape"], Attribute::Ints(vec![-1, 1]));
    // A block's scale is that of each of its places.
    let blocks = || [int_attribute("axis", 1), int_attribute("block_size", 4)];
    let blocked = of(&[1, 10])
        .tensor(tensor("s", &[1, 3], &[0.5, 1.0, 2.0]))
        .node("QuantizeLinear", &["x", "s"], &["y"], &blocks())
        .output("y", &[1, 10]);
    let graph = self::graph(&blocked);
    assert_eq!(ops(&graph)[..3], ["Constant", "Constant", "Gather"]);
    let places = Attribute::Ints(vec![0, 0, 0, 0, 1, 1, 1, 1, 2, 2]);
    assert!(graph.nodes.iter().any(|node| node.attributes.get("value_ints") == Some(&places)), "{graph:?}");
    let reason = read(&model(&[-1, 3], 2)).missing_graph.expect("a reason").reason;
    assert!(reason.contains("does not fit an axis"), "{reason:?}");
    let blocked = of(&[2, 6])
        .tensor(scale())
        .node("QuantizeLinear", &["x", "s"], &["y"], &blocks())
        .output("y", &[2, 6]);
    let reason = read(&blocked).missing_graph.expect("a reason").reason;
    assert!(reason.contains("does not fit an axis"), "{reason:?}");
}

#[test]
fn a_kernel_that_the_graph_computes_is_an_input_of_its_convolution() {
    let model = of(&[1, 1, 4, 4])
        .node("Cast", &["k8"], &["kf"], &[int_attribute("to", 1)])
        .node("Mul", &["kf", "scale"], &["k"], &[])
        .node("Conv", &["x", "k", "b"], &["y"], &[])
        .tensor([crate::build::head("k8", 3, &[2, 1, 3, 3]), crate::build::field(9, &[1; 18])].concat())
        .tensor(tensor("scale", &[2, 1, 1, 1], &[0.5, 2.0]))
        .tensor(tensor("b", &[2], &[1.0, 2.0]))
        .output("y", &[1, 2, 2, 2]);
    let graph = graph(&model);
    assert_eq!(ops(&graph)[..2], ["Constant", "Cast"]);
    let conv = last(&graph);
    assert_eq!((conv.op.name(), conv.inputs.len(), conv.parameters.len()), ("Conv", 3, 0));
    assert_eq!(conv.inputs[1], "k");
}

#[test]
fn a_kernel_of_unknown_shape_is_named() {
    let model = of(&[1, 1, 4, 4])
        .node("Expand", &["one", "x"], &["k"], &[])
        .node("Conv", &["x", "k"], &["y"], &[])
        .tensor(tensor("one", &[1, 1, 1, 1], &[1.0]))
        .output("y", &[1, 1, 4, 4]);
    assert!(read(&model).checkpoint.graph.is_none());
}

#[test]
fn weights_that_the_graph_puts_in_order_are_inputs_of_their_recurrent_layer() {
    let gates = |from: &str, to: &str| {
        [
            crate::build::node("Split", &[from, "sizes"], &[&format!("{to}i"), &format!("{to}o")], &[]),
            crate::build::node(
                "Concat",
                &[&format!("{to}o"), &format!("{to}i")],
                &[&format!("{to}c")],
                &[int_attribute("axis", 0)],
            ),
            crate::build::node("Unsqueeze", &[&format!("{to}c"), "first"], &[to], &[]),
        ]
    };
    let mut model = of(&[5, 1, 3]);
    model.nodes.extend(gates("wi", "W").into_iter().chain(gates("wh", "R")));
    let model = model
        .node("LSTM", &["x", "W", "R"], &["y"], &[int_attribute("hidden_size", 1)])
        .tensor(tensor("wi", &[4, 3], &[0.5; 12]))
        .tensor(tensor("wh", &[4, 1], &[0.5; 4]))
        .tensor(list("sizes", &[2, 2]))
        .tensor(list("first", &[0]))
        .output("y", &[5, 1, 1, 1]);
    let graph = graph(&model);
    let layer = last(&graph);
    assert_eq!((layer.op.name(), layer.parameters.len()), ("LSTM", 0));
    assert_eq!(layer.inputs, ["x", "", "", "W", "R"]);
}

#[test]
fn bounds_that_the_graph_computes_are_a_maximum_and_a_minimum() {
    let model = |bounds: [&str; 2]| {
        of(&[1, 4])
            .node("ReduceMax", &["x"], &["m"], &[int_attribute("keepdims", 0)])
            .node("Clip", &["x", bounds[0], bounds[1]], &["y"], &[])
            .tensor([crate::build::head("one", 1, &[]), crate::build::field(9, &floats(&[1.0]))].concat())
            .output("y", &[1, 4])
    };
    for (bounds, expected) in [
        (["m", ""], &["ReduceMax", "Max"][..]),
        (["", "m"], &["ReduceMax", "Min"]),
        (["one", "m"], &["ReduceMax", "Constant", "Max", "Min"]),
        (["one", ""], &["ReduceMax", "Clip"]),
    ] {
        assert_eq!(ops(&graph(&model(bounds))), expected);
    }
}
