//! The choice of the rule, and what each rule accepts.

use super::support::{Net, check, dense_net, diverging, sparse_net, transposed};
use ckpt::api::{Attribute, Axis, DType, Graph, Node, Op, Shape, Value};
use ckpt::diff::Tolerance;
use ckpt::mapping::Mapping;
use ckpt::verify::{InputFile, Inputs, NamedMapping, Options, RuleName, Verdict};

#[test]
fn every_bit_must_be_equal_where_only_names_and_layout_changed() {
    let net = dense_net();
    for other in [
        net.clone(),
        net.turned("one/kernel").turned("three/kernel"),
        net.renamed(|name| name.replace('/', ".").replace("kernel", "weight")),
    ] {
        let report =
            check(&net.source(), &other.source(), &Options { per_layer: true, ..Options::default() });
        let run = &report.runs[0];
        assert_eq!((report.verdict, run.rule.name), (Verdict::Pass, RuleName::Bits));
        assert_eq!((run.layers.len(), run.outputs[0].comparison.metrics.differing), (6, 0));
        assert_eq!((run.device.api.as_str(), run.device.arithmetic.name()), ("cpu", "f32"));
    }
}

#[test]
fn a_bias_stored_as_one_row_is_the_same_bias() {
    let (net, mut rows) = (dense_net(), dense_net());
    let index = rows.index("one/bias");
    let bias = &mut rows.checkpoint.tensors[index];
    bias.shape = Shape::new([1, bias.shape.elements()]).unwrap();
    bias.axes = Some([Axis::Unit, Axis::Out].into());
    let options = Options { per_layer: true, ..Options::default() };
    assert_eq!(check(&rows.source(), &net.source(), &options).verdict, Verdict::Pass);
    assert_eq!(check(&net.source(), &rows.source(), &options).verdict, Verdict::Pass);
    *rows.tensor("one/bias").last_mut().unwrap() += 1.0;
    let report = check(&net.source(), &rows.source(), &options);
    assert_eq!(report.verdict, Verdict::Fail);
    assert_eq!(diverging(&report).diagnosis.as_ref().unwrap().tensors[0].differing, 1);
}

#[test]
fn a_wider_dtype_changes_no_bit_and_a_narrower_one_is_bounded() {
    let mut net = sparse_net();
    let half = net.stored_as(DType::F16);
    let bounded = check(&net.source(), &half, &Options::default());
    let run = &bounded.runs[0];
    assert_eq!((bounded.verdict, run.rule.name), (Verdict::Pass, RuleName::Bound));
    for words in ["f32 stored as f16", "(5 tensors)"] {
        assert!(run.rule.reason.contains(words), "{}", run.rule.reason.as_str());
    }
    assert!(run.rule.layers.contains("2^-11·|w| + 2^-25"), "{}", run.rule.layers);
    assert_eq!(run.reference.arithmetic.name(), "f64");
    // Values that binary16 holds.
    for values in &mut net.values {
        values.iter_mut().for_each(|value| *value = (*value * 64.0).round() / 64.0);
    }
    let widened = check(&net.stored_as(DType::F16), &net.source(), &Options::default());
    assert_eq!((widened.verdict, widened.runs[0].rule.name), (Verdict::Pass, RuleName::Bits));
}

#[test]
fn a_cpu_that_fuses_sums_is_bounded_as_a_device_is() {
    let net = dense_net();
    let options = Options { fast: true, per_layer: true, ..Options::default() };
    let report = check(&net.source(), &net.source(), &options);
    let run = &report.runs[0];
    // A processor without the instruction is the reference itself.
    let rule = if run.device.is_reference() { RuleName::Bits } else { RuleName::Bound };
    assert_eq!((report.verdict, run.rule.name), (Verdict::Pass, rule));
    if rule == RuleName::Bound {
        let reason = run.rule.reason.as_str();
        assert_eq!(reason, "b runs on the CPU in f32 with fused operations, and a on the CPU in f64");
        assert_eq!(run.reference.arithmetic.name(), "f64");
    }
    let mut broken = dense_net();
    broken.tensor("two/kernel")[5] *= 1.01;
    let report = check(&net.source(), &broken.source(), &options);
    assert_eq!((report.verdict, diverging(&report).a.as_deref()), (Verdict::Fail, Some("two")));
}

