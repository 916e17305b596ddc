//! Chains of layers, and activations that a source does not state.

use crate::{Activation, Attribute, Error, Graph, Node, Op, Result, Setting, Value, text};
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

impl Node {
    /// The activation that layer `layer` of a source applies without naming it.
    pub fn unspecified(layer: &str) -> Self {
        Node::new(format!("{layer}/activation"), Op::Unspecified)
            .attribute("layer", Attribute::Text(layer.to_owned()))
    }
}

impl Graph {
    /// Wires `nodes` one after the other between one input and one output, and makes their names unique.
    pub fn sequential(
        name: impl Into<String>,
        input: Vec<Option<u64>>,
        output: Vec<Option<u64>>,
        nodes: Vec<Node>,
    ) -> Self {
        let mut graph = Graph {
            name: name.into(),
            inputs: vec![Value::new("input", input)],
            outputs: vec![Value::new("input", output)],
            nodes,
        };
        graph.rewire();
        graph
    }

    fn rewire(&mut self) {
        self.make_names_unique();
        let mut value = "input".to_owned();
        for node in &mut self.nodes {
            node.inputs = vec![value];
            node.outputs = vec![node.name.clone()];
            value = node.name.clone();
        }
        if let Some(output) = self.outputs.first_mut() {
            output.name = value;
        }
    }

    fn make_names_unique(&mut self) {
        // Borrowed: there can be millions of nodes, and few names are repeated.
        let mut taken: HashSet<Cow<'_, str>> = HashSet::from(["input".into()]);
        let mut repeated: HashMap<&str, u64> = HashMap::new();
        let mut renamed: Vec<(usize, String)> = Vec::new();
        for (index, node) in self.nodes.iter().enumerate() {
            let mut name = Cow::Borrowed(node.name.as_str());
            while !taken.insert(name.clone()) {
                let number = repeated.entry(&node.name).or_insert(1);
                *number += 1;
                name = format!("{}#{number}", node.name).into();
            }
            if let Cow::Owned(name) = name {
                renamed.push((index, name));
            }
        }
        for (index, name) in renamed {
            if let Some(node) = self.nodes.get_mut(index) {
                node.name = name;
            }
        }
    }

    /// The nodes, if they form one chain from one input to one output.
    ///
    /// # Errors
    /// [`crate::Kind::Unsupported`], naming the first node that branches.
    pub fn chain(&self) -> Result<&[Node]> {
        match &self.inputs[..] {
            [input] => self.chain_from(&input.name, &self.nodes),
            _ => Err(branch("inputs")),
        }
    }

    /// The nodes of [`Graph::chain`], or those after a Concat of all inputs in their order, which count as one then: a
    /// model that takes them joined computes the same.
    ///
    /// # Errors
    /// As [`Graph::chain`].
    pub fn chain_of_joined(&self) -> Result<&[Node]> {
        let inputs = || self.inputs.iter().map(|input| input.name.as_str());
        match self.nodes.split_first() {
            Some((Node { op: Op::Concat, inputs: joined, outputs, .. }, rest))
                if inputs().eq(joined.iter().map(String::as_str)) =>
            {
                let [output] = &outputs[..] else { return Err(branch("inputs")) };
                self.chain_from(output, rest)
            }
            _ => self.chain(),
        }
    }

    /// Checks that each of `nodes`, the last ones of the graph, takes what the one before it makes, the first one
    /// `value`.
    fn chain_from<'a>(&self, mut value: &'a String, nodes: &'a [Node]) -> Result<&'a [Node]> {
        for node in nodes {
            match (&node.inputs[..], &node.outputs[..]) {
                ([from], [to]) if from == value => value = to,
                _ => return Err(branch(&node.name)),
            }
        }
        match &self.outputs[..] {
            [output] if output.name == *value => Ok(nodes),
            _ => Err(branch("outputs")),
        }
    }

    /// Names of the layers whose activation the source does not state.
    pub fn unspecified(&self) -> Vec<&str> {
        let open = self.nodes.iter().filter(|node| node.op == Op::Unspecified);
        open.map(|node| match node.attributes.get("layer") {
            Some(Attribute::Text(layer)) => layer.as_str(),
            _ => node.name.as_str(),
        })
        .collect()
    }

    /// Refuses a graph in which an activation is not stated; the error names it, and how to state it.
    ///
    /// # Errors
    /// [`crate::Kind::Usage`].
    pub fn require_activations(&self) -> Result<()> {
        let open = self.unspecified();
        if open.is_empty() {
            return Ok(());
        }
        let example = [vec!["relu"; open.len() - 1], vec!["softmax"]].concat().join(",");
        let option = format!("activations={example}");
        Err(Error::usage("the source does not store the activations of its layers")
            .found(format!("no activation for {}", open.join(", ")))
            .help(text![
                "name one for each of these layers, in this order, such as ",
                Setting::READ_OPTION.of(&option),
                " (linear for a layer without an activation), or describe the layers in an architecture \
                 file, given with ",
                Setting::ARCHITECTURE,
            ]))
    }

