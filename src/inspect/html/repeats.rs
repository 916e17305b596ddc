//! Finds blocks of layers that repeat: `conv_0`, `bn_0`, `conv_1`, `bn_1`, … with the same operators, attributes,
//! shapes and wiring, and names that differ by numbers only.

use super::blocks::{Block, Repeat};
use super::runs::{Run, are_numbered, names, runs, unnumbered};
use ckpt_api::{Graph, Op};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

/// Fewest units that a run replaces.
const LEAST: usize = 4;

/// Returns the boxes of `units`, consecutive layers each, in which blocks that repeat are one box. `shape` describes a
/// tensor: blocks that repeat have tensors of the same shapes.
pub(super) fn find(graph: &Graph, units: &[Range<usize>], shape: impl Fn(&str) -> String) -> Vec<Block> {
    let own: Vec<u64> = units.iter().map(|unit| signature(graph, unit, &shape)).collect();
    let wires = Wires::of(graph, units);
    let same = |start: usize, index: usize, period: usize| {
        own[index] == own[index + period] && wires.are_alike(start, index, period)
    };
    let block = |start: usize, period: usize| -> Vec<&str> {
        let layers = layers(units, start, period);
        graph.nodes[layers].iter().map(|node| node.name.as_str()).collect()
    };
    // Blocks are best cut where names say so, where few values pass, and before a layer rather than behind it.
    let cost = |start: usize, period: usize| {
        let numbered = are_numbered(&block(start, period), &block(start + period, period));
        let op = graph.nodes.get(units[start].start).map(|node| &node.op);
        (!numbered, wires.passing[start], !matches!(op, Some(Op::Conv | Op::Gemm)))
    };
    let mut blocks = Vec::new();
    let mut next = 0;
    for run in runs(units.len(), same, cost, |run| run.end() - run.start >= LEAST) {
        blocks.extend(units[next..run.start].iter().cloned().map(Block::Layers));
        let Run { start, period, times } = run;
        let first = block(start, period);
        let (first, last) = names(&first, &block(run.end() - period, period));
        let (first, last) = (first.to_owned(), last.to_owned());
        blocks.push(Block::Repeat(Repeat {
            layers: layers(units, start, period * times),
            first,
            last,
            times,
        }));
        next = run.end();
    }
    blocks.extend(units[next..].iter().cloned().map(Block::Layers));
    blocks
}

/// The layers of `count` units.
fn layers(units: &[Range<usize>], start: usize, count: usize) -> Range<usize> {
    units[start].start..units[start + count - 1].end
}

/// Hashes what must be the same in all repetitions of a unit, but its wiring.
fn signature(graph: &Graph, unit: &Range<usize>, shape: &impl Fn(&str) -> String) -> u64 {
    let mut hash = DefaultHasher::new();
    for node in &graph.nodes[unit.clone()] {
        unnumbered(&node.name).hash(&mut hash);
        node.op.hash(&mut hash);
        for (role, tensor) in &node.parameters {
            (role, shape(tensor)).hash(&mut hash);
        }
        for (key, value) in &node.attributes {
            (key, serde_json::to_string(value).unwrap_or_default()).hash(&mut hash);
        }
        node.outputs.len().hash(&mut hash);
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
