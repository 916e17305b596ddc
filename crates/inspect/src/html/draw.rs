//! Draws the layers of a graph as inline SVG.

use super::blocks::{Block, Folded, Repeat};
use super::constants::{Constants, Layers, separate};
use super::fold::{BOXES, each, fold, is_activation, opened, ops, shared};
use super::layout::{HEIGHT, Layout, WIDTH, layout};
use super::parts::{Tensors, name};
use super::runs::label;
use super::scopes::Uses;
use crate::TensorSummary;
use ckpt_api::{Attribute, Axis, Graph, Node, Op, Value};
use ckpt_html::{counted, escaped, shortened, visible, whole};
use std::fmt::Write;

/// The id of the table of layers.
pub(super) const LAYERS: &str = "layers";

/// Returns the drawings, with a note on what they leave out: one in which scopes and repeated blocks are folded, with one
/// of each of them, and, if there are any, one of all layers. A box links to the tensors of its layers in the table `table`.
pub(super) fn drawings(graph: &Graph, tensors: &Tensors, table: &str) -> String {
    let layers = &separate(graph, tensors);
    let uses = &Uses::of(&layers.graph);
    let shape = |name: &str| tensors.get(name).map_or_else(String::new, |tensor| tensor.shape.to_string());
    let folded = fold(layers, uses, shape);
    let is_folded = folded.blocks.iter().any(|block| block.layers().len() > 1 && !is_single(block, layers));
    let all = if is_folded { each(layers) } else { None };
    let mut text = note(layers, &folded, is_folded, all.is_some());
    let mut drawing =
        Drawings { layers, uses, tensors, table, has_all: all.is_some(), views: 0, room: BOXES };
    let overview = drawing.opened(&folded, "");
    match all {
        None => text += &overview,
        Some(all) => {
            let all = drawing.svg(&all, "", "box", &[]);
            let _ = write!(
                text,
                "<details class=\"view\" open><summary>{}</summary>{overview}</details>\n\
                 <details class=\"view\"><summary>All {}</summary>{all}</details>\n",
                kind(&folded.blocks),
                counted(layers.graph.nodes.len(), "layer")
            );
        }
    }
    text
}

/// What is folded, for people.
fn kind(blocks: &[Block]) -> &'static str {
    fn has(blocks: &[Block], is_it: fn(&Block) -> bool) -> bool {
        blocks
            .iter()
            .any(|block| is_it(block) || block.inside().is_some_and(|(inside, _)| has(inside, is_it)))
    }
    let has_groups = has(blocks, |block| matches!(block, Block::Group(_)));
    match (has_groups, has(blocks, |block| matches!(block, Block::Repeat(_)))) {
        (true, true) => "By scope, repeated blocks folded",
        (true, false) => "By scope",
        _ => "Repeated blocks folded",
    }
}

/// Whether a box is one layer, with its activations.
fn is_single(block: &Block, layers: &Layers) -> bool {
    let nodes = &layers.graph.nodes;
    matches!(block, Block::Layers(range) if nodes[range.clone()].iter().skip(1).all(is_activation))
}

/// Draws a graph: as a whole, and what its boxes open to.
struct Drawings<'a> {
    layers: &'a Layers,
    uses: &'a Uses<'a>,
    tensors: &'a Tensors<'a>,
    table: &'a str,
    /// Whether there is a drawing of all layers.
    has_all: bool,
    /// Number of boxes that open.
    views: usize,
    /// Number of boxes that can still be drawn in others.
    room: usize,
}