    /// Fills in the activations that are not stated, in order. [`Activation::Linear`] removes the node.
    ///
    /// # Errors
    /// [`crate::Kind::Usage`] if the numbers differ; [`crate::Kind::Unsupported`] if such a node has not one
    /// input and one output.
    pub fn specify(&mut self, activations: &[Activation]) -> Result<()> {
        let open: Vec<String> = self.unspecified().into_iter().map(str::to_owned).collect();
        if open.len() != activations.len() {
            return Err(Error::usage("the number of activations does not fit the layers")
                .found(activations.len().to_string())
                .expected(format!("{}, for: {}", open.len(), open.join(", "))));
        }
        let mut nodes = self.nodes.iter().filter(|node| node.op == Op::Unspecified);
        if let Some(node) = nodes.find(|node| node.inputs.len() != 1 || node.outputs.len() != 1) {
            return Err(Error::unsupported("an activation does not have exactly one input and one output")
                .field(&node.name));
        }
        let mut given = activations.iter();
        let mut removed: HashMap<String, String> = HashMap::new();
        self.nodes.retain_mut(|node| {
            node.inputs.iter_mut().for_each(|input| follow(&removed, input));
            if node.op != Op::Unspecified {
                return true;
            }
            match given.next().and_then(|activation| activation.op()) {
                Some(op) => {
                    node.op = op;
                    node.attributes.clear();
                    true
                }
                None => {
                    removed.extend(node.outputs.pop().zip(node.inputs.pop()));
                    false
                }
            }
        });
        self.outputs.iter_mut().for_each(|output| follow(&removed, &mut output.name));
        Ok(())
    }
}

/// The value that a removed node passed on.
fn follow(removed: &HashMap<String, String>, name: &mut String) {
    if let Some(before) = removed.get(name) {
        name.clone_from(before);
    }
}

fn branch(name: &str) -> Error {
    Error::unsupported("the graph is not a chain of layers").field(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open_chain() -> Graph {
        let dense = |name: &str| Node::new(name, Op::Gemm).parameter("weight", format!("{name}/kernel"));
        let nodes = vec![dense("a"), Node::unspecified("a"), dense("b"), Node::unspecified("b")];
        Graph::sequential("m", vec![None, Some(4)], vec![None, Some(2)], nodes)
    }

    #[test]
    fn a_sequential_graph_is_a_chain() {
        assert_eq!(open_chain().chain().unwrap().len(), 4);
    }

    #[test]
    fn inputs_that_are_joined_first_count_as_one_where_that_is_asked_for() {
        let mut graph = open_chain();
        let input = graph.inputs[0].clone();
        graph.inputs.push(Value { name: "more".to_owned(), ..input.clone() });
        let mut join = Node::new("join", Op::Concat);
        (join.inputs, join.outputs) = (vec![input.name, "more".to_owned()], vec!["join".to_owned()]);
        graph.nodes[0].inputs = vec!["join".to_owned()];
        graph.nodes.insert(0, join);
        graph.check().unwrap();
        assert!(graph.chain().is_err());
        assert_eq!(graph.chain_of_joined().unwrap().len(), 4);
        graph.nodes[0].inputs.reverse();
        assert!(graph.chain_of_joined().is_err());
        assert_eq!(open_chain().chain_of_joined().unwrap().len(), 4);
    }

    #[test]
    fn activations_that_are_not_stated_are_named_and_can_be_given() {
        let mut graph = open_chain();
        let error = graph.require_activations().unwrap_err().to_string();
        assert!(error.contains("a, b") && error.contains("activations=relu,softmax"), "{error}");
        graph.specify(&[Activation::Relu, Activation::Linear]).unwrap();
        graph.require_activations().unwrap();
        let ops: Vec<&str> = graph.chain().unwrap().iter().map(|node| node.op.name()).collect();
        assert_eq!(ops, ["Gemm", "Relu", "Gemm"]);
    }

    #[test]
    fn a_graph_that_cannot_run_is_refused() {
        type Damage = fn(&mut Graph);
        let damages: &[(&str, Damage)] = &[
            ("same name", |graph| graph.nodes[1].name = "a".into()),
            ("no earlier layer produces", |graph| graph.nodes.swap(0, 1)),
            ("no earlier layer produces", |graph| graph.inputs.clear()),
            ("already exists", |graph| graph.nodes[1].outputs = vec!["input".into()]),
            ("no layer produces", |graph| graph.outputs[0].name = "z".into()),
        ];
        open_chain().check().unwrap();
        for (message, damage) in damages {
            let mut graph = open_chain();
            damage(&mut graph);
            let error = graph.check().unwrap_err().to_string();
            assert!(error.contains(message), "{message}: {error}");
        }
    }

    #[test]
    fn activations_can_be_given_where_the_graph_branches() {
        let mut graph = open_chain();
        let mut join = Node::new("join", Op::Concat);
        join.inputs = vec!["b/activation".into(), "input".into()];
        join.outputs = vec!["join".into()];
        graph.nodes.push(join);
        graph.specify(&[Activation::Linear, Activation::Linear]).unwrap();
        graph.check().unwrap();
        assert_eq!(graph.nodes[1].inputs, ["a"]);
        assert_eq!(graph.nodes[2].inputs, ["b", "input"]);
        assert_eq!(graph.outputs[0].name, "b");
    }

    #[test]
    fn a_wrong_number_of_activations_is_refused() {
        assert!(open_chain().specify(&[Activation::Relu]).is_err());
    }

    #[test]
    fn a_graph_survives_json_with_ops_it_does_not_know() {
        let mut graph = open_chain();
        graph.nodes[1].op = Op::custom("com.example.Swish");
        let json = serde_json::to_string(&graph).unwrap();
        assert_eq!(serde_json::from_str::<Graph>(&json).unwrap(), graph);
    }

    #[test]
    fn repeated_layer_names_are_made_unique() {
        let nodes = vec![Node::new("x", Op::Relu), Node::new("x", Op::Tanh)];
        let graph = Graph::sequential("", vec![], vec![], nodes);
        assert_eq!(graph.nodes[1].name, "x#2");
        graph.chain().unwrap();
    }
}
