//! Graphs of very many layers take time in proportion to their layers.

use super::support::Net;
use ckpt::Registry;
use ckpt::api::{Axis, Graph, Node, Op};
use ckpt::mapping::Mapping;
use ckpt::verify::{NamedMapping, Options, Report, Verdict, verify};
use std::time::{Duration, Instant};

const LAYERS: usize = 8_000;

/// Several times what a busy machine takes; time quadratic in the layers exceeds it by far.
const LIMIT: Duration = Duration::from_secs(60);

/// Matrices of four elements, one after the other.
fn matrices() -> Net {
    let node = |layer| Node::new(format!("l{layer}"), Op::Gemm).parameter("weight", format!("l{layer}/w"));
    let nodes = (0..LAYERS).map(node).collect();
    let graph = Graph::sequential("long", vec![None, Some(2)], vec![None, Some(2)], nodes);
    let names: Vec<String> = (0..LAYERS).map(|layer| format!("l{layer}/w")).collect();
    let tensors: Vec<(&str, &[(Axis, u64)])> =
        names.iter().map(|name| (name.as_str(), &[(Axis::In, 2), (Axis::Out, 2)][..])).collect();
    Net::new(graph, &tensors)
}

fn verified(a: &Net, b: &Net, options: &Options) -> Report {
    let start = Instant::now();
    let report = verify(&Registry::builtin(), &a.source(), &b.source(), options).unwrap();
    assert!(start.elapsed() < LIMIT, "{:?}", start.elapsed());
    report
}

fn every_layer() -> Options {
    Options { per_layer: true, ..Options::default() }
}

#[test]
fn layers_without_tensors_are_compared_in_linear_time() {
    let mut nodes = vec![Node::new("first", Op::Gemm).parameter("weight", "w")];
    nodes.extend((0..2 * LAYERS).map(|layer| Node::new(format!("relu{layer}"), Op::Relu)));
    let graph = Graph::sequential("long", vec![None, Some(2)], vec![None, Some(2)], nodes);
    let net = Net::new(graph, &[("w", &[(Axis::In, 2), (Axis::Out, 2)])]);
    let report = verified(&net, &net, &every_layer());
    assert_eq!((report.verdict, report.runs[0].layers.len()), (Verdict::Pass, 2 * LAYERS + 1));
}

#[test]
fn layers_that_all_differ_are_diagnosed_in_linear_time() {
    let (a, mut b) = (matrices(), matrices());
    b.values.iter_mut().flatten().for_each(|value| *value *= 1.25);
    let last = b.values.len() - 1;
    b.values[last] = a.values[3].clone();
    let report = verified(&a, &b, &every_layer());
    assert_eq!(report.verdict, Verdict::Fail);
    let diagnosis = report.runs[0].layers[last].diagnosis.as_ref().unwrap();
    assert!(diagnosis.reason.contains("it equals 'l3/w' of layer 'l3'"), "{}", diagnosis.reason);
}

#[test]
fn names_are_mapped_in_linear_time() {
    let a = matrices();
    let b = a.renamed(|name| format!("b/{name}"));
    let lookup: String = (0..LAYERS).map(|layer| format!("\"l{layer}/w\" = \"b/l{layer}/w\"\n")).collect();
    let mapping = Mapping::from_toml(&format!("[lookup]\n{lookup}"), "names.toml").unwrap();
    let mapping = NamedMapping { name: "names.toml".into(), mapping };
    let report = verified(&a, &b, &Options { mapping: Some(mapping), ..every_layer() });
    assert_eq!(report.verdict, Verdict::Pass);
    let pair = &report.runs[0].layers[LAYERS - 1].tensors[0];
    assert!(pair.mapped_by.as_ref().unwrap().starts_with("lookup at line "), "{pair:?}");
}
