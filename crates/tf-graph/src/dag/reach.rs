//! The operations that an inference function reaches by data, with calls inlined.
//!
//! Nothing recurses on the input: calls are frames in a list, and operations are visited with a stack. The number of
//! operations, calls and followed references is limited, so that a function that calls another twice, and so on, ends.

use super::super::no_chain::NoChain;
use super::super::node::describe;
use crate::proto::attr_value::Value;
use crate::proto::{FunctionDef, FunctionDefLibrary, GraphDef, NodeDef};
use std::collections::HashMap;

/// Limit on the operations that are read: several times those of the largest networks.
const MAX_NODES: usize = 1 << 17;

/// Limit on the calls that are followed.
const MAX_CALLS: usize = 1 << 13;

/// Limit on calls within calls; models have up to 4.
const MAX_DEPTH: usize = 64;

/// Limit on the references that are followed.
const MAX_FOLLOWED: u64 = 1 << 20;

/// Limit on conditions that depend on conditions: these call each other.
const MAX_CONDITIONS: usize = 32;

/// One of the results of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Edge {
    pub node: usize,
    pub output: usize,
}

/// What a node of the graph is.
#[derive(Clone, Debug)]
pub(super) enum What<'a> {
    /// An argument of the function that is read.
    Input(usize),
    /// The variable with this key.
    Variable(String),
    /// An operation.
    Op(&'a NodeDef),
}

/// A node, after all nodes that it takes values from.
#[derive(Debug)]
pub(super) struct DagNode<'a> {
    pub what: What<'a>,
    pub inputs: Vec<Edge>,
}

/// The reachable nodes in an order in which they can be computed.
#[derive(Debug, Default)]
pub(super) struct Dag<'a> {
    pub nodes: Vec<DagNode<'a>>,
    pub results: Vec<Edge>,
}

/// What a function takes after its own arguments.
#[derive(Clone, Debug)]
pub enum Bound<'a> {
    /// The variable with this key.
    Variable(String),
    /// A constant operation of the main graph.
    Constant(&'a NodeDef),
    /// Something else, such as a table.
    Other,
}

/// A function, or the main graph.
struct Body<'a> {
    arguments: HashMap<&'a str, usize>,
    nodes: HashMap<&'a str, &'a NodeDef>,
    def: Option<&'a FunctionDef>,
}

/// One call of a function, or one step of a loop.
struct Frame<'a> {
    body: usize,
    caller: Option<Caller<'a>>,
    depth: usize,
    /// The frame of the step before, in a loop.
    before: Option<usize>,
}

#[derive(Clone, Copy)]
struct Caller<'a> {
    frame: usize,
    node: &'a NodeDef,
    /// Position of the first argument among the node's inputs.
    offset: usize,
}

/// Where a value comes from.
#[derive(Clone)]
enum Terminal<'a> {
    Input(usize),
    Bound(usize),
    Op { frame: usize, node: &'a NodeDef, output: usize },
}

/// What a model's variables of the main graph are: `VariableV2`, `VarHandleOp`.
const VARIABLES: [&str; 3] = ["VariableV2", "Variable", "VarHandleOp"];

/// Reads a graph.
pub(super) struct Reader<'a> {
    library: HashMap<&'a str, &'a FunctionDef>,
    bodies: Vec<Body<'a>>,
    by_name: HashMap<&'a str, usize>,
    frames: Vec<Frame<'a>>,
    calls: HashMap<(usize, *const NodeDef), usize>,
    bound: Vec<Bound<'a>>,
    /// Number of the function's own arguments.
    own: usize,
    /// Names of the main graph's placeholders that are inputs.
    placeholders: HashMap<String, usize>,
    budget: u64,
    /// Conditions that are being resolved, each for the one before.
    conditions: usize,
    dag: Dag<'a>,
    made: HashMap<(usize, *const NodeDef), usize>,
    inputs: HashMap<usize, usize>,
    /// Nodes of what the function takes after its own arguments.
    captured: HashMap<usize, usize>,
    /// The number of steps of loops that are read step by step.
    steps: Steps,
}

/// The number of steps of loops.
pub(super) type Steps = HashMap<*const NodeDef, usize>;

