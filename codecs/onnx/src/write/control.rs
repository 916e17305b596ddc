//! Writes branches and loops. The tensors of their graphs are the model's.

use super::builder::{Builder, Inner, Interface, Kind, Setting};
use super::ops::allow;
use ckpt_api::{Error, Graph, Node, Result};
use std::collections::HashSet;

/// A graph that is being written within a node.
struct Written {
    inner: Inner,
    /// The kinds of what it makes.
    kinds: Vec<Kind>,
}

impl Builder<'_> {
    /// Writes a branch; what the two graphs make is of one kind.
    pub(super) fn choice(&mut self, node: &Node) -> Result<()> {
        allow(node, &["then_branch", "else_branch"])?;
        let condition = self.input(node)?.0;
        let condition = self.all_of(vec![condition], Kind::Bool);
        let graphs = [graph(node, "then_branch")?, graph(node, "else_branch")?];
        let [yes, no] = graphs.map(|graph| self.within(graph, &[]));
        let (mut yes, mut no) = (yes?, no?);
        if yes.kinds.len() != no.kinds.len() {
            return Err(Error::corrupt("the branches make different numbers of values"));
        }
        let kinds: Vec<Kind> =
            yes.kinds.iter().zip(&no.kinds).map(|(own, other)| common(*own, *other)).collect();
        self.convert(&mut yes, &kinds);
        self.convert(&mut no, &kinds);
        let settings = [
            ("then_branch", Setting::Graph(Box::new(yes.inner))),
            ("else_branch", Setting::Graph(Box::new(no.inner))),
        ];
        self.results(node, "If", condition, settings.into(), &kinds)
    }

    /// Writes a loop; what it carries keeps its kind.
    pub(super) fn repeated(&mut self, node: &Node) -> Result<()> {
        allow(node, &["body", "trip_count"])?;
        let body = graph(node, "body")?;
        let lacks = || Error::corrupt("the body of a loop does not take and make what the loop carries");
        let carried = body.inputs.len().checked_sub(2).filter(|count| node.inputs.len() == count + 2);
        let carried = carried.ok_or_else(lacks)?;
        let mut inputs = self.inputs(node)?;
        for (input, kind) in inputs.iter_mut().zip([Kind::Int, Kind::Bool]) {
            if !input.is_empty() && self.kind(input) != kind {
                *input = self.cast_to(input.clone(), kind);
            }
        }
        if node.attributes.contains_key("trip_count") {
            let count = self.int("trip_count", node.int("trip_count", 0)?);
            if let Some(slot) = inputs.first_mut() {
                *slot = count;
            }
        }
        let given = inputs.get(2..).unwrap_or_default();
        let mut formals = vec![(Kind::Int, Some(0)), (Kind::Bool, Some(0))];
        formals.extend(given.iter().map(|name| (self.kind(name), self.rank(name))));
        let mut written = self.within(body, &formals)?;
        let mut kinds = written.kinds.clone();
        for (kind, (own, _)) in kinds.iter_mut().zip(formals.iter().skip(1)) {
            *kind = *own;
        }
        self.convert(&mut written, &kinds);
        let settings = vec![("body", Setting::Graph(Box::new(written.inner)))];
        self.results(node, "Loop", inputs, settings, kinds.get(1..).unwrap_or_default())?;
        // What is stacked has an axis more than in the body; the rank of neither is needed.
        for output in node.outputs.iter().skip(carried).filter(|name| !name.is_empty()) {
            let name = self.value(output)?;
            self.set_rank(&name, None);
        }
        Ok(())
    }

    /// Writes a graph within a node. `formals` are kind and number of axes of what it takes.
    fn within(&mut self, graph: &Graph, formals: &[(Kind, Option<usize>)]) -> Result<Written> {
        if graph.inputs.len() != formals.len() {
            return Err(Error::corrupt(
                "a graph within a layer has a different number of inputs than it gets",
            )
            .found(graph.inputs.len().to_string())
            .expected(formals.len().to_string()));
        }
        let (layer, outer) = (self.layer.clone(), std::mem::take(&mut self.built.nodes));
        self.level += 1;
        let written = self.inner(graph, formals);
        self.level -= 1;
        self.layer = layer;
        let nodes = std::mem::replace(&mut self.built.nodes, outer);
        let mut written = written?;
        written.inner.nodes = nodes;
        Ok(written)
    }

    fn inner(&mut self, graph: &Graph, formals: &[(Kind, Option<usize>)]) -> Result<Written> {
        let mut inner = Inner { name: named(&graph.name), ..Inner::default() };
        for (input, (kind, rank)) in graph.inputs.iter().zip(formals) {
            let name = self.declare(&input.name);
            // Only the number of the iteration and the condition have a shape that is known.
            let shape = (*rank == Some(0)).then(Vec::new);
            inner.inputs.push(Interface { name: name.clone(), data_type: self.data_type(*kind), shape });
            self.define(&input.name, name, *kind, *rank);
        }
        for node in &graph.nodes {
            self.layer.clone_from(&node.name);
            self.node(node).map_err(|error| error.field(&node.name))?;
        }
        let mut own: HashSet<String> =
            self.built.nodes.iter().flat_map(|node| node.outputs.iter().cloned()).collect();
        let mut kinds = Vec::with_capacity(graph.outputs.len());
        for output in &graph.outputs {
            let mut name = self.value(&output.name)?;
            let kind = self.kind(&name);
            // What comes from around the graph, or comes twice, is a value of its own.
            if !own.remove(&name) {
                self.layer.clone_from(&output.name);
                name = self.step("Identity", vec![name], []);
            }
            inner.outputs.push(Interface { name, data_type: self.data_type(kind), shape: None });
            kinds.push(kind);
        }
        Ok(Written { inner, kinds })
    }

    /// Lets a graph make numbers of these kinds.
    fn convert(&mut self, written: &mut Written, kinds: &[Kind]) {
        let outer = std::mem::take(&mut self.built.nodes);
        let outputs = written.inner.outputs.iter_mut().zip(&written.kinds).zip(kinds);
        for ((output, _), kind) in outputs.filter(|((_, own), kind)| own != kind) {
            output.name = self.cast_to(output.name.clone(), *kind);
            output.data_type = self.data_type(*kind);
        }
        written.inner.nodes.extend(std::mem::replace(&mut self.built.nodes, outer));
    }

    /// Adds the node, and notes what it makes.
    fn results(
        &mut self,
        node: &Node,
        op: &'static str,
        inputs: Vec<String>,
        settings: Vec<(&'static str, Setting)>,
        kinds: &[Kind],
    ) -> Result<()> {
        if kinds.len() != node.outputs.len() {
            return Err(Error::corrupt("the layer has a different number of outputs than its graphs")
                .found(node.outputs.len().to_string())
                .expected(kinds.len().to_string()));
        }
        let declared: Vec<String> = node
            .outputs
            .iter()
            .map(|own| if own.is_empty() { String::new() } else { self.declare(own) })
            .collect();
        self.push(op, inputs, declared.clone(), settings);
        for ((own, output), kind) in node.outputs.iter().zip(declared).zip(kinds) {
            if !own.is_empty() {
                self.define(own, output, *kind, None);
            }
        }
        Ok(())
    }
}

/// The kind of numbers that hold those of both.
fn common(own: Kind, other: Kind) -> Kind {
    match (own, other) {
        (Kind::Real, _) | (_, Kind::Real) => Kind::Real,
        (Kind::Bool, Kind::Bool) => Kind::Bool,
        _ => Kind::Int,
    }
}

fn graph<'n>(node: &'n Node, name: &str) -> Result<&'n Graph> {
    node.graph(name)?.ok_or_else(|| Error::corrupt(format!("the layer lacks its graph '{name}'")))
}

/// ONNX's graphs have names.
fn named(name: &str) -> String {
    if name.is_empty() { "graph".to_owned() } else { name.to_owned() }
}
