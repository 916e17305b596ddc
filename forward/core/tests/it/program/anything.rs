//! Random nodes: each is refused or runs.

use super::support::*;
use ckpt_api::{Attribute, Axis, Node, Op};
use ckpt_forward::{Arithmetic, Bounds, Cpu, Program, Random, Value, op};
use std::collections::BTreeMap;

/// An operator, its attributes, its roles with the axes of their tensors, and the rank of each input.
type Form = (Op, &'static [&'static str], &'static [(&'static str, &'static [Axis])], &'static [usize]);

const WINDOW: &[&str] = &["kernel_shape", "strides", "pads", "dilations", "ceil_mode", "auto_pad"];
const EACH: &[Axis] = &[Axis::Out];
const RECURRENT: &[&str] = &["direction", "layout", "linear_before_reset", "clip"];
const GATES: &[(&str, &[Axis])] =
    &[("weight", &[Axis::Out, Axis::In]), ("recurrent_weight", &[Axis::Out, Axis::In]), ("bias", EACH)];

const FORMS: [Form; 55] = [
    (Op::Gemm, &[], &[("weight", &[Axis::In, Axis::Out]), ("bias", EACH)], &[2]),
    (
        Op::Conv,
        &["strides", "pads", "dilations", "group", "auto_pad"],
        &[("weight", &[Axis::Out, Axis::In, Axis::KernelY, Axis::KernelX]), ("bias", EACH)],
        &[4],
    ),
    (
        Op::Conv,
        &["strides", "pads", "dilations"],
        &[("weight", &[Axis::Multiplier, Axis::In, Axis::KernelY, Axis::KernelX])],
        &[4],
    ),
    (
        Op::ConvTranspose,
        &["strides", "pads", "dilations", "group", "auto_pad", "output_padding", "output_shape"],
        &[("weight", &[Axis::In, Axis::Out, Axis::KernelY, Axis::KernelX]), ("bias", EACH)],
        &[4],
    ),
    (Op::RNN, RECURRENT, GATES, &[3]),
    (Op::Einsum, &["equation"], &[], &[2, 2]),
    (Op::MatMul, &[], &[], &[3, 2]),
    (Op::Resize, &["sizes", "scales", "mode", "nearest_mode"], &[], &[2]),
    (Op::DepthToSpace, &["blocksize", "mode"], &[], &[4]),
    (Op::SpaceToDepth, &["blocksize", "mode"], &[], &[4]),
    (Op::GroupNormalization, &["num_groups", "epsilon"], &[("scale", EACH), ("bias", EACH)], &[3]),
    (Op::InstanceNormalization, &["epsilon"], &[("scale", EACH)], &[4]),
    (Op::RMSNormalization, &["axis", "epsilon"], &[("scale", EACH)], &[2]),
    (Op::LRN, &["size", "alpha"], &[], &[3]),
    (Op::LpNormalization, &["axis", "p"], &[], &[2]),
    (Op::ArgMax, &["axis", "keepdims", "select_last_index"], &[], &[2]),
    (Op::TopK, &["k", "axis", "largest"], &[], &[2]),
    (Op::CumSum, &["axis", "exclusive", "reverse"], &[], &[2]),
    (Op::CumProd, &["axis", "exclusive", "reverse"], &[], &[2]),
    (Op::Trilu, &["upper", "k"], &[], &[2]),
    (Op::Mod, &["fmod"], &[], &[2, 2]),
    (Op::ReduceL2, &["axes", "keepdims"], &[], &[3]),
    (Op::ReduceLogSumExp, &["axes", "keepdims"], &[], &[2]),
    (Op::Squeeze, &["axes"], &[], &[3]),
    (Op::Unsqueeze, &["axes"], &[], &[2]),
    (Op::Expand, &["shape"], &[], &[3]),
    (Op::Tile, &["repeats"], &[], &[2]),
    (Op::Gather, &["axis"], &[], &[3, 2]),
    (Op::Concat, &["axis"], &[], &[3, 3, 3]),
    (Op::Pad, &["pads", "mode"], &[], &[2]),
    (Op::Clip, &["min", "max"], &[], &[2]),
    (Op::Relu, &[], &[], &[0]),
    (Op::LeakyRelu, &["alpha"], &[], &[1]),
    (Op::Elu, &["alpha"], &[], &[1]),
    (Op::Gelu, &["approximate"], &[], &[1]),
    (Op::Softplus, &[], &[], &[5]),
    (Op::custom(op::SQUARE), &[], &[], &[2]),
    (Op::Softmax, &["axis"], &[], &[3]),
    (Op::LogSoftmax, &["axis"], &[], &[1]),
    (Op::Flatten, &["axis"], &[], &[3]),
    (Op::MaxPool, WINDOW, &[], &[4]),
    (Op::AveragePool, WINDOW, &[], &[4]),
    (Op::GlobalAveragePool, &[], &[], &[4]),
    (
        Op::BatchNormalization,
        &["epsilon"],
        &[("scale", EACH), ("bias", EACH), ("mean", EACH), ("variance", EACH)],
        &[3],
    ),
    (Op::LayerNormalization, &["axis", "epsilon"], &[("scale", EACH), ("bias", EACH)], &[2]),
    (Op::Add, &[], &[], &[3, 2]),
    (Op::Mul, &[], &[], &[1, 4]),
    (Op::Split, &["axis", "split"], &[], &[2]),
    (Op::Slice, &["starts", "ends", "axes", "steps"], &[], &[2]),
    (Op::Reshape, &["shape", "allowzero"], &[], &[3]),
    (Op::Transpose, &["perm"], &[], &[3]),
    (Op::Gather, &[], &[("weight", &[Axis::Feature, Axis::Out])], &[2]),
    (
        Op::custom(op::FEATURE_TRANSFORMER),
        &["features"],
        &[
            ("weight", &[Axis::Bucket, Axis::Feature, Axis::Out]),
            ("factoriser", &[Axis::Out, Axis::Feature]),
            ("bias", EACH),
        ],
        &[2],
    ),
    (
        Op::custom(op::BUCKETED_GEMM),
        &[],
        &[("weight", &[Axis::Bucket, Axis::In, Axis::Out]), ("bias", &[Axis::Bucket, Axis::Out])],
        &[2, 1],
    ),
    (Op::custom(op::BIAS), &[], &[("bias", &[Axis::Bucket, Axis::Out])], &[2, 1]),
];

