//! Folds a graph into boxes. A layer and the activation behind it share a box. Then, if asked, consecutive blocks that
//! repeat become one box, and what is still too much for a drawing is folded by names.

use super::blocks::{Block, Folded};
use super::repeats;
use ckpt_api::{Graph, Node, Op};
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
pub(super) fn each(graph: &Graph) -> Option<Folded> {
    let units = merged(graph);
    (units.len() <= BOXES).then(|| wired(graph, units.into_iter().map(Block::Layers).collect()))
}

/// Returns the boxes of a graph in which repeated blocks are folded.
pub(super) fn fold(graph: &Graph, shape: impl Fn(&str) -> String) -> Folded {
    let units = merged(graph);
    if units.len() <= SMALL {
        return wired(graph, units.into_iter().map(Block::Layers).collect());
    }
    let mut blocks = repeats::find(graph, &units, shape);
    if blocks.len() > BOXES {
        blocks = runs(&graph.nodes, &units).into_iter().map(Block::Layers).collect();
    }
    wired(graph, blocks)
}

/// Returns the layers, each with the activation that is all that uses it.
fn merged(graph: &Graph) -> Vec<Range<usize>> {
    let mut uses: HashMap<&str, usize> = HashMap::new();
    let inputs = graph.nodes.iter().flat_map(|node| &node.inputs);
    for name in inputs.chain(graph.outputs.iter().map(|output| &output.name)) {
        *uses.entry(name).or_default() += 1;
    }
    let mut units: Vec<Range<usize>> = Vec::new();
    let mut before: Option<&Node> = None;
    for (index, node) in graph.nodes.iter().enumerate() {
        let follows = before.is_some_and(|before| {
            is_activation(node)
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

/// Adds the inputs and outputs to the boxes, and draws the lines.
fn wired(graph: &Graph, layers: Vec<Block>) -> Folded {
    let mut folded = Folded::default();
    let inputs = graph.inputs.len().min(ENDS);
    let outputs = graph.outputs.len().min(ENDS);
    folded.left_out = graph.inputs.len() - inputs + graph.outputs.len() - outputs;
    folded.blocks.extend((0..inputs).map(Block::Input));
    folded.blocks.extend(layers);
    let mut made: HashMap<&str, usize> = HashMap::new();
    for (index, block) in folded.blocks.iter().enumerate() {
        match block {
            Block::Input(input) => {
                made.insert(&graph.inputs[*input].name, index);
            }
            block => {
                let outputs = graph.nodes[block.layers()].iter().flat_map(|node| &node.outputs);
                made.extend(outputs.map(|output| (output.as_str(), index)));
            }
        }
    }
    for index in 0..folded.blocks.len() {
        let layers = folded.blocks[index].layers();
        for name in graph.nodes[layers].iter().flat_map(|node| &node.inputs) {
            folded.line(made.get(name.as_str()), index);
        }
    }
    for output in 0..outputs {
        let index = folded.blocks.len();
        folded.blocks.push(Block::Output(output));
        folded.line(made.get(graph.outputs[output].name.as_str()), index);
    }
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