#[test]
fn a_weight_whose_error_exceeds_that_of_its_dtype_is_caught() {
    let (net, mut broken) = (dense_net(), dense_net());
    let weight = &mut broken.tensor("two/kernel")[5];
    *weight += weight.abs() * 4.0 / 2048.0;
    let report = check(&net.source(), &broken.stored_as(DType::F16), &Options::default());
    assert_eq!(report.verdict, Verdict::Fail);
    let layer = diverging(&report);
    assert_eq!(layer.a.as_deref(), Some("two"));
    assert_eq!(layer.diagnosis.as_ref().unwrap().tensors[0].first, [0, 5]);
}

#[test]
fn a_given_tolerance_replaces_the_rule() {
    let (net, mut other) = (dense_net(), dense_net());
    other.tensor("three/bias")[0] += 1e-3;
    let with = |absolute, relative| {
        let tolerance = Some(Tolerance { absolute, relative });
        check(&net.source(), &other.source(), &Options { tolerance, ..Options::default() })
    };
    let report = with(1e-2, 0.0);
    assert_eq!((report.verdict, report.runs[0].rule.name), (Verdict::Pass, RuleName::Given));
    assert_eq!(with(1e-6, 0.0).verdict, Verdict::Fail);
    assert_eq!(with(0.0, 1e-2).verdict, Verdict::Pass);
}

#[test]
fn a_relative_tolerance_is_relative_to_the_first_checkpoint_in_diff_and_in_verify() {
    let bias = |value: f32| {
        let node = Node::new("bias", Op::custom("ckpt.Bias")).parameter("bias", "b");
        let graph = Graph::sequential("g", vec![None, Some(1)], vec![None, Some(1)], vec![node]);
        let mut net = Net::new(graph, &[("b", &[(Axis::Out, 1)])]);
        *net.tensor("b") = vec![value];
        net.source()
    };
    let (ten, nine) = (bias(10.0), bias(9.0));
    let tolerance = Some(Tolerance { absolute: 0.0, relative: 0.1 });
    assert!(ckpt::diff::diff(&ten, &nine, tolerance).unwrap().agrees());
    assert!(!ckpt::diff::diff(&nine, &ten, tolerance).unwrap().agrees());
    // The output is the bias where the input is 0.
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("x.safetensors");
    super::support::archive(&path, "x", &[1, 1], &[0.0]);
    let inputs = Inputs { files: vec![InputFile { path, ..InputFile::default() }], ..Inputs::default() };
    let options = Options { inputs, tolerance, ..Options::default() };
    assert_eq!(check(&ten, &nine, &options).verdict, Verdict::Pass);
    assert_eq!(check(&nine, &ten, &options).verdict, Verdict::Fail);
}

#[test]
fn a_fault_behind_a_mapping_names_the_mapping_rule() {
    let net = dense_net();
    let mapping = Mapping::from_toml(
        "[[rule]]\nfrom = '{layer}/kernel'\nto = '{layer}.weight'\n[[rule]]\nfrom = '{layer}/bias'\nto = '{layer}.bias'\n",
        "m.toml",
    );
    let options = Options {
        mapping: Some(NamedMapping { name: "m.toml".into(), mapping: mapping.unwrap() }),
        ..Options::default()
    };
    let mut renamed = net.renamed(|name| name.replace('/', ".").replace("kernel", "weight"));
    assert!(check(&net.source(), &renamed.source(), &options).verdict.passes());
    renamed.tensor("two.bias")[1] += 1.0;
    let report = check(&net.source(), &renamed.source(), &options);
    let diagnosis = diverging(&report).diagnosis.clone().unwrap();
    assert_eq!((diagnosis.tensors[0].a.as_str(), diagnosis.tensors[0].b.as_str()), ("two/bias", "two.bias"));
    let rule = diagnosis.tensors[0].mapped_by.clone().unwrap();
    assert!(rule.contains("rule 2") && rule.contains("{layer}/bias"), "{rule}");
    assert!(diagnosis.reason.contains(&rule), "{}", diagnosis.reason);
    assert_eq!(report.mapping.as_deref(), Some("m.toml"));
}

