//! Operators that are read as several nodes, and what of them is refused.

use crate::build::{head, int_attribute, text, text_attribute};
use crate::graphs::{graph, last, list, of, ops, read};
use ckpt_api::{Attribute, Graph, Op};

/// A tensor of bytes of this data type.
fn bytes(name: &str, data_type: i64, dims: &[i64], values: &[u8]) -> Vec<u8> {
    [head(name, data_type, dims), crate::build::field(9, values)].concat()
}

fn count(graph: &Graph, op: &Op) -> usize {
    graph.nodes.iter().filter(|node| node.op == *op).count()
}

fn refusal(model: &crate::build::Model) -> String {
    read(model).missing_graph.expect("no graph").reason.as_str().to_owned()
}

#[test]
fn a_product_of_integers_is_one_of_integers_without_their_zero_points() {
    let model = of(&[-1, 3])
        .node("DynamicQuantizeLinear", &["x"], &["q", "s", "z"], &[])
        .node("MatMulInteger", &["q", "w", "z", "wz"], &["y"], &[])
        .tensor(bytes("w", 3, &[3, 2], &[1, 2, 3, 4, 5, 6]))
        .tensor(bytes("wz", 3, &[], &[0]))
        .output("y", &[-1, 2]);
    let graph = graph(&model);
    assert_eq!(last(&graph).op, Op::MatMul);
    // The zero point of the weight is 0, and subtracted from nothing.
    let centered = graph.nodes.iter().find(|node| node.outputs[0] == last(&graph).inputs[0]).unwrap();
    assert_eq!((centered.op.name(), &centered.inputs[..]), ("Sub", &["q".to_owned(), "z".to_owned()][..]));
    assert_eq!(last(&graph).outputs, ["y"]);
    // All outputs of the quantization keep their names.
    for name in ["q", "s", "z"] {
        assert_eq!(graph.nodes.iter().filter(|node| node.outputs == [name]).count(), 1, "{name}");
    }
}

#[test]
fn integers_of_few_bits_wrap_around() {
    let model = of(&[4])
        .node("Cast", &["x"], &["a"], &[int_attribute("to", 2)])
        .node("Add", &["a", "a"], &["b"], &[])
        .node("Cast", &["b"], &["y"], &[int_attribute("to", 1)])
        .output("y", &[4]);
    let graph = graph(&model);
    // A byte is what 8 bits keep, after the cast and after the sum.
    assert_eq!(count(&graph, &Op::BitwiseAnd), 2, "{:?}", ops(&graph));
}

#[test]
fn a_cast_to_8_bits_keeps_what_becomes_of_greater_numbers() {
    let cast = |attributes: &[Vec<u8>]| {
        let model = of(&[2])
            .node("Cast", &["x"], &["a"], attributes)
            .node("Cast", &["a"], &["y"], &[int_attribute("to", 1)])
            .output("y", &[2]);
        graph(&model).nodes[0].attributes.clone()
    };
    let to = Attribute::Text("float8e5m2".to_owned());
    let saturated = cast(&[int_attribute("to", 19)]);
    assert_eq!(saturated.into_iter().collect::<Vec<_>>(), [("to".to_owned(), to.clone())]);
    let open = cast(&[int_attribute("to", 19), int_attribute("saturate", 0)]);
    assert_eq!((open.get("saturate"), open.get("to")), (Some(&Attribute::Int(0)), Some(&to)));
}

#[test]
fn an_operator_of_onnxruntime_is_named_where_it_is_refused() {
    let domain = text(7, "com.microsoft");
    let mut model = of(&[2, 3]).output("y", &[2, 3]);
    model.nodes.push([crate::build::node("QuickGelu", &["x"], &["y"], &[]), domain.clone()].concat());
    assert_eq!(ops(&graph(&model)), ["Swish"]);
    model.nodes = vec![[crate::build::node("Inverse", &["x"], &["y"], &[]), domain].concat()];
    let reason = refusal(&model);
    assert!(reason.contains("Inverse") && reason.contains("is not supported"), "{reason}");
}

#[test]
fn a_length_that_is_not_known_is_named() {
    let model =
        of(&[-1, 3]).node("Hardmax", &["x"], &["y"], &[int_attribute("axis", 0)]).output("y", &[-1, 3]);
    let reason = refusal(&model);
    assert!(reason.contains("Hardmax") && reason.contains("the length of axis 0"), "{reason}");
}

#[test]
fn a_loss_leaves_out_what_it_ignores() {
    let model = of(&[2, 3])
        .node(
            "SoftmaxCrossEntropyLoss",
            &["x", "t"],
            &["y"],
            &[int_attribute("ignore_index", -1), text_attribute("reduction", "sum")],
        )
        .tensor(list("t", &[1, -1]))
        .output("y", &[]);
    let graph = graph(&model);
    assert_eq!((last(&graph).op.clone(), last(&graph).outputs[0].as_str()), (Op::ReduceSum, "y"));
    assert_eq!(count(&graph, &Op::Equal), 2, "{:?}", ops(&graph));
}

