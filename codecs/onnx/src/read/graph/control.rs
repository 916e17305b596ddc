//! Reads branches and loops, whose graphs are within nodes.

use super::values::{Attributes, Known, Read, Reader, interface};
use super::{OWN, shown};
use crate::format::message::{Graph as Stored, Node};
use ckpt_api::{Attribute, Graph, Op, Value};
use ckpt_graph::Length;

impl<'a> Reader<'a> {
    /// Reads all nodes of a graph.
    pub(super) fn all_nodes(&mut self, graph: &'a Stored) -> Read<()> {
        for node in &graph.nodes {
            if !OWN.contains(&node.domain.as_str()) {
                return Err(format!(
                    "operator {} of '{}' ({}) is not ONNX's",
                    node.op,
                    node.domain,
                    shown(node)
                ));
            }
            let named = |reason: String| format!("operator {} ({}) {reason}", node.op, shown(node));
            let missing = |name: &&String| !name.is_empty() && !self.visible.contains(name.as_str());
            if let Some(name) = node.inputs.iter().find(missing) {
                return Err(named(format!(
                    "takes the value '{}', which no earlier node makes",
                    name.escape_debug()
                )));
            }
            let read = match node.domain.as_str() {
                "com.microsoft" => self.contributed(node),
                "ai.onnx.ml" => self.learned(node),
                _ => self.node(node),
            };
            if self.is_spent {
                return Err(named("needs more nodes and numbers than are noted in a graph".to_owned()));
            }
            read.map_err(named)?;
            self.note_types(node);
            for name in node.outputs.iter().filter(|name| !name.is_empty()) {
                self.see(name).map_err(named)?;
            }
        }
        match graph.outputs.iter().find(|output| !self.visible.contains(output.name.as_str())) {
            Some(output) => {
                Err(format!("a graph outputs '{}', which no node makes", output.name.escape_debug()))
            }
            None => Ok(()),
        }
    }

    /// Reads a branch; one whose condition is known is the graph that is taken.
    pub(super) fn choice(&mut self, node: &'a Node) -> Read<()> {
        let condition = node.input(0).ok_or("lacks its condition")?;
        let (yes, no) = (node.graph("then_branch")?, node.graph("else_branch")?);
        let known = self.ints(condition).and_then(|ints| ints.values.first()?.known());
        if let Some(holds) = known {
            return self.taken(node, if holds == 0 { no } else { yes });
        }
        let condition = self.operand(condition)?;
        let (yes, yes_shapes) = self.within(yes, &[])?;
        let (no, no_shapes) = self.within(no, &[])?;
        let attributes = Attributes::new()
            .with("then_branch", Attribute::Graph(Box::new(yes)))
            .with("else_branch", Attribute::Graph(Box::new(no)));
        self.emit_as(node.layer(), Op::If, vec![condition], node.outputs.clone(), attributes);
        for (name, (own, other)) in node.outputs.iter().zip(yes_shapes.into_iter().zip(no_shapes)) {
            self.set_shape(name, own.filter(|own| Some(own) == other.as_ref()));
        }
        Ok(())
    }

    /// Reads the branch that is always taken as a part of the graph.
    fn taken(&mut self, node: &'a Node, graph: &'a Stored) -> Read<()> {
        self.begin(graph)?;
        self.all_nodes(graph)?;
        if graph.outputs.len() != node.outputs.len() {
            return Err("has another number of outputs than its branches".to_owned());
        }
        for (output, own) in node.outputs.iter().zip(&graph.outputs) {
            let known = self.known(&own.name).clone();
            if matches!(known, Known::Computed) {
                let (made, shape) = (self.operand(&own.name)?, self.shape(&own.name));
                let outputs = vec![output.clone()];
                self.emit_as(node.layer(), Op::Identity, vec![made], outputs, Attributes::new());
                self.set_shape(output, shape);
            } else if !self.set(output, known) {
                return Err("makes more numbers than are computed in advance".to_owned());
            }
        }
        Ok(())
    }

