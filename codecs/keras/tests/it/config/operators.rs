//! Operators that become several layers, or none.

use super::described::described;
use super::support::{random_weights, run};
use ckpt_api::{
    Attribute, Checkpoint, Codec, Contents, DType, Graph, Input, Node, Op, Options, Result, Shape, Tensor,
    TensorId, Value, Values,
};
use ckpt_keras::config::{Generation, Model};

fn ints(values: &[i64]) -> Attribute {
    Attribute::Ints(values.to_vec())
}

/// A node with one result, which has its name.
fn node(name: &str, op: Op, inputs: &[&str]) -> Node {
    let inputs = inputs.iter().map(|input| (*input).to_owned()).collect();
    Node { inputs, outputs: vec![name.to_owned()], ..Node::new(name, op) }
}

/// A graph of `x`, with these results and as many axes of each.
fn graph(dims: &[Option<u64>], nodes: Vec<Node>, results: &[&str], rank: usize) -> Graph {
    Graph {
        name: "m".to_owned(),
        inputs: vec![Value::new("x", dims)],
        outputs: results.iter().map(|name| Value::new(*name, vec![None; rank])).collect(),
        nodes,
    }
}

fn checkpoint(graph: Graph) -> Checkpoint {
    Checkpoint { graph: Some(graph), ..Checkpoint::default() }
}

/// Fails unless Keras's model of the graph computes what the graph computes.
fn assert_same(graph: Graph) {
    let checkpoint = checkpoint(graph);
    let stored = random_weights(&checkpoint);
    let expected = run(checkpoint.graph.as_ref().unwrap(), &stored);
    let (again, tensors) = described(&checkpoint, &stored, Generation::Keras3).unwrap();
    let found = run(&again, &tensors);
    assert_eq!(expected.len(), found.len());
    for (expected, found) in expected.iter().zip(&found) {
        assert_eq!(expected.shape, found.shape);
        let numbers = expected.array.to_f64();
        assert!(numbers.iter().any(|number| *number != 0.0));
        for (a, b) in numbers.iter().zip(found.array.to_f64()) {
            assert!((a - b).abs() <= 1e-12, "{a} {b}");
        }
    }
}

fn refused(graph: Graph) -> String {
    let checkpoint = checkpoint(graph);
    described(&checkpoint, &random_weights(&checkpoint), Generation::Keras3)
        .map(|_| ())
        .unwrap_err()
        .to_string()
}

#[test]
fn channels_are_moved_to_places_in_both_orders() {
    for mode in ["DCR", "CRD"] {
        let moved = node("moved", Op::DepthToSpace, &["x"])
            .attribute("blocksize", Attribute::Int(2))
            .attribute("mode", Attribute::Text(mode.to_owned()));
        assert_same(graph(&[None, Some(8), Some(3), Some(5)], vec![moved], &["moved"], 4));
    }
}

#[test]
fn a_clip_may_have_one_bound() {
    for (name, bound) in [("min", -0.25), ("max", 0.25)] {
        let cut = node("cut", Op::Clip, &["x"]).attribute(name, Attribute::Float(bound));
        assert_same(graph(&[None, Some(7)], vec![cut], &["cut"], 2));
    }
}

#[test]
fn a_division_by_a_number_is_no_product_unless_that_is_the_same() {
    for (number, class) in [(4.0, "Rescaling"), (-0.5, "Rescaling"), (3.0, "Divide")] {
        let number = node("number", Op::Constant, &[]).attribute("value_float", Attribute::Float(number));
        let nodes = vec![number, node("quotient", Op::Div, &["x", "number"])];
        let config = Model::describe(
            &checkpoint(graph(&[None, Some(3)], nodes, &["quotient"], 2)),
            Generation::Keras3,
        );
        let config = config.unwrap().config;
        assert!(config.contains(&format!("\"class_name\":\"{class}\"")), "{config}");
    }
}

#[test]
fn a_value_is_split_into_stated_and_equal_parts() {
    let split = |len: u64, split: Option<&[i64]>| {
        let mut cut = node("cut", Op::Split, &["x"]).attribute("axis", Attribute::Int(1));
        cut.outputs = vec!["a".to_owned(), "b".to_owned()];
        if let Some(lens) = split {
            cut = cut.attribute("split", ints(lens));
        }
        graph(&[None, Some(len), Some(3)], vec![cut], &["b", "a"], 3)
    };
    assert_same(split(5, Some(&[1, 4])));
    assert_same(split(6, None));
}

#[test]
fn a_value_is_reshaped_to_lengths_of_its_own() {
    let part = |name: &str, start: i64| {
        node(name, Op::Shape, &["x"])
            .attribute("start", Attribute::Int(start))
            .attribute("end", Attribute::Int(start + 1))
    };
    let lens =
        node("lens", Op::Constant, &[]).attribute("value_ints", ints(&[3, 4])).attribute("shape", ints(&[2]));
    let nodes = vec![
        part("batch", 0),
        part("steps", 1),
        lens,
        node("shape", Op::Concat, &["batch", "steps", "lens"]).attribute("axis", Attribute::Int(0)),
        node("heads", Op::Reshape, &["x", "shape"]),
        node("turned", Op::Transpose, &["heads"]).attribute("perm", ints(&[2, 0, 1, 3])),
        node("second", Op::Slice, &["turned"])
            .attribute("axes", ints(&[0]))
            .attribute("starts", ints(&[1]))
            .attribute("ends", ints(&[2])),
        node("alone", Op::Squeeze, &["second"]).attribute("axes", ints(&[0])),
    ];
    assert_same(graph(&[None, None, Some(12)], nodes, &["alone"], 3));
}

