//! Branches and loops.

use super::support::*;
use ckpt_api::{Attribute, Axis, DType, Graph, Node, Op, Result, Value as Named};
use ckpt_forward::{Arithmetic, Array, Backend, Cpu, Program, Value};
use std::collections::BTreeMap;

fn node(name: &str, op: Op, inputs: &[&str], outputs: &[&str]) -> Node {
    let mut node = Node::new(name, op);
    node.inputs = inputs.iter().map(|name| (*name).to_owned()).collect();
    node.outputs = outputs.iter().map(|name| (*name).to_owned()).collect();
    node
}

fn named(names: &[&str]) -> Vec<Named> {
    names.iter().map(|name| Named::new(*name, [])).collect()
}

fn within(inputs: &[&str], outputs: &[&str], nodes: Vec<Node>) -> Attribute {
    let graph = Graph { name: String::new(), inputs: named(inputs), outputs: named(outputs), nodes };
    Attribute::Graph(Box::new(graph))
}

fn number(name: &str, value: i64) -> Node {
    node(name, Op::Constant, &[], &[name]).attribute("value_int", Attribute::Int(value))
}

/// A graph of `x` and the integer `n`, whose outputs are those of its last node.
fn graph(x: &[usize], nodes: Vec<Node>) -> Graph {
    let outputs = nodes.last().unwrap().outputs.clone();
    Graph {
        name: String::new(),
        inputs: vec![
            Named::new("x", x.iter().map(|len| Some(*len as u64)).collect::<Vec<_>>()).of_type(DType::F64),
            Named::new("n", []).of_type(DType::I32),
        ],
        outputs: outputs.iter().map(|name| Named::new(name.as_str(), [])).collect(),
        nodes,
    }
}

fn values(x: &Value, n: i32) -> BTreeMap<String, Value> {
    BTreeMap::from([("x".to_owned(), x.clone()), ("n".to_owned(), integer(&[], &[n]))])
}

/// Runs the last node's graph, and the node alone as verification does; both make the same.
fn run_graph(nodes: Vec<Node>, tensors: &Tensors, x: &Value, n: i32) -> Result<Vec<Value>> {
    let mut graph = graph(&x.shape, nodes);
    let names: Vec<String> = graph.outputs.iter().map(|output| output.name.clone()).collect();
    graph.check()?;
    let given = values(x, n);
    let shapes = given.iter().map(|(name, value)| (name.clone(), value.shape.clone())).collect();
    graph.outputs.clear();
    graph.outputs = Vec::new();
    let program = Program::new(&graph, tensors, &shapes)?;
    let mut seen = Seen::default();
    program.run(&mut Cpu::new(Arithmetic::F64), &given, &mut seen)?;
    let last = graph.nodes.len() - 1;
    let taken: Vec<Value> = program
        .node(last)
        .unwrap()
        .inputs
        .iter()
        .map(|input| seen.0.get(input.name).or(given.get(input.name)).unwrap().clone())
        .collect();
    let alone = program.run_node(last, &mut Cpu::new(Arithmetic::F64), &taken)?;
    let made: Vec<Value> = names.iter().map(|name| seen.0[name].clone()).collect();
    assert_eq!(alone, made);
    // In binary32, the results are within the bound.
    let rounded = program.run_node(last, &mut Cpu::new(Arithmetic::F32), &taken)?;
    let magnitudes = program.magnitudes(last, &taken)?;
    for ((found, exact), magnitude) in rounded.iter().zip(&made).zip(&magnitudes) {
        if let Some(magnitude) = magnitude {
            for ((found, exact), sum) in
                found.array.to_f64().iter().zip(exact.array.to_f64()).zip(&magnitude.sums)
            {
                let bound =
                    (2.0 * (magnitude.summands as f64).sqrt() * sum + 2.0 * exact.abs()) / f64::from(1 << 24);
                assert!((found - exact).abs() <= bound, "{found} instead of {exact}, {bound}");
            }
        }
    }
    Ok(made)
}

#[derive(Default)]
struct Seen(BTreeMap<String, Value>);

impl ckpt_forward::Observer for Seen {
    fn observe(&mut self, _: usize, name: &str, value: Value) -> Result<()> {
        self.0.insert(name.to_owned(), value);
        Ok(())
    }
}

fn choice() -> Node {
    let product = node("product", Op::Gemm, &["x"], &["p"]).parameter("weight", "w");
    node("choice", Op::If, &["n"], &["y"])
        .attribute("then_branch", within(&[], &["p"], vec![product]))
        .attribute("else_branch", within(&[], &["q"], vec![node("other", Op::Relu, &["x"], &["q"])]))
}

fn weight() -> Tensors {
    Tensors::default().with("w", &[Axis::In, Axis::Out], &real(&[2, 2], &[1.0, 2.0, 3.0, 4.0]))
}

