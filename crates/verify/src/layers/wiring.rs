//! Follows which value of the second graph corresponds to which of the first.

use super::pairing::Pair;
use ckpt_api::{Graph, Node, Op};
use ckpt_engine::words::count;
use std::collections::{BTreeSet, HashMap};

/// The values of two graphs that correspond to each other.
pub(super) struct Wiring {
    /// The first graph's values, by the second graph's names.
    same: HashMap<String, String>,
    /// For each graph, the outputs of nodes that were left out of the pairs, and the values that they pass on.
    passed: [HashMap<String, String>; 2],
}

impl Wiring {
    /// Starts with the graphs' inputs, the first graph's by the second graph's names.
    pub(super) fn new(a: &Graph, b: &Graph, pairs: &[Pair], inputs: &HashMap<String, String>) -> Self {
        let both = |side: fn(usize, usize) -> usize| -> BTreeSet<usize> {
            let index = |pair: &Pair| if let Pair::Both(a, b) = pair { Some(side(*a, *b)) } else { None };
            pairs.iter().filter_map(index).collect()
        };
        let passed = [passed_on(a, &both(|a, _| a)), passed_on(b, &both(|_, b| b))];
        Wiring { same: inputs.clone(), passed }
    }

    /// Records that the results of two nodes correspond. Returns the difference between their inputs, if there is one.
    pub(super) fn follow(&mut self, a: &Node, b: &Node) -> Option<String> {
        let [in_a, in_b] = &self.passed;
        let source = |passed: &HashMap<String, String>, name: &str| {
            passed.get(name).map_or(name, String::as_str).to_owned()
        };
        let mut wrong = None;
        for (x, y) in a.inputs.iter().zip(&b.inputs) {
            let (own, theirs) = (source(in_a, x), source(in_b, y));
            // An input that is left out has no name.
            let is_same = match (own.is_empty(), theirs.is_empty()) {
                (false, false) => self.same.get(&theirs) == Some(&own),
                (own, theirs) => own == theirs,
            };
            if !is_same {
                wrong.get_or_insert_with(|| {
                    format!("its input is '{theirs}'; the reference's is '{own}', another value")
                });
            }
        }
        if a.inputs.len() != b.inputs.len() {
            wrong = Some(format!(
                "it has {}; the reference has {}",
                count(b.inputs.len(), "input"),
                a.inputs.len()
            ));
        }
        self.same.extend(b.outputs.iter().cloned().zip(a.outputs.iter().cloned()));
        wrong
    }
}

/// The values that nodes outside `paired` pass on unchanged, by the names of their outputs.
fn passed_on(graph: &Graph, paired: &BTreeSet<usize>) -> HashMap<String, String> {
    let mut passed: HashMap<String, String> = HashMap::new();
    for (index, node) in graph.nodes.iter().enumerate() {
        let passes = matches!(node.op, Op::Identity | Op::Flatten) && !paired.contains(&index);
        if let (true, [from], [to]) = (passes, &node.inputs[..], &node.outputs[..]) {
            // Nodes are in order: earlier values are resolved already.
            let from = passed.get(from).unwrap_or(from).clone();
            passed.insert(to.clone(), from);
        }
    }
    passed
}