#[test]
fn a_mapping_decides_which_layers_are_paired() {
    // The same layers, bound to each other's names.
    let net = dense_net();
    let crossed = net.renamed(|name| match name.split_once('/') {
        Some(("one", rest)) => format!("two/{rest}"),
        Some(("two", rest)) => format!("one/{rest}"),
        _ => name.to_owned(),
    });
    let swap = [("one", "two"), ("two", "one")];
    let pairs = swap.iter().flat_map(|(from, to)| {
        ["kernel", "bias"].map(|part| (format!("{from}/{part}"), format!("{to}/{part}")))
    });
    let mapping = Some(NamedMapping { name: "swap".into(), mapping: Mapping::lookup(pairs).unwrap() });
    let report =
        check(&net.source(), &crossed.source(), &Options { mapping, per_layer: true, ..Options::default() });
    assert_eq!(report.verdict, Verdict::Pass);
    let tensors = &report.runs[0].layers[0].tensors;
    assert_eq!((&tensors[0].role[..], &tensors[0].b.as_ref().unwrap().name[..]), ("bias", "two/bias"));
    assert!(tensors[0].mapped_by.is_some());
}

#[test]
fn dropout_and_equivalent_layers_are_not_a_difference() {
    let (net, mut other) = (dense_net(), dense_net());
    other.graph().nodes.insert(1, Node::new("dropout", Op::Identity));
    let nodes = std::mem::take(&mut other.graph().nodes);
    *other.graph() = Graph::sequential("m", vec![None, Some(6)], vec![None, Some(3)], nodes);
    let report = check(&net.source(), &other.source(), &Options { per_layer: true, ..Options::default() });
    assert_eq!((report.verdict, report.runs[0].layers.len()), (Verdict::Pass, 6));
    // ReLU twice is ReLU: the second has no counterpart, and the outputs agree.
    let nodes = {
        let mut nodes = net.checkpoint.graph.clone().unwrap().nodes;
        nodes.insert(2, Node::new("again", Op::Relu));
        nodes
    };
    *other.graph() = Graph::sequential("m", vec![None, Some(6)], vec![None, Some(3)], nodes);
    let report = check(&net.source(), &other.source(), &Options { per_layer: true, ..Options::default() });
    assert_eq!(report.verdict, Verdict::Pass);
    let alone: Vec<_> =
        report.runs[0].layers.iter().filter(|layer| layer.verdict == Verdict::NotCompared).collect();
    assert_eq!(alone.len(), 1);
    assert_eq!(alone[0].b.as_deref(), Some("again"));
}

/// Rounding weights may change the outputs by more than a whole layer does.
#[test]
fn a_layer_that_only_one_graph_has_is_a_difference_where_storage_widens_the_bound() {
    let (net, mut other) = (dense_net(), dense_net());
    let mut nodes = std::mem::take(&mut other.graph().nodes);
    nodes.insert(4, Node::new("leak", Op::LeakyRelu).attribute("alpha", Attribute::Float(0.999_9)));
    *other.graph() = Graph::sequential("m", vec![None, Some(6)], vec![None, Some(3)], nodes);
    let half = other.stored_as(DType::F16);
    let report = check(&net.source(), &half, &Options::default());
    assert!(report.runs[0].outputs[0].comparison.verdict.passes(), "the outputs alone do not show it");
    assert_eq!(report.verdict, Verdict::Fail);
    assert!(
        report.runs[0]
            .layers
            .iter()
            .any(|layer| layer.b.as_deref() == Some("leak") && !layer.verdict.passes())
    );
    let tolerance = Some(Tolerance { absolute: 0.1, relative: 0.0 });
    let report = check(&net.source(), &half, &Options { tolerance, ..Options::default() });
    assert_eq!(report.verdict, Verdict::Pass, "the user's tolerance decides");
}

