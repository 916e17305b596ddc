//! Faults in a network are caught, and the report names the layer and the cause.

use proptest::prelude::*;

use super::support::{Net, check, dense_net, diverging, image_net, sparse_net, transposed};
use ckpt::api::{Attribute, Op};
use ckpt::verify::{Options, Verdict};

/// A fault, the layer that must be named, and what its diagnosis must contain.
struct Fault {
    name: &'static str,
    net: fn() -> Net,
    damage: fn(&mut Net),
    layer: &'static str,
    reason: &'static [&'static str],
}

const FAULTS: [Fault; 15] = [
    Fault {
        name: "rows and columns of a kernel are exchanged",
        net: image_net,
        damage: |net| {
            let kernel = net.tensor("conv/kernel");
            *kernel = kernel.chunks(9).flat_map(|window| transposed(window, 3, 3)).collect();
        },
        layer: "conv",
        reason: &["'conv/kernel'", "with its axes in the order out in kernel_x kernel_y"],
    },
    Fault {
        name: "a square kernel is transposed",
        net: dense_net,
        damage: |net| {
            let kernel = net.tensor("two/kernel");
            *kernel = transposed(kernel, 6, 6);
        },
        layer: "two",
        reason: &["'two/kernel'", "with its axes in the order out in"],
    },
    Fault {
        name: "two biases are swapped",
        net: dense_net,
        damage: |net| {
            let (one, two) = (net.index("one/bias"), net.index("two/bias"));
            net.values.swap(one, two);
        },
        layer: "one",
        reason: &["'one/bias'", "it equals 'two/bias' of layer 'two'"],
    },
    Fault {
        name: "two layers are bound to each other's bias",
        net: dense_net,
        damage: |net| {
            net.node("one").parameters.insert("bias".into(), "two/bias".into());
            net.node("two").parameters.insert("bias".into(), "one/bias".into());
        },
        layer: "one",
        reason: &["'two/bias' differs from 'one/bias'", "it equals 'two/bias' of layer 'two'"],
    },
    Fault {
        name: "the factoriser is dropped",
        net: sparse_net,
        damage: |net| {
            for node in ["l0/stm", "l0/ntm"] {
                net.node(node).parameters.remove("factoriser");
            }
        },
        layer: "l0/stm",
        reason: &["it has no factoriser", "'l0f'"],
    },
    Fault {
        name: "an activation is replaced",
        net: dense_net,
        damage: |net| net.node("one/relu").op = Op::LeakyRelu,
        layer: "one/relu",
        reason: &["it computes LeakyRelu; the reference computes Relu"],
    },
    Fault {
        name: "an activation is missing",
        net: dense_net,
        damage: |net| {
            net.graph().nodes.retain(|node| node.name != "two/tanh");
            net.node("three").inputs = vec!["two".into()];
        },
        layer: "two/tanh",
        reason: &["only the reference has this layer"],
    },
    Fault {
        name: "an attribute has another value",
        net: sparse_net,
        damage: |net| {
            net.node("clip").attributes.insert("max".into(), Attribute::Float(0.25));
        },
        layer: "clip",
        reason: &["attribute 'max' is 0.25; in the reference it is 1.0"],
    },
    Fault {
        name: "buckets are not transposed",
        net: sparse_net,
        damage: |net| {
            // Stored as [in][bucket][out] and read as [bucket][out][in].
            let weight = net.tensor("l1w");
            *weight = transposed(weight, 6, 8);
        },
        layer: "l1",
        reason: &["'l1w'", "with its axes in the order in bucket out"],
    },
    Fault {
        name: "one bit is flipped",
        net: dense_net,
        damage: |net| {
            let weight = &mut net.tensor("three/kernel")[7];
            *weight = f32::from_bits(weight.to_bits() ^ 1);
        },
        layer: "three",
        reason: &["in 1 of 18 elements", "first at [2, 1]", "bit 0 is flipped"],
    },
    Fault {
        name: "one bit is flipped behind a neuron that never fires",
        net: || {
            let mut net = dense_net();
            net.tensor("one/bias")[0] = -1e6;
            net
        },
        damage: |net| {
            let weight = &mut net.tensor("two/kernel")[0];
            *weight = f32::from_bits(weight.to_bits() ^ (1 << 22));
        },
        layer: "two",
        reason: &["in 1 of 36 elements", "bit 22 is flipped"],
    },
    Fault {
        name: "a sign is lost",
        net: dense_net,
        damage: |net| net.tensor("two/bias").iter_mut().for_each(|bias| *bias = -*bias),
        layer: "two",
        reason: &["'two/bias'", "in 6 of 6 elements"],
    },
    Fault {
        name: "the inputs of a concatenation are exchanged",
        net: sparse_net,
        damage: |net| net.node("l0").inputs.reverse(),
        layer: "l0",
        reason: &["its input is 'l0/ntm'; the reference's is 'l0/stm'"],
    },
    Fault {
        name: "both sides read the same features",
        net: sparse_net,
        damage: |net| net.node("l0/ntm").inputs = vec!["stm".into()],
        layer: "l0/ntm",
        reason: &["its input is 'stm'; the reference's is 'ntm'"],
    },
    Fault {
        name: "a weight is not a number",
        net: dense_net,
        damage: |net| net.tensor("one/kernel")[0] = f32::NAN,
        layer: "one",
        reason: &["in 1 of 36 elements"],
    },
];

