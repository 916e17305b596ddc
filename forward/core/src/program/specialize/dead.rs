//! Leaves out nodes that nothing needs.

use ckpt_api::{Node, Value};
use std::collections::HashSet;

/// Returns the nodes that the results need, in their order.
pub(super) fn without_unused(nodes: Vec<Node>, results: &[Value]) -> Vec<Node> {
    let mut needed: HashSet<String> = results.iter().map(|value| value.name.clone()).collect();
    let mut kept = Vec::with_capacity(nodes.len());
    for node in nodes.into_iter().rev() {
        if !node.outputs.iter().any(|output| needed.contains(output)) {
            continue;
        }
        needed.extend(node.inputs.iter().cloned());
        for level in node.graphs().flat_map(|(_, graph)| graph.levels()) {
            needed.extend(level.nodes.iter().flat_map(|node| &node.inputs).cloned());
            needed.extend(level.outputs.iter().map(|value| value.name.clone()));
        }
        kept.push(node);
    }
    kept.reverse();
    kept
}
