//! Rules of single operators. What they compute is compared with MXNet by `tests/interop/mxnet_files.py`.

use super::*;
use ckpt_api::{Attribute, Node};
use serde_json::{Map, Value, json};

/// Reads the symbol of one operator that takes an input of this shape.
fn graph(op: &str, attributes: &[(&str, &str)], shape: &str) -> Result<Graph, String> {
    let attributes: Map<_, _> = attributes.iter().map(|(key, value)| ((*key).into(), json!(value))).collect();
    let heads = match op {
        "SliceChannel" | "_split_v2" => json!([[1, 0, 0], [1, 1, 0]]),
        _ => json!([[1, 0, 0]]),
    };
    let symbol = json!({"nodes": [
        {"op": "null", "name": "x", "attrs": {"__shape__": shape}, "inputs": []},
        {"op": op, "name": "a", "attrs": attributes, "inputs": [[0, 0, 0]]},
    ], "heads": heads});
    read(symbol.to_string().as_bytes(), &mut [], &StatedShapes::new(), &Limits::default())
}

fn ops(graph: &Graph) -> Vec<&str> {
    graph.nodes.iter().map(|node| node.op.name()).collect()
}

fn shape(graph: &Graph) -> &[Option<u64>] {
    &graph.outputs[0].shape
}

fn int(node: &Node, name: &str) -> Option<i64> {
    match node.attributes.get(name)? {
        Attribute::Int(value) => Some(*value),
        _ => None,
    }
}

#[test]
fn the_softmax_of_an_instance_is_over_the_last_axis() {
    for (mode, axis) in [("instance", 3), ("channel", 1)] {
        let graph = graph("SoftmaxActivation", &[("mode", mode)], "(2, 3, 4, 5)").unwrap();
        assert_eq!((ops(&graph), int(&graph.nodes[0], "axis")), (vec!["Softmax"], Some(axis)), "{mode}");
    }
}

#[test]
fn a_dropout_that_always_drops_is_refused() {
    assert_eq!(ops(&graph("Dropout", &[], "(2, 3)").unwrap()), ["Identity"]);
    assert_eq!(ops(&graph("Dropout", &[("mode", "training")], "(2, 3)").unwrap()), ["Identity"]);
    let why = graph("Dropout", &[("mode", "always")], "(2, 3)").unwrap_err();
    assert!(why.starts_with("Dropout ('a') has the attribute mode = 'always'"), "{why}");
}

#[test]
fn the_old_pooling_is_refused_if_it_takes_zeros_from_outside() {
    let old = |attributes: &[(&str, &str)]| {
        let window = [("kernel", "(3, 3)"), ("stride", "(2, 2)")];
        graph("Pooling_v1", &[&window, attributes].concat(), "(2, 3, 8, 8)")
            .map(|graph| shape(&graph).to_vec())
    };
    let sides = |len| Ok(vec![None, Some(3), Some(len), Some(len)]);
    assert_eq!(old(&[("pool_type", "max")]), sides(3));
    assert_eq!(old(&[("pool_type", "max"), ("pooling_convention", "full")]), sides(4));
    assert_eq!(old(&[("pool_type", "avg"), ("pad", "(1, 1)")]), sides(4));
    for refused in
        [[("pool_type", "max"), ("pad", "(1, 1)")], [("pool_type", "avg"), ("pooling_convention", "full")]]
    {
        let why = old(&refused).unwrap_err();
        assert!(why.starts_with("Pooling_v1 ('a') takes what is outside an image as zeros"), "{why}");
    }
}

#[test]
fn a_single_number_has_one_axis() {
    for (op, given) in [("sum", "(2, 3)"), ("norm", "(2, 3)"), ("max", "(2, 3)"), ("squeeze", "(1, 1)")] {
        let graph = graph(op, if op == "squeeze" { &[("axis", "(0, 1)")] } else { &[] }, given).unwrap();
        assert_eq!(shape(&graph), [Some(1)], "{op}");
    }
    assert_eq!(shape(&graph("sum", &[("axis", "1")], "(2, 3)").unwrap()), [None]);
}

