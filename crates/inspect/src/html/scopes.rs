//! The scopes that the names of layers state: `encoder/attention` for `encoder/attention/query`.

use ckpt_api::Graph;
use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// Most parts of a name that are scopes.
const DEPTH: usize = 12;

/// Consecutive layers of a scope.
pub(super) enum Part {
    /// Layers that share a box.
    Unit(Range<usize>),
    /// A scope.
    Scope(Scope),
}

/// All layers of a scope, which are consecutive.
pub(super) struct Scope {
    pub(super) name: String,
    pub(super) layers: Range<usize>,
    pub(super) parts: Vec<Part>,
}

/// Returns the units of a graph by scope. A scope is left out, and its parts belong to the one around it, if it has one
/// part, has all layers, is not consecutive, or has too many values that others make or use.
pub(super) fn scopes(graph: &Graph, units: &[Range<usize>], uses: &Uses) -> Vec<Part> {
    let names: Vec<&str> = units.iter().map(|unit| graph.nodes[unit.start].name.as_str()).collect();
    let known: HashSet<&str> = names.iter().flat_map(|name| around(name)).collect();
    let paths: Vec<Vec<&str>> = names
        .iter()
        .map(|name| {
            let mut path = around(name);
            // A layer whose name others extend is in its own scope.
            path.extend(known.get(name).filter(|_| path.last() != Some(name)));
            path
        })
        .collect();
    let mut stretches: HashMap<&str, usize> = HashMap::new();
    let mut before: &[&str] = &[];
    for path in &paths {
        let same = path.iter().zip(before).take_while(|(a, b)| a == b).count();
        path[same..].iter().for_each(|scope| *stretches.entry(scope).or_default() += 1);
        before = path;
    }
    let tree = Tree { graph, units, uses, paths, stretches };
    tree.parts(0..units.len(), 0)
}

struct Tree<'a> {
    graph: &'a Graph,
    units: &'a [Range<usize>],
    uses: &'a Uses<'a>,
    /// The scopes of each unit, the outer ones first.
    paths: Vec<Vec<&'a str>>,
    /// Number of stretches of consecutive units in each scope.
    stretches: HashMap<&'a str, usize>,
}

impl Tree<'_> {
    /// Returns the parts of a range of units, which share `depth` scopes.
    fn parts(&self, range: Range<usize>, depth: usize) -> Vec<Part> {
        let mut parts = Vec::new();
        let mut start = range.start;
        while start < range.end {
            let scope = self.paths[start].get(depth);
            let Some(name) = scope else {
                parts.push(Part::Unit(self.units[start].clone()));
                start += 1;
                continue;
            };
            let more = (start..range.end).take_while(|unit| self.paths[*unit].get(depth) == scope);
            let own = start..start + more.count();
            start = own.end;
            let inside = self.parts(own.clone(), depth + 1);
            let layers = self.units[own.start].start..self.units[own.end - 1].end;
            let is_whole = self.stretches.get(name) == Some(&1);
            let is_part = inside.len() > 1 && !self.is_most(own.len(), &inside);
            if is_whole && is_part && self.are_few_across(&layers, own.len()) {
                parts.push(Part::Scope(Scope { name: title(name).to_owned(), layers, parts: inside }));
            } else {
                parts.extend(inside);
            }
        }
        parts
    }

    /// Whether a scope has all units, or most of them in scopes of its own: a drawing of it alone shows nothing.
    fn is_most(&self, units: usize, inside: &[Part]) -> bool {
        let scopes = inside.iter().filter(|part| matches!(part, Part::Scope(_))).count();
        units == self.units.len() || units * 4 > self.units.len() * 3 && scopes > 1
    }

    /// Whether few values lead into and out of layers: a box would have more lines than it hides otherwise.
    fn are_few_across(&self, layers: &Range<usize>, units: usize) -> bool {
        let (inputs, outputs) = self.uses.across(self.graph, layers);
        inputs.len() + outputs.len() <= 2 + units / 2
    }
}

