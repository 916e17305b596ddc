//! A graph with known shapes, as kernels.

mod inputs;
mod magnitude;
mod run;

use crate::lower::{Info, Lowered, Operand, lower, show};
use crate::value::{Numbers, Parameters};
use ckpt_api::{Error, Graph, Node, Result};
use std::collections::{BTreeMap, HashMap, HashSet};

pub use inputs::default_shapes;
pub use magnitude::Magnitude;
pub use run::Observer;

/// Bytes that values and tensors may take at a time, unless [`Program::with_memory`] says otherwise.
pub const DEFAULT_MEMORY: u64 = 4 << 30;

/// A graph bound to its tensors, with the shape of every value known and checked: ready to run on any backend.
///
/// Values on the device are freed after their last use. Tensors are loaded for the node that takes them, and dropped
/// after it.
pub struct Program<'a> {
    graph: &'a Graph,
    parameters: &'a dyn Parameters,
    values: Vec<(String, Info)>,
    /// Values that the graph takes: the first ones.
    inputs: usize,
    steps: Vec<Step>,
    /// Values that the graph gives.
    outputs: Vec<usize>,
    /// When each value is freed.
    last_use: Vec<LastUse>,
    peak: u64,
}

/// When a value is no longer needed.
#[derive(Clone, Copy, PartialEq)]
enum LastUse {
    /// As soon as it is made: nothing takes it.
    None,
    /// After this step.
    Step(usize),
    /// Never: the graph gives it.
    Output,
}

/// One node.
struct Step {
    inputs: Vec<Option<usize>>,
    outputs: Vec<usize>,
    lowered: Lowered,
}

/// What is known of a value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ValueInfo<'p> {
    /// Its name.
    pub name: &'p str,
    /// Length of each axis.
    pub shape: &'p [usize],
    /// What its elements are.
    pub numbers: Numbers,
}

/// What is known of a node.
#[derive(Clone, Debug)]
pub struct NodeInfo<'p> {
    /// The node.
    pub node: &'p Node,
    /// The values that it takes; those that it leaves out are left out.
    pub inputs: Vec<ValueInfo<'p>>,
    /// The values that it makes.
    pub outputs: Vec<ValueInfo<'p>>,
}

impl<'a> Program<'a> {
    /// Infers and checks every shape, from the shapes of the graph's inputs ([`default_shapes`] gives those that a graph states), and
    /// lowers every node to kernels.
    ///
    /// # Errors
    /// Naming the node as the field: [`ckpt_api::Kind::Corrupt`] where shapes or tensors do not fit together,
    /// [`ckpt_api::Kind::Unsupported`] for an operator or attribute that the forward pass has not, [`ckpt_api::Kind::Usage`] for
    /// inputs that the graph does not take, and for what the source leaves open (activations, borders, axes),
    /// [`ckpt_api::Kind::Limit`] for values that do not fit into [`DEFAULT_MEMORY`].
    pub fn new(
        graph: &'a Graph,
        parameters: &'a dyn Parameters,
        inputs: &BTreeMap<String, Vec<usize>>,
    ) -> Result<Self> {
        Self::with_memory(graph, parameters, inputs, DEFAULT_MEMORY)
    }

