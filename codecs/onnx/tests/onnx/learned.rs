//! Trees, linear models and what goes before them, `ai.onnx.ml`: their floats are tensors, and their nodes compute with these.

use crate::build::{Model, field, int, int_attribute, ints_attribute, node, text, text_attribute};
use crate::graphs::{graph, of, ops, read};
use ckpt_api::{Graph, Op};

/// A list of floats, with a field for each as programs write it, or in one field.
fn floats(name: &str, values: &[f32], is_packed: bool) -> Vec<u8> {
    let list = match is_packed {
        true => field(7, &crate::build::floats(values)),
        false => values.iter().flat_map(|value| [&[0x3d], &value.to_le_bytes()[..]].concat()).collect(),
    };
    [text(1, name), list, int(20, 6)].concat()
}

fn texts(name: &str, values: &[&str]) -> Vec<u8> {
    [text(1, name), values.iter().flat_map(|value| text(9, value)).collect(), int(20, 8)].concat()
}

/// A model of one node of `ai.onnx.ml` that takes rows of two numbers.
fn model(op: &str, outputs: &[&str], attributes: &[Vec<u8>]) -> Model {
    let mut model = of(&[-1, 2]);
    model.nodes.push([node(op, &["x"], outputs, attributes), text(7, "ai.onnx.ml")].concat());
    outputs.iter().fold(model, |model, output| model.output(output, &[-1, 1]))
}

/// Two trees: one of a root and two leaves, and one that is a leaf.
fn trees(kind: &str, modes: &[&str], children: [i64; 2]) -> Vec<Vec<u8>> {
    vec![
        ints_attribute("nodes_treeids", &[0, 0, 0, 1]),
        ints_attribute("nodes_nodeids", &[0, 1, 2, 0]),
        ints_attribute("nodes_featureids", &[1, 0, 0, 0]),
        floats("nodes_values", &[0.5, 0.0, 0.0, 0.0], false),
        ints_attribute("nodes_truenodeids", &[children[0], 0, 0, 0]),
        ints_attribute("nodes_falsenodeids", &[children[1], 0, 0, 0]),
        texts("nodes_modes", modes),
        ints_attribute(&format!("{kind}_treeids"), &[0, 0, 1]),
        ints_attribute(&format!("{kind}_nodeids"), &[1, 2, 0]),
        ints_attribute(&format!("{kind}_ids"), &[0, 0, 0]),
        floats(&format!("{kind}_weights"), &[1.0, 2.0, 4.0], false),
    ]
}

const MODES: [&str; 4] = ["BRANCH_LEQ", "LEAF", "LEAF", "LEAF"];

fn count(graph: &Graph, op: &Op) -> usize {
    graph.nodes.iter().filter(|node| node.op == *op).count()
}

fn refusal(model: &Model) -> String {
    read(model).missing_graph.expect("a reason").reason.as_str().to_owned()
}

#[test]
fn floats_of_attributes_are_tensors_in_either_encoding() {
    for is_packed in [false, true] {
        let attributes = [floats("offset", &[1.0, 2.0], is_packed), floats("scale", &[3.0], is_packed)];
        let contents = read(&model("Scaler", &["y"], &attributes));
        let tensors = &contents.checkpoint.tensors;
        let named: Vec<(&str, u64)> =
            tensors.iter().map(|tensor| (tensor.name.as_str(), tensor.shape.elements())).collect();
        assert_eq!(named, [("y.offset", 2), ("y.scale", 1)]);
        let graph = contents.checkpoint.graph.unwrap();
        assert_eq!(graph.tensors().collect::<Vec<_>>(), ["y.offset", "y.scale"]);
        assert_eq!(ops(&graph), ["Constant", "Sub", "Constant", "Mul"]);
    }
}

#[test]
fn floats_of_other_operators_stay_attributes() {
    let mut other = of(&[-1, 2]);
    let attributes = [floats("scale", &[3.0, 4.0], false)];
    other.nodes.push([node("Scaler", &["x"], &["y"], &attributes), text(7, "mine")].concat());
    assert!(read(&other.output("y", &[-1, 2])).checkpoint.tensors.is_empty());
}

