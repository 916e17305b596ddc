//! Builds a program: infers shapes, lowers nodes, checks the memory.

use super::bounds::Bounds;
use super::control::{self, Scope};
use super::lifetimes::Lifetimes;
use super::memory::{check_inputs, peak};
use super::parts::{Program, Step, no_such};
use super::shapes::{bind_inputs, fits, show_stated};
use crate::lower::{Info, Task, lower, show};
use crate::value::{Numbers, Parameters};
use ckpt_api::{Error, Graph, Node, Result, Value};
use std::collections::{BTreeMap, HashMap};

/// A value of a program.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ValueInfo<'p> {
    /// Name.
    pub name: &'p str,
    /// Length of each axis.
    pub shape: &'p [usize],
    /// Kind of its elements.
    pub numbers: Numbers,
}

/// A node of a program.
#[derive(Clone, Debug)]
pub struct NodeInfo<'p> {
    /// The node.
    pub node: &'p Node,
    /// The node's inputs, without those that it leaves out. The values that a branch or a loop takes from around it
    /// come after them.
    pub inputs: Vec<ValueInfo<'p>>,
    /// The node's outputs.
    pub outputs: Vec<ValueInfo<'p>>,
}

impl<'a> Program<'a> {
    /// Infers and checks all shapes, starting from those of the graph's inputs, and lowers all nodes to kernels.
    /// [`default_shapes`](super::default_shapes) returns shapes that fit a graph.
    ///
    /// # Errors
    /// Naming the node as the field: [`ckpt_api::Kind::Corrupt`] for shapes or tensors that do not fit together,
    /// [`ckpt_api::Kind::Unsupported`] for operators and attributes that are not supported, [`ckpt_api::Kind::Usage`]
    /// for inputs that do not fit the graph and for information that the source lacks (activations, borders, axes),
    /// [`ckpt_api::Kind::Limit`] for more than the default of [`Bounds`].
    pub fn new(
        graph: &'a Graph,
        parameters: &'a dyn Parameters,
        inputs: &BTreeMap<String, Vec<usize>>,
    ) -> Result<Self> {
        Self::within(graph, parameters, inputs, Bounds::default())
    }

    /// As [`Program::new`], with other bounds.
    ///
    /// # Errors
    /// As [`Program::new`].
    pub fn within(
        graph: &'a Graph,
        parameters: &'a dyn Parameters,
        inputs: &BTreeMap<String, Vec<usize>>,
        bounds: Bounds,
    ) -> Result<Self> {
        graph.check()?;
        graph.require_activations()?;
        let given = bind_inputs(graph, parameters, inputs)?;
        check_inputs(&given, bounds.memory)?;
        let names = graph.inputs.iter().map(|input| input.name.as_str());
        let given = names.zip(given.into_iter().map(|(_, info)| info)).collect();
        let program = Self::assemble(graph, parameters, given, bounds)?;
        check_outputs(graph, &program.outputs, &program.values)?;
        bounds.check_operations(program.operations())?;
        Ok(program)
    }

    /// Lowers the nodes of a graph that was checked. `given` are the values that exist before: those of the graph's
    /// inputs, and those from around a graph within a node.
    fn assemble(
        graph: &'a Graph,
        parameters: &'a dyn Parameters,
        given: Vec<(&'a str, Info)>,
        bounds: Bounds,
    ) -> Result<Self> {
        let mut by_name: HashMap<&'a str, usize> =
            given.iter().enumerate().map(|(id, (name, _))| (*name, id)).collect();
        let mut values: Vec<(String, Info)> =
            given.into_iter().map(|(name, info)| (name.to_owned(), info)).collect();
        let mut steps = Vec::with_capacity(graph.nodes.len());
        for node in &graph.nodes {
            let assemble = |graph, given| Self::assemble(graph, parameters, given, bounds);
            let scope = Scope { by_name: &by_name, values: &values, assemble: &assemble };
            let step = match control::lower(node, &scope, values.len())? {
                Some(step) => step,
                None => Step::new(node, &by_name, values.len(), |ids| {
                    let infos: Vec<Option<&Info>> =
                        ids.iter().map(|id| Some(&values.get((*id)?)?.1)).collect();
                    lower(node, &infos, parameters)
                })?,
            };
            let made = node.outputs.iter().map(String::as_str).zip(step.outputs.iter().copied());
            by_name.extend(made.filter(|(name, _)| !name.is_empty()));
            values.extend(node.outputs.iter().cloned().zip(step.lowered.outputs.iter().cloned()));
            steps.push(step);
        }
        let outputs = find_outputs(graph, &by_name, values.len())?;
        let lifetimes = Lifetimes::new(steps.iter().map(|step| &step.inputs[..]), &outputs, values.len());
        let peak = peak(graph, &steps, &values, &lifetimes, bounds.memory)?;
        Ok(Program { graph, parameters, values, steps, outputs, lifetimes, peak, bounds })
    }

    /// Returns shape and kind of what the graph makes.
    pub(super) fn made(&self) -> Result<Vec<Info>> {
        self.outputs.iter().map(|id| self.info(*id).cloned()).collect()
    }

    /// Returns the graph's inputs, in its order.
    pub fn inputs(&self) -> impl Iterator<Item = ValueInfo<'_>> {
        (0..self.graph.inputs.len()).filter_map(|id| self.value(id))
    }