    /// As [`Program::new`], with so many bytes for values and tensors at a time, counted as binary64.
    ///
    /// # Errors
    /// As [`Program::new`].
    pub fn with_memory(
        graph: &'a Graph,
        parameters: &'a dyn Parameters,
        inputs: &BTreeMap<String, Vec<usize>>,
        memory: u64,
    ) -> Result<Self> {
        graph.check()?;
        graph.require_activations()?;
        let mut values = inputs::bind(graph, inputs)?;
        let given = values.iter().fold(0u64, |sum, (_, info)| sum.saturating_add(bytes(info.len())));
        if given > memory {
            return Err(too_much(given, memory).field("inputs"));
        }
        let mut by_name: HashMap<&str, usize> =
            graph.inputs.iter().enumerate().map(|(id, input)| (input.name.as_str(), id)).collect();
        let mut steps = Vec::with_capacity(graph.nodes.len());
        for node in &graph.nodes {
            let step = Step::new(node, &by_name, values.len(), |ids| {
                let infos: Vec<Option<&Info>> = ids.iter().map(|id| Some(&values.get((*id)?)?.1)).collect();
                lower(node, &infos, parameters)
            })?;
            by_name.extend(node.outputs.iter().map(String::as_str).zip(step.outputs.iter().copied()));
            values.extend(node.outputs.iter().cloned().zip(step.lowered.outputs.iter().cloned()));
            steps.push(step);
        }
        let outputs = outputs(graph, &by_name, &values)?;
        let last_use = last_use(&steps, &outputs, values.len());
        let inputs = graph.inputs.len();
        let mut program = Program { graph, parameters, values, inputs, steps, outputs, last_use, peak: 0 };
        program.peak = program.peak_bytes_within(memory)?;
        Ok(program)
    }

    /// The values that the graph takes, in its order.
    pub fn inputs(&self) -> impl Iterator<Item = ValueInfo<'_>> {
        (0..self.inputs).filter_map(|id| self.value(id))
    }

    /// The values that the graph gives, in its order.
    pub fn outputs(&self) -> impl Iterator<Item = ValueInfo<'_>> {
        self.outputs.iter().filter_map(|id| self.value(*id))
    }

    /// The nodes, in the graph's order: their indices are what [`Program::run_node`] takes.
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = NodeInfo<'_>> {
        self.graph.nodes.iter().zip(&self.steps).map(|(node, step)| NodeInfo {
            node,
            inputs: step.inputs.iter().flatten().filter_map(|id| self.value(*id)).collect(),
            outputs: step.outputs.iter().filter_map(|id| self.value(*id)).collect(),
        })
    }

    /// The most bytes that values and tensors take at a time, counted as binary64.
    pub fn peak_bytes(&self) -> u64 {
        self.peak
    }

    fn value(&self, id: usize) -> Option<ValueInfo<'_>> {
        let (name, info) = self.values.get(id)?;
        Some(ValueInfo { name, shape: &info.shape, numbers: info.numbers })
    }

    fn info(&self, id: usize) -> Result<&Info> {
        self.values.get(id).map(|(_, info)| info).ok_or_else(|| no_such("value", id))
    }

    fn step(&self, node: usize) -> Result<(&Node, &Step)> {
        self.graph.nodes.get(node).zip(self.steps.get(node)).ok_or_else(|| no_such("node", node))
    }

    /// Adds up what is on the device while each node runs; refuses more than `memory`.
    fn peak_bytes_within(&self, memory: u64) -> Result<u64> {
        let value = |id: &usize| self.values.get(*id).map_or(0, |(_, info)| bytes(info.len()));
        let mut held = (0..self.inputs).fold(0u64, |sum, id| sum.saturating_add(value(&id)));
        let mut peak = held;
        for (index, (node, step)) in self.graph.nodes.iter().zip(&self.steps).enumerate() {
            held = step.outputs.iter().fold(held, |sum, id| sum.saturating_add(value(id)));
            let loads = step.lowered.loads.iter().map(|load| bytes(load.len()));
            let temporaries = step.lowered.temporaries.iter().map(|info| bytes(info.len()));
            let now = loads.chain(temporaries).fold(held, u64::saturating_add);
            if now > memory {
                return Err(too_much(now, memory).field(&node.name));
            }
            peak = peak.max(now);
            for id in self.ended(index, step) {
                held = held.saturating_sub(value(&id));
            }
        }
        Ok(peak)
    }

    /// Values that nothing takes after step `index`.
    fn ended<'s>(&'s self, index: usize, step: &'s Step) -> impl Iterator<Item = usize> + 's {
        let is = move |id: &usize, last| self.last_use.get(*id) == Some(&last);
        let used = step.inputs.iter().flatten().filter(move |id| is(id, LastUse::Step(index)));
        let unused = step.outputs.iter().filter(move |id| is(id, LastUse::None));
        let mut seen = HashSet::new();
        used.chain(unused).copied().filter(move |id| seen.insert(*id))
    }
}

