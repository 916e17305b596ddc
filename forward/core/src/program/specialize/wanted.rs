//! Which values attributes and choices follow from.

use ckpt_api::{Graph, Node, Op};
use std::collections::{HashMap, HashSet};

/// Returns the names of the values from which attributes, conditions and numbers of iterations follow. A name that several
/// graphs within nodes use stands for all of their values.
pub(super) fn wanted(graph: &Graph) -> HashSet<String> {
    let mut makers: HashMap<&str, Vec<&Node>> = HashMap::new();
    let mut open: Vec<&str> = Vec::new();
    for node in graph.all_nodes() {
        node.outputs.iter().for_each(|name| makers.entry(name).or_default().push(node));
        open.extend(node.computed_attributes().map(|(_, input)| input));
        let deciding = match node.op {
            Op::If => 1,
            Op::Loop => 2,
            _ => 0,
        };
        open.extend(node.inputs.iter().take(deciding).map(String::as_str));
    }
    let mut found = HashSet::new();
    while let Some(name) = open.pop() {
        if name.is_empty() || !found.insert(name) {
            continue;
        }
        for node in makers.get(name).into_iter().flatten() {
            // The lengths of a value do not follow from its elements.
            if node.op != Op::Shape {
                open.extend(node.inputs.iter().map(String::as_str));
            }
            let made = node.graphs().flat_map(|(_, graph)| &graph.outputs);
            open.extend(made.map(|value| value.name.as_str()));
        }
    }
    found.into_iter().map(str::to_owned).collect()
}
