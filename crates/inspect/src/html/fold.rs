//! Folds a graph into boxes. A layer and the activation behind it share a box. Then, if asked, scopes and consecutive
//! blocks that repeat become one box each, and what is still too much for a drawing is folded by names.

use super::blocks::{Block, End, Folded, Group, Repeat};
use super::constants::Layers;
use super::repeats::{self, Found, signatures};
use super::scopes::{Part, Scope, Uses, scopes};
use ckpt_api::{Graph, Node, Op, Value};
use std::collections::HashMap;
use std::ops::Range;

/// Most boxes of layers that are drawn.
pub(super) const BOXES: usize = 1000;
/// Boxes of layers that are drawn without folding.
const SMALL: usize = 12;
/// Boxes that remain if there are more than [`BOXES`].
const FEW: usize = 48;
/// Most inputs, and most outputs, that are drawn.
const ENDS: usize = 24;
/// Most parts of a name that are compared.
const DEPTH: usize = 12;

/// Returns a box for each layer with its activation; `None` if there are too many to draw.
pub(super) fn each(layers: &Layers) -> Option<Folded> {
    let units = merged(layers);
    let all = Ends::all(&layers.graph);
    (units.len() <= BOXES).then(|| wired(&layers.graph, units.into_iter().map(Block::Layers).collect(), all))
}

/// Returns the boxes of a graph, in which scopes and repeated blocks are one box each.
pub(super) fn fold(layers: &Layers, uses: &Uses, shape: impl Fn(&str) -> String) -> Folded {
    let graph = &layers.graph;
    let units = merged(layers);
    let folding = Folding { graph, signatures: signatures(layers, shape) };
    let items = folding.items(scopes(graph, &units, uses));
    let mut blocks = folding.blocks(items);
    if blocks.len() > BOXES {
        blocks = runs(&graph.nodes, &units).into_iter().map(Block::Layers).collect();
    }
    wired(graph, blocks, Ends::all(graph))
}

/// A box, and how many units it has.
type Item = (Block, usize);

struct Folding<'a> {
    graph: &'a Graph,
    /// What is the same in each repetition of a layer.
    signatures: Vec<u64>,
}

impl Folding<'_> {
    /// Returns a box for each part. A scope that would open to a single box has none.
    fn items(&self, parts: Vec<Part>) -> Vec<Item> {
        let mut items = Vec::with_capacity(parts.len());
        for part in parts {
            match part {
                Part::Unit(layers) => items.push((Block::Layers(layers), 1)),
                Part::Scope(Scope { name, layers, parts }) => {
                    let inside = self.items(parts);
                    if boxes(&inside, &self.repeats(&inside)) < 2 {
                        items.extend(inside);
                        continue;
                    }
                    let size = size(&inside);
                    items.push((Block::Group(Group { layers, name, inside: self.blocks(inside) }), size));
                }
            }
        }
        items
    }

    fn repeats(&self, items: &[Item]) -> Vec<Found<'_>> {
        if size(items) <= SMALL {
            return Vec::new();
        }
        let (layers, sizes): (Vec<_>, Vec<_>) =
            items.iter().map(|(block, size)| (block.layers(), *size)).unzip();
        repeats::find(self.graph, &layers, &sizes, &self.signatures)
    }

    /// Returns the boxes, of which those that repeat are one.
    fn blocks(&self, items: Vec<Item>) -> Vec<Block> {
        let found = self.repeats(&items);
        let mut items = items.into_iter().map(|(block, _)| block);
        let mut blocks = Vec::new();
        let mut next = 0;
        for Found { run, first, last } in found {
            blocks.extend(items.by_ref().take(run.start - next));
            let all: Vec<Block> = items.by_ref().take(run.end() - run.start).collect();
            next = run.end();
            let (Some(start), Some(end)) = (all.first(), all.last()) else { continue };
            let layers = start.layers().start..end.layers().end;
            let mut inside: Vec<Block> = all.into_iter().take(run.period).collect();
            // A block of one scope is that scope.
            if let [Block::Group(group)] = &mut inside[..] {
                inside = std::mem::take(&mut group.inside);
            }
            let (first, last) = (first.to_owned(), last.to_owned());
            blocks.push(Block::Repeat(Repeat { layers, first, last, times: run.times, inside }));
        }
        blocks.extend(items);
        blocks
    }
}