#[test]
fn the_type_of_a_quantized_value_is_known_where_the_model_does_not_state_it() {
    let pool = |zero: Option<Vec<u8>>| {
        let mut model = of(&[1, 1, 4, 4]).tensor(crate::build::tensor("s", &[], &[0.5]));
        let mut inputs = vec!["x", "s"];
        if let Some(zero) = zero {
            model = model.tensor(zero);
            inputs.push("z");
        }
        model
            .node("QuantizeLinear", &inputs, &["q"], &[])
            .node("Transpose", &["q"], &["t"], &[])
            .node("MaxPool", &["t"], &["p"], &[crate::build::ints_attribute("kernel_shape", &[2, 2])])
            .node("Add", &["p", "p"], &["d"], &[])
            .node("DequantizeLinear", &["d", "s"], &["y"], &[])
            .output("y", &[1, 1, 3, 3])
    };
    // Integers are pooled as real numbers, which hold them, and their sums wrap around: a byte's without a zero point.
    for (zero, sums) in
        [(None, ["Add", "Constant", "BitwiseAnd"]), (Some(vec![0]), ["Add", "Constant", "Constant"])]
    {
        let graph = graph(&pool(zero.map(|zero| bytes("z", 3, &[], &zero))));
        let ops = ops(&graph);
        let at = ops.iter().position(|op| *op == "MaxPool").unwrap();
        assert_eq!((ops[at - 1], ops[at + 1]), ("Cast", "Cast"), "{ops:?}");
        assert_eq!(ops[at + 2..][..3], sums, "{ops:?}");
    }
}

#[test]
fn numbers_without_parts_have_no_frequencies() {
    let model = of(&[1, 4, 0]).node("DFT", &["x"], &["y"], &[]).output("y", &[1, 4, 2]);
    let reason = refusal(&model);
    assert!(reason.contains("DFT") && reason.contains("0 parts"), "{reason}");
}

#[test]
fn what_all_operators_note_is_bounded() {
    // Each of them notes two matrices of 1024 × 1024 numbers.
    let mut model = of(&[1, 1024, 2]);
    for number in 0..20 {
        let (from, to) = (format!("v{number}"), format!("v{}", number + 1));
        model = model.node("DFT", &[if number == 0 { "x" } else { &from }], &[&to], &[]);
    }
    let reason = refusal(&model.output("v20", &[1, 1024, 2]));
    assert!(reason.contains("more nodes and numbers than are noted in a graph"), "{reason}");
}

#[test]
fn a_value_that_others_take_keeps_its_name() {
    // The crop leaves the image as it is.
    let model = of(&[2, 3])
        .node("Relu", &["x"], &["a"], &[])
        .node("CenterCropPad", &["a", "lens"], &["b"], &[])
        .node("Add", &["a", "b"], &["y"], &[])
        .tensor(list("lens", &[2, 3]))
        .output("y", &[2, 3]);
    let graph = graph(&model);
    assert_eq!(ops(&graph), ["Relu", "Identity", "Add"]);
    assert_eq!(last(&graph).inputs, ["a", "b"]);
}

#[test]
fn an_output_that_is_not_made_is_refused_if_it_is_taken() {
    let norm = |outputs: &[&str], taken: &str| {
        let mut model = of(&[2, 3])
            .tensor(crate::build::tensor("g", &[3], &[1.0; 3]))
            .tensor(crate::build::tensor("b", &[3], &[0.0; 3]))
            .output(taken, &[2, 3]);
        let own = crate::build::node("SkipLayerNormalization", &["x", "x", "g", "b"], outputs, &[]);
        model.nodes.push([own, text(7, "com.microsoft")].concat());
        model
    };
    let reason = refusal(&norm(&["y", "mean"], "mean"));
    assert!(reason.contains("its output 1"), "{reason}");
    assert_eq!(last(&graph(&norm(&["y", "mean"], "y"))).outputs, ["y"]);
}

#[test]
fn powers_of_integers_of_few_bits_wrap_around() {
    let model = of(&[4])
        .node("Cast", &["x"], &["a"], &[int_attribute("to", 2)])
        .node("Pow", &["a", "a"], &["b"], &[])
        .node("BitwiseNot", &["b"], &["c"], &[])
        .node("Add", &["c", "c"], &["d"], &[])
        .node("Cast", &["d"], &["y"], &[int_attribute("to", 1)])
        .output("y", &[4]);
    // After the cast, the power and the sum.
    let graph = graph(&model);
    assert_eq!(count(&graph, &Op::BitwiseAnd), 3, "{:?}", ops(&graph));
}

#[test]
fn a_prompt_begins_at_its_first_place_whatever_its_length() {
    let mut model = of(&[2, 5, 16])
        .tensor([head("last", 6, &[2]), crate::build::field(9, &[2, 0, 0, 0, 4, 0, 0, 0])].concat())
        .tensor([head("total", 6, &[]), crate::build::field(9, &[5, 0, 0, 0])].concat())
        .output("y", &[2, 5, 16]);
    let attributes = [int_attribute("num_heads", 2), int_attribute("kv_num_heads", 2)];
    let own = crate::build::node(
        "GroupQueryAttention",
        &["x", "x", "x", "", "", "last", "total"],
        &["y", "k", "v"],
        &attributes,
    );
    model.nodes.push([own, text(7, "com.microsoft")].concat());
    assert_eq!(count(&graph(&model), &Op::Sub), 0, "places that depend on lengths");
}