    /// Returns the graph's outputs, in its order.
    pub fn outputs(&self) -> impl Iterator<Item = ValueInfo<'_>> {
        self.outputs.iter().filter_map(|id| self.value(*id))
    }

    /// Returns the nodes, in the graph's order; their indices are the arguments of [`Program::run_node`].
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = NodeInfo<'_>> {
        self.graph.nodes.iter().zip(&self.steps).map(|(node, step)| self.node_info(node, step))
    }

    /// Returns the node at this index of [`Program::nodes`], in constant time.
    pub fn node(&self, index: usize) -> Option<NodeInfo<'_>> {
        Some(self.node_info(self.graph.nodes.get(index)?, self.steps.get(index)?))
    }

    /// Whether the node at index `node` runs by the reference implementation of an operator that a codec registers.
    pub fn is_reference(&self, node: usize) -> bool {
        let calls = self.steps.get(node).map_or(&[][..], |step| &step.lowered.calls);
        calls.iter().any(|call| matches!(call.task, Task::Reference(_)))
    }

    /// Returns the most bytes that values and tensors take at a time, counted as binary64.
    pub fn peak_bytes(&self) -> u64 {
        self.peak
    }

    /// Returns what a run may take.
    pub fn bounds(&self) -> Bounds {
        self.bounds
    }

    /// The graph's inputs.
    pub(super) fn input_values(&self) -> &[(String, Info)] {
        self.values.get(..self.graph.inputs.len()).unwrap_or_default()
    }

    pub(super) fn info(&self, id: usize) -> Result<&Info> {
        self.values.get(id).map(|(_, info)| info).ok_or_else(|| no_such("value", id))
    }

    pub(super) fn step(&self, node: usize) -> Result<(&Node, &Step<'_>)> {
        self.graph.nodes.get(node).zip(self.steps.get(node)).ok_or_else(|| no_such("node", node))
    }

    fn node_info<'p>(&'p self, node: &'p Node, step: &Step) -> NodeInfo<'p> {
        NodeInfo {
            node,
            inputs: step.inputs.iter().flatten().filter_map(|id| self.value(*id)).collect(),
            outputs: step.outputs.iter().filter_map(|id| self.value(*id)).collect(),
        }
    }

    fn value(&self, id: usize) -> Option<ValueInfo<'_>> {
        let (name, info) = self.values.get(id)?;
        Some(ValueInfo { name, shape: &info.shape, numbers: info.numbers })
    }
}

/// Finds the graph's outputs among the values.
fn find_outputs(graph: &Graph, by_name: &HashMap<&str, usize>, count: usize) -> Result<Vec<usize>> {
    let found = |output: &Value| by_name.get(output.name.as_str()).copied();
    graph.outputs.iter().map(|output| found(output).ok_or_else(|| no_such("value", count))).collect()
}

/// Checks the shapes that the graph states for its outputs.
fn check_outputs(graph: &Graph, ids: &[usize], values: &[(String, Info)]) -> Result<()> {
    for (output, id) in graph.outputs.iter().zip(ids) {
        let (_, info) = values.get(*id).ok_or_else(|| no_such("value", *id))?;
        if !fits(&output.shape, &info.shape) {
            return Err(Error::corrupt("an output has a different shape than the graph states")
                .field(&output.name)
                .found(show(&info.shape))
                .expected(show_stated(&output.shape)));
        }
    }
    Ok(())
}
