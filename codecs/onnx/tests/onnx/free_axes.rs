//! Values whose lengths follow from the model's input, as programs export them.

use crate::build::{field, head, int_attribute, ints_attribute, tensor, text, text_attribute};
use crate::graphs::{graph, last, list, of, ops, read};
use ckpt_api::Attribute;

/// The length of axis 0 of `x`, as a list of one number.
fn batch(model: crate::build::Model) -> crate::build::Model {
    model
        .node("Shape", &["x"], &["s"], &[])
        .node("Slice", &["s", "zero", "one"], &["n"], &[])
        .tensor(list("zero", &[0]))
        .tensor(list("one", &[1]))
}

#[test]
fn a_tensor_under_a_second_name_is_the_same_tensor() {
    let graph = graph(
        &of(&[-1, 2])
            .node("Identity", &["b"], &["c"], &[])
            .node("Gemm", &["x", "w", "b"], &["h"], &[])
            .node("Gemm", &["h", "v", "c"], &["y"], &[])
            .tensor(tensor("w", &[2, 2], &[0.0; 4]))
            .tensor(tensor("v", &[2, 2], &[0.0; 4]))
            .tensor(tensor("b", &[2], &[0.0; 2]))
            .output("y", &[-1, 2]),
    );
    assert_eq!(ops(&graph), ["Gemm", "Gemm"]);
    assert_eq!(last(&graph).parameters["bias"], "b");
}

#[test]
fn a_tensor_is_repeated_along_a_free_axis_by_a_choice_that_has_it() {
    let graph = graph(
        &batch(of(&[-1, 3, 8]))
            .node("Concat", &["n", "rest"], &["t"], &[int_attribute("axis", 0)])
            .node("Expand", &["token", "t"], &["e"], &[])
            .node("Concat", &["e", "x"], &["y"], &[int_attribute("axis", 1)])
            .tensor(list("rest", &[1, 8]))
            .tensor(tensor("token", &[1, 1, 8], &[0.0; 8]))
            .output("y", &[-1, 4, 8]),
    );
    let expected = ["Constant", "Expand", "Slice", "IsNaN", "Reshape", "Where", "Identity", "Concat"];
    assert_eq!(ops(&graph), expected);
    assert_eq!(graph.nodes[4].attributes["shape"], Attribute::Ints(vec![-1, 1, 1]));
}

#[test]
fn elements_up_to_the_length_of_a_free_axis_are_picked_one_by_one() {
    let graph = graph(
        &batch(of(&[-1, 8]))
            .node("Slice", &["table", "zero", "n"], &["p"], &[])
            .node("Add", &["x", "p"], &["y"], &[])
            .tensor(tensor("table", &[64, 8], &[0.0; 512]))
            .output("y", &[-1, 8]),
    );
    let names = ops(&graph);
    assert!(names.contains(&"CumSum") && names.contains(&"Gather"), "{names:?}");
    assert_eq!(last(&graph).inputs[1], "p");
}

#[test]
fn first_states_that_are_0_are_left_out() {
    let zero = field(5, &[head("", 1, &[1]), field(9, &[0; 4])].concat());
    let value = [text(1, "value"), zero, crate::build::int(20, 4)].concat();
    let graph = graph(
        &Model::lstm(batch(of(&[5, -1, 3])), "states")
            .node("Concat", &["one", "n", "two"], &["t"], &[int_attribute("axis", 0)])
            .node("ConstantOfShape", &["t"], &["states"], &[value])
            .tensor(list("two", &[2])),
    );
    assert_eq!(last(&graph).inputs, ["x"]);
}

/// Nodes are in order: the layer comes last.
struct Model;

impl Model {
    fn lstm(model: crate::build::Model, states: &'static str) -> Late {
        Late { model, states }
    }
}

struct Late {
    model: crate::build::Model,
    states: &'static str,
}

impl Late {
    fn node(self, op: &str, inputs: &[&str], outputs: &[&str], attributes: &[Vec<u8>]) -> Self {
        Late { model: self.model.node(op, inputs, outputs, attributes), ..self }
    }

