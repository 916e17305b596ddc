//! The results of a graph.

use crate::shape::Dims;
use ckpt_api::{Graph, Node, Value};
use std::collections::{HashMap, HashSet};

/// A result of a graph.
#[derive(Clone, Debug)]
pub struct GraphResult {
    /// The name of the value in the graph.
    pub value: String,
    /// Its lengths.
    pub dims: Dims,
    /// The name that the source gives it; empty if it gives none.
    pub name: String,
}

/// Removes nodes that no result needs, states the results, and gives them the source's names, if there are several.
pub fn finish(graph: &mut Graph, results: Vec<GraphResult>) {
    let is_one = results.len() == 1;
    complete(graph, results, !is_one);
}

/// As [`finish`], and gives a single result its name, too.
pub fn finish_named(graph: &mut Graph, results: Vec<GraphResult>) {
    complete(graph, results, true);
}

fn complete(graph: &mut Graph, results: Vec<GraphResult>, is_named: bool) {
    let needed = results.iter().map(|result| result.value.clone()).collect();
    graph.nodes = used(std::mem::take(&mut graph.nodes), needed);
    let inputs = || graph.inputs.iter().map(|input| input.name.clone());
    let mut taken: HashSet<String> = graph.nodes.iter().flat_map(|node| &node.outputs).cloned().collect();
    taken.extend(inputs());
    let mut fixed: HashSet<String> = inputs().collect();
    fixed.extend(results.iter().map(|result| result.value.clone()));
    let mut renamed: HashMap<String, String> = HashMap::new();
    for GraphResult { value, dims, name } in results {
        if is_named && !renamed.contains_key(&value) && !name.is_empty() && fixed.insert(name.clone()) {
            if !taken.insert(name.clone()) {
                // The value before the activation of a layer that has the result's name.
                let mut free = (2u64..).map(|number| format!("{name}#{number}"));
                let free = free.find(|other| taken.insert(other.clone()));
                renamed.extend(free.map(|free| (name.clone(), free)));
            }
            renamed.insert(value.clone(), name);
        }
        let name = renamed.get(&value).unwrap_or(&value).clone();
        graph.outputs.push(Value::new(name, dims.iter().map(|len| len.size()).collect::<Vec<_>>()));
    }
    for name in graph.nodes.iter_mut().flat_map(|node| node.inputs.iter_mut().chain(&mut node.outputs)) {
        if let Some(new) = renamed.get(name) {
            name.clone_from(new);
        }
    }
}

/// Returns the nodes that these values need, in their order.
fn used(nodes: Vec<Node>, mut needed: HashSet<String>) -> Vec<Node> {
    let mut kept = Vec::with_capacity(nodes.len());
    for node in nodes.into_iter().rev() {
        if node.outputs.iter().any(|output| needed.contains(output)) {
            needed.extend(node.inputs.iter().cloned());
            kept.push(node);
        }
    }
    kept.reverse();
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use ckpt_api::Op;

    fn node(name: &str, input: &str) -> Node {
        let mut node = Node::new(name, Op::Relu);
        (node.inputs, node.outputs) = (vec![input.to_owned()], vec![name.to_owned()]);
        node
    }

    fn result(value: &str, name: &str) -> GraphResult {
        GraphResult { value: value.to_owned(), dims: vec![8_u64.into()], name: name.to_owned() }
    }

    fn graph() -> Graph {
        let nodes = vec![node("a", "x"), node("b", "a"), node("unused", "a"), node("c", "a")];
        Graph { inputs: vec![Value::new("x", [None])], nodes, ..Graph::default() }
    }

    #[test]
    fn nodes_that_no_result_needs_are_removed() {
        let mut graph = graph();
        finish(&mut graph, vec![result("b", "scores")]);
        assert_eq!(graph.nodes.iter().map(|node| node.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(graph.outputs, [Value::new("b", [Some(8)])], "one result keeps its value's name");
    }

    #[test]
    fn several_results_get_the_names_of_the_source() {
        let mut graph = graph();
        finish(
            &mut graph,
            vec![result("b", "scores"), result("c", "a"), result("c", "other"), result("c", "")],
        );
        let names: Vec<&str> = graph.outputs.iter().map(|output| output.name.as_str()).collect();
        assert_eq!(names, ["scores", "a", "a", "a"]);
        let values: Vec<(&str, &str)> =
            graph.nodes.iter().map(|node| (&node.inputs[0][..], &node.outputs[0][..])).collect();
        assert_eq!(values, [("x", "a#2"), ("a#2", "scores"), ("a#2", "a")]);
    }

    #[test]
    fn an_input_keeps_its_name() {
        let mut graph = graph();
        finish(&mut graph, vec![result("b", "x"), result("c", "y")]);
        assert_eq!(graph.outputs[0].name, "b");
    }
}
