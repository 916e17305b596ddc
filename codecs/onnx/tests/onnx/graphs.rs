//! How graphs are read: what becomes of constant inputs, old operator sets, and operators without a counterpart.

use crate::build::{Model, external, floats, int, int_attribute, ints_attribute, tensor, text};
use ckpt_api::{Attribute, Axis, Codec, Contents, Graph, Input, Kind, Limits, Node, Op, Options};
use ckpt_onnx::Onnx;
use std::time::{Duration, Instant};

fn read(model: &Model) -> Contents {
    let contents =
        Onnx.read(&Input::memory("m.onnx", model.files()), &Options::default(), &Limits::default()).unwrap();
    contents.check(&Limits::default()).unwrap();
    contents
}

fn graph(model: &Model) -> Graph {
    let contents = read(model);
    contents.checkpoint.graph.unwrap_or_else(|| panic!("{:?}", contents.missing_graph))
}

fn ops(graph: &Graph) -> Vec<&str> {
    graph.nodes.iter().map(|node| node.op.name()).collect()
}

fn last(graph: &Graph) -> &Node {
    graph.nodes.last().unwrap()
}

/// A tensor of 64-bit integers.
fn list(name: &str, values: &[i64]) -> Vec<u8> {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    [crate::build::head(name, 7, &[values.len() as i64]), crate::build::field(9, &bytes)].concat()
}

fn of(x: &[i64]) -> Model {
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
    assert!(reason.contains("NonMaxSuppression") && reason.contains("node 'y'"), "{reason}");
}

#[test]
fn a_shape_that_is_computed_from_numbers_of_the_input_is_refused_by_name() {
    let contents = read(
        &of(&[-1, 3])
            .node("Cast", &["x"], &["t"], &[int_attribute("to", 7)])
            .node("Reshape", &["x", "t"], &["y"], &[])
            .output("y", &[-1, 3]),
    );
    let reason = contents.missing_graph.unwrap().reason;
    assert!(reason.contains("Reshape") && reason.contains("computed from the model's input"), "{reason}");
}

#[test]
fn a_chain_of_100_000_nodes_takes_time_linear_in_its_length() {
    let chain = |count: usize| {
        let mut model = of(&[-1, 3]);
        let names: Vec<String> =
            (0..=count).map(|k| if k == 0 { "x".to_owned() } else { format!("v{k}") }).collect();
        for pair in names.windows(2) {
            model = model.node("Relu", &[&pair[0]], &[&pair[1]], &[]);
        }
        model.output(&names[count], &[-1, 3])
    };
    let time = |model: &Model| {
        let started = Instant::now();
        assert!(graph(model).nodes.iter().all(|node| node.op == Op::Relu));
        started.elapsed()
    };
    let (short, long) = (chain(10_000), chain(100_000));
    let (short, long) = (time(&short), time(&long));
    assert!(long < short * 40 + Duration::from_secs(1), "{short:?}, {long:?}");
}

#[test]
#[cfg(unix)]
fn external_data_behind_a_link_out_of_the_directory_is_refused() {
    let directory = std::env::temp_dir().join(format!("ckpt-onnx-{}", std::process::id()));
    let inside = directory.join("inside");
    std::fs::create_dir_all(&inside).unwrap();
    std::fs::write(directory.join("w.bin"), floats(&[1.0, 2.0])).unwrap();
    std::fs::write(inside.join("own.bin"), floats(&[1.0, 2.0])).unwrap();
    std::os::unix::fs::symlink(directory.join("w.bin"), inside.join("out.bin")).unwrap();
    std::os::unix::fs::symlink("own.bin", inside.join("in.bin")).unwrap();
    let read = |location: &str| {
        let model = Model::new().tensor(external("w", &[2], location, 0, 8));
        std::fs::write(inside.join("m.onnx"), model.bytes()).unwrap();
        Onnx.read(&Input::open(inside.join("m.onnx")).unwrap(), &Options::default(), &Limits::default())
    };
    let found = [read("in.bin").map(drop), read("out.bin").map(drop)];
    std::fs::remove_dir_all(&directory).unwrap();
    assert!(found[0].is_ok(), "{found:?}");
    let error = found[1].as_ref().unwrap_err();
    assert!(error.kind() == Kind::Corrupt && error.to_string().contains("symbolic link"), "{error}");
}

#[test]
fn a_model_with_functions_of_its_own_has_no_graph() {
    let mut files = of(&[-1, 3]).node("Relu", &["x"], &["y"], &[]).output("y", &[-1, 3]).files();
    let function = crate::build::field(25, &text(1, "f"));
    files.get_mut("m.onnx").unwrap().extend([function, int(5, 3)].concat());
    let contents =
        Onnx.read(&Input::memory("m.onnx", files), &Options::default(), &Limits::default()).unwrap();
    assert!(contents.missing_graph.unwrap().reason.contains("functions"));
}