#[test]
fn the_branch_of_the_condition_runs_with_values_and_tensors_of_its_own_and_from_around_it() {
    let x = real(&[1, 2], &[1.0, -1.0]);
    let made = |n| run_graph(vec![choice()], &weight(), &x, n).unwrap();
    assert_eq!(made(1), [real(&[1, 2], &[-2.0, -2.0])]);
    assert_eq!(made(-3), made(1));
    assert_eq!(made(0), [real(&[1, 2], &[1.0, 0.0])]);
}

#[test]
fn branches_of_different_shapes_are_refused() {
    let mut node = choice();
    let other = Node {
        attributes: [("axes".to_owned(), Attribute::Ints(vec![0]))].into(),
        ..self::node("s", Op::Squeeze, &["x"], &["q"])
    };
    node = node.attribute("else_branch", within(&[], &["q"], vec![other]));
    let error = run_graph(vec![node], &weight(), &real(&[1, 2], &[0.0; 2]), 1).unwrap_err().to_string();
    assert!(
        error.contains("different shapes") && error.contains("[1, 2]") && error.contains("[2]"),
        "{error}"
    );
    let lacks = self::node("choice", Op::If, &["n"], &["y"]);
    assert!(
        run_graph(vec![lacks], &weight(), &real(&[1, 2], &[0.0; 2]), 1)
            .unwrap_err()
            .to_string()
            .contains("then_branch")
    );
    let by_reals = Node { inputs: vec!["x".into()], ..choice() };
    assert!(run_graph(vec![by_reals], &weight(), &real(&[1, 2], &[0.0; 2]), 1).is_err());
}

/// `x ← x·w + i` while `i < 5` and as often as asked for, and each `x` before that.
fn repeated() -> Node {
    let body = vec![
        node("product", Op::Gemm, &["before"], &["p"]).parameter("weight", "w"),
        node("real", Op::Cast, &["i"], &["r"]).attribute("to", Attribute::Text("float".into())),
        node("sum", Op::Add, &["p", "r"], &["after"]),
        number("five", 5),
        node("less", Op::Less, &["i", "five"], &["again"]),
    ];
    node("loop", Op::Loop, &["n", "", "x"], &["y"])
        .attribute("body", within(&["i", "c", "before"], &["again", "after"], body))
}

fn iterated(x: [f64; 2], count: usize) -> [f64; 2] {
    (0..count).fold(x, |[a, b], i| [a + 3.0 * b + i as f64, 2.0 * a + 4.0 * b + i as f64])
}

#[test]
fn a_loop_carries_values_while_its_condition_holds_and_as_often_as_asked_for() {
    for (n, count) in [(0, 0), (-2, 0), (1, 1), (4, 4), (6, 6), (100, 6)] {
        let made = run_graph(vec![repeated()], &weight(), &real(&[1, 2], &[1.0, -2.0]), n).unwrap();
        assert_eq!(made, [real(&[1, 2], &iterated([1.0, -2.0], count))], "{n}");
    }
}

#[test]
fn what_the_iterations_make_is_stacked() {
    let body = vec![
        node("real", Op::Cast, &["i"], &["r"]).attribute("to", Attribute::Text("float".into())),
        node("sum", Op::Add, &["before", "r"], &["after"]),
        node("twice", Op::Add, &["after", "after"], &["part"]),
        node("same", Op::Identity, &["c"], &["again"]),
    ];
    let body = within(&["i", "c", "before"], &["again", "after", "part"], body);
    let node = node("loop", Op::Loop, &["", "", "x"], &["y", "all"]).attribute("body", body);
    let x = real(&[2], &[1.0, 2.0]);
    let error = run_graph(vec![node.clone()], &Tensors::default(), &x, 0).unwrap_err().to_string();
    assert!(error.contains("trip_count"), "{error}");
    let node = node.attribute("trip_count", Attribute::Int(3));
    let made = run_graph(vec![node.clone()], &Tensors::default(), &x, 0).unwrap();
    assert_eq!(made, [real(&[2], &[4.0, 5.0]), real(&[3, 2], &[2.0, 4.0, 4.0, 6.0, 8.0, 10.0])]);
    let none =
        run_graph(vec![node.attribute("trip_count", Attribute::Int(0))], &Tensors::default(), &x, 0).unwrap();
    assert_eq!(none, [x, real(&[0, 2], &[])]);
}