fn size(items: &[Item]) -> usize {
    items.iter().map(|(_, size)| size).sum()
}

/// Number of boxes of items of which some repeat.
fn boxes(items: &[Item], repeats: &[Found]) -> usize {
    items.len() - repeats.iter().map(|found| found.run.end() - found.run.start - 1).sum::<usize>()
}

/// Returns the layers, each with the activation that is all that uses it.
fn merged(layers: &Layers) -> Vec<Range<usize>> {
    let graph = &layers.graph;
    let mut uses: HashMap<&str, usize> = HashMap::new();
    let inputs = graph.nodes.iter().flat_map(|node| &node.inputs);
    for name in inputs.chain(graph.outputs.iter().map(|output| &output.name)) {
        *uses.entry(name).or_default() += 1;
    }
    let mut units: Vec<Range<usize>> = Vec::new();
    let mut before: Option<&Node> = None;
    for (index, (node, constants)) in graph.nodes.iter().zip(&layers.constants).enumerate() {
        let follows = before.is_some_and(|before| {
            is_activation(node)
                && constants.count == 0
                && before.outputs == node.inputs
                && uses.get(node.inputs[0].as_str()) == Some(&1)
        });
        match units.last_mut() {
            Some(unit) if follows && unit.len() < 3 => unit.end = index + 1,
            _ => units.push(index..index + 1),
        }
        before = Some(node);
    }
    units
}

/// Whether a node is elementwise and has no tensors.
pub(super) fn is_activation(node: &Node) -> bool {
    let elementwise = node.op.is_activation()
        || matches!(node.op, Op::Clip | Op::Identity | Op::Unspecified | Op::Custom(_));
    elementwise && node.parameters.is_empty() && node.inputs.len() == 1 && node.outputs.len() == 1
}

/// The inputs and outputs of a drawing.
pub(super) struct Ends {
    inputs: Vec<End>,
    outputs: Vec<End>,
}

impl Ends {
    fn all(graph: &Graph) -> Self {
        let end = |value: &Value| End { value: value.name.clone(), shown: value.clone() };
        Ends {
            inputs: graph.inputs.iter().map(end).collect(),
            outputs: graph.outputs.iter().map(end).collect(),
        }
    }

    /// What leads into layers and out of them, by the names of the layers that make and use it.
    fn of(graph: &Graph, layers: &Range<usize>, uses: &Uses) -> Self {
        let (inputs, outputs) = uses.across(graph, layers);
        let node = |index: usize| Value::new(graph.nodes[index].name.clone(), Vec::new());
        let own = |values: &[Value], name: &str| values.iter().find(|value| value.name == name).cloned();
        let input = |value: &str| {
            let shown = uses.maker(value).map(node).or_else(|| own(&graph.inputs, value));
            End { value: value.to_owned(), shown: shown.unwrap_or_else(|| Value::new(value, Vec::new())) }
        };
        let output = |value: &str| {
            let shown = own(&graph.outputs, value).or_else(|| uses.user(value, layers).map(node));
            End { value: value.to_owned(), shown: shown.unwrap_or_else(|| Value::new(value, Vec::new())) }
        };
        Ends {
            inputs: inputs.into_iter().map(input).collect(),
            outputs: outputs.into_iter().map(output).collect(),
        }
    }
}

/// Returns the drawing of boxes in a scope or block of `layers`.
pub(super) fn opened(graph: &Graph, blocks: &[Block], layers: &Range<usize>, uses: &Uses) -> Folded {
    wired(graph, blocks.to_vec(), Ends::of(graph, layers, uses))
}