/// Bytes of so many elements, as binary64.
fn bytes(elements: usize) -> u64 {
    (elements as u64).saturating_mul(8)
}

fn too_much(found: u64, memory: u64) -> Error {
    Error::limit("the forward pass takes more memory than it may")
        .found(format!("{found} bytes"))
        .expected(format!("at most {memory}"))
        .help("give fewer or smaller inputs at a time")
}

fn no_such(what: &str, index: usize) -> Error {
    Error::usage(format!("the program has no such {what}")).found(index.to_string())
}

impl Step {
    fn new(
        node: &Node,
        by_name: &HashMap<&str, usize>,
        next: usize,
        lower: impl FnOnce(&[Option<usize>]) -> Result<Lowered>,
    ) -> Result<Self> {
        // Graph::check saw that every name that is not empty is known.
        let inputs: Vec<Option<usize>> =
            node.inputs.iter().map(|name| by_name.get(name.as_str()).copied()).collect();
        let lowered = lower(&inputs)?;
        if lowered.outputs.len() != node.outputs.len() {
            return Err(Error::corrupt("the layer makes another number of values than its operator does")
                .field(&node.name)
                .found(node.outputs.len().to_string())
                .expected(lowered.outputs.len().to_string()));
        }
        let outputs = (next..).take(node.outputs.len()).collect();
        Ok(Step { inputs, outputs, lowered })
    }

    /// The value behind a kernel's operand, where it is one of the node's inputs.
    fn input(&self, operand: Operand) -> Option<usize> {
        match operand {
            Operand::Input(index) => self.inputs.get(index).copied().flatten(),
            _ => None,
        }
    }
}

/// Finds what the graph gives, and checks the shapes that it states.
fn outputs(graph: &Graph, by_name: &HashMap<&str, usize>, values: &[(String, Info)]) -> Result<Vec<usize>> {
    let mut ids = Vec::with_capacity(graph.outputs.len());
    for output in &graph.outputs {
        let found = by_name.get(output.name.as_str()).and_then(|id| Some((*id, values.get(*id)?)));
        let (id, (_, info)) = found.ok_or_else(|| no_such("value", values.len()))?;
        if !fits(&output.shape, &info.shape) {
            return Err(Error::corrupt("the graph gives another shape than it says")
                .field(&output.name)
                .found(show(&info.shape))
                .expected(show_open(&output.shape)));
        }
        ids.push(id);
    }
    Ok(ids)
}

/// Whether a shape is one of those that a graph states, whose lengths may be free.
fn fits(stated: &[Option<u64>], shape: &[usize]) -> bool {
    stated.len() == shape.len()
        && stated.iter().zip(shape).all(|(stated, len)| stated.is_none_or(|stated| stated == *len as u64))
}

fn show_open(shape: &[Option<u64>]) -> String {
    let lens: Vec<String> =
        shape.iter().map(|len| len.map_or("?".to_owned(), |len| len.to_string())).collect();
    format!("[{}]", lens.join(", "))
}

fn last_use(steps: &[Step], outputs: &[usize], values: usize) -> Vec<LastUse> {
    let mut last = vec![LastUse::None; values];
    let steps = steps.iter().enumerate();
    let used = steps
        .flat_map(|(index, step)| step.inputs.iter().flatten().map(move |id| (*id, LastUse::Step(index))));
    for (id, at) in used.chain(outputs.iter().map(|id| (*id, LastUse::Output))) {
        if let Some(slot) = last.get_mut(id) {
            *slot = at;
        }
    }
    last
}
