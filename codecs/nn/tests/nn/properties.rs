//! Random nets survive; random bytes do no harm.

use crate::build::{JSON_B, convolution, file, mlp_a, mlp_b, read, rewrite, write};
use ckpt_api::{Axis, Checkpoint, DType, Graph, Node, Op, Shape, Tensor};
use proptest::prelude::*;

/// Widths, and what follows each Linear layer.
fn nets() -> impl Strategy<Value = (Vec<u64>, Vec<Option<Op>>)> {
    let op = prop::sample::select(vec![Op::Relu, Op::Sigmoid, Op::Tanh, Op::Softmax, Op::Flatten]);
    prop::collection::vec(1u64..5, 2..6).prop_flat_map(move |widths| {
        let activations = prop::collection::vec(prop::option::of(op.clone()), widths.len() - 1);
        (Just(widths), activations)
    })
}

fn checkpoint(widths: &[u64], activations: &[Option<Op>], flip: bool) -> (Checkpoint, Vec<Vec<u8>>) {
    let (mut nodes, mut tensors) = (Vec::new(), Vec::new());
    for (index, (pair, activation)) in widths.windows(2).zip(activations).enumerate() {
        let (weight, bias) = (format!("w{index}"), format!("b{index}"));
        nodes.push(
            Node::new(format!("n{index}"), Op::Gemm).parameter("weight", &*weight).parameter("bias", &*bias),
        );
        nodes.extend(activation.clone().map(|op| Node::new(format!("f{index}"), op)));
        let (dims, axes) = match flip {
            false => ([pair[0], pair[1]], [Axis::In, Axis::Out]),
            true => ([pair[1], pair[0]], [Axis::Out, Axis::In]),
        };
        tensors.push(Tensor::new(weight, DType::F32, Shape::new(dims).unwrap()).with_axes(axes));
        tensors.push(Tensor::new(bias, DType::F32, Shape::new([pair[1]]).unwrap()).with_axes([Axis::Out]));
    }
    let values = tensors.iter().enumerate().map(|(id, tensor)| {
        (0..tensor.shape.elements()).flat_map(|k| (id as f32 + k as f32 / 64.0).to_le_bytes()).collect()
    });
    let values = values.collect();
    let graph = Graph::sequential("", vec![None, Some(widths[0])], vec![None, widths.last().copied()], nodes);
    (Checkpoint { graph: Some(graph), tensors, ..Checkpoint::default() }, values)
}

/// The value at (in, out), whatever the order of the axes.
fn at(tensor: &Tensor, values: &[u8], input: u64, output: u64) -> Vec<u8> {
    let index = tensor
        .axes
        .iter()
        .flatten()
        .zip(tensor.shape.iter())
        .fold(0, |index, (axis, len)| index * len + if *axis == Axis::In { input } else { output });
    values[index as usize * 4..][..4].to_vec()
}

proptest! {
    #[test]
    fn a_random_net_keeps_every_value_in_both_dialects((widths, activations) in nets(), flip: bool) {
        let (net, values) = checkpoint(&widths, &activations, flip);
        let mut files = Vec::new();
        for dialect in ["a", "b"] {
            let bytes = write(&net, &values, &[("dialect", dialect)]).unwrap();
            let (contents, again) = read(&bytes, &[]).unwrap();
            let found = &contents.checkpoint;
            prop_assert_eq!(found.metadata.text("nn", "dialect"), Some(dialect));
            let ops = |checkpoint: &Checkpoint| -> Vec<Op> {
                checkpoint.graph.as_ref().unwrap().nodes.iter().map(|node| node.op.clone()).collect()
            };
            prop_assert_eq!(ops(found), ops(&net));
            for (index, pair) in widths.windows(2).enumerate() {
                for (input, output) in (0..pair[0]).flat_map(|i| (0..pair[1]).map(move |o| (i, o))) {
                    let id = index * 2;
                    let (old, new) = (at(&net.tensors[id], &values[id], input, output), at(&found.tensors[id], &again[id], input, output));
                    prop_assert_eq!(old, new);
                }
                prop_assert_eq!(&values[index * 2 + 1], &again[index * 2 + 1]);
            }
            prop_assert_eq!(&rewrite(&bytes, &[], &[]).unwrap(), &bytes);
            files.push(bytes);
        }
        prop_assert_eq!(&rewrite(&files[0], &[], &[("dialect", "b")]).unwrap(), &files[1]);
        prop_assert_eq!(&rewrite(&files[1], &[], &[("dialect", "a")]).unwrap(), &files[0]);
    }

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), lenient: bool) {
        let lenient = if lenient { "true" } else { "false" };
        let _ = read(&bytes, &[("lenient", lenient)]);
        let mut after_magic = b"DATACODE\x01\0\0\0".to_vec();
        after_magic.extend_from_slice(&bytes);
        let _ = read(&after_magic, &[("lenient", lenient)]);
        let mut after_json = file(JSON_B, &[]);
        after_json.truncate(after_json.len() - 4);
        after_json.extend_from_slice(&bytes);
        let _ = read(&after_json, &[("lenient", lenient)]);
    }

    #[test]
    fn a_changed_byte_never_panics_and_what_is_still_read_strictly_goes_back_unchanged(
        which in 0usize..3,
        at: prop::sample::Index,
        value: u8,
        lenient: bool,
    ) {
        let mut bytes = [mlp_a(), mlp_b(), convolution()][which].clone();
        let at = at.index(bytes.len());
        bytes[at] = value;
        if let Ok((contents, values)) = read(&bytes, &[("lenient", if lenient { "true" } else { "false" })]) {
            let written = write(&contents.checkpoint, &values, &[]);
            prop_assert!(!contents.repairs.is_empty() || written.unwrap() == bytes);
            for dialect in ["a", "b"] {
                let _ = write(&contents.checkpoint, &values, &[("dialect", dialect), ("zero_bias", "true")]);
            }
        }
    }

    #[test]
    fn random_tensors_never_panic_and_what_is_read_strictly_goes_back_unchanged(
        tensors in prop::collection::vec((0usize..4, any::<bool>(), prop::collection::vec(1u32..5, 1..4)), 0..6),
        lenient: bool,
    ) {
        let named: Vec<(String, Vec<u32>)> = tensors
            .into_iter()
            .map(|(n, weight, dims)| (format!("layer{n}.{}", if weight { "weight" } else { "bias" }), dims))
            .collect();
        let tensors: Vec<(&str, &[u32])> = named.iter().map(|(name, dims)| (name.as_str(), &dims[..])).collect();
        let bytes = file(JSON_B, &tensors);
        if let Ok((contents, values)) = read(&bytes, &[("lenient", if lenient { "true" } else { "false" })]) {
            let written = write(&contents.checkpoint, &values, &[]);
            prop_assert!(!contents.repairs.is_empty() || written.unwrap() == bytes);
        }
    }
}