/// Rounding is all that happened: the first graph, with its weights rounded, gives the same bits.
#[test]
fn graphs_that_are_written_differently_agree_if_rounding_the_weights_gives_the_same_bits() {
    let (net, mut other) = (dense_net(), dense_net());
    let mut nodes = std::mem::take(&mut other.graph().nodes);
    nodes.insert(2, Node::new("again", Op::Relu));
    *other.graph() = Graph::sequential("m", vec![None, Some(6)], vec![None, Some(3)], nodes);
    for dtype in [DType::F16, DType::Bf16] {
        let report = check(&net.source(), &other.stored_as(dtype), &Options::default());
        assert_eq!((report.verdict, report.runs[0].rule.name), (Verdict::Pass, RuleName::Bound), "{dtype}");
        let mut broken = other.clone();
        broken.tensor("two/kernel").swap(0, 1);
        let report = check(&net.source(), &broken.stored_as(dtype), &Options::default());
        assert_eq!(report.verdict, Verdict::Fail, "{dtype}");
    }
}

/// An LSTM from 4 numbers to 5, all of whose outputs are compared.
fn recurrent_net() -> Net {
    let roles = [("weight", "w"), ("recurrent_weight", "r"), ("bias", "b")];
    let mut lstm = Node::new("lstm", Op::LSTM);
    for (role, name) in roles {
        lstm = lstm.parameter(role, name);
    }
    lstm.inputs = vec!["x".to_owned()];
    lstm.outputs = ["y", "h", "c"].map(str::to_owned).to_vec();
    let value = |name: &str, shape: &[Option<u64>]| Value::new(name, shape.to_vec());
    let state = [Some(1), None, Some(5)];
    let graph = Graph {
        name: "rnn".to_owned(),
        inputs: vec![value("x", &[None, None, Some(4)])],
        outputs: vec![value("y", &[None, Some(1), None, Some(5)]), value("h", &state), value("c", &state)],
        nodes: vec![lstm],
    };
    let (direction, out) = ((Axis::Direction, 1), (Axis::Out, 20));
    let tensors: [(&str, &[(Axis, u64)]); 3] = [
        ("w", &[direction, out, (Axis::In, 4)]),
        ("r", &[direction, out, (Axis::In, 5)]),
        ("b", &[direction, (Axis::Out, 40)]),
    ];
    Net::new(graph, &tensors)
}

/// Errors of weights go through as many products as there are steps, and each state has a bound of its own.
#[test]
fn a_recurrent_layer_of_rounded_weights_agrees_and_a_fault_in_it_is_caught() {
    type Damage = fn(&mut Net);
    let faults: [(&str, Damage); 4] = [
        ("two gates are swapped", |net| {
            let weights = net.tensor("w");
            let (first, second) = weights[..40].split_at_mut(20);
            first.swap_with_slice(second);
        }),
        ("the square matrix of a gate is transposed", |net| {
            let weights = net.tensor("r");
            let turned = transposed(&weights[..25], 5, 5);
            weights[..25].copy_from_slice(&turned);
        }),
        ("the bias is dropped", |net| net.tensor("b").fill(0.0)),
        ("the layer has no bias", |net| {
            net.node("lstm").parameters.remove("bias");
        }),
    ];
    let net = recurrent_net();
    for dtype in [DType::F16, DType::Bf16] {
        let options = Options { per_layer: true, ..Options::default() };
        let report = check(&net.source(), &net.stored_as(dtype), &options);
        let run = &report.runs[0];
        assert_eq!((report.verdict, run.rule.name, run.layers.len()), (Verdict::Pass, RuleName::Bound, 3));
        let is_bounded = |layer: &ckpt::verify::Layer| layer.verdict == Verdict::Pass;
        assert!(run.layers.iter().all(is_bounded), "{dtype}: the bound of each state holds");
        for (fault, damage) in faults {
            let mut broken = net.clone();
            damage(&mut broken);
            let report = check(&net.source(), &broken.stored_as(dtype), &Options::default());
            assert_eq!(report.verdict, Verdict::Fail, "{dtype}: {fault}");
            assert_eq!(diverging(&report).a.as_deref(), Some("lstm"), "{dtype}: {fault}");
        }
    }
}