#[test]
fn a_value_is_split_into_equal_parts_or_at_indices() {
    let split = |op: &str, attributes: &[(&str, &str)]| -> Result<Vec<_>, String> {
        let graph = graph(op, &[&[("axis", "1")], attributes].concat(), "(2, 6, 4)")?;
        Ok(graph.outputs.into_iter().map(|output| (output.name, output.shape.to_vec())).collect())
    };
    let made = |lens: [u64; 2]| {
        Ok([0, 1].map(|at| (format!("a_output{at}"), vec![None, Some(lens[at]), Some(4)])).to_vec())
    };
    assert_eq!(split("SliceChannel", &[("num_outputs", "2")]), made([3, 3]));
    assert_eq!(split("_split_v2", &[("sections", "3"), ("indices", "[]")]), made([2, 2]));
    assert_eq!(split("_split_v2", &[("sections", "0"), ("indices", "[0, 2]")]), made([2, 4]));
    for (op, attributes) in [
        ("SliceChannel", [("num_outputs", "4")]),
        ("SliceChannel", [("num_outputs", "-1")]),
        ("_split_v2", [("sections", "0")]),
        ("_split_v2", [("indices", "[2, 4]")]),
        ("_split_v2", [("indices", "[0, 4, 2]")]),
    ] {
        assert!(split(op, &attributes).is_err(), "{op} {attributes:?}");
    }
}

#[test]
fn results_have_the_names_of_mxnet() {
    for (op, name) in [("relu", "a_output"), ("MakeLoss", "a_output"), ("make_loss", "a_loss")] {
        assert_eq!(graph(op, &[], "(2, 3)").unwrap().outputs[0].name, name, "{op}");
    }
}

#[test]
#[cfg_attr(miri, ignore = "hundreds of thousands of inputs")]
fn shapes_are_found_in_linear_time() {
    const COUNT: usize = 64;
    let variable = |name: String| json!({"op": "null", "name": name, "inputs": []});
    let mut nodes: Vec<_> = (0..COUNT).map(|at| variable(format!("x{at}"))).collect();
    for at in 0..COUNT {
        // Adds an input to the sum before; all others are too many.
        let others = std::iter::repeat_n([COUNT - 1, 0, 0], 4000);
        let before = if at == 0 { 0 } else { COUNT + at - 1 };
        let inputs: Vec<[usize; 3]> = [[at, 0, 0], [before, 0, 0]].into_iter().chain(others).collect();
        nodes.push(json!({"op": "elemwise_add", "name": format!("a{at}"), "inputs": inputs}));
    }
    nodes.push(variable("w".to_owned()));
    nodes.push(json!({"op": "FullyConnected", "name": "fc", "attrs": {"no_bias": "True"},
        "inputs": [[2 * COUNT - 1, 0, 0], [2 * COUNT, 0, 0]]}));
    let symbol = json!({"nodes": nodes, "heads": [[2 * COUNT + 1, 0, 0]]}).to_string();
    let mut tensors = [Tensor::new("w", ckpt_api::DType::F32, ckpt_api::Shape::new([3u64, 5]).unwrap())];
    let graph = read(symbol.as_bytes(), &mut tensors, &StatedShapes::new(), &Limits::default()).unwrap();
    assert_eq!(graph.inputs.len(), COUNT);
    assert!(graph.inputs.iter().all(|input| input.shape[..] == [None, Some(5)]));
}

#[test]
fn the_shape_of_an_input_follows_from_the_first_layer_also_in_old_symbols() {
    let node = |op: &str, name: &str, attributes: Value, inputs: &[usize]| {
        let inputs: Vec<[usize; 3]> = inputs.iter().map(|input| [*input, 0, 0]).collect();
        json!({"op": op, "name": name, "param": attributes, "inputs": inputs})
    };
    let symbol = json!({"nodes": [
        node("null", "x", json!({}), &[]),
        node("_PlusScalar", "mean", json!({"scalar": "-0.5"}), &[0]),
        node("Pooling_v1", "pool", json!({"kernel": "(2, 2)", "stride": "(2, 2)"}), &[1]),
        node("null", "w", json!({}), &[]),
        node("Convolution_v1", "conv", json!({"kernel": "(3, 3)", "num_filter": "4", "no_bias": "True"}), &[2, 3]),
    ], "heads": [[4, 0, 0]]});
    let mut tensors =
        [Tensor::new("w", ckpt_api::DType::F32, ckpt_api::Shape::new([4u64, 3, 3, 3]).unwrap())];
    let symbol = symbol.to_string();
    let graph = read(symbol.as_bytes(), &mut tensors, &StatedShapes::new(), &Limits::default()).unwrap();
    assert_eq!(graph.inputs[0].shape[..], [None, Some(3), None, None]);
}