    fn tensor(self, tensor: Vec<u8>) -> crate::build::Model {
        let states = self.states;
        self.model
            .tensor(tensor)
            .node(
                "LSTM",
                &["x", "w", "r", "", "", states, states],
                &["y"],
                &[int_attribute("hidden_size", 2)],
            )
            .tensor(crate::build::tensor("w", &[1, 8, 3], &[0.0; 24]))
            .tensor(crate::build::tensor("r", &[1, 8, 2], &[0.0; 16]))
            .output("y", &[5, 1, -1, 2])
    }
}

#[test]
fn a_resized_image_keeps_the_length_of_a_free_axis() {
    let graph = graph(
        &batch(of(&[-1, 3, 4, 4]))
            .node("Concat", &["n", "rest"], &["t"], &[int_attribute("axis", 0)])
            .node("Resize", &["x", "", "", "t"], &["y"], &[])
            .tensor(list("rest", &[3, 8, 8]))
            .output("y", &[-1, 3, 8, 8]),
    );
    assert_eq!(last(&graph).attributes["sizes"], Attribute::Ints(vec![-1, 3, 8, 8]));
}

#[test]
fn a_resize_of_some_axes_keeps_the_others() {
    let graph = graph(
        &of(&[-1, 3, 4, 4])
            .node("Resize", &["x", "", "", "t"], &["y"], &[ints_attribute("axes", &[2, 3])])
            .tensor(list("t", &[8, 9]))
            .output("y", &[-1, 3, 8, 9]),
    );
    assert_eq!(last(&graph).attributes["sizes"], Attribute::Ints(vec![-1, -1, 8, 9]));
}

#[test]
fn the_lengths_of_an_image_are_known_behind_a_window() {
    let graph = graph(
        &of(&[-1, 2, 9, 9])
            .node("Conv", &["x", "k"], &["c"], &[ints_attribute("strides", &[2, 2])])
            .node("Shape", &["c"], &["s"], &[])
            .node("Reshape", &["c", "flat"], &["f"], &[])
            .node("Reshape", &["f", "s"], &["y"], &[])
            .tensor(tensor("k", &[4, 2, 3, 3], &[0.0; 72]))
            .tensor(list("flat", &[0, 2, -1]))
            .output("y", &[-1, 4, 4, 4]),
    );
    assert_eq!(last(&graph).attributes["shape"], Attribute::Ints(vec![0, 4, 4, 4]));
}

#[test]
fn pads_that_are_listed_last_axis_first_are_reordered() {
    let graph = graph(
        &of(&[1, 2, 5, 5])
            .node("Reshape", &["given", "pairs"], &["p"], &[])
            .node("Slice", &["p", "from", "to", "zero", "from"], &["r"], &[])
            .node("Transpose", &["r"], &["t"], &[ints_attribute("perm", &[1, 0])])
            .node("Reshape", &["t", "from"], &["pads"], &[])
            .node("Pad", &["x", "pads"], &["y"], &[text_attribute("mode", "constant")])
            .tensor(list("given", &[1, 2, 3, 4, 0, 0, 0, 0]))
            .tensor(list("pairs", &[-1, 2]))
            .tensor(list("from", &[-1]))
            .tensor(list("to", &[i64::MIN + 1]))
            .tensor(list("zero", &[0]))
            .output("y", &[1, 2, 12, 8]),
    );
    assert_eq!(last(&graph).attributes["pads"], Attribute::Ints(vec![0, 0, 3, 1, 0, 0, 4, 2]));
}

/// A node of a few bytes may repeat a thousand numbers.
#[test]
fn numbers_that_many_nodes_repeat_are_left_to_the_graph() {
    let ints: Vec<i64> = (0..1024).collect();
    let mut model = of(&[-1, 2]).tensor(list("i0", &ints));
    for k in 0..6_000 {
        let (from, to) = (format!("i{k}"), format!("i{}", k + 1));
        model = model.node("Mul", &[&from, "two"], &[&to], &[]);
    }
    let model = model.tensor(list("two", &[1])).node("Relu", &["x"], &["y"], &[]).output("y", &[-1, 2]);
    let known = read(&model).checkpoint.graph.unwrap();
    assert!(known.nodes.len() > 1_000 && known.nodes.len() < 3_000, "{}", known.nodes.len());
}