impl Drawings<'_> {
    /// Returns a drawing, and below it one of each box that opens.
    fn opened(&mut self, folded: &Folded, id: &str) -> String {
        let mut view = |block: &Block| {
            let (inside, _) = block.inside().filter(|(inside, _)| inside.len() <= self.room)?;
            self.room -= inside.len();
            self.views += 1;
            Some(format!("part{}", self.views))
        };
        let views: Vec<Option<String>> = folded.blocks.iter().map(&mut view).collect();
        let mut text = self.svg(folded, id, "", &views);
        for (block, view) in folded.blocks.iter().zip(&views) {
            let (Some(view), Some((inside, layers))) = (view, block.inside()) else { continue };
            let number = counted(layers.len(), "layer");
            let summary = match block {
                Block::Repeat(repeat) => format!(
                    "{} <span class=\"badge\">× {}</span> <span class=\"muted\">{number} each, here the first</span>",
                    name(&label(&repeat.first, &repeat.last, FIT)),
                    whole(repeat.times as u64)
                ),
                Block::Group(group) => format!("{} <span class=\"muted\">{number}</span>", name(&group.name)),
                _ => continue,
            };
            let inside = opened(&self.layers.graph, inside, &layers, self.uses);
            let inside = self.opened(&inside, view);
            let _ = writeln!(text, "<details class=\"view\"><summary>{summary}</summary>{inside}</details>");
        }
        text
    }

    /// Returns one drawing. Boxes of several layers link to their views or, without one, to the box of their first layer
    /// in the drawing of all layers or to the table of layers. Boxes have ids that start with `boxes`, if any.
    fn svg(&self, folded: &Folded, id: &str, boxes: &str, views: &[Option<String>]) -> String {
        let nodes = &self.layers.graph.nodes;
        let texts: Vec<BoxText> = folded
            .blocks
            .iter()
            .enumerate()
            .map(|(index, block)| {
                let mut text = BoxText::of(block, folded, self.layers, self.tensors);
                if text.is_fold() {
                    let first = block.layers().start;
                    let name = nodes.get(first).map(|node| node.name.clone());
                    text.link = Some(match views.get(index) {
                        Some(Some(view)) => (view.clone(), None),
                        _ if self.has_all => (format!("box{first}"), None),
                        _ => (LAYERS.to_owned(), name),
                    });
                }
                text
            })
            .collect();
        let heights: Vec<f64> = texts.iter().map(BoxText::height).collect();
        let placed = layout(&heights, &folded.lines);
        let id = if id.is_empty() { String::new() } else { format!(" id=\"{id}\"") };
        let mut text = format!(
            "<div{id} class=\"scroll graph\" tabindex=\"0\"><svg width=\"{0:.0}\" height=\"{1:.0}\" viewBox=\"0 0 {0:.0} {1:.0}\" role=\"img\" aria-label=\"Layers of the graph\">\n",
            placed.width, placed.height
        );
        lines(&placed, &mut text);
        for ((block, label), place) in folded.blocks.iter().zip(&texts).zip(&placed.boxes) {
            let id = match block.layers() {
                layers if boxes.is_empty() || layers.is_empty() => String::new(),
                layers => format!("{boxes}{}", layers.start),
            };
            draw(label, *place, &id, self.table, &mut text);
        }
        text + "</svg></div>\n"
    }
}

fn note(layers: &Layers, folded: &Folded, is_folded: bool, has_all: bool) -> String {
    let mut text = String::new();
    if is_folded && !has_all {
        let boxes = folded.blocks.iter().filter(|block| !block.layers().is_empty()).count();
        let _ = writeln!(
            text,
            "<p class=\"muted\">{} layers, drawn as {boxes} boxes: consecutive layers share a box. The table lists all.</p>",
            whole(layers.graph.nodes.len() as u64)
        );
    }
    if folded.left_out > 0 {
        let _ = writeln!(
            text,
            "<p class=\"muted\">{} inputs, outputs and lines are not drawn.</p>",
            whole(folded.left_out as u64)
        );
    }
    text
}

/// Draws curves from box to box, straight where they pass ranks.
fn lines(placed: &Layout, text: &mut String) {
    let mut tips = String::new();
    text.push_str("<path class=\"line\" d=\"");
    for points in &placed.lines {
        for (index, (x, y)) in points.iter().enumerate() {
            let _ = match points.get(index.wrapping_sub(1)) {
                None => write!(text, "M{x:.0} {y:.0}"),
                // A line that stays in its column.
                Some((from, _)) if from == x => write!(text, "V{y:.0}"),
                Some((from, above)) => {
                    let middle = (above + y) / 2.0;
                    write!(text, "C{from:.0} {middle:.0} {x:.0} {middle:.0} {x:.0} {y:.0}")
                }
            };
        }
        if let Some((x, y)) = points.last() {
            let _ = write!(tips, "M{x:.0} {y:.0}l-4 -7h8Z");
        }
    }
    let _ = writeln!(text, "\"/><path class=\"tip\" d=\"{tips}\"/>");
}

