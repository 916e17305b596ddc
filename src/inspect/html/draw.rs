//! Draws the layers of a graph as inline SVG.

use super::blocks::{Block, Folded, Repeat};
use super::fold::{each, fold, is_activation, ops, shared};
use super::layout::{HEIGHT, Layout, WIDTH, layout};
use super::runs::label;
use crate::html::{counted, escaped, shortened, visible, whole};
use crate::inspect::TensorSummary;
use ckpt_api::{Attribute, Axis, Graph, Node, Op, Value};
use std::collections::HashMap;
use std::fmt::Write;

/// The id of the table of layers.
pub(super) const LAYERS: &str = "layers";

/// Tensors by name.
pub(super) type Tensors<'a> = HashMap<&'a str, &'a TensorSummary>;

/// Returns the drawings, with a note on what they leave out: one in which repeated blocks are folded, and, if there are
/// any, one of all layers. A box links to the tensors of its layers in the table `table`.
pub(super) fn drawings(graph: &Graph, tensors: &Tensors, table: &str) -> String {
    let shape = |name: &str| tensors.get(name).map_or_else(String::new, |tensor| tensor.shape.to_string());
    let folded = fold(graph, shape);
    let is_folded = folded.blocks.iter().any(|block| block.layers().len() > 1 && !is_single(block, graph));
    let all = if is_folded { each(graph) } else { None };
    let mut text = note(graph, &folded, is_folded, all.is_some());
    let layers = counted(graph.nodes.len(), "layer");
    match all {
        None => text += &drawing(&Drawing { folded: &folded, graph, tensors, table, id: "" }, None),
        Some(all) => {
            let overview = drawing(&Drawing { folded: &folded, graph, tensors, table, id: "" }, Some("box"));
            let all = drawing(&Drawing { folded: &all, graph, tensors, table, id: "box" }, None);
            let _ = write!(
                text,
                "<details class=\"view\" open><summary>Repeated blocks folded</summary>{overview}</details>\n\
                 <details class=\"view\"><summary>All {layers}</summary>{all}</details>\n"
            );
        }
    }
    text
}

/// Whether a box is one layer, with its activations.
fn is_single(block: &Block, graph: &Graph) -> bool {
    matches!(block, Block::Layers(range) if graph.nodes[range.clone()].iter().skip(1).all(is_activation))
}

/// What one drawing shows.
struct Drawing<'a> {
    folded: &'a Folded,
    graph: &'a Graph,
    tensors: &'a Tensors<'a>,
    table: &'a str,
    /// Prefix of the ids of the boxes, or nothing for boxes without ids.
    id: &'a str,
}

/// Returns a drawing. Boxes of several layers link to the box of their first layer, whose id starts with `all`, or to
/// the table of layers.
fn drawing(drawing: &Drawing, all: Option<&str>) -> String {
    let Drawing { folded, graph, tensors, table, id } = *drawing;
    let placed = layout(folded.blocks.len(), &folded.lines);
    let mut text = format!(
        "<div class=\"scroll graph\" tabindex=\"0\"><svg width=\"{0:.0}\" height=\"{1:.0}\" viewBox=\"0 0 {0:.0} {1:.0}\" role=\"img\" aria-label=\"Layers of the graph\">\n",
        placed.width, placed.height
    );
    lines(&placed, &mut text);
    for (block, (x, y)) in folded.blocks.iter().zip(&placed.boxes) {
        let first = block.layers().start;
        let mut label = BoxText::of(block, graph, tensors);
        if label.class == "fold" {
            let name = graph.nodes.get(first).map(|node| node.name.clone());
            label.link = Some(match all {
                Some(all) => (format!("{all}{first}"), None),
                None => (LAYERS.to_owned(), name),
            });
        }
        let id =
            if id.is_empty() || block.layers().is_empty() { String::new() } else { format!("{id}{first}") };
        draw(&label, (*x, *y), &id, table, &mut text);
    }
    text + "</svg></div>\n"
}