/// A model may have been exported with a state of one example, while the batch of its input is free.
#[test]
fn random_inputs_have_a_shape_that_the_graph_runs_with() {
    let with_state = |batch: u64| {
        let mut net = recurrent_net();
        net.graph().inputs[0].shape = vec![Some(5), None, Some(4)];
        for state in ["h0", "c0"] {
            net.graph().inputs.push(Value::new(state, vec![Some(1), Some(batch), Some(5)]));
        }
        net.node("lstm").inputs = ["x", "h0", "c0"].map(str::to_owned).to_vec();
        net
    };
    let net = with_state(1);
    let report = check(&net.source(), &net.source(), &Options::default());
    assert_eq!((report.verdict, &report.inputs[0].shape[..]), (Verdict::Pass, &[5, 1, 4][..]));
    // No length that is tried is 3. The graph is healthy all the same.
    let net = with_state(3);
    let verified = |options: &Options| {
        ckpt::verify::verify(&ckpt::Registry::builtin(), &net.source(), &net.source(), options)
    };
    let error = verified(&Options::default()).unwrap_err();
    assert_eq!(error.kind(), ckpt::Kind::Unsupported, "{error}");
    assert!(error.to_string().contains("none of the random inputs that were tried"), "{error}");
    let options = Options { inputs: Inputs { length: Some(3), ..Inputs::default() }, ..Options::default() };
    assert!(verified(&options).unwrap().verdict.passes());
}

/// An image that is halved six times needs more than 32 pixels.
#[test]
fn random_images_are_as_large_as_the_graph_needs() {
    let halved = |at: usize| {
        Node::new(format!("pool{at}"), Op::MaxPool)
            .attribute("kernel_shape", Attribute::Ints(vec![2, 2]))
            .attribute("strides", Attribute::Ints(vec![2, 2]))
    };
    let image = [None, Some(1), None, None];
    let graph = Graph::sequential("p", image.to_vec(), image.to_vec(), (0..6).map(halved).collect());
    let net = Net::new(graph, &[]);
    let report = check(&net.source(), &net.source(), &Options::default());
    assert_eq!((report.verdict, &report.inputs[0].shape[..]), (Verdict::Pass, &[1, 1, 64, 64][..]));
}

/// 1/√v magnifies the error of a small variance.
#[test]
fn a_normalization_by_small_variances_is_bounded_by_their_storage_error() {
    let roles = ["scale", "bias", "mean", "variance"];
    let norm = roles
        .iter()
        .fold(Node::new("norm", Op::BatchNormalization), |node, role| node.parameter(role, *role));
    let graph = Graph::sequential("n", vec![None, Some(6)], vec![None, Some(6)], vec![norm]);
    let six: &[(Axis, u64)] = &[(Axis::Out, 6)];
    let mut seen = 0;
    for size in [1.0, 1e-3, 1e-5, 1e-6, 1e-7] {
        let mut net =
            Net::new(graph.clone(), &[("scale", six), ("bias", six), ("mean", six), ("variance", six)]);
        net.tensor("variance").iter_mut().for_each(|value| *value = (value.abs() + 0.1) * size);
        for dtype in [DType::F16, DType::Bf16] {
            let report = check(&net.source(), &net.stored_as(dtype), &Options::default());
            assert!(report.verdict.passes(), "{size} {dtype}: {:?}", report.runs[0].layers[0].comparison);
            let mut other = net.clone();
            other.tensor("variance")[2] *= 1.5;
            let report = check(&net.source(), &other.stored_as(dtype), &Options::default());
            seen += usize::from(!report.verdict.passes());
        }
    }
    // Half of 1e-7 is less than what f16 holds.
    assert!(seen >= 9, "{seen}");
}

