//! Lowers branches and loops: their graphs are lowered once, for the shapes that the node takes.

use crate::lower::{Info, Lowered, show};
use crate::program::parts::{Body, Control, Program, Repeated, Step};
use crate::value::{Numbers, count};
use ckpt_api::{Attribute, Error, Graph, Node, Op, Result};
use std::collections::{HashMap, HashSet};

/// Limit on the nodes that all loops of a run compute; an iteration counts as one more.
const MAX_NODES: u64 = 1 << 21;

/// Lowers a graph within a node. It is given the values that exist before.
pub(in crate::program) type Assemble<'s, 'a> =
    &'s dyn Fn(&'a Graph, Vec<(&'a str, Info)>) -> Result<Program<'a>>;

/// What a node can take when it is lowered.
pub(in crate::program) struct Scope<'s, 'a> {
    pub(in crate::program) by_name: &'s HashMap<&'a str, usize>,
    pub(in crate::program) values: &'s [(String, Info)],
    pub(in crate::program) assemble: Assemble<'s, 'a>,
}

/// Lowers a node that runs graphs of its own; `None` for another one.
///
/// # Errors
/// Naming the node, or one within it.
pub(in crate::program) fn lower<'a>(
    node: &'a Node,
    scope: &Scope<'_, 'a>,
    next: usize,
) -> Result<Option<Step<'a>>> {
    let known = |name: &String| scope.by_name.get(name.as_str()).copied();
    let mut taken = Taken { inputs: node.inputs.iter().map(known).collect(), places: HashMap::new() };
    let lowered = match node.op {
        Op::If => choice(node, scope, &mut taken),
        Op::Loop => repeated(node, scope, &mut taken),
        _ => return Ok(None),
    };
    let (control, outputs) = lowered.map_err(|error| error.field(&node.name))?;
    if outputs.len() != node.outputs.len() {
        return Err(Error::corrupt("the layer has a different number of outputs than its graphs")
            .field(&node.name)
            .found(node.outputs.len().to_string())
            .expected(outputs.len().to_string()));
    }
    let lowered = Lowered { outputs, ..Lowered::default() };
    let outputs = (next..).take(node.outputs.len()).collect();
    Ok(Some(Step { inputs: taken.inputs, outputs, lowered, control: Some(control) }))
}

/// The values that a node takes: its inputs, then those that its graphs take from around them.
struct Taken {
    inputs: Vec<Option<usize>>,
    places: HashMap<usize, usize>,
}

fn choice<'a>(node: &'a Node, scope: &Scope<'_, 'a>, taken: &mut Taken) -> Result<(Control<'a>, Vec<Info>)> {
    allow(node, &["then_branch", "else_branch"], 1)?;
    truth(taken, scope, 0)?;
    let mut branch = |name: &str| Body::new(graph(node, name)?, Vec::new(), scope, taken);
    let branches = [branch("then_branch")?, branch("else_branch")?];
    let [made, other] = branches.each_ref().map(|branch| branch.program.made());
    let (made, other) = (made?, other?);
    if made != other {
        let shapes =
            |infos: &[Info]| infos.iter().map(|info| show(&info.shape)).collect::<Vec<_>>().join(", ");
        return Err(Error::unsupported("the branches make values of different shapes or kinds")
            .found(format!("{} and {}", shapes(&made), shapes(&other)))
            .help("the shapes of all values must be known before the graph runs"));
    }
    Ok((Control::If(Box::new(branches)), made))
}

fn repeated<'a>(
    node: &'a Node,
    scope: &Scope<'_, 'a>,
    taken: &mut Taken,
) -> Result<(Control<'a>, Vec<Info>)> {
    let body = graph(node, "body")?;
    let carried = body.inputs.len().checked_sub(2);
    let carried = carried.filter(|count| node.inputs.len() == count + 2 && body.outputs.len() > *count);
    let carried = carried.ok_or_else(|| {
        Error::corrupt("the body of a loop does not take and make what the loop carries").found(format!(
            "{} of {} inputs",
            body.inputs.len(),
            node.inputs.len()
        ))
    })?;
    allow(node, &["body", "trip_count"], carried + 2)?;
    let trips = trips(node)?;
    for at in 0..2 {
        if node.inputs.get(at).is_some_and(|name| !name.is_empty()) {
            truth(taken, scope, at)?;
        }
    }
    let mut formals = Vec::with_capacity(carried + 2);
    for input in body.inputs.iter().take(2) {
        let shape = if input.shape == [Some(1)] { vec![1] } else { Vec::new() };
        formals.push(Info { shape, numbers: Numbers::Integer });
    }
    for at in 2..carried + 2 {
        formals.push(info(taken, scope, at)?.clone());
    }
    let initial = formals.clone();
    let body_graph = body;
    let body = Body::new(body, formals, scope, taken)?;
    let made = body.program.made()?;
    let [condition, rest @ ..] = &made[..] else {
        return Err(Error::corrupt("the body of a loop makes nothing"));
    };
    one_truth(condition)?;
    for ((own, before), name) in rest.iter().zip(&initial[2..]).zip(body_graph.outputs.iter().skip(1)) {
        if own != before {
            return Err(Error::unsupported(
                "a loop changes the shape or the kind of a value that it carries",
            )
            .found(format!("{} of '{}'", show(&own.shape), name.name))
            .expected(show(&before.shape))
            .help("the shapes of all values must be known before the graph runs"));
        }
    }
    let mut outputs = rest.to_vec();
    for stacked in outputs.iter_mut().skip(carried) {
        stacked.shape.insert(0, trips.ok_or_else(unknown_count)?);
        if count(&stacked.shape).is_none() {
            return Err(Error::limit("a value has too many elements").found(show(&stacked.shape)));
        }
    }
    Ok((Control::Loop(Box::new(Repeated { body, carried, trips })), outputs))
}

