//! Names of nodes and values that move from a graph within a node to the graph around it.

use super::Specializer;
use ckpt_api::{Attribute, Graph, Node};
use std::collections::HashMap;

impl Specializer<'_> {
    /// Gives the values of a graph names that no other value has.
    pub(super) fn with_own_names(&mut self, graph: &mut Graph) {
        let mut renamed: HashMap<String, String> = HashMap::new();
        for name in graph.nodes.iter().flat_map(|node| &node.outputs).filter(|name| !name.is_empty()) {
            if self.ambiguous.contains(name) {
                let own = self.taken.unused(name);
                if self.wanted.contains(name) {
                    self.wanted.insert(own.clone());
                }
                renamed.insert(name.clone(), own);
            }
        }
        if !renamed.is_empty() {
            rename(graph, &renamed);
        }
    }
}

/// Gives values of a graph other names, also where graphs within its nodes take them.
fn rename(graph: &mut Graph, names: &HashMap<String, String>) {
    let change = |name: &mut String| {
        if let Some(other) = names.get(name) {
            name.clone_from(other);
        }
    };
    let outputs = |node: &mut Node| {
        for attribute in node.attributes.values_mut() {
            if let Attribute::Graph(graph) = attribute {
                graph.outputs.iter_mut().for_each(|value| change(&mut value.name));
            }
        }
    };
    graph.outputs.iter_mut().for_each(|value| change(&mut value.name));
    graph.nodes.iter_mut().flat_map(|node| &mut node.outputs).for_each(change);
    graph.each_node_mut(|node| {
        node.inputs.iter_mut().for_each(change);
        outputs(node);
    });
}
