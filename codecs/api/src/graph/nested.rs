//! Graphs within the nodes of a graph: the branches of an `If`, the body of a `Loop`.

use crate::{Attribute, Error, Graph, Node, Result};
use std::collections::HashSet;

/// Limit on graphs within nodes of graphs; the outermost graph counts.
pub const MAX_GRAPH_LEVELS: usize = 16;

impl Graph {
    /// Returns the graph and all graphs within its nodes; each comes after the one that it is within.
    ///
    /// ```
    /// use ckpt_api::{Attribute, Graph, Node, Op};
    ///
    /// let branch = Graph { name: "then".into(), ..Graph::default() };
    /// let node = Node::new("choice", Op::If).attribute("then_branch", Attribute::Graph(Box::new(branch)));
    /// let graph = Graph { nodes: vec![node], ..Graph::default() };
    /// assert_eq!(graph.levels().count(), 2);
    /// ```
    pub fn levels(&self) -> impl Iterator<Item = &Graph> {
        let mut open = vec![self];
        std::iter::from_fn(move || {
            let graph = open.pop()?;
            open.extend(graph.nodes.iter().flat_map(Node::graphs).map(|(_, within)| within));
            Some(graph)
        })
    }

    /// Returns the nodes of the graph and of all graphs within them.
    pub fn all_nodes(&self) -> impl Iterator<Item = &Node> {
        self.levels().flat_map(|graph| &graph.nodes)
    }

    /// Returns the names of the tensors that nodes are bound to, within nodes, too.
    pub fn tensors(&self) -> impl Iterator<Item = &str> {
        self.all_nodes().flat_map(|node| node.parameters.values()).map(String::as_str)
    }

    /// Calls `change` for the nodes of the graph and of all graphs within them.
    pub fn each_node_mut(&mut self, mut change: impl FnMut(&mut Node)) {
        let mut open = vec![self];
        while let Some(graph) = open.pop() {
            for node in &mut graph.nodes {
                change(node);
                open.extend(node.attributes.values_mut().filter_map(|attribute| match attribute {
                    Attribute::Graph(graph) => Some(&mut **graph),
                    _ => None,
                }));
            }
        }
    }

    /// Checks that the nodes can run in their order: names of nodes are unique in their graph, and every value is made
    /// once, before it is taken. An empty name stands for an input or an output that is left out, as in ONNX. A graph
    /// within a node may take the values that exist before the node, and its own names are none of theirs.
    ///
    /// # Errors
    /// [`crate::Kind::Corrupt`], naming the node; [`crate::Kind::Limit`] for more than [`MAX_GRAPH_LEVELS`].
    pub fn check(&self) -> Result<()> {
        let mut made: HashSet<&str> = HashSet::new();
        let mut open = vec![Checked::new(self, "inputs")];
        made.extend(self.inputs.iter().map(|value| value.name.as_str()));
        while let Some(level) = open.last_mut() {
            if let Some(within) = level.waiting.pop() {
                let name = level.node.map_or("", |node| node.name.as_str());
                let mut inner = Checked::new(within, name);
                inner.enter(&mut made)?;
                open.push(inner);
                if open.len() > MAX_GRAPH_LEVELS {
                    return Err(Error::limit("graphs nest too deep in the nodes of graphs")
                        .field(name)
                        .expected(format!("at most {MAX_GRAPH_LEVELS} levels")));
                }
                continue;
            }
            if let Some(node) = level.node.take() {
                level.outputs(node, &mut made)?;
            }
            match level.nodes.next() {
                Some(node) => level.begin(node, &made)?,
                None => {
                    level.finish(&made)?;
                    level.own.iter().for_each(|name| {
                        made.remove(name);
                    });
                    open.pop();
                }
            }
        }
        Ok(())
    }
}

impl Node {
    /// Returns the graphs among its attributes, with the attributes' names.
    pub fn graphs(&self) -> impl DoubleEndedIterator<Item = (&str, &Graph)> {
        self.attributes.iter().filter_map(|(name, attribute)| match attribute {
            Attribute::Graph(graph) => Some((name.as_str(), &**graph)),
            _ => None,
        })
    }

