//! Groups the tensors of a checkpoint without a graph by the parts of their names. Blocks of groups that repeat share
//! one: names that differ by numbers only, with the same contents.

use super::parts::{lens, name};
use super::runs::{Run, are_numbered, label, names, runs, unnumbered};
use super::tensors::TABLE;
use crate::TensorSummary;
use ckpt_engine::natural::{make_readable, natural};
use ckpt_engine::words::bytes;
use ckpt_html::{counted, escaped, shortened, visible, whole};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Most parts of a name that make groups.
const DEPTH: usize = 12;
/// Most lines.
pub(super) const LINES: usize = 3000;
/// Groups that are open at first: the outer ones; of more than a few tensors, those that have groups.
const OPEN: usize = 3;
const FEW: usize = 60;
/// Most tensors of a closed group that its line names.
const MAX_NAMED: usize = 4;
/// Characters of the names of a run.
const FIT: usize = 48;

/// Returns the groups; nothing if names have no parts.
pub(super) fn section(tensors: &[&TensorSummary]) -> String {
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
    /// Whether one of its own tensors has several axes.
    has_matrix: bool,
}

/// Groups, parents before children.
struct Tree<'a>(Vec<Group<'a>>);

impl<'a> Tree<'a> {
    fn of(tensors: &[&'a TensorSummary]) -> Self {
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
    fn measure(&mut self, tensors: &[&TensorSummary]) {
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
            let has_matrix = group.tensors.iter().any(|index| tensors[*index].shape.iter().count() > 1);
            let group = &mut self.0[index];
            (group.count, group.bytes, group.contents) = (count, bytes, hash.finish());
            group.has_matrix = has_matrix;
        }
    }

    fn markup(&self, tensors: &[&TensorSummary]) -> String {
        let mut text = String::new();
        let (mut lines, mut is_cut) = (0, false);
        // What is still to be written: groups, runs of groups, and ends of both.
        let mut next: Vec<Step> = vec![Step::Inside(0)];
        while let Some(step) = next.pop() {
            match step {
                Step::End => text += "</details>\n",
                _ if lines >= LINES => is_cut = true,
                Step::Inside(group) => {
                    let own = &self.0[group].tensors;
                    let shown = own.get(..LINES - lines).unwrap_or(own);
                    shown.iter().for_each(|index| leaf(tensors[*index], &mut text));
                    lines += shown.len();
                    is_cut |= shown.len() < own.len();
                    next.extend(self.parts(group).into_iter().rev());
                }
                Step::Start(group) => {
                    self.start(group, tensors, &mut text);
                    lines += 1;
                    next.extend([Step::End, Step::Inside(group)]);
                }
                Step::Run(groups, times) => {
                    self.start_run(&groups, times, &mut text);
                    lines += 1;
                    next.push(Step::End);
                    match groups.get(..groups.len() / times) {
                        // A block of one group is that group.
                        Some([group]) => next.push(Step::Inside(*group)),
                        block => next.extend(block.iter().copied().flatten().rev().copied().map(Step::Start)),
                    }
                }
            }
        }
        if is_cut {
            let lines = whole(LINES as u64);
            let _ = writeln!(
                text,
                "<p class=\"muted\">The list ends after {lines} lines. The table of tensors has more.</p>"
            );
        }
        text
    }

    /// The children of a group, with runs of them that repeat.
    fn parts(&self, group: usize) -> Vec<Step> {
        let mut children = self.0[group].children.clone();
        let part = |child: usize| self.0[child].part;
        if children.iter().all(|child| is_number(part(*child))) {
            children.sort_by(|a, b| natural(part(*a), part(*b)));
        } else {
            make_readable(&mut children, |child| part(*child));
        }
        let groups: Vec<&Group> = children.iter().map(|child| &self.0[*child]).collect();
        let stems: Vec<String> = groups.iter().map(|group| unnumbered(group.part)).collect();
        let same = |_: usize, index: usize, period: usize| {
            let other = index + period;
            groups[index].contents == groups[other].contents && stems[index] == stems[other]
        };
        let parts = |start: usize, period: usize| -> Vec<&str> {
            groups[start..start + period].iter().map(|group| group.part).collect()
        };
        let cost = |start: usize, period: usize| {
            let numbered = are_numbered(&parts(start, period), &parts(start + period, period));
            // A normalization follows what it normalizes.
            (!numbered, !groups[start].has_matrix)
        };
        let mut steps = Vec::new();
        let mut next = 0;
        // Two groups of layers are no blocks, but two numbers are.
        let is_block = |run: Run| run.period * run.times > 2 || is_number(groups[run.start].part);
        for run in runs(children.len(), same, cost, is_block) {
            let Run { start, times, .. } = run;
            steps.extend(children[next..start].iter().copied().map(Step::Start));
            steps.push(Step::Run(children[start..run.end()].to_vec(), times));
            next = run.end();
        }
        steps.extend(children[next..].iter().copied().map(Step::Start));
        steps
    }

    fn start(&self, index: usize, tensors: &[&TensorSummary], text: &mut String) {
        let group = &self.0[index];
        let is_short = self.0.first().is_some_and(|all| all.count <= FEW);
        let is_open = group.depth <= OPEN && (is_short || !group.children.is_empty());
        let open = if is_open { " open" } else { "" };
        let mut about = size(group.count, group.bytes);
        // The line of a closed group of few tensors names them.
        if !is_open && group.children.is_empty() && group.tensors.len() <= MAX_NAMED {
            let own = group.tensors.iter().map(|index| {
                let tensor = tensors[*index];
                format!("{} {}", escaped(&visible(&shortened(last(&tensor.name)))), lens(tensor))
            });
            about = format!(
                "<span class=\"muted\">{}; {}</span>",
                own.collect::<Vec<_>>().join(", "),
                bytes(group.bytes)
            );
        }
        let _ = writeln!(text, "<details{open}><summary>{} {about}</summary>", name(group.part));
    }

    /// Starts `times` blocks of groups, of which the first is shown.
    fn start_run(&self, groups: &[usize], times: usize, text: &mut String) {
        let period = groups.len() / times;
        let parts =
            |groups: &[usize]| -> Vec<&str> { groups.iter().map(|group| self.0[*group].part).collect() };
        let (first, last) = groups.split_at(period);
        let last = last.get(last.len().saturating_sub(period)..).unwrap_or_default();
        let (first, last) = (parts(first), parts(last));
        let (first, last) = names(&first, &last);
        let count = groups.iter().fold(0, |sum: usize, group| sum.saturating_add(self.0[*group].count));
        let bytes = groups.iter().fold(0, |sum: u64, group| sum.saturating_add(self.0[*group].bytes));
        let times = whole(times as u64);
        let _ = writeln!(
            text,
            "<details><summary>{} <span class=\"badge\">× {times}</span> {}</summary>\n\
             <p class=\"muted\">The first of {times}, which have the same shapes:</p>",
            name(&label(first, last, FIT)),
            size(count, bytes)
        );
    }
}

enum Step {
    Start(usize),
    /// Groups, and into how many equal blocks they fall.
    Run(Vec<usize>, usize),
    Inside(usize),
    End,
}

fn size(count: usize, size: u64) -> String {
    format!("<span class=\"muted\">{}, {}</span>", counted(count, "tensor"), bytes(size))
}

fn leaf(tensor: &TensorSummary, text: &mut String) {
    let _ = writeln!(
        text,
        "<p class=\"leaf\"><a href=\"#{TABLE}\" data-find=\"{}\"><code>{}</code></a> <span class=\"muted\">{} {}</span></p>",
        escaped(&shortened(&tensor.name)),
        escaped(&visible(&shortened(last(&tensor.name)))),
        tensor.dtype.name(),
        lens(tensor)
    );
}

fn is_number(part: &str) -> bool {
    !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit())
}

/// The last part of a name.
fn last(name: &str) -> &str {
    name.match_indices(['.', '/']).take(DEPTH).last().map_or(name, |(at, _)| &name[at + 1..])
}
