//! Branches and loops: how their graphs, which are within nodes, are read, and what hostile ones become.

use crate::build::{Model, field, head, int, int_attribute, node, shapeless, tensor, text};
use ckpt_api::{Attribute, Codec, Contents, Graph, Input, Kind, Limit, Limits, Node, Options, Text};
use ckpt_onnx::Onnx;

fn try_read(model: &Model, limits: &Limits) -> ckpt_api::Result<Contents> {
    Onnx.read(&Input::memory("m.onnx", model.files()), &Options::default(), limits)
}

fn read(model: &Model) -> Contents {
    let contents = try_read(model, &Limits::default()).unwrap();
    contents.check(&Limits::default()).unwrap();
    contents
}

fn graph(model: &Model) -> Graph {
    let contents = read(model);
    contents.checkpoint.graph.unwrap_or_else(|| panic!("{:?}", contents.missing_graph))
}

fn reason(model: &Model) -> Text {
    read(model).missing_graph.expect("a reason").reason
}

/// An attribute that is a graph.
fn within(name: &str, nodes: &[Vec<u8>], tensors: &[Vec<u8>], inputs: &[&str], outputs: &[&str]) -> Vec<u8> {
    let list = |number: u64, parts: &[Vec<u8>]| {
        parts.iter().flat_map(|part| field(number, part)).collect::<Vec<u8>>()
    };
    let values = |names: &[&str]| names.iter().map(|name| shapeless(name)).collect::<Vec<_>>();
    let graph = [
        list(1, nodes),
        text(2, "b"),
        list(5, tensors),
        list(11, &values(inputs)),
        list(12, &values(outputs)),
    ]
    .concat();
    [text(1, name), field(6, &graph), int(20, 5)].concat()
}

fn of(name: &str, nodes: &[Vec<u8>]) -> Vec<u8> {
    within(name, nodes, &[], &[], &["t"])
}

/// A model whose condition is whether the sum of `x` exceeds 0.
fn choice(yes: Vec<u8>, no: Vec<u8>) -> Model {
    Model::new()
        .input("x", &[-1, 2])
        .node("ReduceSum", &["x"], &["s"], &[int_attribute("keepdims", 0)])
        .node("Greater", &["s", "zero"], &["c"], &[])
        .node("If", &["c"], &["y"], &[yes, no])
        .tensor([head("zero", 1, &[]), field(9, &[0; 4])].concat())
        .output("y", &[-1, 2])
}

fn last(graph: &Graph) -> &Node {
    graph.nodes.last().unwrap()
}

fn branch<'g>(graph: &'g Graph, name: &str) -> &'g Graph {
    last(graph).graph(name).unwrap().unwrap()
}

fn ops(graph: &Graph) -> Vec<&str> {
    graph.nodes.iter().map(|node| node.op.name()).collect()
}

#[test]
fn branches_have_tensors_of_their_own_under_names_that_no_other_has() {
    let product = || node("MatMul", &["x", "w"], &["t"], &[]);
    let weight = || tensor("w", &[2, 2], &[1.0, 2.0, 3.0, 4.0]);
    let yes = within("then_branch", &[product()], &[weight()], &[], &["t"]);
    let no = within("else_branch", &[product()], &[weight()], &[], &["t"]);
    let contents = read(&choice(yes, no));
    let names: Vec<&str> = contents.checkpoint.tensors.iter().map(|tensor| tensor.name.as_str()).collect();
    assert_eq!(names, ["zero", "w", "w#2"]);
    let graph = contents.checkpoint.graph.unwrap();
    assert_eq!(ops(branch(&graph, "then_branch")), ["Gemm"]);
    assert_eq!(branch(&graph, "then_branch").nodes[0].parameters["weight"], "w");
    assert_eq!(branch(&graph, "else_branch").nodes[0].parameters["weight"], "w#2");
}

#[test]
fn a_branch_whose_condition_is_known_is_a_part_of_the_graph() {
    let yes = of("then_branch", &[node("Relu", &["x"], &["t"], &[])]);
    let no = of("else_branch", &[node("Scan", &["x"], &["t"], &[])]);
    let model = Model::new()
        .input("x", &[-1, 2])
        .node("If", &["c"], &["y"], &[yes, no])
        .tensor([head("c", 9, &[]), field(9, &[1])].concat())
        .output("y", &[-1, 2]);
    assert_eq!(ops(&graph(&model)), ["Relu", "Identity"]);
}

