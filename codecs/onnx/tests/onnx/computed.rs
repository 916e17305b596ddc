//! Attributes that a model computes from the lengths of free axes.

use crate::build::{Model, int_attribute, tensor};
use crate::graphs::{graph, last, list, of, ops};

/// Both free lengths of `x`, as lists of one number.
fn lengths(model: Model) -> Model {
    let mut model = model.node("Shape", &["x"], &["s"], &[]);
    for (at, name) in [("zero", "a"), ("one", "b")] {
        model = model.node("Gather", &["s", at], &[name], &[]);
    }
    model.tensor(list("zero", &[0])).tensor(list("one", &[1]))
}

#[test]
fn a_shape_of_several_free_lengths_is_an_input_and_its_arithmetic_stays() {
    let graph = graph(
        &lengths(of(&[-1, -1, 8]))
            .node("Concat", &["b", "a", "eight"], &["t"], &[int_attribute("axis", 0)])
            .node("Reshape", &["x", "t"], &["y"], &[])
            .tensor(list("eight", &[8]))
            .output("y", &[-1, -1, 8]),
    );
    assert_eq!(last(&graph).inputs, ["x", "t"]);
    let made: Vec<&str> = graph.nodes.iter().map(|node| node.outputs[0].as_str()).collect();
    for value in ["s", "a", "b", "t", "y"] {
        assert!(made.contains(&value), "{value} of {made:?}");
    }
}

#[test]
fn arithmetic_on_lengths_that_leads_to_attributes_alone_is_left_out() {
    let graph = graph(
        &lengths(of(&[-1, -1, 8]))
            .node("Concat", &["a", "rest"], &["t"], &[int_attribute("axis", 0)])
            .node("Reshape", &["x", "t"], &["y"], &[])
            .tensor(list("rest", &[-1]))
            .output("y", &[-1, -1]),
    );
    assert_eq!(ops(&graph), ["Reshape"]);
}

#[test]
fn a_length_that_is_added_as_a_number_is_a_value() {
    let graph = graph(
        &lengths(of(&[-1, 8]))
            .node("Cast", &["a"], &["r"], &[int_attribute("to", 1)])
            .node("Mul", &["x", "r"], &["y"], &[])
            .output("y", &[-1, 8]),
    );
    assert_eq!(ops(&graph)[ops(&graph).len() - 2..], ["Cast", "Mul"]);
}

#[test]
fn an_end_beyond_32_bits_is_the_end_of_the_axis() {
    let graph = graph(
        &lengths(of(&[-1, -1]))
            .node("Sub", &["b", "one"], &["from"], &[])
            .node("Slice", &["x", "from", "end", "one"], &["y"], &[])
            .tensor(list("end", &[i64::MAX]))
            .output("y", &[-1, -1]),
    );
    assert_eq!(last(&graph).op.name(), "Slice");
    assert_eq!(last(&graph).inputs.len(), 4);
}

#[test]
fn a_number_that_is_repeated_along_several_free_axes_is_expanded() {
    let graph = graph(
        &lengths(of(&[-1, -1]))
            .node("Add", &["a", "b"], &["sum"], &[])
            .node("ConstantOfShape", &["sum"], &["z"], &[])
            .node("Concat", &["z", "v"], &["y"], &[int_attribute("axis", 0)])
            .tensor(tensor("v", &[3], &[1.0; 3]))
            .output("y", &[-1]),
    );
    let expand = graph.nodes.iter().find(|node| node.op.name() == "Expand").expect("an Expand");
    assert_eq!(expand.inputs[1], "sum");
}