#[test]
fn a_step_goes_from_each_node_to_a_child() {
    let graph = graph(&model("TreeEnsembleRegressor", &["y"], &trees("target", &MODES, [1, 2])));
    // One step, whose feature is known; then the weights of the leaves.
    assert_eq!((count(&graph, &Op::LessOrEqual), count(&graph, &Op::GatherElements)), (1, 0));
    assert_eq!(graph.tensors().collect::<Vec<_>>(), ["y.nodes_values", "y.target_weights"]);
    let places = graph.nodes.iter().filter_map(|node| node.ints("value_ints").unwrap());
    assert!(places.clone().any(|list| list == [0, 1, 2, 3]), "the weights of the leaves");
    assert!(places.clone().any(|list| list == [1, 1, 2, 3]), "a leaf is its own child");
}

#[test]
fn what_is_no_tree_is_refused_by_name() {
    let regressor =
        |modes: &[&str], children| model("TreeEnsembleRegressor", &["y"], &trees("target", modes, children));
    for (children, reason) in [
        ([1, 9], "a child that is no node"),
        ([0, 2], "nodes that no root leads to"),
        ([1, 1], "does not begin at one root"),
    ] {
        let found = refusal(&regressor(&MODES, children));
        assert!(found.contains(reason), "{found}");
    }
    let found = refusal(&regressor(&["BRANCH_LEQ", "BRANCH_LT", "LEAF", "LEAF"], [1, 2]));
    assert!(found.contains("in two ways"), "{found}");
    let found = refusal(&regressor(&["BRANCH_MEMBER", "LEAF", "LEAF", "LEAF"], [1, 2]));
    assert!(found.contains("BRANCH_MEMBER"), "{found}");
    let mut negative = trees("target", &MODES, [1, 2]);
    negative[2] = ints_attribute("nodes_featureids", &[-1, 0, 0, 0]);
    let found = refusal(&model("TreeEnsembleRegressor", &["y"], &negative));
    assert!(found.contains("a place that no row has"), "{found}");
    let found = refusal(&regressor(&["BRANCH_LEQ", "LEAF", "LEAF"], [1, 2]));
    assert!(found.contains("lists of nodes of different lengths"), "{found}");
}

#[test]
fn weights_belong_to_leaves_and_results() {
    let mut attributes = trees("target", &MODES, [1, 2]);
    attributes[8] = ints_attribute("target_nodeids", &[0, 2, 0]);
    assert!(refusal(&model("TreeEnsembleRegressor", &["y"], &attributes)).contains("a weight of no leaf"));
    attributes[8] = ints_attribute("target_nodeids", &[1, 1, 0]);
    assert!(refusal(&model("TreeEnsembleRegressor", &["y"], &attributes)).contains("two weights"));
}

#[test]
fn labels_that_are_texts_are_refused_only_if_they_are_taken() {
    let attributes =
        [trees("class", &MODES, [1, 2]), vec![texts("classlabels_strings", &["a", "b"])]].concat();
    let both = model("TreeEnsembleClassifier", &["label", "scores"], &attributes);
    assert!(refusal(&both).contains("texts as labels"));
    let scores = Model { outputs: both.outputs[1..].to_vec(), ..both };
    assert_eq!(graph(&scores).outputs[0].name, "scores");
}

#[test]
fn a_linear_model_is_a_product() {
    let attributes = [
        floats("coefficients", &[1.0, 2.0, 3.0, 4.0], false),
        floats("intercepts", &[0.5, -0.5], false),
        ints_attribute("classlabels_ints", &[7, 9]),
        text_attribute("post_transform", "SOFTMAX"),
    ];
    let graph = graph(&model("LinearClassifier", &["label", "scores"], &attributes));
    let found = ops(&graph);
    assert!(["MatMul", "Add", "Softmax", "ArgMax"].iter().all(|op| found.contains(op)), "{found:?}");
    let uneven = [floats("coefficients", &[1.0, 2.0, 3.0], false), int_attribute("targets", 2)];
    assert!(refusal(&model("LinearRegressor", &["y"], &uneven)).contains("not the same number"));
}

#[test]
fn a_function_at_the_end_that_is_not_known_is_named() {
    let coefficients = floats("coefficients", &[1.0, 2.0, 3.0, 4.0], false);
    let attributes = [coefficients, int_attribute("targets", 2), text_attribute("post_transform", "PROBIT")];
    assert!(refusal(&model("LinearRegressor", &["y"], &attributes)).contains("PROBIT"));
    assert!(refusal(&model("SVMRegressor", &["y"], &[])).contains("SVMRegressor"));
    // onnxruntime does not apply it to one result, and ONNX does.
    let one = [trees("target", &MODES, [1, 2]), vec![text_attribute("post_transform", "LOGISTIC")]].concat();
    assert!(refusal(&model("TreeEnsembleRegressor", &["y"], &one)).contains("function of one result"));
}