#[test]
fn a_loop_of_known_length_states_it_and_one_without_an_end_does_not() {
    let body = || {
        let nodes = [node("Identity", &["c"], &["d"], &[]), node("Tanh", &["v"], &["w"], &[])];
        within("body", &nodes, &[], &["i", "c", "v"], &["d", "w"])
    };
    let model = |count: i64| {
        Model::new()
            .input("x", &[-1, 2])
            .node("Loop", &["n", "", "x"], &["y"], &[body()])
            .tensor([head("n", 7, &[]), field(9, &count.to_le_bytes())].concat())
            .output("y", &[-1, 2])
    };
    let graph_of = |count| graph(&model(count));
    assert_eq!(last(&graph_of(7)).attributes["trip_count"], Attribute::Int(7));
    assert_eq!(last(&graph_of(-7)).attributes["trip_count"], Attribute::Int(0));
    assert!(!last(&graph_of(i64::MAX)).attributes.contains_key("trip_count"));
    assert_eq!(last(&graph_of(7)).inputs, ["", "", "x"]);
    assert_eq!(ops(branch(&graph_of(7), "body")), ["Identity", "Tanh"]);
}

#[test]
fn what_a_branch_takes_and_makes_is_checked() {
    let relu = |input: &str, output: &str| [node("Relu", &[input], &[output], &[])];
    let fine = || of("else_branch", &relu("x", "t"));
    let of_yes = |nodes: &[Vec<u8>]| reason(&choice(of("then_branch", nodes), fine()));
    assert!(of_yes(&relu("z", "t")).contains("no earlier node makes"));
    assert!(of_yes(&relu("y", "t")).contains("no earlier node makes"));
    assert!(of_yes(&relu("x", "u")).contains("which no node makes"));
    assert!(of_yes(&relu("x", "x")).contains("already exists"));
    assert!(of_yes(&[node("Scan", &["x"], &["t"], &[])]).contains("Scan"));
    // What one branch makes, no other and nothing behind them can take.
    let model = choice(of("then_branch", &relu("x", "t")), of("else_branch", &relu("t", "u")));
    assert!(reason(&model).contains("no earlier node makes"));
    let model = choice(of("then_branch", &relu("x", "t")), fine());
    assert_eq!(graph(&model).levels().count(), 3);
    let lacks = Model { nodes: vec![node("If", &["zero"], &["y"], &[fine()])], ..model };
    assert!(reason(&lacks).contains("lacks its graph 'then_branch'"));
}

/// A constant of 8 bits in one branch says nothing of a value of the same name in the other.
#[test]
fn the_type_of_a_name_ends_with_its_branch() {
    let number = |data_type: i64, bytes: &[u8]| {
        let value =
            [text(1, "value"), field(5, &[head("", data_type, &[]), field(9, bytes)].concat()), int(20, 4)];
        node("Constant", &[], &["k"], &[value.concat()])
    };
    let yes = of("then_branch", &[number(3, &[2]), node("Relu", &["x"], &["t"], &[])]);
    let sum = [
        number(7, &2i64.to_le_bytes()),
        node("ArgMax", &["x"], &["a"], &[int_attribute("keepdims", 0)]),
        node("Add", &["a", "k"], &["sum"], &[]),
        node("Cast", &["sum"], &["t"], &[int_attribute("to", 1)]),
    ];
    let graph = graph(&choice(yes, of("else_branch", &sum)));
    assert_eq!(ops(branch(&graph, "else_branch")), ["ArgMax", "Constant", "Add", "Cast"]);
}

#[test]
fn graphs_that_nest_too_deep_or_have_too_many_nodes_are_refused() {
    let (mut inner, mut made) = (node("Relu", &["x"], &["t0"], &[]), "t0".to_owned());
    for level in 1..80 {
        let output = format!("t{level}");
        let other = of("else_branch", &[node("Relu", &["x"], &["t"], &[])]);
        let nested = [within("then_branch", &[inner], &[], &[], &[&made]), other];
        inner = node("If", &["c"], &[&output], &nested);
        made.clone_from(&output);
        let model = choice(
            within("then_branch", &[inner.clone()], &[], &[], &[&output]),
            of("else_branch", &[node("Relu", &["x"], &["t"], &[])]),
        );
        match try_read(&model, &Limits::default()) {
            Ok(contents) => {
                assert_eq!(contents.checkpoint.graph.is_some(), level < 15, "{level}");
                let reason = contents.missing_graph.map(|missing| missing.reason).unwrap_or_default();
                assert_eq!(
                    reason.contains("below the 16 levels of graphs that are read"),
                    level >= 15,
                    "{reason:?}"
                );
            }
            Err(error) => assert!(level > 60 && error.to_string().contains("nest too deep"), "{error}"),
        }
    }
    let wide: Vec<Vec<u8>> = (0..50).map(|at| node("Relu", &["x"], &[&format!("t{at}")], &[])).collect();
    let model = choice(
        within("then_branch", &wide, &[], &[], &["t1"]),
        within("else_branch", &wide, &[], &[], &["t1"]),
    );
    let error = try_read(&model, &Limits::default().with(Limit::GraphNodes, 60)).unwrap_err();
    assert_eq!(error.kind(), Kind::Limit);
}