    /// Reads a loop; a number of iterations that is known is an attribute.
    pub(super) fn repeated(&mut self, node: &'a Node) -> Read<()> {
        let body = node.graph("body")?;
        let carried = body.inputs.len().checked_sub(2).filter(|carried| node.inputs.len() == carried + 2);
        let carried = carried.ok_or("has another number of inputs than its body")?;
        let stacked = body.outputs.len().checked_sub(carried + 1).ok_or("has too few outputs in its body")?;
        let known = |reader: &Self, at: usize| {
            node.input(at).and_then(|name| reader.ints(name)).and_then(|ints| ints.values.first()?.known())
        };
        let mut attributes = Attributes::new();
        let mut inputs = Vec::with_capacity(node.inputs.len());
        inputs.push(match (node.input(0), known(self, 0)) {
            (None, _) => String::new(),
            // As many as there are numbers: the condition ends it.
            (_, Some(most)) if most > i64::from(i32::MAX) => String::new(),
            (_, Some(most)) => {
                attributes = attributes.int("trip_count", most.max(0));
                String::new()
            }
            (Some(most), None) => self.operand(most)?,
        });
        inputs.push(match (node.input(1), known(self, 1)) {
            (None, _) => String::new(),
            (_, Some(holds)) if holds != 0 => String::new(),
            (Some(condition), _) => self.operand(condition)?,
        });
        let given = node.inputs.get(2..).unwrap_or_default();
        for name in given {
            inputs.push(self.operand(name)?);
        }
        let (graph, shapes) = self.within(body, given)?;
        attributes = attributes.with("body", Attribute::Graph(Box::new(graph)));
        let mut outputs = node.outputs.clone();
        outputs.resize(carried + stacked, String::new());
        let trips = known(self, 0).map_or(Length::Unknown, Length::Known);
        self.emit_as(node.layer(), Op::Loop, inputs, outputs, attributes);
        for (at, (name, shape)) in node.outputs.iter().zip(shapes.into_iter().skip(1)).enumerate() {
            let stack = |mut shape: Vec<Length>| {
                shape.insert(0, trips);
                shape
            };
            self.set_shape(name, if at < carried { shape } else { shape.map(stack) });
        }
        Ok(())
    }

    /// Reads a graph within a node, and the shapes of what it makes. What a loop carries keeps its shape: `carried` are
    /// the values that the inputs after the first two have at first.
    fn within(&mut self, graph: &'a Stored, carried: &[String]) -> Read<(Graph, Vec<Option<Vec<Length>>>)> {
        let shapes: Vec<Option<Vec<Length>>> = carried.iter().map(|name| self.shape(name)).collect();
        let types: Vec<_> = carried.iter().map(|name| self.dtype(name)).collect();
        let outer = self.enter(graph);
        self.begin(graph)?;
        let mut inputs: Vec<Value> = Vec::with_capacity(graph.inputs.len());
        for (at, input) in graph.inputs.iter().enumerate() {
            self.take_input(input, false)?;
            let shape = at.checked_sub(2).and_then(|at| shapes.get(at).cloned()).flatten();
            self.set_shape(&input.name, shape.clone());
            let mut value = interface(input, input.name.clone(), Some(shape.unwrap_or_default()))?;
            if value.dtype.is_none() {
                value.dtype = at.checked_sub(2).and_then(|at| types.get(at).copied()).flatten();
            }
            inputs.push(value);
        }
        self.all_nodes(graph)?;
        let outputs = self.results()?;
        let made = graph.outputs.iter().map(|output| self.shape(&output.name)).collect();
        self.leave_out_spare(&outputs);
        let nodes = self.leave(outer);
        let own = graph.nodes.iter().flat_map(|node| &node.outputs);
        let names = own
            .chain(graph.inputs.iter().map(|input| &input.name))
            .chain(graph.initializers.iter().map(|tensor| &tensor.name));
        names.for_each(|name| self.forget(name));
        Ok((Graph { name: graph.name.clone(), inputs, outputs, nodes }, made))
    }
}