fn note(graph: &Graph, folded: &Folded, is_folded: bool, has_all: bool) -> String {
    let mut text = String::new();
    if is_folded && !has_all {
        let boxes = folded.blocks.iter().filter(|block| !block.layers().is_empty()).count();
        let _ = writeln!(
            text,
            "<p class=\"muted\">{} layers, drawn as {boxes} boxes: consecutive layers share a box. The table lists all.</p>",
            whole(graph.nodes.len() as u64)
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
struct BoxText {
    class: &'static str,
    name: String,
    what: String,
    /// Figures, which are never cut.
    more: String,
    /// The id that it links to, and the search text for the table of tensors.
    link: Option<(String, Option<String>)>,
}

impl BoxText {
    fn of(block: &Block, graph: &Graph, tensors: &Tensors) -> Self {
        let text = BoxText::named(block, graph, tensors);
        BoxText { name: visible(&text.name).into_owned(), ..text }
    }

    fn named(block: &Block, graph: &Graph, tensors: &Tensors) -> Self {
        match block {
            Block::Input(index) => BoxText::end("input", &graph.inputs[*index]),
            Block::Output(index) => BoxText::end("output", &graph.outputs[*index]),
            Block::Repeat(repeat) => BoxText::repeat(repeat, &graph.nodes[repeat.layers.clone()]),
            Block::Layers(range) => match &graph.nodes[range.clone()] {
                [node, activations @ ..] if activations.iter().all(is_activation) => {
                    BoxText::layer(node, activations, tensors)
                }
                nodes => BoxText::layers(nodes),
            },
        }
    }

    fn end(class: &'static str, value: &Value) -> Self {
        let lens = value.shape.iter().map(|len| len.map_or("?".to_owned(), whole));
        let lens = lens.collect::<Vec<_>>().join(" × ");
        BoxText { class, name: value.name.clone(), what: class.to_owned(), more: lens, link: None }
    }

    fn layer(node: &Node, activations: &[Node], tensors: &Tensors) -> Self {
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
        let link = holds.then(|| (String::new(), Some(node.name.clone())));
        BoxText { class: class(node), name: node.name.clone(), what, more, link }
    }

    fn repeat(repeat: &Repeat, nodes: &[Node]) -> Self {
        let each = nodes.len() / repeat.times.max(1);
        BoxText {
            class: "fold",
            name: label(&repeat.first, &repeat.last, NAMES),
            what: ops_of(nodes.get(..each).unwrap_or(nodes)),
            more: format!("× {} · {} each", whole(repeat.times as u64), counted(each, "layer")),
            link: None,
        }
    }

    fn layers(nodes: &[Node]) -> Self {
        let shared = shared(nodes);
        let name = match (shared.is_empty(), nodes.first(), nodes.last()) {
            (true, Some(first), Some(last)) => format!("{} … {}", first.name, last.name),
            _ => shared,
        };
        let more = counted(nodes.len(), "layer");
        BoxText { class: "fold", name, what: ops_of(nodes), more, link: None }
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

fn class(node: &Node) -> &'static str {
    if node.parameters.is_empty() { "plain" } else { "weighted" }
}

/// Distance between lines of text, in pixels.
const STEP: f64 = 16.0;
/// Width of text in a box, in pixels.
const ROOM: f64 = WIDTH - 16.0;
/// Characters of two names that fit a box.
const NAMES: usize = 27;
/// Most characters of a line.
const MOST: usize = 100;

fn draw(label: &BoxText, (x, y): (f64, f64), id: &str, table: &str, text: &mut String) {
    let title = [&label.name, &label.what, &label.more].map(|text| escaped(&shortened(text))).join("\n");
    if let Some((target, find)) = &label.link {
        let target = if target.is_empty() { table } else { target };
        let find = find.as_ref().map(|find| format!(" data-find=\"{}\"", escaped(&shortened(find))));
        let _ = write!(text, "<a href=\"#{target}\"{}>", find.unwrap_or_default());
    }
    let id = if id.is_empty() { String::new() } else { format!(" id=\"{id}\"") };
    let round = if matches!(label.class, "input" | "output") { HEIGHT / 2.0 } else { 6.0 };
    let _ = write!(text, "<g class=\"box {}\"{id}><title>{title}</title>", label.class);
    let left = x - WIDTH / 2.0;
    if label.class == "fold" {
        // A second box shows behind the first.
        let _ = write!(
            text,
            "<rect x=\"{:.0}\" y=\"{:.0}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" rx=\"{round}\"/>",
            left + 5.0,
            y + 5.0
        );
    }
    let _ = write!(
        text,
        "<rect x=\"{left:.0}\" y=\"{y:.0}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" rx=\"{round}\"/>"
    );
    let written = [("name", &label.name), ("what", &label.what), ("more", &label.more)];
    let written: Vec<_> = written.into_iter().filter(|(_, line)| !line.is_empty()).collect();
    let first = y + HEIGHT / 2.0 + 4.0 - STEP * (written.len() as f64 - 1.0) / 2.0;
    for (index, (class, line)) in written.into_iter().enumerate() {
        // Figures are written closely rather than cut.
        let line = if class == "more" { without_middle(line, MOST) } else { fitting(line, class == "name") };
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

/// Shortens a text by cutting its middle until it fits a box.
fn fitting(text: &str, bold: bool) -> String {
    let mut line = without_middle(text, MOST);
    for max in (4..line.chars().count()).rev() {
        if width(&line, bold) <= ROOM {
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
