//! Recurrent layers whose gates are in another order than ONNX's.

use ckpt_api::{
    Attribute, Axis, Checkpoint, Codec, Contents, Graph, Input, Kind, Limits, Node, Op, Options,
    OutputLayout, Shape, Tensor, Value,
};
use ckpt_onnx::Onnx;
use std::collections::BTreeMap;

/// A layer of 2 units and 3 features, as Keras stores it: `[in, gates · units]`.
fn checkpoint(op: Op, gates: &str, biases: u64) -> Checkpoint {
    let units = 2 * gates.len() as u64;
    let tensor = |name: &str, shape: &[u64], axes: &[Axis]| {
        let tensor = Tensor::new(name, ckpt_api::DType::F32, Shape::new(shape.to_vec()).unwrap());
        if axes.is_empty() { tensor } else { tensor.with_axes(axes.to_vec()) }
    };
    let bias = if biases == 1 { vec![units] } else { vec![biases, units] };
    let mut node = Node::new("layer", op)
        .parameter("weight", "w")
        .parameter("recurrent_weight", "r")
        .parameter("bias", "b")
        .attribute("gates", Attribute::Text(gates.to_owned()));
    node.inputs = vec!["x".to_owned()];
    node.outputs = vec!["y".to_owned()];
    let graph = Graph {
        inputs: vec![Value::new("x", vec![Some(5), None, Some(3)])],
        outputs: vec![Value::new("y", vec![Some(5), Some(1), None, Some(2)])],
        nodes: vec![node],
        ..Graph::default()
    };
    Checkpoint {
        graph: Some(graph),
        tensors: vec![
            tensor("w", &[3, units], &[Axis::In, Axis::Out]),
            tensor("r", &[2, units], &[Axis::In, Axis::Out]),
            tensor("b", &bias, &[]),
        ],
        ..Checkpoint::default()
    }
}

fn placed(checkpoint: &Checkpoint) -> OutputLayout {
    let layout = Onnx.place(checkpoint, "m.onnx", &Options::default()).unwrap();
    layout.check(checkpoint).unwrap();
    layout
}

/// The model with the number of each element, in the order of its tensor, as its value.
fn written(layout: &OutputLayout) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(layout.files[0].len.unwrap()).unwrap()];
    for literal in &layout.literals {
        let at = usize::try_from(literal.offset).unwrap();
        bytes[at..at + literal.bytes.len()].copy_from_slice(&literal.bytes);
    }
    for placement in &layout.placements {
        let places = placement
            .extents
            .iter()
            .flat_map(|extent| (extent.offset..extent.offset + extent.len).step_by(4));
        for (number, place) in places.enumerate() {
            let at = usize::try_from(place).unwrap();
            bytes[at..at + 4].copy_from_slice(&(number as f32).to_le_bytes());
        }
    }
    bytes
}

fn read(layout: &OutputLayout) -> Contents {
    let input = Input::memory("m.onnx", BTreeMap::from([("m.onnx".to_owned(), written(layout))]));
    let read = Onnx.read(&input, &Options::default(), &Limits::default()).unwrap();
    read.check(&Limits::default()).unwrap();
    read
}

#[test]
fn the_gates_of_a_layer_are_stored_in_the_order_of_onnx_and_read_in_their_own() {
    let bias_rows = [("ifco", Op::LSTM, 1), ("ifco", Op::LSTM, 2), ("rzh", Op::GRU, 1), ("rzh", Op::GRU, 2)];
    for (gates, op, biases) in bias_rows {
        let checkpoint = checkpoint(op.clone(), gates, biases);
        let layout = placed(&checkpoint);
        let read = read(&layout);
        let graph = read.checkpoint.graph.as_ref().unwrap();
        assert_eq!(graph.nodes.len(), 1, "{graph:?}");
        assert_eq!(graph.nodes[0].attributes["gates"], Attribute::Text(gates.to_owned()));
        assert_eq!(graph.nodes[0].parameters["bias"], "b");
        for (written, read) in layout.placements.iter().zip(&read.placements) {
            assert_eq!(written.extents, read.extents, "{op} {gates}");
        }
        // The input's weights of the first gate of ONNX begin the tensor.
        let first = if gates == "ifco" { 0 } else { 1 };
        let weight = &layout.placements[0].extents;
        assert!(weight[first].offset < weight[1 - first].offset, "{weight:?}");
    }
}

#[test]
fn the_activations_of_a_layer_and_their_numbers_are_kept() {
    let mut checkpoint = checkpoint(Op::LSTM, "ifco", 1);
    let stated = [
        ("activations", Attribute::Texts(["HardSigmoid", "Relu", "Tanh"].map(str::to_owned).to_vec())),
        ("activation_alpha", Attribute::Floats(vec![0.25])),
        ("activation_beta", Attribute::Floats(vec![0.5])),
    ];
    let layer = &mut checkpoint.graph.as_mut().unwrap().nodes[0];
    layer.attributes.extend(stated.clone().map(|(name, value)| (name.to_owned(), value)));
    let read = read(&placed(&checkpoint));
    let layer = &read.checkpoint.graph.as_ref().unwrap().nodes[0];
    for (name, value) in stated {
        assert_eq!(layer.attributes[name], value);
    }
}

#[test]
fn gates_in_the_order_of_onnx_are_one_piece_each() {
    let layout = placed(&checkpoint(Op::LSTM, "iofc", 2));
    assert!(layout.placements.iter().all(|placement| placement.extents.len() == 1));
}

#[test]
fn what_is_no_order_of_the_gates_is_refused() {
    let error = Onnx.place(&checkpoint(Op::LSTM, "ifcc", 1), "m.onnx", &Options::default()).unwrap_err();
    assert_eq!((error.kind(), error.context().found), (Kind::Corrupt, Some("'ifcc'")));
}