/// Mostly 2, so that shapes sometimes fit.
fn length(random: &mut Random) -> usize {
    [2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 3, 0][random.between(0, 11)]
}

fn attribute(random: &mut Random, name: &str) -> Attribute {
    const TEXTS: [&str; 12] = [
        "SAME_UPPER",
        "SAME_LOWER",
        "VALID",
        "edge",
        "constant",
        "tanh",
        "reflect",
        "wrap",
        "linear",
        "cubic",
        "CRD",
        "DCR",
    ];
    const EQUATIONS: [&str; 8] =
        ["ij,jk->ik", "ij,ij->", "ii,ij", "...i,...i", "ij,jk->...", ",", "->", "i...,k->k..."];
    let int = |random: &mut Random| match random.between(0, 40) {
        0 => i64::MAX,
        1 => i64::MIN,
        2 => 60_000,
        3 => -3,
        other => other as i64 % 4,
    };
    let some = int(random);
    match name {
        "axis" | "group" | "features" | "ceil_mode" | "allowzero" => Attribute::Int(some),
        "num_groups"
        | "size"
        | "p"
        | "keepdims"
        | "select_last_index"
        | "k"
        | "largest"
        | "exclusive"
        | "reverse"
        | "upper"
        | "fmod"
        | "blocksize"
        | "layout"
        | "linear_before_reset" => Attribute::Int(some),
        "scales" => Attribute::Floats(vec![some as f64 / 2.0, int(random) as f64]),
        "direction" => Attribute::Text(["forward", "reverse", "bidirectional"][random.between(0, 2)].into()),
        "equation" => Attribute::Text(EQUATIONS[random.between(0, EQUATIONS.len() - 1)].into()),
        "nearest_mode" => Attribute::Text(["floor", "ceil", "edge"][random.between(0, 2)].into()),
        "clip" => Attribute::Float(some as f64),
        "min" | "max" | "alpha" | "epsilon" => Attribute::Float(some as f64 / 2.0),
        "auto_pad" | "mode" | "approximate" => {
            Attribute::Text(TEXTS[random.between(0, TEXTS.len() - 1)].into())
        }
        "pads" | "perm" | "shape" => {
            let list = (0..4).map(|_| int(random)).collect::<Vec<_>>();
            Attribute::Ints(list[..random.between(3, 4)].to_vec())
        }
        _ => Attribute::Ints(vec![some, int(random)]),
    }
}

fn anything(random: &mut Random) -> (Node, Vec<Value>, Tensors) {
    let (op, attributes, roles, ranks) = &FORMS[random.between(0, FORMS.len() - 1)];
    let mut node = Node::new("n", op.clone());
    for name in *attributes {
        if random.chance(2) {
            node = node.attribute(name, attribute(random, name));
        }
    }
    let mut tensors = Tensors::default();
    for (role, axes) in *roles {
        if !random.chance(6) {
            let order = random.order(axes.len());
            let axes: Vec<Axis> = order.into_iter().map(|axis| axes[axis]).collect();
            let shape: Vec<usize> = axes.iter().map(|_| length(random)).collect();
            tensors = tensors.with(role, &axes, &reals(random, &shape));
            node = node.parameter(role, *role);
        }
    }
    let inputs = ranks.iter().map(|rank| {
        let rank = if random.chance(12) { random.between(0, 5) } else { *rank };
        let shape: Vec<usize> = (0..rank).map(|_| length(random)).collect();
        reals(random, &shape)
    });
    let inputs = inputs.collect();
    (node, inputs, tensors)
}

#[test]
fn any_node_is_refused_or_runs() {
    let mut random = Random::new(12);
    let (mut ran, mut refused) = (BTreeMap::new(), 0);
    for _ in 0..140_000 {
        let (node, inputs, tensors) = anything(&mut random);
        let op = node.op.clone();
        let shapes: Vec<&[usize]> = inputs.iter().map(|value| &value.shape[..]).collect();
        let graph = graph(node, &shapes, if matches!(op, Op::Split | Op::TopK) { 2 } else { 1 });
        let shapes =
            graph.inputs.iter().zip(&inputs).map(|(input, value)| (input.name.clone(), value.shape.clone()));
        match Program::within(
            &graph,
            &tensors,
            &shapes.collect(),
            Bounds { memory: 1 << 20, ..Bounds::default() },
        ) {
            Ok(program) => {
                // An index into an empty table is found only at run time.
                let _ = program.run(&mut Cpu::new(Arithmetic::F32), &program.random_inputs(1), &mut ());
                *ran.entry(op).or_insert(0) += 1;
            }
            Err(_) => refused += 1,
        }
    }
    // Conv and Gather each have two forms.
    assert!(ran.len() == FORMS.len() - 2 && refused > 10_000, "{ran:?}, {refused} refused");
    assert!(ran.values().all(|times| *times > 20), "{ran:?}");
}