/// Adds the inputs and outputs to the boxes, and draws the lines.
fn wired(graph: &Graph, layers: Vec<Block>, ends: Ends) -> Folded {
    let mut folded = Folded::default();
    let Ends { mut inputs, mut outputs } = ends;
    folded.left_out = inputs.len().saturating_sub(ENDS) + outputs.len().saturating_sub(ENDS);
    inputs.truncate(ENDS);
    outputs.truncate(ENDS);
    folded.blocks.extend((0..inputs.len()).map(Block::Input));
    folded.blocks.extend(layers);
    let mut made: HashMap<&str, usize> =
        inputs.iter().enumerate().map(|(index, input)| (input.value.as_str(), index)).collect();
    for (index, block) in folded.blocks.iter().enumerate() {
        let outputs = graph.nodes[block.layers()].iter().flat_map(|node| &node.outputs);
        made.extend(outputs.map(|output| (output.as_str(), index)));
    }
    for index in 0..folded.blocks.len() {
        let layers = folded.blocks[index].layers();
        for name in graph.nodes[layers].iter().flat_map(|node| &node.inputs) {
            folded.line(made.get(name.as_str()), index);
        }
    }
    for (output, end) in outputs.iter().enumerate() {
        let index = folded.blocks.len();
        folded.blocks.push(Block::Output(output));
        folded.line(made.get(end.value.as_str()), index);
    }
    drop(made);
    (folded.inputs, folded.outputs) = (inputs, outputs);
    folded
}

/// Groups consecutive units by the longest prefixes of names that give few enough groups, or else in groups of equal
/// size. Lines between groups of consecutive layers form no circle.
fn runs(nodes: &[Node], units: &[Range<usize>]) -> Vec<Range<usize>> {
    let names: Vec<Vec<&str>> = nodes.iter().map(|node| parts(&node.name).collect()).collect();
    for depth in (1..DEPTH).rev() {
        let mut runs: Vec<Range<usize>> = Vec::new();
        let mut last = None;
        for unit in units {
            let name = &names[unit.start];
            let start = name.get(..depth).unwrap_or(name);
            match runs.last_mut() {
                Some(run) if last == Some(start) => run.end = unit.end,
                _ => runs.push(unit.clone()),
            }
            last = Some(start);
            if runs.len() > FEW {
                break;
            }
        }
        if runs.len() <= FEW && runs.len() > 1 {
            return runs;
        }
    }
    let each = units.chunks(units.len().div_ceil(FEW).max(1));
    each.filter_map(|run| Some(run.first()?.start..run.last()?.end)).collect()
}

fn parts(name: &str) -> impl Iterator<Item = &str> {
    name.split(['/', '.']).take(DEPTH)
}

/// Returns the common prefix of the layers' names, in whole parts.
pub(super) fn shared(nodes: &[Node]) -> String {
    let Some(first) = nodes.first() else { return String::new() };
    let same = |count: usize| {
        let start: Vec<&str> = parts(&first.name).take(count).collect();
        nodes.iter().all(|node| parts(&node.name).take(count).eq(start.iter().copied()))
    };
    let count = (1..DEPTH).take_while(|count| same(*count)).last().unwrap_or(0);
    let len: usize = parts(&first.name).take(count).map(|part| part.len() + 1).sum();
    first.name.get(..len.saturating_sub(1)).unwrap_or(&first.name).to_owned()
}

/// Counts the operators, the most frequent first, of equally frequent ones the first.
pub(super) fn ops(nodes: &[Node]) -> Vec<(String, usize)> {
    let mut places: HashMap<&str, usize> = HashMap::new();
    let mut counts: Vec<(String, usize)> = Vec::new();
    for node in nodes {
        let place = *places.entry(node.op.name()).or_insert(counts.len());
        match counts.get_mut(place) {
            Some((_, count)) => *count += 1,
            None => counts.push((node.op.name().to_owned(), 1)),
        }
    }
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    counts
}