/// The text of a box.
#[derive(Default)]
struct BoxText {
    class: &'static str,
    name: String,
    what: String,
    /// Figures, which are never cut.
    more: String,
    /// Constants that the layer uses.
    constants: Vec<String>,
    /// The id that it links to, and the search text for the table of tensors.
    link: Option<(String, Option<String>)>,
}

impl BoxText {
    fn of(block: &Block, folded: &Folded, layers: &Layers, tensors: &Tensors) -> Self {
        let text = BoxText::named(block, folded, layers, tensors);
        BoxText { name: visible(&text.name).into_owned(), ..text }
    }

    fn named(block: &Block, folded: &Folded, layers: &Layers, tensors: &Tensors) -> Self {
        let nodes = &layers.graph.nodes;
        match block {
            Block::Input(index) => BoxText::end("input", &folded.inputs[*index].shown),
            Block::Output(index) => BoxText::end("output", &folded.outputs[*index].shown),
            Block::Repeat(repeat) => BoxText::repeat(repeat, &nodes[repeat.layers.clone()]),
            Block::Group(group) => {
                BoxText { name: group.name.clone(), ..BoxText::layers(&nodes[group.layers.clone()]) }
            }
            Block::Layers(range) => match &nodes[range.clone()] {
                [node, activations @ ..] if activations.iter().all(is_activation) => {
                    BoxText::layer(node, activations, &layers.constants[range.start], tensors)
                }
                nodes => BoxText::layers(nodes),
            },
        }
    }

    fn is_fold(&self) -> bool {
        matches!(self.class, "fold" | "fold repeat")
    }

    /// Its lines of text that are not empty, with their classes.
    fn lines(&self) -> Vec<(&'static str, &str)> {
        let lines = [("name", &self.name), ("what", &self.what), ("more", &self.more)];
        let constants = self.constants.iter().map(|line| ("constant", line));
        let lines = lines.into_iter().chain(constants).filter(|(_, line)| !line.is_empty());
        lines.map(|(class, line)| (class, line.as_str())).collect()
    }

    fn height(&self) -> f64 {
        HEIGHT + STEP * self.lines().len().saturating_sub(3) as f64
    }

    fn end(class: &'static str, value: &Value) -> Self {
        let lens = value.shape.iter().map(|len| len.map_or("?".to_owned(), whole));
        let lens = lens.collect::<Vec<_>>().join(" × ");
        BoxText { class, name: value.name.clone(), what: class.to_owned(), more: lens, ..BoxText::default() }
    }

    fn layer(node: &Node, activations: &[Node], constants: &Constants, tensors: &Tensors) -> Self {
        let mut what = op(&node.op).to_owned();
        for activation in activations {
            what = format!("{what} → {}", op(&activation.op));
        }
        let weight = node.parameters.get("weight").and_then(|name| tensors.get(name.as_str()));
        let mut more = match (weight, node.parameters.values().find_map(|name| tensors.get(name.as_str()))) {
            (Some(weight), _) => size(weight),
            (None, Some(other)) => size(other),
            (None, None) => String::new(),
        };
        if let Some(window) = window(node) {
            let separator = if more.is_empty() { "" } else { ", " };
            more = format!("{more}{separator}{window}");
        }
        let holds = node.parameters.values().any(|name| tensors.contains_key(name.as_str()));
        let holder = if holds { Some(&node.name) } else { constants.weight.as_ref() };
        let link = holder.map(|holder| (String::new(), Some(holder.clone())));
        let is_plain = node.parameters.is_empty() && constants.weight.is_none();
        let class = if is_plain { "plain" } else { "weighted" };
        BoxText { class, name: node.name.clone(), what, more, constants: constants.lines(), link }
    }