impl<'a> Reader<'a> {
    pub fn new(library: Option<&'a FunctionDefLibrary>, limit: u64) -> Self {
        let functions = library.into_iter().flat_map(|library| &library.function);
        let named = functions.filter_map(|def| Some((def.signature.as_ref()?.name.as_str(), def)));
        Reader {
            library: named.collect(),
            bodies: Vec::new(),
            by_name: HashMap::new(),
            frames: Vec::new(),
            calls: HashMap::new(),
            bound: Vec::new(),
            own: 0,
            placeholders: HashMap::new(),
            budget: limit.min(MAX_FOLLOWED),
            conditions: 0,
            dag: Dag::default(),
            made: HashMap::new(),
            inputs: HashMap::new(),
            captured: HashMap::new(),
            steps: Steps::new(),
        }
    }

    /// Reads these loops step by step.
    pub fn stepping(self, steps: &Steps) -> Self {
        Reader { steps: steps.clone(), ..self }
    }

    /// Reads the function `name`, which takes what is `bound` after its own arguments.
    pub fn function(mut self, name: &str, bound: Vec<Bound<'a>>) -> Result<Dag<'a>, NoChain> {
        let body = self.body(name)?;
        let found = self.bodies.get(body).ok_or_else(|| missing(name))?;
        let def = found.def.ok_or_else(|| missing(name))?;
        self.own = found.arguments.len().saturating_sub(bound.len());
        self.bound = bound;
        self.frames.push(Frame { body, caller: None, depth: 0, before: None });
        let count = def.signature.as_ref().map_or(0, |signature| signature.output_arg.len());
        let results: Option<Vec<&str>> = (0..count).map(|at| returned(def, at)).collect();
        self.read(&results.ok_or_else(|| missing(name))?)
    }

    /// Reads tensors of the main graph, whose `inputs` are tensors, too.
    pub fn graph(
        mut self,
        graph: &'a GraphDef,
        inputs: &[&str],
        results: &[&'a str],
    ) -> Result<Dag<'a>, NoChain> {
        let nodes = graph.node.iter().map(|node| (node.name.as_str(), node)).collect();
        self.bodies.push(Body { arguments: HashMap::new(), nodes, def: None });
        self.frames.push(Frame { body: 0, caller: None, depth: 0, before: None });
        let inputs = inputs.iter().enumerate();
        self.placeholders = inputs.map(|(at, name)| (split(name).0.to_owned(), at)).collect();
        self.read(results)
    }

    fn read(mut self, results: &[&'a str]) -> Result<Dag<'a>, NoChain> {
        for result in results {
            let terminal = self.resolve(0, result)?;
            let edge = self.build(terminal)?;
            self.dag.results.push(edge);
        }
        Ok(self.dag)
    }

    /// Adds what a terminal needs to the graph, and returns its node.
    fn build(&mut self, terminal: Terminal<'a>) -> Result<Edge, NoChain> {
        // Operations whose inputs are being read, with how many of them are.
        let mut open: Vec<(usize, &'a NodeDef, Vec<Edge>)> = Vec::new();
        let mut on_path: HashMap<(usize, *const NodeDef), ()> = HashMap::new();
        let root = terminal.clone();
        let mut wanted = Some(terminal);
        loop {
            if let Some(terminal) = wanted.take() {
                match self.find(&terminal, open.last().map(|(_, node, _)| *node))? {
                    Some(edge) => match open.last_mut() {
                        Some((_, _, inputs)) => inputs.push(edge),
                        None => return Ok(edge),
                    },
                    None => {
                        let Terminal::Op { frame, node, .. } = terminal else { return Err(circle()) };
                        if on_path.insert((frame, std::ptr::from_ref(node)), ()).is_some() {
                            return Err(circle());
                        }
                        open.push((frame, node, Vec::new()));
                    }
                }
            }
            let Some((frame, node, inputs)) = open.last() else { return Err(circle()) };
            let next = node.input.get(inputs.len()).filter(|name| !name.starts_with('^'));
            if let Some(name) = next {
                wanted = Some(self.resolve(*frame, name)?);
                continue;
            }
            let Some((frame, node, inputs)) = open.pop() else { return Err(circle()) };
            let key = (frame, std::ptr::from_ref(node));
            on_path.remove(&key);
            let made = self.add(What::Op(node), inputs)?;
            self.made.insert(key, made);
            match open.last_mut() {
                // The output is not known here: the reference is resolved once more, and found.
                Some((frame, node, inputs)) => {
                    let name = node.input.get(inputs.len()).ok_or_else(circle)?;
                    let (frame, name) = (*frame, name.as_str());
                    wanted = Some(self.resolve(frame, name)?);
                }
                None => return self.find(&root, None)?.ok_or_else(circle),
            }
        }
    }

    /// Returns the node of a terminal, if it exists; those of inputs and variables are made.
    fn find(&mut self, terminal: &Terminal<'a>, user: Option<&NodeDef>) -> Result<Option<Edge>, NoChain> {
        let edge = |node| Some(Edge { node, output: 0 });
        match terminal {
            Terminal::Op { frame, node, output } => {
                if self.is_main(*frame) {
                    if let Some(at) = self.placeholders.get(&node.name).copied() {
                        return self.input(at).map(edge);
                    }
                    if VARIABLES.contains(&node.op.as_str()) {
                        return self.variable(*frame, node).map(edge);
                    }
                }
                let made = self.made.get(&(*frame, std::ptr::from_ref(*node)));
                Ok(made.map(|node| Edge { node: *node, output: *output }))
            }
            Terminal::Input(at) => self.input(*at).map(edge),
            Terminal::Bound(at) => match (self.captured.get(at), self.bound.get(*at)) {
                (Some(known), _) => Ok(edge(*known)),
                (None, Some(Bound::Variable(key))) => {
                    let node = self.add(What::Variable(key.clone()), Vec::new())?;
                    self.captured.insert(*at, node);
                    Ok(edge(node))
                }
                (None, Some(Bound::Constant(node))) => {
                    let node = self.add(What::Op(node), Vec::new())?;
                    self.captured.insert(*at, node);
                    Ok(edge(node))
                }
                _ => Err(NoChain::unsupported(format!(
                    "{} uses the constant or table '{}', which is not in the checkpoint",
                    user.map_or("the result".to_owned(), describe),
                    self.argument(at + self.own).unwrap_or_default()
                ))),
            },
        }
    }

    /// Returns the name of an argument of the function that is read.
    fn argument(&self, at: usize) -> Option<&'a str> {
        let body = self.bodies.get(self.frames.first()?.body)?;
        body.arguments.iter().find(|(_, own)| **own == at).map(|(name, _)| *name)
    }

    fn is_main(&self, frame: usize) -> bool {
        let frame = self.frames.get(frame);
        frame.and_then(|frame| self.bodies.get(frame.body)).is_some_and(|body| body.def.is_none())
    }

    fn input(&mut self, at: usize) -> Result<usize, NoChain> {
        if let Some(known) = self.inputs.get(&at) {
            return Ok(*known);
        }
        let node = self.add(What::Input(at), Vec::new())?;
        self.inputs.insert(at, node);
        Ok(node)
    }

    /// Returns the node of a variable of the main graph.
    fn variable(&mut self, frame: usize, node: &NodeDef) -> Result<usize, NoChain> {
        let key = (frame, std::ptr::from_ref(node));
        if let Some(known) = self.made.get(&key) {
            return Ok(*known);
        }
        let made = self.add(What::Variable(node.name.clone()), Vec::new())?;
        self.made.insert(key, made);
        Ok(made)
    }

    fn add(&mut self, what: What<'a>, inputs: Vec<Edge>) -> Result<usize, NoChain> {
        if self.dag.nodes.len() >= MAX_NODES {
            return Err(NoChain::unsupported(format!("the functions have more than {MAX_NODES} operations")));
        }
        self.dag.nodes.push(DagNode { what, inputs });
        Ok(self.dag.nodes.len() - 1)
    }

    /// Follows a reference through arguments, calls and operations that pass their input on.
    fn resolve(&mut self, mut frame: usize, mut reference: &'a str) -> Result<Terminal<'a>, NoChain> {
        let mut circles = Circles::default();
        loop {
            circles.check(frame, reference)?;
            self.budget = self.budget.checked_sub(1).ok_or_else(circle)?;
            let broken = || NoChain::unsupported(format!("'{reference}' is referred to, but does not exist"));
            let (name, result, output) = split(reference);
            let here = self.frames.get(frame).ok_or_else(broken)?;
            let body = self.bodies.get(here.body).ok_or_else(broken)?;
            if let Some(at) = body.arguments.get(name).copied() {
                let before = here.before.filter(|_| !is_kept(body, at));
                match here.caller {
                    _ if before.is_some() => {
                        let result = body.def.and_then(|def| returned(def, at)).ok_or_else(broken)?;
                        (frame, reference) = (before.unwrap_or(frame), result);
                    }
                    Some(Caller { frame: outer, node, offset }) => {
                        (frame, reference) = (outer, node.input.get(at + offset).ok_or_else(broken)?);
                    }
                    None => match at.checked_sub(self.own) {
                        None => return Ok(Terminal::Input(at)),
                        Some(bound) => return Ok(Terminal::Bound(bound)),
                    },
                }
                continue;
            }
            let node = *body.nodes.get(name).ok_or_else(broken)?;
            let is_root = self.is_main(frame) && self.placeholders.contains_key(name);
            match node.op.as_str() {
                _ if is_root => return Ok(Terminal::Op { frame, node, output }),
                "Identity"
                | "StopGradient"
                | "PreventGradient"
                | "CheckNumerics"
                | "Snapshot"
                | "ReadVariableOp"
                | "PlaceholderWithDefault"
                | "EnsureShape" => {
                    reference = node.input.first().ok_or_else(broken)?;
                }
                "IdentityN" => reference = node.input.get(output).ok_or_else(broken)?,
                "PartitionedCall" | "StatefulPartitionedCall" => {
                    (frame, reference) = self.call(frame, node, "f", 0, output)?;
                }
                "If" | "StatelessIf" => {
                    let branch = match self.condition(frame, node, 0)? {
                        Some(true) => "then_branch",
                        Some(false) => "else_branch",
                        None => return Ok(Terminal::Op { frame, node, output }),
                    };
                    (frame, reference) = self.call(frame, node, branch, 1, output)?;
                }
                "While" | "StatelessWhile" if self.steps.contains_key(&std::ptr::from_ref(node)) => {
                    (frame, reference) = self.stepped(frame, node, output)?;
                }
                "Switch" => {
                    let Some(taken) = self.condition(frame, node, 1)? else {
                        return Ok(Terminal::Op { frame, node, output });
                    };
                    if taken != (output == 1 || result == "output_true") {
                        return Err(NoChain::unsupported(format!(
                            "{} passes nothing to where it is used",
                            describe(node)
                        )));
                    }
                    reference = node.input.first().ok_or_else(broken)?;
                }
                "Merge" if output_number(node, result, output) == 0 => match self.live(frame, node)? {
                    Some(live) => reference = live,
                    None => return Ok(Terminal::Op { frame, node, output }),
                },
                _ => return Ok(Terminal::Op { frame, node, output: output_number(node, result, output) }),
            }
        }
    }

    /// Enters the function that an attribute names, and returns its frame and the reference of one of its results.
    fn call(
        &mut self,
        frame: usize,
        node: &'a NodeDef,
        attribute: &str,
        offset: usize,
        output: usize,
    ) -> Result<(usize, &'a str), NoChain> {
        let broken = || NoChain::unsupported(format!("{} calls no function", describe(node)));
        let name = match node.attr.get(attribute).and_then(|value| value.value.as_ref()) {
            Some(Value::Func(function)) => function.name.as_str(),
            _ => return Err(broken()),
        };
        let body = self.body(name)?;
        let def = self.bodies.get(body).and_then(|body| body.def).ok_or_else(broken)?;
        let reference = returned(def, output).ok_or_else(broken)?;
        let key = (frame, std::ptr::from_ref(node));
        if let Some(known) = self.calls.get(&key) {
            return Ok((*known, reference));
        }
        let depth = self.frames.get(frame).map_or(0, |frame| frame.depth) + 1;
        if self.frames.len() >= MAX_CALLS || depth > MAX_DEPTH {
            return Err(NoChain::unsupported(format!(
                "the functions make more than {MAX_CALLS} calls, or more than {MAX_DEPTH} within each other"
            )));
        }
        self.frames.push(Frame { body, caller: Some(Caller { frame, node, offset }), depth, before: None });
        let made = self.frames.len() - 1;
        self.calls.insert(key, made);
        Ok((made, reference))
    }

    /// Enters the steps of a loop, and returns the last one's frame and the reference of one of its results.
    fn stepped(
        &mut self,
        frame: usize,
        node: &'a NodeDef,
        output: usize,
    ) -> Result<(usize, &'a str), NoChain> {
        let steps = self.steps.get(&std::ptr::from_ref(node)).copied().unwrap_or(0);
        let Some(others) = steps.checked_sub(1) else {
            let start = node.input.get(output).ok_or_else(|| missing(&node.name))?;
            return Ok((frame, start));
        };
        let is_new = !self.calls.contains_key(&(frame, std::ptr::from_ref(node)));
        let (first, reference) = self.call(frame, node, "body", 0, output)?;
        if !is_new {
            return Ok((first, reference));
        }
        let mut last = first;
        for _ in 0..others {
            let Some(Frame { body, caller, depth, .. }) = self.frames.get(first) else { break };
            let next = Frame { body: *body, caller: *caller, depth: *depth, before: Some(last) };
            if self.frames.len() >= MAX_CALLS {
                return Err(NoChain::unsupported(format!("the loops take more than {MAX_CALLS} steps")));
            }
            self.frames.push(next);
            last = self.frames.len() - 1;
        }
        // The loop's results are those of its last step.
        self.calls.insert((frame, std::ptr::from_ref(node)), last);
        Ok((last, reference))
    }

    /// Returns the truth value of an input, if it is a constant.
    fn condition(&mut self, frame: usize, node: &'a NodeDef, at: usize) -> Result<Option<bool>, NoChain> {
        if self.conditions >= MAX_CONDITIONS {
            return Err(NoChain::unsupported(format!(
                "{} depends on a condition that depends on more than {MAX_CONDITIONS} others",
                describe(node)
            )));
        }
        self.conditions += 1;
        let truth = self.resolve_condition(frame, node, at);
        self.conditions -= 1;
        truth
    }

    fn resolve_condition(
        &mut self,
        frame: usize,
        node: &'a NodeDef,
        at: usize,
    ) -> Result<Option<bool>, NoChain> {
        let Some(reference) = node.input.get(at) else { return Ok(None) };
        let Terminal::Op { frame, node, .. } = self.resolve(frame, reference)? else { return Ok(None) };
        Ok(match node.op.as_str() {
            "LogicalNot" => {
                let inner = node.input.first().map(|inner| self.resolve(frame, inner)).transpose()?;
                match inner {
                    Some(Terminal::Op { node, .. }) => truth(node).map(|truth| !truth),
                    _ => None,
                }
            }
            _ => truth(node),
        })
    }

    /// Returns the input of a `Merge` that is computed, if all others certainly are not.
    fn live(&mut self, frame: usize, merge: &'a NodeDef) -> Result<Option<&'a str>, NoChain> {
        let mut live = None;
        for reference in merge.input.iter().filter(|name| !name.starts_with('^')) {
            if self.is_dead(frame, reference)? {
                continue;
            }
            if live.replace(reference.as_str()).is_some() {
                return Ok(None);
            }
        }
        Ok(live)
    }

    /// Whether a value depends on the side of a `Switch` that is not taken.
    fn is_dead(&mut self, frame: usize, reference: &'a str) -> Result<bool, NoChain> {
        let mut open = vec![reference];
        let mut seen = std::collections::HashSet::new();
        while let Some(reference) = open.pop() {
            self.budget = self.budget.checked_sub(1).ok_or_else(circle)?;
            let (name, result, output) = split(reference.trim_start_matches('^'));
            let body = self.frames.get(frame).and_then(|frame| self.bodies.get(frame.body));
            let Some(node) = body.and_then(|body| body.nodes.get(name)).copied() else { continue };
            if node.op == "Switch" {
                let side = output == 1 || result == "output_true";
                if self.condition(frame, node, 1)?.is_some_and(|taken| taken != side) {
                    return Ok(true);
                }
                continue;
            }
            if node.op != "Merge" && seen.insert(name) {
                open.extend(node.input.iter().map(String::as_str));
            }
        }
        Ok(false)
    }

    /// Returns the number of a function's body, which is indexed on its first call.
    fn body(&mut self, name: &str) -> Result<usize, NoChain> {
        if let Some(known) = self.by_name.get(name) {
            return Ok(*known);
        }
        let (name, def) = self.library.get_key_value(name).ok_or_else(|| missing(name))?;
        let signature = def.signature.as_ref().ok_or_else(|| missing(name))?;
        let plain = signature
            .input_arg
            .iter()
            .all(|argument| argument.number_attr.is_empty() && argument.type_list_attr.is_empty());
        if !plain {
            return Err(NoChain::unsupported(format!("the function '{name}' takes lists of values")));
        }
        let arguments =
            signature.input_arg.iter().enumerate().map(|(at, argument)| (argument.name.as_str(), at));
        let nodes = def.node_def.iter().map(|node| (node.name.as_str(), node));
        self.bodies.push(Body { arguments: arguments.collect(), nodes: nodes.collect(), def: Some(def) });
        self.by_name.insert(name, self.bodies.len() - 1);
        Ok(self.bodies.len() - 1)
    }
}

/// Finds references that lead back to themselves, in steps of at most three times their number: each reference is compared
/// with one before, which is replaced after twice as many steps.
#[derive(Default)]
struct Circles {
    before: Option<(usize, *const u8)>,
    steps: usize,
    until: usize,
}

impl Circles {
    fn check(&mut self, frame: usize, reference: &str) -> Result<(), NoChain> {
        let here = (frame, reference.as_ptr());
        if self.before == Some(here) {
            return Err(circle());
        }
        if self.steps == self.until {
            self.before = Some(here);
            self.until = 2 * self.steps + 1;
        }
        self.steps += 1;
        Ok(())
    }
}

/// Whether a loop's body returns the variable `at` as it is.
fn is_kept(body: &Body, at: usize) -> bool {
    /// Limit on the identities that are followed.
    const MAX_IDENTITIES: usize = 8;
    let mut reference = body.def.and_then(|def| returned(def, at));
    for _ in 0..MAX_IDENTITIES {
        let Some((name, ..)) = reference.map(split) else { return false };
        if let Some(found) = body.arguments.get(name) {
            return *found == at;
        }
        let node = body.nodes.get(name).filter(|node| node.op == "Identity");
        reference = node.and_then(|node| node.input.first()).map(String::as_str);
    }
    false
}

fn missing(name: &str) -> NoChain {
    NoChain::unsupported(format!("the function '{name}' is missing"))
}

fn circle() -> NoChain {
    NoChain::unsupported("the operations or functions refer to each other in a circle, or too often")
}

/// Returns the value of a constant that is one truth value.
fn truth(node: &NodeDef) -> Option<bool> {
    let Some(Value::Tensor(tensor)) = node.attr.get("value")?.value.as_ref() else { return None };
    match (tensor.dtype, &tensor.tensor_content[..], &tensor.bool_val[..]) {
        (10, [], [value]) => Some(*value),
        (10, [value], []) => Some(*value != 0),
        // A false value may be left out.
        (10, [], []) => Some(false),
        _ => None,
    }
}

/// Splits a reference: `node:result:2` is item 2 of a node's result, `argument` an argument, `node:1` a result.
pub(super) fn split(reference: &str) -> (&str, &str, usize) {
    let mut parts = reference.split(':');
    let (name, result) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let number = parts.next().unwrap_or(result);
    (name, result, number.parse().unwrap_or(0))
}

/// Returns the number of a result among all of an operation.
fn output_number(node: &NodeDef, result: &str, item: usize) -> usize {
    output_names(node).iter().position(|name| *name == result).unwrap_or(item)
}

/// Returns the names of an operation's results, if they have several.
pub(super) fn output_names(node: &NodeDef) -> &'static [&'static str] {
    match node.op.as_str() {
        "FusedBatchNormV3" | "FusedBatchNormV2" | "FusedBatchNorm" => {
            &["y", "batch_mean", "batch_variance", "reserve_space_1", "reserve_space_2", "reserve_space_3"]
        }
        "TopKV2" => &["values", "indices"],
        "Switch" => &["output_false", "output_true"],
        "Merge" => &["output", "value_index"],
        _ => &[],
    }
}

fn returned(def: &FunctionDef, at: usize) -> Option<&str> {
    let output = def.signature.as_ref()?.output_arg.get(at)?;
    def.ret.get(&output.name).map(String::as_str)
}