/// Small relative errors of large logits are large errors of probabilities that binary32 barely holds.
#[test]
fn a_softmax_of_large_logits_is_not_a_difference() {
    for size in [1.0, 30.0, 100.0, 1000.0] {
        let mut net = dense_net();
        net.tensor("three/kernel").iter_mut().for_each(|value| *value *= size);
        let report = check(&net.source(), &net.stored_as(DType::F16), &Options::default());
        let run = &report.runs[0];
        assert!(report.verdict.passes(), "{size}: {:?} {:?}", run.outputs[0].comparison.checks, run.layers);
    }
}

#[test]
fn a_comparison_of_no_examples_is_refused_and_one_of_nan_alone_is_noted() {
    let (registry, net) = (ckpt::Registry::builtin(), dense_net());
    let empty = Options { inputs: Inputs { batch: 0, ..Inputs::default() }, ..Options::default() };
    let error = ckpt::verify::verify(&registry, &net.source(), &net.source(), &empty).unwrap_err();
    assert_eq!(error.kind(), ckpt::Kind::Usage);
    assert!(error.to_string().contains("at least one example"), "{error}");
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("x.safetensors");
    super::support::archive(&path, "x", &[1, 6], &[f32::NAN; 6]);
    let file = InputFile { path, ..InputFile::default() };
    let inputs = Inputs { files: vec![file], ..Inputs::default() };
    let report = check(&net.source(), &net.source(), &Options { inputs, ..Options::default() });
    assert!(report.notes.iter().any(|note| note.contains("NaN")), "{:?}", report.notes);
    assert!(check(&net.source(), &net.source(), &Options::default()).notes.is_empty());
}

#[test]
fn checkpoints_without_a_graph_are_compared_by_their_tensors() {
    let (net, mut other) = (dense_net(), dense_net());
    other.checkpoint.graph = None;
    let report = check(&net.source(), &other.source(), &Options::default());
    let tensors = report.tensors.as_ref().unwrap();
    assert_eq!((report.verdict, report.runs.len(), tensors.difference.tensors.len()), (Verdict::Pass, 0, 6));
    assert!(tensors.reason.contains("the second checkpoint has no graph"), "{}", tensors.reason);
    assert!(report.notes.is_empty());
    let devices = vec!["vulkan".to_owned()];
    let unused = check(&net.source(), &other.source(), &Options { devices, ..Options::default() });
    assert!(unused.notes[0].contains("no graph was run"), "{:?}", unused.notes);
    let mut renamed = other.renamed(|name| format!("m.{name}"));
    let registry = ckpt::Registry::builtin();
    let error = ckpt::verify::verify(&registry, &net.source(), &renamed.source(), &Options::default());
    assert!(error.unwrap_err().to_string().contains("no tensor names in common"));
    let mapping = Mapping::from_toml("[[rule]]\nfrom = '{name:path}'\nto = 'm.{name}'\n", "m.toml").unwrap();
    let options =
        Options { mapping: Some(NamedMapping { name: "m.toml".into(), mapping }), ..Options::default() };
    assert_eq!(check(&net.source(), &renamed.source(), &options).verdict, Verdict::Pass);
    renamed.tensor("m.one/bias")[0] += 1.0;
    assert_eq!(check(&net.source(), &renamed.source(), &options).verdict, Verdict::Fail);
}

