//! Folds a graph into boxes that fit a page: one layer each, or several consecutive layers if there are too many.

use ckpt_api::{Graph, Node};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

/// Most boxes of layers that are drawn.
pub(super) const BOXES: usize = 48;
/// Most inputs, and most outputs, that are drawn.
const ENDS: usize = 24;
/// Most parts of a name that are compared.
const DEPTH: usize = 12;
/// Most lines that are drawn.
const LINES: usize = 2000;

/// A box.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Block {
    /// An input of the graph, by its index.
    Input(usize),
    /// A range of layers.
    Layers(Range<usize>),
    /// An output of the graph, by its index.
    Output(usize),
}

/// Boxes in order, and the lines between them by index; every line leads to a later box.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Folded {
    pub(super) blocks: Vec<Block>,
    pub(super) lines: BTreeSet<(usize, usize)>,
    /// Number of inputs, outputs and lines that are not drawn.
    pub(super) left_out: usize,
}

/// Returns the boxes of a graph.
pub(super) fn fold(graph: &Graph) -> Folded {
    let mut folded = Folded::default();
    let inputs = graph.inputs.len().min(ENDS);
    let outputs = graph.outputs.len().min(ENDS);
    folded.left_out = graph.inputs.len() - inputs + graph.outputs.len() - outputs;
    folded.blocks.extend((0..inputs).map(Block::Input));
    folded.blocks.extend(runs(&graph.nodes).into_iter().map(Block::Layers));
    let mut made: HashMap<&str, usize> = HashMap::new();
    for (index, block) in folded.blocks.iter().enumerate() {
        match block {
            Block::Input(input) => {
                made.insert(&graph.inputs[*input].name, index);
            }
            Block::Layers(range) => {
                let outputs = graph.nodes[range.clone()].iter().flat_map(|node| &node.outputs);
                made.extend(outputs.map(|output| (output.as_str(), index)));
            }
            Block::Output(_) => {}
        }
    }
    for index in 0..folded.blocks.len() {
        if let Block::Layers(range) = folded.blocks[index].clone() {
            for name in graph.nodes[range].iter().flat_map(|node| &node.inputs) {
                folded.line(made.get(name.as_str()), index);
            }
        }
    }
    for output in 0..outputs {
        let index = folded.blocks.len();
        folded.blocks.push(Block::Output(output));
        folded.line(made.get(graph.outputs[output].name.as_str()), index);
    }
    folded
}

impl Folded {
    /// Adds a line to a later box. A line of a cyclic graph is not drawn.
    fn line(&mut self, from: Option<&usize>, to: usize) {
        let Some(from) = from.copied().filter(|from| *from < to) else { return };
        if self.lines.len() < LINES {
            self.lines.insert((from, to));
        } else if !self.lines.contains(&(from, to)) {
            self.left_out += 1;
        }
    }
}

/// Groups consecutive layers: each alone if they are few enough, else by the longest prefixes of names that give few
/// enough groups, else in groups of equal size. Lines between groups of consecutive layers form no circle.
fn runs(nodes: &[Node]) -> Vec<Range<usize>> {
    if nodes.len() <= BOXES {
        return (0..nodes.len()).map(|index| index..index + 1).collect();
    }
    let names: Vec<Vec<&str>> = nodes.iter().map(|node| parts(&node.name).collect()).collect();
    for depth in (1..DEPTH).rev() {
        let mut runs: Vec<Range<usize>> = Vec::new();
        let mut last = None;
        for (index, name) in names.iter().enumerate() {
            let start = name.get(..depth).unwrap_or(name);
            match runs.last_mut() {
                Some(run) if last == Some(start) => run.end = index + 1,
                _ => runs.push(index..index + 1),
            }
            last = Some(start);
            if runs.len() > BOXES {
                break;
            }
        }
        if runs.len() <= BOXES && runs.len() > 1 {
            return runs;
        }
    }
    let each = nodes.len().div_ceil(BOXES);
    (0..nodes.len()).step_by(each).map(|start| start..(start + each).min(nodes.len())).collect()
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

/// Counts the operators, the most frequent first.
pub(super) fn ops(nodes: &[Node]) -> Vec<(String, usize)> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    nodes.iter().for_each(|node| *counts.entry(node.op.name()).or_default() += 1);
    let mut counts: Vec<(String, usize)> =
        counts.into_iter().map(|(op, count)| (op.to_owned(), count)).collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    counts
}
