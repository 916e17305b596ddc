//! Makes a graph plain for the shapes of its inputs: what the lengths decide becomes constant.
//!
//! A graph may compute attributes of its nodes from lengths, and choose between graphs by them. Kernels take attributes
//! that are known. As soon as the shapes of all inputs are, so is the arithmetic on lengths: the nodes of it run here, on
//! the CPU, and the nodes that take their results get attributes.

mod attributes;
mod control;
mod dead;
mod evaluate;
mod names;
mod numbers;
mod rename;
mod wanted;

use super::shapes::bind_inputs;
use crate::lower::{Info, lower};
use crate::value::{Parameters, Value};
use ckpt_api::{Graph, Node, Op, Result};
use names::Taken;
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Returns the graph for inputs of these shapes: without attributes that the graph computes, and with the branch that is
/// taken in place of a choice whose condition follows from the shapes. Nodes that no result needs are left out. A graph
/// that is so already is returned as it is.
///
/// A shape may follow from the value of an input, too, such as a number of samples for each second: `values` has those that
/// are known.
///
/// ```
/// use ckpt_api::{Axis, DType, Graph, Node, Op, Shape, Tensor};
/// use ckpt_forward::{Array, Parameters, specialize};
/// use std::collections::BTreeMap;
///
/// struct Nothing;
/// impl Parameters for Nothing {
///     fn tensor(&self, _: &str) -> Option<&Tensor> { None }
///     fn load(&self, name: &str) -> ckpt_api::Result<Array> { unreachable!("{name}") }
/// }
/// let node = |name: &str, op, inputs: &[&str]| {
///     let mut node = Node::new(name, op);
///     node.inputs = inputs.iter().map(|input| input.to_string()).collect();
///     node.outputs = vec![name.to_owned()];
///     node
/// };
/// // Half of the axes of `x` in the shape of `y`.
/// let graph = Graph {
///     inputs: vec![ckpt_api::Value::new("x", [None, None]), ckpt_api::Value::new("y", [None])],
///     outputs: vec![ckpt_api::Value::new("z", [None])],
///     nodes: vec![node("lens", Op::Shape, &["y"]), node("z", Op::Reshape, &["x", "lens"])],
///     ..Graph::default()
/// };
/// let shapes = BTreeMap::from([("x".to_owned(), vec![2, 3]), ("y".to_owned(), vec![6])]);
/// let plain = specialize(&graph, &Nothing, &shapes, &BTreeMap::new()).unwrap();
/// assert_eq!(plain.nodes.len(), 1);
/// assert_eq!(plain.nodes[0].ints("shape").unwrap(), Some(&[6][..]));
/// ```
///
/// # Errors
/// Naming the node: those of [`Program::new`](super::Program::new); [`ckpt_api::Kind::Unsupported`] for an attribute that
/// follows from more than the shapes and `values`.
pub fn specialize<'g>(
    graph: &'g Graph,
    parameters: &dyn Parameters,
    inputs: &BTreeMap<String, Vec<usize>>,
    values: &BTreeMap<String, Value>,
) -> Result<Cow<'g, Graph>> {
    graph.check()?;
    let has_choice = graph.all_nodes().any(|node| matches!(node.op, Op::If | Op::Loop));
    if !has_choice && !graph.computes_attributes() {
        return Ok(Cow::Borrowed(graph));
    }
    let mut specializer = Specializer {
        parameters,
        wanted: wanted::wanted(graph),
        ambiguous: names::ambiguous(graph),
        taken: Taken::default(),
        facts: HashMap::new(),
    };
    let inputs_within = graph.levels().flat_map(|level| &level.inputs).map(|value| &value.name);
    for name in graph.all_nodes().flat_map(|node| &node.outputs).chain(inputs_within) {
        specializer.taken.take(name);
    }
    for (name, info) in bind_inputs(graph, parameters, inputs)? {
        let known = values.get(&name).filter(|value| value.shape == info.shape && info.len() == 1).cloned();
        specializer.facts.insert(name, Fact { info, known });
    }
    let Graph { name, inputs, outputs, nodes } = graph.clone();
    let mut level = Level::default();
    specializer.all(nodes, &mut level)?;
    let nodes = dead::without_unused(level.nodes, &outputs);
    Ok(Cow::Owned(Graph { name, inputs, outputs, nodes }))
}

/// What is known of a value.
#[derive(Clone)]
struct Fact {
    info: Info,
    /// Its elements, if they follow from the shapes of the inputs, and a shape or a choice may follow from them.
    known: Option<Value>,
}

/// The nodes of a graph, or of one within a node, that are made.
#[derive(Default)]
struct Level {
    nodes: Vec<Node>,
    /// The names of the nodes.
    names: Taken,
    /// The values that they make.
    made: Vec<String>,
}

struct Specializer<'p> {
    parameters: &'p dyn Parameters,
    /// The values from which attributes and choices follow.
    wanted: HashSet<String>,
    /// Values of several graphs within nodes that have one name.
    ambiguous: HashSet<String>,
    /// Names of values.
    taken: Taken,
    /// The values that a node can take.
    facts: HashMap<String, Fact>,
}

impl Specializer<'_> {
    fn all(&mut self, nodes: Vec<Node>, to: &mut Level) -> Result<()> {
        nodes.into_iter().try_for_each(|node| self.node(node, to))
    }

    fn node(&mut self, node: Node, to: &mut Level) -> Result<()> {
        match node.op {
            Op::If => self.choice(node, to),
            Op::Loop => self.repeated(node, to),
            _ => {
                let nodes = self.with_attributes(node)?;
                nodes.into_iter().try_for_each(|node| self.add(node, to))
            }
        }
    }

    /// Adds a node without graphs of its own.
    fn add(&mut self, node: Node, to: &mut Level) -> Result<()> {
        let info = |name: &String| self.facts.get(name).map(|fact| &fact.info);
        let infos: Vec<Option<&Info>> = node.inputs.iter().map(info).collect();
        let lowered = lower(&node, &infos, self.parameters)?;
        let is_wanted = node.outputs.iter().any(|name| self.wanted.contains(name));
        let known = if is_wanted { self.evaluated(&node, &lowered) } else { None };
        let mut known = known.unwrap_or_default().into_iter();
        let facts: Vec<Fact> =
            lowered.outputs.into_iter().map(|info| Fact { info, known: known.next() }).collect();
        self.emit(node, facts, to);
        Ok(())
    }

    /// Adds a node under a name that no other of its graph has.
    fn emit(&mut self, mut node: Node, facts: Vec<Fact>, to: &mut Level) {
        if !to.names.take(&node.name) {
            node.name = to.names.unused(&node.name);
        }
        for (name, fact) in node.outputs.iter().zip(facts).filter(|(name, _)| !name.is_empty()) {
            self.facts.insert(name.clone(), fact);
            to.made.push(name.clone());
        }
        to.nodes.push(node);
    }

    /// The elements of a value, if they are known.
    fn known(&self, name: &str) -> Option<&Value> {
        self.facts.get(name)?.known.as_ref()
    }

    /// The only element of a value, as an integer, if it is known.
    fn number(&self, name: &str) -> Option<i64> {
        match &numbers::integers(self.known(name)?)[..] {
            [number] => Some(*number),
            _ => None,
        }
    }
}