    fn repeat(repeat: &Repeat, nodes: &[Node]) -> Self {
        let each = nodes.len() / repeat.times.max(1);
        BoxText {
            class: "fold repeat",
            name: label(&repeat.first, &repeat.last, NAMES),
            what: ops_of(nodes.get(..each).unwrap_or(nodes)),
            more: format!("× {} · {} each", whole(repeat.times as u64), counted(each, "layer")),
            ..BoxText::default()
        }
    }

    fn layers(nodes: &[Node]) -> Self {
        let shared = shared(nodes);
        let name = match (shared.is_empty(), nodes.first(), nodes.last()) {
            (true, Some(first), Some(last)) => format!("{} … {}", first.name, last.name),
            _ => shared,
        };
        let more = counted(nodes.len(), "layer");
        BoxText { class: "fold", name, what: ops_of(nodes), more, ..BoxText::default() }
    }
}

fn ops_of(nodes: &[Node]) -> String {
    let each = |(op, count)| if count == 1 { op } else { format!("{count} {op}") };
    ops(nodes).into_iter().map(each).collect::<Vec<_>>().join(", ")
}

/// The name of an operator, for people.
pub(super) fn op(op: &Op) -> &str {
    if *op == Op::Unspecified { "activation unknown" } else { op.name() }
}

/// Describes the shape of a weight: `3×3, 1→16` if its axes are known.
fn size(weight: &TensorSummary) -> String {
    let Some(axes) = &weight.axes else {
        return weight.shape.iter().copied().map(whole).collect::<Vec<_>>().join(" × ");
    };
    let len = |wanted: Axis| {
        axes.iter().zip(weight.shape.iter()).find(|(axis, _)| **axis == wanted).map(|(_, len)| *len)
    };
    let others = [Axis::In, Axis::Feature, Axis::Out, Axis::KernelZ, Axis::KernelY, Axis::KernelX];
    let mut parts = Vec::new();
    let kernel = [Axis::KernelZ, Axis::KernelY, Axis::KernelX].into_iter().filter_map(len);
    match &kernel.map(whole).collect::<Vec<_>>()[..] {
        [] => {}
        [length] => parts.push(format!("kernel {length}")),
        lengths => parts.push(lengths.join("×")),
    }
    match (len(Axis::In).or(len(Axis::Feature)), len(Axis::Out)) {
        (Some(input), Some(output)) => parts.push(format!("{}→{}", whole(input), whole(output))),
        (Some(len), None) | (None, Some(len)) => parts.push(whole(len)),
        (None, None) => {}
    }
    for (axis, len) in axes.iter().zip(weight.shape.iter()).filter(|(axis, _)| !others.contains(axis)) {
        if *axis != Axis::Unit {
            parts.push(format!("{} {}", axis.name(), whole(*len)));
        }
    }
    parts.join(", ")
}