#[test]
fn a_loop_without_an_end_is_an_error_and_so_is_one_that_stacks_fewer_values() {
    let body = |again: Node| within(&["i", "c", "before"], &["again", "before"], vec![again]);
    let endless = node("loop", Op::Loop, &["", "", "x"], &["y"])
        .attribute("body", body(node("same", Op::Identity, &["c"], &["again"])));
    let x = real(&[1], &[1.0]);
    let error = run_graph(vec![endless], &Tensors::default(), &x, 0).unwrap_err().to_string();
    assert!(error.contains("too many nodes") && error.contains("loop"), "{error}");
    let long =
        (0..2000).map(|i| node(&format!("n{i}"), Op::Identity, &["c"], &[&format!("again{i}")])).collect();
    let body = within(&["i", "c", "before"], &["again0", "before"], long);
    let endless = node("loop", Op::Loop, &["", "", "x"], &["y"]).attribute("body", body);
    run_graph(vec![endless], &Tensors::default(), &x, 0).unwrap_err();
    let body = within(
        &["i", "c", "before"],
        &["again", "before", "part"],
        vec![node("stop", Op::Not, &["c"], &["again"]), node("part", Op::Identity, &["before"], &["part"])],
    );
    let short = node("loop", Op::Loop, &["", "", "x"], &["y", "all"])
        .attribute("body", body)
        .attribute("trip_count", Attribute::Int(3));
    let error = run_graph(vec![short.clone()], &Tensors::default(), &x, 0).unwrap_err().to_string();
    assert!(error.contains("ends before") && error.contains("1 iteration"), "{error}");
    for trips in [-1, 1 << 40] {
        let node = short.clone().attribute("trip_count", Attribute::Int(trips));
        assert!(run_graph(vec![node], &Tensors::default(), &x, 0).is_err());
    }
}

#[test]
fn a_loop_that_changes_a_shape_is_refused_with_both() {
    let body = vec![
        node("grow", Op::Concat, &["before", "before"], &["after"]),
        node("same", Op::Identity, &["c"], &["again"]),
    ];
    let node = node("loop", Op::Loop, &["n", "", "x"], &["y"])
        .attribute("body", within(&["i", "c", "before"], &["again", "after"], body));
    let error =
        run_graph(vec![node], &Tensors::default(), &real(&[2], &[0.0; 2]), 1).unwrap_err().to_string();
    assert!(error.contains("changes the shape") && error.contains("[4]") && error.contains("[2]"), "{error}");
}

#[test]
fn a_branch_within_a_loop_takes_values_from_all_around_it() {
    let inner = node("inner", Op::If, &["c"], &["z"])
        .attribute("then_branch", within(&[], &["t"], vec![node("t", Op::Add, &["before", "x"], &["t"])]))
        .attribute("else_branch", within(&[], &["e"], vec![node("e", Op::Neg, &["before"], &["e"])]));
    let body = vec![inner, node("same", Op::Identity, &["c"], &["again"])];
    let node = node("loop", Op::Loop, &["n", "", "x"], &["y"])
        .attribute("body", within(&["i", "c", "before"], &["again", "z"], body));
    let made = run_graph(vec![node], &Tensors::default(), &real(&[1], &[1.5]), 3).unwrap();
    assert_eq!(made, [real(&[1], &[6.0])]);
}

#[test]
fn a_run_of_branches_and_loops_leaves_nothing_on_the_device() {
    let mut cpu = Counting(Cpu::new(Arithmetic::F64), 0);
    let graph = Graph {
        outputs: Vec::new(),
        ..graph(&[1, 2], vec![choice(), Node { outputs: vec!["z".into()], ..repeated() }])
    };
    let given = values(&real(&[1, 2], &[1.0, 2.0]), 4);
    let shapes = given.iter().map(|(name, value)| (name.clone(), value.shape.clone())).collect();
    let tensors = weight();
    Program::new(&graph, &tensors, &shapes).unwrap().run(&mut cpu, &given, &mut ()).unwrap();
    assert_eq!(cpu.1, 0);
}

/// Counts the buffers in use.
struct Counting(Cpu, i64);

impl Backend for Counting {
    fn info(&self) -> &ckpt_forward::DeviceInfo {
        self.0.info()
    }

    fn arithmetic(&self) -> Arithmetic {
        self.0.arithmetic()
    }

    fn upload(&mut self, values: &Array) -> Result<ckpt_forward::BufferId> {
        self.1 += 1;
        self.0.upload(values)
    }

    fn zeros(&mut self, element: ckpt_forward::Element, len: usize) -> Result<ckpt_forward::BufferId> {
        self.1 += 1;
        self.0.zeros(element, len)
    }

    fn run(
        &mut self,
        kernel: &ckpt_forward::Kernel,
        operands: &[ckpt_forward::BufferId],
        output: ckpt_forward::BufferId,
    ) -> Result<()> {
        self.0.run(kernel, operands, output)
    }

    fn download(&mut self, buffer: ckpt_forward::BufferId) -> Result<Array> {
        self.0.download(buffer)
    }

    fn free(&mut self, buffer: ckpt_forward::BufferId) {
        self.1 -= 1;
        self.0.free(buffer);
    }
}