    /// Returns a graph among its attributes; `None` if the node lacks it.
    ///
    /// # Errors
    /// [`crate::Kind::Corrupt`] for an attribute of another type.
    pub fn graph(&self, name: &str) -> Result<Option<&Graph>> {
        match self.attributes.get(name) {
            None => Ok(None),
            Some(Attribute::Graph(graph)) => Ok(Some(graph)),
            Some(other) => Err(other.invalid(name, "a graph")),
        }
    }

    /// Returns the role and the name of each tensor that it is bound to, and of those within it.
    pub fn tensors(&self) -> impl Iterator<Item = (&str, &str)> {
        let within = self.graphs().flat_map(|(_, graph)| graph.all_nodes());
        let nodes = std::iter::once(self).chain(within);
        nodes.flat_map(|node| &node.parameters).map(|(role, name)| (role.as_str(), name.as_str()))
    }
}

/// A graph that is being checked.
struct Checked<'g> {
    graph: &'g Graph,
    nodes: std::slice::Iter<'g, Node>,
    names: HashSet<&'g str>,
    /// The node whose graphs are being checked, and those that are left.
    node: Option<&'g Node>,
    waiting: Vec<&'g Graph>,
    /// Values that exist only within the graph; not noted for the outermost one.
    own: Vec<&'g str>,
    /// What the graph is called in errors: the node that it is within.
    within: &'g str,
}

impl<'g> Checked<'g> {
    fn new(graph: &'g Graph, within: &'g str) -> Self {
        let names = HashSet::with_capacity(graph.nodes.len());
        Checked {
            graph,
            nodes: graph.nodes.iter(),
            names,
            node: None,
            waiting: Vec::new(),
            own: Vec::new(),
            within,
        }
    }

    /// Makes the inputs of a graph within a node.
    fn enter(&mut self, made: &mut HashSet<&'g str>) -> Result<()> {
        for input in &self.graph.inputs {
            if !made.insert(&input.name) {
                return wrong(
                    "a graph within a layer takes a value that already exists",
                    self.within,
                    &input.name,
                );
            }
            self.own.push(&input.name);
        }
        Ok(())
    }

    /// Checks what a node takes; its graphs are checked next.
    fn begin(&mut self, node: &'g Node, made: &HashSet<&'g str>) -> Result<()> {
        if !self.names.insert(node.name.as_str()) {
            return wrong("two layers of the graph have the same name", &node.name, &node.name);
        }
        let missing = |name: &&String| !name.is_empty() && !made.contains(name.as_str());
        if let Some(input) = node.inputs.iter().find(missing) {
            return wrong("a layer takes a value that no earlier layer produces", &node.name, input);
        }
        self.waiting = node.graphs().rev().map(|(_, graph)| graph).collect();
        self.node = Some(node);
        Ok(())
    }

    /// Makes what a node makes.
    fn outputs(&mut self, node: &'g Node, made: &mut HashSet<&'g str>) -> Result<()> {
        for output in node.outputs.iter().filter(|name| !name.is_empty()) {
            if !made.insert(output) {
                return wrong("a layer produces a value that already exists", &node.name, output);
            }
            self.own.push(output);
        }
        Ok(())
    }

    fn finish(&self, made: &HashSet<&'g str>) -> Result<()> {
        match self.graph.outputs.iter().find(|value| !made.contains(value.name.as_str())) {
            Some(value) if self.within == "inputs" => {
                wrong("the graph outputs a value that no layer produces", "outputs", &value.name)
            }
            Some(value) => wrong(
                "a graph within a layer outputs a value that no layer produces",
                self.within,
                &value.name,
            ),
            None => Ok(()),
        }
    }
}

