//! A model that is described again computes the same.

use super::support::{Stored, fixtures, random_weights, run};
use ckpt_api::{Axis, Checkpoint, DType, Graph, Kind, Limits, Node, Op, Shape, Tensor};
use ckpt_forward::Array;
use ckpt_keras::config::{Generation, Model};
use std::collections::BTreeMap;

#[test]
fn the_variables_of_a_model_have_the_paths_of_its_file() {
    let all = fixtures();
    assert_eq!(all.len(), 66);
    for fixture in all {
        let variables = fixture.model().variables();
        assert!(variables.unknown.is_empty(), "{}: {:?}", fixture.name, variables.unknown);
        let mut paths: Vec<String> = variables.list.into_iter().map(|variable| variable.path).collect();
        paths.sort();
        assert!(paths.iter().eq(fixture.shapes.keys()), "{}: {paths:?}", fixture.name);
    }
}

/// Moves the elements of a row-major array so that axis `k` of the result is axis `order[k]`.
fn permuted(array: &Array, shape: &[u64], order: &[usize]) -> Array {
    let Array::F64(numbers) = array else { panic!("other numbers") };
    let stride = |axis: usize| shape[axis + 1..].iter().product::<u64>();
    let lens: Vec<u64> = order.iter().map(|axis| shape[*axis]).collect();
    let place = |index: u64| {
        let (mut rest, mut place) = (index, 0);
        for (at, axis) in order.iter().enumerate().rev() {
            place += rest % lens[at] * stride(*axis);
            rest /= lens[at];
        }
        usize::try_from(place).unwrap()
    };
    Array::F64((0..numbers.len() as u64).map(|index| numbers[place(index)]).collect())
}

fn sum_of(a: &Array, b: &Array) -> Array {
    Array::F64(a.to_f64().iter().zip(b.to_f64()).map(|(a, b)| a + b).collect())
}

/// Describes a checkpoint's graph, reads what is written, and returns its graph and tensors.
pub(super) fn described(
    checkpoint: &Checkpoint,
    stored: &Stored,
    generation: Generation,
) -> ckpt_api::Result<(Graph, Stored)> {
    let described = Model::describe(checkpoint, generation)?;
    let version = if generation == Generation::Keras3 { "3.15.1" } else { "2.21.0" };
    let model = Model::parse(&described.config, Some(version), &Limits::default())?;
    let mut again = Stored::default();
    for own in described.variables {
        let tensor = &checkpoint.tensors[own.tensor.0];
        let (_, array) = &stored.0[tensor.name.as_str()];
        let array = own.added.iter().fold(array.clone(), |sum, added| {
            sum_of(&sum, &stored.0[checkpoint.tensors[added.tensor.0].name.as_str()].1)
        });
        let shape: Vec<u64> = own.order.iter().map(|axis| tensor.shape[*axis]).collect();
        let mut made = Tensor::new(&own.variable.name, DType::F64, Shape::new(shape).unwrap());
        made.axes.clone_from(&own.variable.axes);
        again.0.insert(own.variable.name, (made, permuted(&array, &tensor.shape, &own.order)));
    }
    let graph = model.graph().unwrap_or_else(|missing| panic!("{}\n{}", missing.reason, described.config));
    Ok((graph, again))
}

#[test]
fn a_graph_that_is_described_as_a_model_computes_the_same() {
    // What no layer of Keras computes: of both generations, and what Keras 2 has operations for alone.
    let refused: BTreeMap<&str, &str> = [
        ("keras/layer_norm", "the last axis"),
        ("tf_keras/layer_norm", "the last axis"),
        ("tf_keras/activation_layers", "Keras 2 has no layer"),
        ("tf_keras/arithmetic", "Keras 2 has no layer"),
        ("tf_keras/attention", "Keras 2 has no layer"),
        ("tf_keras/bidirectional", "Keras 2 has no layer"),
        ("tf_keras/causal_attention", "Keras 2 has no layer"),
        ("tf_keras/dot", "Keras 2 has no layer"),
        ("tf_keras/time_distributed", "Keras 2 has no layer"),
        ("tf_keras/transformer_block", "Keras 2 has no layer"),
    ]
    .into();
    let mut count = 0;
    for fixture in fixtures() {
        let checkpoint = fixture.checkpoint();
        let stored = random_weights(&checkpoint);
        let made = described(&checkpoint, &stored, fixture.model().generation);
        if let Some(reason) = refused.get(fixture.name.as_str()) {
            let error = made.map(|_| ()).unwrap_err();
            assert!(error.to_string().contains(reason), "{}: {error}", fixture.name);
            continue;
        }
        let (again, tensors) = made.unwrap_or_else(|error| panic!("{}: {error}", fixture.name));
        let graph = checkpoint.graph.as_ref().unwrap();
        let (expected, found) = (run(graph, &stored), run(&again, &tensors));
        assert_eq!(expected.len(), found.len(), "{}", fixture.name);
        for (expected, found) in expected.iter().zip(&found) {
            assert_eq!(expected.shape, found.shape, "{}", fixture.name);
            for (a, b) in expected.array.to_f64().iter().zip(found.array.to_f64()) {
                assert!((a - b).abs() <= 1e-9 * a.abs().max(1.0), "{}: {a} {b}", fixture.name);
            }
        }
        count += 1;
    }
    assert_eq!(count, 66 - refused.len());
}