/// Describes the window of a pooling, and strides other than 1.
fn window(node: &Node) -> Option<String> {
    let ints = |key: &str| match node.attributes.get(key) {
        Some(Attribute::Ints(values)) => {
            Some(values.iter().take(4).map(ToString::to_string).collect::<Vec<_>>().join("×"))
        }
        _ => None,
    };
    let strides = ints("strides").filter(|strides| strides.split('×').any(|stride| stride != "1"));
    let strides = strides.map(|strides| format!("stride {strides}"));
    let parts: Vec<String> =
        ints("kernel_shape").filter(|_| node.parameters.is_empty()).into_iter().chain(strides).collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// Distance between lines of text, in pixels.
const STEP: f64 = 16.0;
/// Width of text in a box, in pixels.
const ROOM: f64 = WIDTH - 16.0;
/// Width of the mark of a box that opens, in pixels.
const MARK: f64 = 12.0;
/// Characters of two names in the line above a drawing.
const FIT: usize = 48;
/// Characters of two names that fit a box.
const NAMES: usize = 27;
/// Most characters of a line.
const MOST: usize = 100;

fn draw(label: &BoxText, (x, y): (f64, f64), id: &str, table: &str, text: &mut String) {
    let written = label.lines();
    let title = written.iter().map(|(_, line)| escaped(&shortened(line))).collect::<Vec<_>>().join("\n");
    if let Some((target, find)) = &label.link {
        let target = if target.is_empty() { table } else { target };
        let find = find.as_ref().map(|find| format!(" data-find=\"{}\"", escaped(&shortened(find))));
        let _ = write!(text, "<a href=\"#{target}\"{}>", find.unwrap_or_default());
    }
    let id = if id.is_empty() { String::new() } else { format!(" id=\"{id}\"") };
    let round = if matches!(label.class, "input" | "output") { HEIGHT / 2.0 } else { 6.0 };
    let _ = write!(text, "<g class=\"box {}\"{id}><title>{title}</title>", label.class);
    let left = x - WIDTH / 2.0;
    let height = label.height();
    if label.class == "fold repeat" {
        // A second box shows behind the first.
        let _ = write!(
            text,
            "<rect x=\"{:.0}\" y=\"{:.0}\" width=\"{WIDTH}\" height=\"{height}\" rx=\"{round}\"/>",
            left + 5.0,
            y + 5.0
        );
    }
    let _ = write!(
        text,
        "<rect x=\"{left:.0}\" y=\"{y:.0}\" width=\"{WIDTH}\" height=\"{height}\" rx=\"{round}\"/>"
    );
    if label.is_fold() {
        let _ = write!(
            text,
            "<path class=\"open\" d=\"M{:.0} {:.0}h8m-4 -4v8\"/>",
            left + WIDTH - 16.0,
            y + 12.0
        );
    }
    let first = y + height / 2.0 + 4.0 - STEP * (written.len() as f64 - 1.0) / 2.0;
    for (index, (class, line)) in written.into_iter().enumerate() {
        // Figures are written closely rather than cut.
        let line = match class {
            "more" => without_middle(line, MOST),
            // The mark of a box that opens stands beside its name.
            "name" if label.is_fold() => fitting(line, true, ROOM - 2.0 * MARK),
            _ => fitting(line, class == "name", ROOM),
        };
        let tight = if width(&line, false) > ROOM && class == "more" {
            format!(" textLength=\"{ROOM}\" lengthAdjust=\"spacingAndGlyphs\"")
        } else {
            String::new()
        };
        let _ = write!(
            text,
            "<text class=\"{class}\" x=\"{x:.0}\" y=\"{:.0}\" text-anchor=\"middle\"{tight}>{}</text>",
            first + STEP * index as f64,
            escaped(&line)
        );
    }
    let _ = writeln!(text, "</g>{}", if label.link.is_some() { "</a>" } else { "" });
}

/// Shortens a text by cutting its middle until it fits `room` pixels.
fn fitting(text: &str, bold: bool, room: f64) -> String {
    let mut line = without_middle(text, MOST);
    for max in (4..line.chars().count()).rev() {
        if width(&line, bold) <= room {
            break;
        }
        line = without_middle(text, max);
    }
    line
}

/// The width of a text in pixels in a wide typeface of 12 px.
fn width(text: &str, bold: bool) -> f64 {
    let of = |c: char| match c {
        'i' | 'j' | 'l' | 'I' | '.' | ',' | ':' | ';' | '|' | '\'' | '!' | ' ' => 4.0,
        'f' | 'r' | 't' | '/' | '(' | ')' | '[' | ']' | '-' | '"' => 5.2,
        'm' | 'w' | 'M' | 'W' | '→' | '×' | '…' | '%' | '@' => 11.8,
        'A'..='Z' => 8.6,
        c if c.is_ascii() => 7.5,
        // Letters of East Asia are as wide as high.
        c => {
            if c < '\u{1100}' {
                7.5
            } else {
                12.0
            }
        }
    };
    text.chars().map(of).sum::<f64>() * if bold { 1.1 } else { 1.0 }
}

/// Shortens a text to `max` characters by cutting its middle.
fn without_middle(text: &str, max: usize) -> String {
    let count = text.chars().count();
    if count <= max {
        return text.to_owned();
    }
    let (first, last) = (max / 2, max - max / 2 - 1);
    let start: String = text.chars().take(first).collect();
    let end: String = text.chars().skip(count - last).collect();
    format!("{start}…{end}")
}