/// Who makes and uses the values of a graph.
pub(super) struct Uses<'a> {
    makers: HashMap<&'a str, usize>,
    /// The layers that use each value, in order.
    users: HashMap<&'a str, Vec<usize>>,
    outputs: HashSet<&'a str>,
}

impl<'a> Uses<'a> {
    pub(super) fn of(graph: &'a Graph) -> Self {
        let mut users: HashMap<&str, Vec<usize>> = HashMap::new();
        let mut makers = HashMap::new();
        for (index, node) in graph.nodes.iter().enumerate() {
            makers.extend(node.outputs.iter().map(|output| (output.as_str(), index)));
            node.inputs.iter().for_each(|input| users.entry(input).or_default().push(index));
        }
        let outputs = graph.outputs.iter().map(|output| output.name.as_str()).collect();
        Uses { makers, users, outputs }
    }

    /// Returns the values that lead into layers and out of them.
    pub(super) fn across<'g>(&self, graph: &'g Graph, layers: &Range<usize>) -> (Vec<&'g str>, Vec<&'g str>) {
        let mut seen = HashSet::new();
        let nodes = &graph.nodes[layers.clone()];
        let inputs = nodes.iter().flat_map(|node| &node.inputs).map(String::as_str);
        let is_foreign = |value: &&str| !self.maker(value).is_some_and(|maker| layers.contains(&maker));
        let inputs = inputs.filter(is_foreign).filter(|value| seen.insert(*value)).collect();
        let outputs = nodes.iter().flat_map(|node| &node.outputs).map(String::as_str);
        let leaves = |value: &&str| self.outputs.contains(*value) || self.user(value, layers).is_some();
        (inputs, outputs.filter(leaves).collect())
    }

    pub(super) fn maker(&self, value: &str) -> Option<usize> {
        self.makers.get(value).copied()
    }

    /// The first layer behind `layers` that uses a value, or else one before them.
    pub(super) fn user(&self, value: &str, layers: &Range<usize>) -> Option<usize> {
        let users = self.users.get(value)?;
        let behind = users.partition_point(|user| *user < layers.end);
        users.get(behind).or_else(|| users.first().filter(|user| **user < layers.start)).copied()
    }
}

/// The scopes that a name is in, the outer ones first. Layers `mha` and `mha#2` are of a layer `mha` of the source.
fn around(name: &str) -> Vec<&str> {
    let base = base(name);
    let separator = separator(base);
    let ends = base.match_indices(separator).map(|(at, _)| at).filter(|at| *at > 0).take(DEPTH);
    let mut scopes: Vec<&str> = ends.map(|end| &base[..end]).collect();
    if base.len() < name.len() && scopes.len() < DEPTH {
        scopes.push(base);
    }
    scopes
}

/// A name without the number that tells layers of the same name apart.
fn base(name: &str) -> &str {
    match name.rsplit_once('#') {
        Some((base, number)) if !base.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) => base,
        _ => name,
    }
}

fn separator(name: &str) -> char {
    if name.contains('/') { '/' } else { '.' }
}

/// The last part of a scope, with the one before it if it is a number.
fn title(scope: &str) -> &str {
    let separator = separator(scope);
    let start = |text: &str| text.rfind(separator).map_or(0, |at| at + 1);
    let last = start(scope);
    let is_number = scope[last..].bytes().all(|byte| byte.is_ascii_digit());
    if is_number && last > 0 { &scope[start(&scope[..last - 1])..] } else { &scope[last..] }
}

/// Returns how many bytes of a constant's name are scopes of a layer that uses it.
pub(super) fn common(layer: &str, constant: &str) -> usize {
    let mut scopes = around(layer);
    scopes.push(base(layer));
    let starts = scopes.iter().rev().filter(|scope| {
        constant.strip_prefix(**scope).is_some_and(|rest| rest.len() > 1 && rest.starts_with(['/', '.']))
    });
    starts.map(|scope| scope.len() + 1).next().unwrap_or(0)
}