/// A graph as PyTorch has it: images and kernels with their channels first, padding by numbers.
fn channels_first() -> (Checkpoint, Stored) {
    let conv = [Axis::Out, Axis::In, Axis::KernelY, Axis::KernelX];
    let vector = [Axis::Out];
    let tensor = |name: &str, shape: &[u64], axes: &[Axis]| {
        Tensor::new(name, DType::F64, Shape::new(shape).unwrap()).with_axes(axes)
    };
    let tensors = vec![
        tensor("conv.weight", &[4, 3, 3, 3], &conv),
        tensor("conv.bias", &[4], &vector),
        tensor("depth.weight", &[4, 1, 3, 3], &conv),
        tensor("fc.weight", &[5, 100], &[Axis::Out, Axis::In]),
        tensor("fc.bias", &[5], &vector),
    ];
    let ints = |values: &[i64]| ckpt_api::Attribute::Ints(values.to_vec());
    let nodes = vec![
        Node::new("conv", Op::Conv)
            .parameter("weight", "conv.weight")
            .parameter("bias", "conv.bias")
            .attribute("strides", ints(&[2, 2]))
            .attribute("pads", ints(&[1, 1, 1, 1])),
        Node::new("act", Op::Relu),
        Node::new("depth", Op::Conv)
            .parameter("weight", "depth.weight")
            .attribute("group", ckpt_api::Attribute::Int(4))
            .attribute("pads", ints(&[1, 1, 1, 1])),
        Node::new("flatten", Op::Flatten),
        Node::new("fc", Op::Gemm).parameter("weight", "fc.weight").parameter("bias", "fc.bias"),
    ];
    let shape = [None, Some(3), Some(9), Some(9)];
    let graph = Graph::sequential("net", shape.to_vec(), vec![None, Some(5)], nodes);
    let checkpoint = Checkpoint { graph: Some(graph), tensors, ..Checkpoint::default() };
    let stored = random_weights(&checkpoint);
    (checkpoint, stored)
}

#[test]
fn a_graph_with_channels_first_becomes_a_model_that_computes_the_same() {
    let (checkpoint, stored) = channels_first();
    let expected = run(checkpoint.graph.as_ref().unwrap(), &stored);
    for generation in [Generation::Keras2, Generation::Keras3] {
        let (graph, tensors) = described(&checkpoint, &stored, generation).unwrap();
        let found = run(&graph, &tensors);
        for (a, b) in expected[0].array.to_f64().iter().zip(found[0].array.to_f64()) {
            assert!((a - b).abs() <= 1e-12, "{a} {b}");
        }
    }
}

#[test]
fn what_keras_has_no_layer_for_is_refused_by_the_name_of_its_node() {
    let node = |op: Op| {
        let nodes = vec![Node::new("odd", op)];
        let graph = Graph::sequential("m", vec![None, Some(4)], vec![None, Some(4)], nodes);
        let checkpoint = Checkpoint { graph: Some(graph), ..Checkpoint::default() };
        Model::describe(&checkpoint, Generation::Keras3).map(|described| described.config)
    };
    let error = node(Op::Acosh).unwrap_err();
    assert_eq!(error.kind(), Kind::Unsupported);
    assert!(error.to_string().contains("odd") && error.to_string().contains("Acosh"), "{error}");
    assert!(node(Op::Relu).unwrap().contains("Sequential"));
    let error = Model::describe(&Checkpoint::default(), Generation::Keras3).unwrap_err();
    assert_eq!(error.kind(), Kind::Usage);
}
