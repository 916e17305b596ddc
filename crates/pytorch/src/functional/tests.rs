//! Programs of graphs, as text.

use super::*;
use ckpt_api::{Attribute, Axis, Op, Shape, Value};

fn node(name: &str, op: Op, inputs: &[&str]) -> Node {
    let mut node = Node::new(name, op);
    node.inputs = inputs.iter().map(|name| (*name).to_owned()).collect();
    node.outputs = vec![name.to_owned()];
    node
}

fn graph(nodes: Vec<Node>) -> Graph {
    let output = nodes.last().unwrap().outputs[0].clone();
    Graph {
        name: "net".to_owned(),
        inputs: vec![Value::new("x", [None, Some(4)])],
        outputs: vec![Value::new(output, [None, None])],
        nodes,
    }
}

fn tensor(name: &str, shape: &[u64], axes: &[Axis]) -> Tensor {
    Tensor::new(name, DType::F32, Shape::new(shape.to_vec()).unwrap()).with_axes(axes)
}

fn code(graph: &Graph, tensors: &[Tensor]) -> String {
    GraphToTorch.translate(graph, tensors).unwrap().code.unwrap()
}

#[test]
fn tensors_that_are_called_as_a_modules_are_that_module_and_others_are_parameters() {
    let layer = |name: &str, weight: &str| node(name, Op::Gemm, &["x"]).parameter("weight", weight);
    let tensors = [
        tensor("fc.weight", &[3, 4], &[Axis::Out, Axis::In]),
        tensor("other", &[4, 3], &[Axis::In, Axis::Out]),
    ];
    let text = code(
        &graph(vec![layer("a", "fc.weight"), layer("b", "other"), node("y", Op::Add, &["a", "b"])]),
        &tensors,
    );
    for line in [
        "class Net(nn.Module):",
        "self.put(\"fc\", nn.Linear(4, 3, bias=False))",
        "self.put(\"other\", torch.zeros([4, 3], dtype=torch.float32))",
        "a = self.get_submodule(\"fc\")(x)",
        "b = F.linear(x, w[\"other\"].permute(1, 0), None)",
        "y = a + b",
        "return y",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
}

#[test]
fn a_layer_whose_bias_another_node_adds_is_a_function() {
    let layer = node("a", Op::Gemm, &["x"]).parameter("weight", "fc.weight");
    let tensors =
        [tensor("fc.weight", &[3, 4], &[Axis::Out, Axis::In]), tensor("fc.bias", &[3], &[Axis::Out])];
    let added = node("b", Op::Constant, &[]).parameter("value", "fc.bias");
    let text = code(&graph(vec![layer, added, node("y", Op::Add, &["a", "b"])]), &tensors);
    assert!(
        text.contains("a = F.linear(x, w[\"fc.weight\"], None)") && !text.contains("nn.Linear"),
        "{text}"
    );
}

#[test]
fn a_shape_that_the_graph_computes_is_read_when_the_program_runs() {
    let text =
        code(&graph(vec![node("lens", Op::Shape, &["x"]), node("y", Op::Reshape, &["x", "lens"])]), &[]);
    assert!(
        text.contains("lens_ = torch.tensor(x.shape[0:])")
            || text.contains("lens = torch.tensor(x.shape[0:])"),
        "{text}"
    );
    assert!(text.contains(".tolist(), True)"), "{text}");
}

#[test]
fn a_program_has_the_functions_that_it_calls_and_those_that_these_call() {
    let scatter =
        node("y", Op::ScatterND, &["x", "x", "x"]).attribute("reduction", Attribute::Text("add".to_owned()));
    let text = code(&graph(vec![scatter]), &[]);
    assert!(text.contains("def put_nd(") && text.contains("def combined("), "{text}");
    assert!(!text.contains("def resized("), "{text}");
}

#[test]
fn a_branch_is_a_block_of_lines() {
    let branch = |op| {
        let made = node("made", op, &["x"]);
        let outputs = vec![Value::new("made", [])];
        Attribute::Graph(Box::new(Graph { outputs, nodes: vec![made], ..Graph::default() }))
    };
    let choice = node("y", Op::If, &["x"])
        .attribute("then_branch", branch(Op::Neg))
        .attribute("else_branch", branch(Op::Abs));
    let text = code(&graph(vec![choice]), &[]);
    assert!(text.contains("        if x.item():\n            made = -x\n            y, = made,\n"), "{text}");
    assert!(
        text.contains("        else:\n            made_2 = torch.abs(x)\n            y, = made_2,\n"),
        "{text}"
    );
}

#[test]
fn an_operator_without_a_form_is_named_with_its_layer() {
    let error = GraphToTorch
        .translate(&graph(vec![node("y", Op::custom("a.B"), &["x"])]), &[])
        .unwrap()
        .code
        .unwrap_err();
    assert!(error.message().contains("'y' has no form in the generated code"), "{error}");
    assert_eq!(error.context().found, Some("operator a.B"));
}

#[test]
fn a_text_of_the_graph_is_no_code() {
    let hostile = "a\"); import os #";
    let nodes = vec![node("y", Op::Constant, &[]).parameter("value", hostile)];
    let text = code(&graph(nodes), &[tensor(hostile, &[1], &[Axis::Out])]);
    assert!(text.contains(r#"w["a\"); import os #"]"#), "{text}");
    let equation =
        node("y", Op::Einsum, &["x"]).attribute("equation", Attribute::Text("i\")#->i".to_owned()));
    assert!(GraphToTorch.translate(&graph(vec![equation]), &[]).unwrap().code.is_err());
}