#[test]
fn every_fault_is_caught_and_its_layer_named() {
    for Fault { name, net, damage, layer, reason } in FAULTS {
        let (whole, mut broken) = (net(), net());
        assert!(check(&whole.source(), &whole.source(), &Options::default()).verdict.passes(), "{name}");
        damage(&mut broken);
        let report = check(&whole.source(), &broken.source(), &Options::default());
        assert_eq!(report.verdict, Verdict::Fail, "{name}");
        let found = diverging(&report);
        assert_eq!(found.a.as_deref(), Some(layer), "{name}");
        let diagnosis = &found.diagnosis.as_ref().unwrap().reason;
        for words in reason {
            assert!(diagnosis.contains(words), "{name}: {diagnosis}");
        }
    }
}

/// Except for the flipped bit, which is smaller than the error of storage.
#[test]
fn faults_are_caught_among_weights_that_are_stored_with_less_precision() {
    let mut seen = 0;
    for Fault { name, net, damage, layer, .. } in FAULTS {
        if name == "one bit is flipped" {
            continue;
        }
        let (whole, mut broken) = (net(), net());
        let stored = ckpt::api::DType::F16;
        // −10⁶ does not fit.
        if !whole.values.iter().flatten().all(|value| value.abs() < 60_000.0) {
            continue;
        }
        assert!(
            check(&whole.source(), &whole.stored_as(stored), &Options::default()).verdict.passes(),
            "{name}"
        );
        damage(&mut broken);
        let report = check(&whole.source(), &broken.stored_as(stored), &Options::default());
        assert_eq!(report.verdict, Verdict::Fail, "{name}");
        assert_eq!(diverging(&report).a.as_deref(), Some(layer), "{name}");
        seen += 1;
    }
    assert_eq!(seen, 13);
}

#[test]
fn a_failing_report_has_all_layers() {
    let (whole, mut broken) = (dense_net(), dense_net());
    broken.tensor("one/bias")[0] += 1.0;
    let report = check(&whole.source(), &broken.source(), &Options::default());
    let verdicts: Vec<Verdict> = report.runs[0].layers.iter().map(|layer| layer.verdict).collect();
    use Verdict::{Fail, Pass};
    assert_eq!(verdicts, [Fail, Pass, Pass, Pass, Pass, Pass]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    /// Wherever it is, and whatever the inputs are.
    #[test]
    fn a_flipped_bit_is_found_in_any_weight(sparse: bool, tensor in 0usize..6, element: usize, bit in 0u32..32, seed: u64) {
        let net = if sparse { sparse_net() } else { dense_net() };
        let mut broken = net.clone();
        let tensor = tensor % net.values.len();
        let element = element % net.values[tensor].len();
        let value = &mut broken.values[tensor][element];
        *value = f32::from_bits(value.to_bits() ^ (1 << bit));
        let mut options = Options::default();
        options.inputs.seed = seed;
        let report = check(&net.source(), &broken.source(), &options);
        prop_assert_eq!(report.verdict, Verdict::Fail);
        let diagnosis = diverging(&report).diagnosis.as_ref().unwrap();
        prop_assert_eq!(&diagnosis.tensors[0].a, &net.checkpoint.tensors[tensor].name);
        prop_assert_eq!(diagnosis.tensors[0].differing, 1);
    }
}