#[test]
fn a_checkpoint_without_a_graph_is_run_with_the_others_unless_it_has_weights_beside() {
    let graph = || {
        let node = Node::new("one", Op::Gemm).parameter("weight", "w");
        Graph::sequential("net", vec![None, Some(4)], vec![None, Some(4)], vec![node])
    };
    let axes: &[(Axis, u64)] = &[(Axis::In, 4), (Axis::Out, 4)];
    let net = Net::new(graph(), &[("w", axes)]);
    let mut bare = Net::new(graph(), &[("w", axes)]);
    bare.checkpoint.graph = None;
    bare.tensor("w")[0] += 1.0;
    for (a, b) in [(&net, &bare), (&bare, &net)] {
        let report = check(&a.source(), &b.source(), &Options::default());
        assert_eq!((report.verdict, report.runs.len()), (Verdict::Fail, 1));
        assert!(
            report.notes.iter().any(|note| note.contains("has no graph: it was run with")),
            "{:?}",
            report.notes
        );
    }
    let mut more = Net::new(graph(), &[("w", axes), ("extra", axes)]);
    more.checkpoint.graph = None;
    let registry = ckpt::Registry::builtin();
    let error = ckpt::verify::verify(&registry, &net.source(), &more.source(), &Options::default());
    let error = error.unwrap_err();
    assert!(error.context().found.unwrap().ends_with("it also has the weights extra"), "{error}");
    more.tensor("w")[0] += 1.0;
    let report = check(&net.source(), &more.source(), &Options::default());
    assert_eq!((report.verdict, report.runs.len()), (Verdict::Fail, 0));
}

#[test]
fn graphs_with_other_inputs_are_refused() {
    let options = Options::default();
    let registry = ckpt::Registry::builtin();
    let error = ckpt::verify::verify(&registry, &dense_net().source(), &sparse_net().source(), &options);
    assert_eq!(error.unwrap_err().kind(), ckpt::Kind::Mismatch);
}

#[test]
fn memory_is_bounded() {
    let net = dense_net();
    let small = Options { memory: 200, ..Options::default() };
    let registry = ckpt::Registry::builtin();
    let error = ckpt::verify::verify(&registry, &net.source(), &net.source(), &small).unwrap_err();
    assert_eq!(error.kind(), ckpt::Kind::Limit);
}

#[test]
fn a_model_larger_than_the_memory_gives_the_same_bits_because_weights_are_read_layer_by_layer() {
    let names: Vec<String> = (0..20).map(|layer| format!("layer{layer}")).collect();
    let node = |name: &String| Node::new(name.as_str(), Op::Gemm).parameter("weight", name.as_str());
    let graph = Graph::sequential(
        "deep",
        vec![None, Some(16)],
        vec![None, Some(16)],
        names.iter().map(node).collect(),
    );
    let axes = [(Axis::In, 16), (Axis::Out, 16)];
    let tensors: Vec<(&str, &[(Axis, u64)])> = names.iter().map(|name| (name.as_str(), &axes[..])).collect();
    let net = Net::new(graph, &tensors);
    // Weights are counted in binary64.
    let (all, some) = (20 * 16 * 16 * 8, 3 * 16 * 16 * 8);
    let registry = ckpt::Registry::builtin();
    let pass = |memory: u64| {
        let mut cpu = ckpt::verify::devices::open("cpu", Default::default()).unwrap();
        let inputs = Inputs { batch: 4, ..Inputs::default() };
        ckpt::verify::run(&registry, &net.source(), &inputs, None, &mut *cpu, memory)
    };
    assert_eq!(pass(some).unwrap().outputs, pass(4 * all).unwrap().outputs);
    assert_eq!(pass(some / 3).unwrap_err().kind(), ckpt::Kind::Limit);
    let options = Options { memory: some, ..Options::default() };
    let options = Options { inputs: Inputs { batch: 4, ..Inputs::default() }, ..options };
    let report = check(&net.source(), &net.source(), &options);
    assert_eq!((report.verdict, report.runs[0].rule.name), (Verdict::Pass, RuleName::Bits));
}

#[test]
fn reports_are_the_same_every_time() {
    let (net, half) = (sparse_net(), sparse_net().stored_as(DType::Bf16));
    let report = || serde_json::to_string(&check(&net.source(), &half, &Options::default())).unwrap();
    assert_eq!(report(), report());
}
