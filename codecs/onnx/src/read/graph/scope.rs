//! Which values exist where: a graph within a node takes those from around it, and keeps its own.

use super::pieces;
use super::values::{Known, Read, Reader};
use crate::format::dtype;
use crate::format::message::{Graph as Stored, Value as StoredValue};
use ckpt_api::{DType, Node};
use std::collections::{HashMap, HashSet};

/// What is put aside while a graph within a node is read.
pub(super) struct Outer<'a> {
    graph: &'a Stored,
    nodes: Vec<Node>,
    makers: HashMap<String, usize>,
    spare: HashSet<usize>,
    /// Constants that were emitted before.
    noted: usize,
    conditions: HashMap<(usize, usize), String>,
}

impl<'a> Reader<'a> {
    /// Notes the initializers of a graph, and the shapes that it states.
    pub(super) fn begin(&mut self, graph: &'a Stored) -> Read<()> {
        for tensor in &graph.initializers {
            self.see(&tensor.name)?;
            self.initializers.insert(&tensor.name);
            if let Some(id) = self.ids.get(&tensor.span.start) {
                self.known.insert(&tensor.name, Known::Tensor(*id));
            } else if self.level > 0 {
                let numbers = pieces::numbers(self.file(), tensor);
                let known = numbers.map(|(numbers, shape)| Known::of(numbers, shape));
                let lacks = || format!("has an initializer '{}' that is not supported", tensor.name);
                self.known.insert(&tensor.name, known.ok_or_else(lacks)?);
                self.note_narrow(&tensor.name, tensor.data_type);
            }
        }
        graph.values.iter().chain(&graph.outputs).for_each(|value| self.declare(value, false));
        Ok(())
    }

    /// Notes the type of a constant that has fewer than 32 bits.
    pub(super) fn note_narrow(&mut self, name: &'a str, data_type: i64) {
        let narrow =
            dtype(data_type).filter(|dtype| matches!(dtype, DType::I8 | DType::U8 | DType::I16 | DType::U16));
        self.narrow.extend(narrow.map(|dtype| (name, dtype)));
    }

    /// Notes what a graph takes.
    pub(super) fn take_input(&mut self, input: &'a StoredValue, is_outer: bool) -> Read<()> {
        self.see(&input.name)?;
        self.known.insert(&input.name, Known::Computed);
        self.declare(input, is_outer);
        Ok(())
    }

    /// Notes a value that nodes can take from now on.
    pub(super) fn see(&mut self, name: &'a str) -> Read<()> {
        match self.visible.insert(name) {
            true => Ok(()),
            false => Err(format!("makes the value '{}', which already exists", name.escape_debug())),
        }
    }

    /// Forgets a value of a graph within a node.
    pub(super) fn forget(&mut self, name: &str) {
        self.visible.remove(name);
        self.known.remove(name);
        self.shapes.remove(name);
        self.dtypes.remove(name);
        self.narrow.remove(name);
        self.initializers.remove(name);
        self.constants.remove(name);
        self.open.remove(name);
    }

    /// Reads another graph from now on, which is within a node; returns what `leave` takes.
    pub(super) fn enter(&mut self, graph: &'a Stored) -> Outer<'a> {
        self.level += 1;
        Outer {
            graph: std::mem::replace(&mut self.graph, graph),
            nodes: std::mem::take(&mut self.nodes),
            makers: std::mem::take(&mut self.makers),
            spare: std::mem::take(&mut self.spare),
            noted: self.noted.len(),
            conditions: std::mem::take(&mut self.conditions),
        }
    }

    /// Reads the outer graph on, and returns the nodes of the inner one.
    pub(super) fn leave(&mut self, outer: Outer<'a>) -> Vec<Node> {
        self.level -= 1;
        (self.graph, self.makers, self.conditions) = (outer.graph, outer.makers, outer.conditions);
        self.spare = outer.spare;
        for name in self.noted.drain(outer.noted.min(self.noted.len())..) {
            self.constants.remove(&name);
        }
        std::mem::replace(&mut self.nodes, outer.nodes)
    }
}