fn wrong<T>(what: &str, node: &str, value: &str) -> Result<T> {
    Err(Error::corrupt(what).field(node.to_owned()).found(format!("'{value}'")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Op, Value};

    fn node(name: &str, op: Op, inputs: &[&str], output: &str) -> Node {
        let mut node = Node::new(name, op);
        node.inputs = inputs.iter().map(|name| (*name).to_owned()).collect();
        node.outputs = vec![output.to_owned()];
        node
    }

    /// A graph without inputs, of one node.
    fn branch(node: Node) -> Attribute {
        let outputs = node.outputs.iter().map(|name| Value::new(name, [])).collect();
        Attribute::Graph(Box::new(Graph { outputs, nodes: vec![node], ..Graph::default() }))
    }

    fn choice() -> Graph {
        let choice = node("choice", Op::If, &["c"], "y")
            .attribute("then_branch", branch(node("a", Op::Gemm, &["x"], "z").parameter("weight", "w")))
            .attribute("else_branch", branch(node("a", Op::Relu, &["x"], "z")));
        Graph {
            inputs: vec![Value::new("x", [Some(2)]), Value::new("c", [])],
            outputs: vec![Value::new("y", [Some(2)])],
            nodes: vec![choice],
            ..Graph::default()
        }
    }

    fn within(graph: &mut Graph, change: impl FnOnce(&mut Graph)) {
        match graph.nodes[0].attributes.get_mut("then_branch") {
            Some(Attribute::Graph(graph)) => change(graph),
            _ => panic!("no branch"),
        }
    }

    #[test]
    fn a_graph_within_a_node_takes_values_from_around_it_and_keeps_its_own_to_itself() {
        choice().check().unwrap();
        type Damage = fn(&mut Graph);
        let damages: &[(&str, Damage)] = &[
            ("no earlier layer produces", |graph| {
                within(graph, |graph| graph.nodes[0].inputs[0] = "y".into())
            }),
            ("already exists", |graph| within(graph, |graph| graph.nodes[0].outputs[0] = "x".into())),
            ("already exists", |graph| within(graph, |graph| graph.inputs.push(Value::new("x", [])))),
            ("no layer produces", |graph| within(graph, |graph| graph.outputs[0].name = "q".into())),
            ("no layer produces", |graph| graph.outputs[0].name = "z".into()),
        ];
        for (message, damage) in damages {
            let mut graph = choice();
            damage(&mut graph);
            let error = graph.check().unwrap_err().to_string();
            assert!(error.contains(message), "{message}: {error}");
        }
    }

    #[test]
    fn tensors_within_nodes_are_the_graphs_own_and_can_be_renamed() {
        let mut graph = choice();
        assert_eq!(graph.tensors().collect::<Vec<_>>(), ["w"]);
        assert_eq!(graph.nodes[0].tensors().collect::<Vec<_>>(), [("weight", "w")]);
        graph.each_node_mut(|node| node.parameters.values_mut().for_each(|name| name.push('2')));
        assert_eq!(graph.tensors().collect::<Vec<_>>(), ["w2"]);
        assert_eq!((graph.levels().count(), graph.all_nodes().count()), (3, 3));
    }

    #[test]
    #[cfg_attr(miri, ignore = "its deep graphs take half a minute")]
    fn graphs_that_nest_too_deep_are_refused() {
        let mut graph = choice();
        for depth in 0..MAX_GRAPH_LEVELS {
            assert_eq!(graph.check().is_ok(), depth + 2 <= MAX_GRAPH_LEVELS, "{depth}");
            let mut outer = choice();
            let inner = node(&format!("d{depth}"), Op::If, &["c"], &format!("y{depth}"));
            let mut taken = std::mem::take(&mut graph.nodes);
            let deeper = taken.remove(0);
            outer.nodes = vec![
                inner
                    .attribute("then_branch", branch(deeper))
                    .attribute("else_branch", branch(node("e", Op::Relu, &["x"], "e"))),
            ];
            outer.outputs[0].name = format!("y{depth}");
            graph = outer;
        }
        assert!(graph.check().unwrap_err().to_string().contains("nest too deep"));
    }

    #[test]
    fn a_graph_within_a_node_survives_json() {
        let json = serde_json::to_string(&choice()).unwrap();
        assert_eq!(serde_json::from_str::<Graph>(&json).unwrap(), choice());
        // What nests deeper than the reader allows is refused, not followed.
        let deep = "{\"inputs\":[],\"outputs\":[],\"nodes\":[{\"name\":\"n\",\"op\":\"If\",\"inputs\":[],\"outputs\":[],\"attributes\":{\"b\":";
        let times = if cfg!(miri) { 1_000 } else { 100_000 };
        assert!(serde_json::from_str::<Graph>(&deep.repeat(times)).is_err());
    }
}
