//! Finds blocks of layers that repeat: `layers.0.…`, `layers.1.…` with the same operators, shapes and wiring.

use super::fold::{Block, Repeat, parts};
use ckpt_api::Graph;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

/// Most parts of a name that may hold the number of a block.
const DEPTH: usize = 6;

/// Returns the boxes of `units`, consecutive layers each, in which a block that repeats is one box. `shape` describes a
/// tensor: blocks that repeat have tensors of the same shapes.
pub(super) fn find(graph: &Graph, units: &[Range<usize>], shape: impl Fn(&str) -> String) -> Vec<Block> {
    let maker = makers(graph, units);
    let mut found: Vec<Option<Block>> = vec![None; units.len()];
    let mut taken = vec![false; units.len()];
    for depth in 0..DEPTH {
        let groups = groups(graph, units, &taken, depth);
        let signatures: Vec<u64> =
            groups.iter().map(|group| signature(graph, units, group, depth, &maker, &shape)).collect();
        let mut start = 0;
        while start < groups.len() {
            let mut end = start + 1;
            while end < groups.len()
                && groups[end].follows(&groups[end - 1])
                && signatures[end] == signatures[start]
            {
                end += 1;
            }
            let (first, last) = (&groups[start], &groups[end - 1]);
            if end - start > 1 {
                taken[first.units.start..last.units.end].fill(true);
                found[first.units.start] = Some(Block::Repeat(Repeat {
                    layers: units[first.units.start].start..units[last.units.end - 1].end,
                    name: first.name.to_owned(),
                    last: last.number,
                    times: end - start,
                }));
            }
            start = end;
        }
    }
    let single = |(index, taken): (usize, &bool)| (!taken).then(|| Block::Layers(units[index].clone()));
    let singles = taken.iter().enumerate().map(single);
    found.into_iter().zip(singles).filter_map(|(repeat, single)| repeat.or(single)).collect()
}

/// Consecutive units whose names have the same start, which ends with a number.
struct Group<'a> {
    units: Range<usize>,
    /// The start of the names, with the number.
    name: &'a str,
    /// The start of the names, without the number.
    stem: &'a str,
    number: u64,
}

impl Group<'_> {
    fn follows(&self, before: &Group) -> bool {
        self.units.start == before.units.end
            && self.stem == before.stem
            && before.number.checked_add(1) == Some(self.number)
    }
}

fn groups<'a>(graph: &'a Graph, units: &[Range<usize>], taken: &[bool], depth: usize) -> Vec<Group<'a>> {
    let mut groups: Vec<Group> = Vec::new();
    for (index, unit) in units.iter().enumerate().filter(|(index, _)| !taken[*index]) {
        let Some((name, stem, number)) = numbered(&graph.nodes[unit.start].name, depth) else { continue };
        match groups.last_mut() {
            Some(group) if group.name == name && group.units.end == index => group.units.end = index + 1,
            _ => groups.push(Group { units: index..index + 1, name, stem, number }),
        }
    }
    groups
}

/// Splits the first `depth + 1` parts of a name, which another part must follow, from the number that ends them.
fn numbered(name: &str, depth: usize) -> Option<(&str, &str, u64)> {
    let len: usize = parts(name).take(depth + 1).map(|part| part.len() + 1).sum();
    let start = name.get(..len.checked_sub(1)?)?;
    // A separator follows, and a part behind it.
    let rest = name.get(len..)?;
    let stem = start.trim_end_matches(|c: char| c.is_ascii_digit());
    let number = start.get(stem.len()..)?.parse().ok()?;
    (!rest.is_empty()).then_some((start, stem, number))
}

/// The unit that makes each value.
fn makers<'a>(graph: &'a Graph, units: &[Range<usize>]) -> HashMap<&'a str, usize> {
    let nodes = units.iter().enumerate().flat_map(|(index, unit)| {
        graph.nodes[unit.clone()]
            .iter()
            .flat_map(move |node| node.outputs.iter().map(move |name| (name, index)))
    });
    nodes.map(|(name, index)| (name.as_str(), index)).collect()
}

/// Hashes what must be the same in all repetitions of a block: the rest of the names, operators, tensors, and which
/// layer of the block takes what of which.
fn signature(
    graph: &Graph,
    units: &[Range<usize>],
    group: &Group,
    depth: usize,
    maker: &HashMap<&str, usize>,
    shape: &impl Fn(&str) -> String,
) -> u64 {
    let mut hash = DefaultHasher::new();
    for unit in &units[group.units.clone()] {
        for node in &graph.nodes[unit.clone()] {
            parts(&node.name).skip(depth + 1).for_each(|part| part.hash(&mut hash));
            node.op.hash(&mut hash);
            for (role, tensor) in &node.parameters {
                (role, shape(tensor)).hash(&mut hash);
            }
            for input in &node.inputs {
                let made = maker.get(input.as_str()).and_then(|made| made.checked_sub(group.units.start));
                made.hash(&mut hash);
            }
        }
    }
    hash.finish()
}