/// Returns the number of iterations, if the node states it.
fn trips(node: &Node) -> Result<Option<usize>> {
    if !node.attributes.contains_key("trip_count") {
        return Ok(None);
    }
    let stated = node.int("trip_count", 0)?;
    let has_other = node.inputs.first().is_some_and(|name| !name.is_empty());
    if stated < 0 || has_other {
        let expected = if has_other { "no number of iterations among the inputs" } else { "at least 0" };
        return Err(Attribute::Int(stated).invalid("trip_count", expected));
    }
    match usize::try_from(stated) {
        Ok(trips) if trips as u64 <= MAX_NODES => Ok(Some(trips)),
        _ => Err(too_many().found(stated.to_string())),
    }
}

/// The error for a loop that stacks as many values as it has iterations.
pub(in crate::program) fn unknown_count() -> Error {
    Error::unsupported("a loop stacks values, and how many is not known before it runs")
        .expected("the number of iterations, as attribute 'trip_count'")
}

/// The error for loops that compute too many nodes.
pub(in crate::program) fn too_many() -> Error {
    Error::limit("the loops of the graph compute too many nodes")
        .expected(format!("at most {MAX_NODES} nodes in a run; an iteration counts as one more"))
}

fn graph<'a>(node: &'a Node, name: &str) -> Result<&'a Graph> {
    let lacks = || Error::corrupt(format!("the layer lacks its graph '{name}'"));
    node.graph(name)?.ok_or_else(lacks)
}

fn allow(node: &Node, attributes: &[&str], inputs: usize) -> Result<()> {
    let unknown = node.attributes.keys().find(|name| !attributes.contains(&name.as_str()));
    if let Some(name) = unknown.or_else(|| node.parameters.keys().next()) {
        return Err(Error::unsupported(format!("{} has an unknown attribute or tensor", node.op))
            .found(format!("'{name}'"))
            .expected(attributes.join(", ")));
    }
    match node.inputs.len() == inputs {
        true => Ok(()),
        false => Err(Error::corrupt("the layer has a different number of inputs than its operator")
            .found(node.inputs.len().to_string())
            .expected(inputs.to_string())),
    }
}

fn info<'s>(taken: &Taken, scope: &'s Scope, at: usize) -> Result<&'s Info> {
    let id = taken.inputs.get(at).copied().flatten();
    let found = id.and_then(|id| scope.values.get(id));
    found
        .map(|(_, info)| info)
        .ok_or_else(|| Error::corrupt("the layer lacks an input").expected(format!("input {at}")))
}

/// Fails unless an input is one integer.
fn truth(taken: &Taken, scope: &Scope, at: usize) -> Result<()> {
    one_truth(info(taken, scope, at)?)
}

fn one_truth(info: &Info) -> Result<()> {
    match info.numbers == Numbers::Integer && info.len() == 1 {
        true => Ok(()),
        false => Err(Error::corrupt("a branch or a loop needs one truth value or integer")
            .found(format!("shape {}", show(&info.shape)))),
    }
}

impl<'a> Body<'a> {
    fn new(graph: &'a Graph, formals: Vec<Info>, scope: &Scope<'_, 'a>, taken: &mut Taken) -> Result<Self> {
        if graph.inputs.len() != formals.len() {
            return Err(Error::corrupt(
                "a graph within a layer has a different number of inputs than it gets",
            )
            .found(graph.inputs.len().to_string())
            .expected(formals.len().to_string()));
        }
        let mut given: Vec<(&'a str, Info)> =
            graph.inputs.iter().map(|input| input.name.as_str()).zip(formals).collect();
        let mut captured = Vec::new();
        let mut seen: HashSet<&'a str> = HashSet::new();
        for level in graph.levels() {
            let taken_by_nodes = level.nodes.iter().flat_map(|node| &node.inputs);
            for name in taken_by_nodes.chain(level.outputs.iter().map(|output| &output.name)) {
                let Some(id) = scope.by_name.get(name.as_str()).copied() else { continue };
                if !seen.insert(name.as_str()) {
                    continue;
                }
                let Some((_, info)) = scope.values.get(id) else { continue };
                given.push((name.as_str(), info.clone()));
                captured.push(taken.place(id));
            }
        }
        let program = (scope.assemble)(graph, given)?;
        Ok(Body { program, captured })
    }
}

impl Taken {
    /// The place of a value among the node's inputs, which gets one if it has none.
    fn place(&mut self, id: usize) -> usize {
        *self.places.entry(id).or_insert_with(|| {
            self.inputs.push(Some(id));
            self.inputs.len() - 1
        })
    }
}

/// Counts an iteration.
///
/// # Errors
/// [`ckpt_api::Kind::Limit`] for more than [`MAX_NODES`].
pub(in crate::program) fn count_iteration(body: &Body, nodes: &mut u64) -> Result<()> {
    *nodes = nodes.saturating_add(1 + body.program.graph.nodes.len() as u64);
    match *nodes > MAX_NODES {
        true => Err(too_many().help("a loop whose condition always holds has no end")),
        false => Ok(()),
    }
}