#[test]
fn a_length_of_another_batch_is_refused() {
    let nodes = vec![
        node("rows", Op::Reshape, &["x"]).attribute("shape", ints(&[-1, 2])),
        node("shape", Op::Shape, &["rows"]),
        node("again", Op::Reshape, &["x", "shape"]),
    ];
    let error = refused(graph(&[None, Some(4)], nodes, &["again"], 2));
    assert!(error.contains("one batch") && error.contains("again"), "{error}");
}

#[test]
fn a_repetition_by_a_length_of_the_input_is_refused() {
    let nodes = vec![
        node("shape", Op::Shape, &["x"]),
        node("mean", Op::ReduceMean, &["x"])
            .attribute("axes", ints(&[1]))
            .attribute("keepdims", Attribute::Int(1)),
        node("repeated", Op::Expand, &["mean", "shape"]),
        node("rest", Op::Sub, &["x", "repeated"]),
    ];
    let error = refused(graph(&[None, None, Some(3)], nodes, &["rest"], 3));
    assert!(error.contains("repeats an axis by a length"), "{error}");
}

/// The length of each row, repeated to the shape of `x`.
fn lengths() -> Vec<Node> {
    vec![
        node("length", Op::ReduceL2, &["x"])
            .attribute("axes", ints(&[-1]))
            .attribute("keepdims", Attribute::Int(1)),
        node("repeated", Op::Expand, &["length"]).attribute("shape", ints(&[-1, 6])),
    ]
}

#[test]
fn a_repetition_is_left_out_before_what_repeats_it_too() {
    let mut nodes = lengths();
    nodes.push(node("unit", Op::Div, &["x", "repeated"]));
    assert_same(graph(&[None, Some(6)], nodes, &["unit"], 2));
}

#[test]
fn a_repetition_that_is_a_result_is_refused() {
    let error = refused(graph(&[None, Some(6)], lengths(), &["repeated"], 2));
    assert!(error.contains("repeats these axes") && error.contains("repeated"), "{error}");
}

#[test]
fn a_repetition_before_a_product_of_matrices_is_refused() {
    let mut nodes = lengths();
    nodes.push(node("turned", Op::Transpose, &["x"]).attribute("perm", ints(&[1, 0])));
    nodes.push(node("product", Op::MatMul, &["repeated", "turned"]));
    let error = refused(graph(&[None, Some(6)], nodes, &["product"], 2));
    assert!(error.contains("repeats these axes"), "{error}");
}

/// Values of tensors that are all one number.
struct Same(Input, f32);

impl Values for Same {
    fn input(&self) -> &Input {
        &self.0
    }

    fn numbers(&self, _: TensorId, each: &mut dyn FnMut(&[f32])) -> Result<()> {
        each(&[self.1]);
        Ok(())
    }
}

/// The constant that a graph states after it was prepared, whose operator takes a stored tensor of these lengths.
fn stated(op: Op, input: usize, shape: &[u64], number: f32) -> Option<Vec<f64>> {
    let mut inputs = vec!["x"; 2];
    inputs[input] = "c";
    let nodes = vec![node("c", Op::Constant, &[]).parameter("value", "t"), node("made", op, &inputs)];
    let tensors = vec![Tensor::new("t", DType::F32, Shape::new(shape).unwrap())];
    let checkpoint = Checkpoint { tensors, ..checkpoint(graph(&[None, Some(3)], nodes, &["made"], 2)) };
    let mut contents = Contents::default();
    contents.checkpoint = checkpoint;
    let values = Same(Input::memory("m", [].into()), number);
    let prepared = ckpt_keras::Keras.prepare(&values, &contents, &Options::default()).unwrap()?;
    assert_eq!(prepared.checkpoint.tensors.len(), 1);
    let constant = &prepared.checkpoint.graph.as_ref().unwrap().nodes[0];
    assert!(constant.parameters.is_empty());
    match constant.attributes.get("value_float") {
        Some(Attribute::Float(number)) => Some(vec![*number]),
        _ => constant.floats("value_floats").unwrap(),
    }
}

#[test]
fn small_constants_of_operations_are_numbers_of_the_configuration() {
    assert_eq!(stated(Op::Add, 1, &[], 0.5), Some(vec![0.5]));
    assert_eq!(stated(Op::Pow, 0, &[1], 2.0), Some(vec![2.0]));
    assert_eq!(stated(Op::PRelu, 1, &[1, 1], 0.25), Some(vec![0.25]));
}

#[test]
fn other_constants_stay_tensors() {
    assert_eq!(stated(Op::Add, 1, &[1025], 0.5), None);
    assert_eq!(stated(Op::PRelu, 1, &[3], 0.25), None);
    assert_eq!(stated(Op::MatMul, 1, &[1], 0.5), None);
    assert_eq!(stated(Op::Add, 1, &[], f32::INFINITY), None);
}
