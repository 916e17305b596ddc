//! Groups the tensors of a checkpoint without a graph by the parts of their names. Consecutive numbers with the same
//! contents share a group.

use super::tensors::TABLE;
use crate::html::{escaped, shortened, whole};
use crate::inspect::TensorSummary;
use crate::words::bytes;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Most parts of a name that make groups.
const DEPTH: usize = 12;
/// Most lines.
const LINES: usize = 3000;
/// Groups that are open at first: the outer ones.
const OPEN: usize = 3;

/// Returns the groups; nothing if names have no parts.
pub(super) fn section(tensors: &[TensorSummary]) -> String {
    if !tensors.iter().any(|tensor| tensor.name.contains(['.', '/'])) {
        return String::new();
    }
    let mut tree = Tree::of(tensors);
    tree.measure(tensors);
    format!(
        "<h2>Structure</h2>\n<p class=\"muted\">The checkpoint has no graph. Its tensors, by name:</p>\n<div class=\"tree\">\n{}</div>\n",
        tree.markup(tensors)
    )
}

#[derive(Default)]
struct Group<'a> {
    /// Its last part.
    part: &'a str,
    depth: usize,
    /// Groups by the place of their first tensor.
    children: Vec<usize>,
    tensors: Vec<usize>,
    /// Number and bytes of all tensors, and a hash of names, dtypes and shapes.
    count: usize,
    bytes: u64,
    contents: u64,
}

/// Groups, parents before children.
struct Tree<'a>(Vec<Group<'a>>);

impl<'a> Tree<'a> {
    fn of(tensors: &'a [TensorSummary]) -> Self {
        let mut groups = vec![Group::default()];
        let mut known: BTreeMap<(usize, &str), usize> = BTreeMap::new();
        for (index, tensor) in tensors.iter().enumerate() {
            let (mut group, mut start) = (0, 0);
            for (end, _) in tensor.name.match_indices(['.', '/']).take(DEPTH) {
                let part = &tensor.name[start..end];
                start = end + 1;
                let next = groups.len();
                let found = *known.entry((group, part)).or_insert(next);
                if found == next {
                    let depth = groups[group].depth + 1;
                    groups[group].children.push(next);
                    groups.push(Group { part, depth, ..Group::default() });
                }
                group = found;
            }
            groups[group].tensors.push(index);
        }
        Tree(groups)
    }

    /// Adds up what the groups contain, children before parents.
    fn measure(&mut self, tensors: &[TensorSummary]) {
        for index in (0..self.0.len()).rev() {
            let group = &self.0[index];
            let mut hash = DefaultHasher::new();
            let (mut count, mut bytes) = (group.tensors.len(), 0u64);
            for tensor in group.tensors.iter().map(|index| &tensors[*index]) {
                bytes = bytes.saturating_add(tensor.bytes);
                (last(&tensor.name), tensor.dtype.name(), tensor.shape.to_vec()).hash(&mut hash);
            }
            for child in group.children.iter().map(|child| &self.0[*child]) {
                count += child.count;
                bytes = bytes.saturating_add(child.bytes);
                (child.part, child.contents).hash(&mut hash);
            }
            let group = &mut self.0[index];
            (group.count, group.bytes, group.contents) = (count, bytes, hash.finish());
        }
    }

    fn markup(&self, tensors: &[TensorSummary]) -> String {
        let mut text = String::new();
        let mut lines = 0;
        // What is still to be written: groups with the number of their repetitions, and ends of groups.
        let mut next: Vec<Step> = vec![Step::Inside(0)];
        while let Some(step) = next.pop() {
            match step {
                Step::End => text += "</details>\n",
                _ if lines >= LINES => {}
                Step::Inside(group) => {
                    for index in &self.0[group].tensors {
                        leaf(&tensors[*index], &mut text);
                        lines += 1;
                    }
                    let runs = self.runs(group);
                    next.extend(runs.into_iter().rev().map(|(group, times)| Step::Start(group, times)));
                }
                Step::Start(group, times) => {
                    self.start(group, times, &mut text);
                    lines += 1;
                    next.extend([Step::End, Step::Inside(group)]);
                }
            }
        }
        if lines >= LINES {
            text += "<p class=\"muted\">More groups are left out. The table lists all tensors.</p>\n";
        }
        text
    }

    /// The children of a group; consecutive numbers with the same contents as one, with their number.
    fn runs(&self, group: usize) -> Vec<(usize, usize)> {
        let mut runs: Vec<(usize, usize)> = Vec::new();
        let mut children = self.0[group].children.clone();
        // By number, where all are numbers.
        children.sort_by_key(|child| self.0[*child].part.parse::<u64>().unwrap_or(0));
        for child in children {
            let number = |group: usize| self.0[group].part.parse::<u64>().ok();
            match runs.last_mut() {
                Some((first, times))
                    if self.0[*first].contents == self.0[child].contents
                        && number(*first).and_then(|first| first.checked_add(*times as u64))
                            == number(child)
                        && number(child).is_some() =>
                {
                    *times += 1;
                }
                _ => runs.push((child, 1)),
            }
        }
        runs
    }

    fn start(&self, index: usize, times: usize, text: &mut String) {
        let group = &self.0[index];
        let open = if group.depth <= OPEN && times == 1 { " open" } else { "" };
        let mut part = escaped(&shortened(group.part));
        if times > 1 {
            let last = group.part.parse::<u64>().map_or(0, |first| first.saturating_add(times as u64 - 1));
            part = format!(
                "{part} … {last}</code> <span class=\"badge\">× {}</span><code>",
                whole(times as u64)
            );
        }
        let (count, size) = (group.count.saturating_mul(times), group.bytes.saturating_mul(times as u64));
        let _ = writeln!(
            text,
            "<details{open}><summary><code>{part}</code> <span class=\"muted\">{}, {}</span></summary>",
            format_args!("{} tensor{}", whole(count as u64), if count == 1 { "" } else { "s" }),
            bytes(size)
        );
    }
}

enum Step {
    Start(usize, usize),
    Inside(usize),
    End,
}

fn leaf(tensor: &TensorSummary, text: &mut String) {
    let lens: Vec<String> = tensor.shape.iter().copied().map(whole).collect();
    let _ = writeln!(
        text,
        "<p class=\"leaf\"><a href=\"#{TABLE}\" data-find=\"{}\"><code>{}</code></a> <span class=\"muted\">{} {}</span></p>",
        escaped(&shortened(&tensor.name)),
        escaped(&shortened(last(&tensor.name))),
        tensor.dtype.name(),
        if lens.is_empty() { "scalar".to_owned() } else { lens.join(" × ") }
    );
}

/// The last part of a name.
fn last(name: &str) -> &str {
    name.match_indices(['.', '/']).take(DEPTH).last().map_or(name, |(at, _)| &name[at + 1..])
}
