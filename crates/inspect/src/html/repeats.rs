//! Finds blocks of layers that repeat: `conv_0`, `bn_0`, `conv_1`, `bn_1`, … with the same operators, attributes,
//! shapes and wiring, and names that differ by numbers only.

use super::constants::{Constants, Layers};
use super::runs::{Run, are_numbered, names, runs, unnumbered};
use ckpt_api::{Graph, Node, Op};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

/// Fewest units that a run replaces, those in scopes included.
const LEAST: usize = 4;

/// Blocks of units that repeat, and what to call the first and the last.
pub(super) struct Found<'a> {
    pub(super) run: Run,
    pub(super) first: &'a str,
    pub(super) last: &'a str,
}

/// Returns the blocks that repeat among `units`, consecutive layers each, which consist of so many smaller ones
/// (`sizes`). Blocks that repeat have layers of the same `signatures`.
pub(super) fn find<'a>(
    graph: &'a Graph,
    units: &[Range<usize>],
    sizes: &[usize],
    signatures: &[u64],
) -> Vec<Found<'a>> {
    let own: Vec<u64> = units.iter().map(|unit| signature(graph, unit, signatures)).collect();
    let wires = Wires::of(graph, units);
    let same = |start: usize, index: usize, period: usize| {
        own[index] == own[index + period] && wires.are_alike(start, index, period)
    };
    let block = |start: usize, period: usize| -> Vec<&str> {
        let layers = layers(units, start, period);
        graph.nodes[layers].iter().map(|node| node.name.as_str()).collect()
    };
    // Blocks are best cut where names say so, where few values pass, and before a scope or layer rather than behind it.
    let cost = |start: usize, period: usize| {
        let numbered = are_numbered(&block(start, period), &block(start + period, period));
        let op = graph.nodes.get(units[start].start).map(|node| &node.op);
        let is_start = sizes[start] > 1 || matches!(op, Some(Op::Conv | Op::Gemm));
        (!numbered, wires.passing[start], !is_start)
    };
    let wanted = |run: Run| sizes[run.start..run.end()].iter().sum::<usize>() >= LEAST;
    let runs = runs(units.len(), same, cost, wanted);
    let named = runs.into_iter().map(|run| {
        let first = block(run.start, run.period);
        let (first, last) = names(&first, &block(run.end() - run.period, run.period));
        Found { run, first, last }
    });
    named.collect()
}

/// The layers of `count` units.
fn layers(units: &[Range<usize>], start: usize, count: usize) -> Range<usize> {
    units[start].start..units[start + count - 1].end
}

/// Hashes what must be the same in all repetitions of each layer, but its wiring. `shape` describes a tensor.
pub(super) fn signatures(layers: &Layers, shape: impl Fn(&str) -> String) -> Vec<u64> {
    let hash = |(node, constants): (&Node, &Constants)| {
        let mut hash = DefaultHasher::new();
        unnumbered(&node.name).hash(&mut hash);
        node.op.hash(&mut hash);
        for (role, tensor) in &node.parameters {
            (role, shape(tensor)).hash(&mut hash);
        }
        for (key, value) in &node.attributes {
            (key, serde_json::to_string(value).unwrap_or_default()).hash(&mut hash);
        }
        node.outputs.len().hash(&mut hash);
        constants.count.hash(&mut hash);
        for (name, value) in &constants.listed {
            (unnumbered(name), value).hash(&mut hash);
        }
        hash.finish()
    };
    layers.graph.nodes.iter().zip(&layers.constants).map(hash).collect()
}

/// Hashes what must be the same in all repetitions of a unit, but what it takes from others.
fn signature(graph: &Graph, unit: &Range<usize>, signatures: &[u64]) -> u64 {
    let mut hash = DefaultHasher::new();
    signatures[unit.clone()].hash(&mut hash);
    let mut made: HashMap<&str, usize> = HashMap::new();
    for node in &graph.nodes[unit.clone()] {
        let inputs = node.inputs.iter().map(|input| made.get(input.as_str()).copied());
        inputs.collect::<Vec<_>>().hash(&mut hash);
        for output in &node.outputs {
            let place = made.len();
            made.insert(output, place);
        }
    }
    hash.finish()
}

/// What makes a value that a unit takes.
#[derive(PartialEq)]
enum Maker<'a> {
    Unit(usize),
    /// The graph's input.
    Input(&'a str),
}

/// The wiring of units.
struct Wires<'a> {
    /// What makes each value that a unit takes.
    makers: Vec<Vec<Maker<'a>>>,
    /// Number of values that are made before a unit, and are taken by it or behind it.
    passing: Vec<usize>,
}

impl<'a> Wires<'a> {
    fn of(graph: &'a Graph, units: &[Range<usize>]) -> Self {
        let outputs = units.iter().enumerate().flat_map(|(index, unit)| {
            let outputs = graph.nodes[unit.clone()].iter().flat_map(|node| &node.outputs);
            outputs.map(move |name| (name.as_str(), index))
        });
        let maker: HashMap<&str, usize> = outputs.collect();
        let mut last: HashMap<&str, usize> = HashMap::new();
        let mut makers = Vec::with_capacity(units.len());
        for (index, unit) in units.iter().enumerate() {
            let inputs = graph.nodes[unit.clone()].iter().flat_map(|node| &node.inputs);
            let inputs = inputs.map(|name| {
                last.insert(name, index);
                maker.get(name.as_str()).map_or(Maker::Input(name), |unit| Maker::Unit(*unit))
            });
            makers.push(inputs.collect());
        }
        // Where a value begins and ends to pass; the sums are what passes.
        let (mut begins, mut ends) = (vec![0; units.len() + 1], vec![0; units.len() + 1]);
        for (name, last) in last {
            if let Some(maker) = maker.get(name).filter(|maker| **maker < last) {
                begins[maker + 1] += 1;
                ends[last + 1] += 1;
            }
        }
        let sums = begins.iter().zip(ends).scan(0usize, |sum, (begins, ends)| {
            *sum = (*sum + begins).saturating_sub(ends);
            Some(*sum)
        });
        Wires { makers, passing: sums.collect() }
    }

    /// Whether a unit and the one `period` behind it take the same: each from its own block or the one before it, or
    /// both from the same unit. The first block, from `start`, takes from anything that precedes it.
    fn are_alike(&self, start: usize, index: usize, period: usize) -> bool {
        let (one, other) = (&self.makers[index], &self.makers[index + period]);
        let is_first = index < start + period;
        let in_first = |unit: usize| is_first && (start..start + period).contains(&unit);
        one.len() == other.len()
            && one.iter().zip(other).all(|makers| match makers {
                (Maker::Unit(a), Maker::Unit(b)) => {
                    *b == a + period || *a < start && (a == b || in_first(*b))
                }
                (Maker::Input(_), Maker::Unit(b)) => in_first(*b),
                (a, b) => a == b,
            })
    }
}
