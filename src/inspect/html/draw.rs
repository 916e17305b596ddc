//! Draws the layers of a graph as inline SVG.

use super::fold::{BOXES, Block, Folded, fold, ops, shared};
use super::layout::{HEIGHT, Layout, WIDTH, layout};
use crate::html::{escaped, shortened};
use crate::inspect::TensorSummary;
use ckpt_api::{Graph, Node, Op, Value};
use std::collections::HashMap;
use std::fmt::Write;

/// Returns the drawing, with a note on what it leaves out. A box links to the tensors of its layers in the table
/// `table`.
pub(super) fn drawing(graph: &Graph, tensors: &HashMap<&str, &TensorSummary>, table: &str) -> String {
    let folded = fold(graph);
    let placed = layout(folded.blocks.len(), &folded.lines);
    let mut text = note(graph, &folded);
    let _ = writeln!(
        text,
        "<div class=\"scroll graph\" tabindex=\"0\"><svg width=\"{:.0}\" height=\"{:.0}\" viewBox=\"0 0 {:.0} {:.0}\" role=\"img\" aria-label=\"Layers of the graph\">",
        placed.width, placed.height, placed.width, placed.height
    );
    lines(&placed, &mut text);
    for (block, (x, y)) in folded.blocks.iter().zip(&placed.boxes) {
        draw(&BoxText::of(block, graph, tensors), *x, *y, table, &mut text);
    }
    text + "</svg></div>\n"
}

fn note(graph: &Graph, folded: &Folded) -> String {
    let mut text = String::new();
    if graph.nodes.len() > BOXES {
        let boxes = folded.blocks.iter().filter(|block| matches!(block, Block::Layers(_))).count();
        let _ = writeln!(
            text,
            "<p class=\"muted\">{} layers, drawn as {boxes} boxes: consecutive layers share a box. The table lists all.</p>",
            graph.nodes.len()
        );
    }
    if folded.left_out > 0 {
        let _ = writeln!(
            text,
            "<p class=\"muted\">{} inputs, outputs and lines are not drawn.</p>",
            folded.left_out
        );
    }
    text
}

/// Draws curves from box to box, straight where they pass a rank.
fn lines(placed: &Layout, text: &mut String) {
    for points in &placed.lines {
        let mut path = String::new();
        for (index, (x, y)) in points.iter().enumerate() {
            let _ = match points.get(index.wrapping_sub(1)) {
                None => write!(path, "M{x:.0} {y:.0}"),
                // Curves lead to the lanes of ranks and to boxes; straight lines pass through lanes.
                Some((from, above)) if index % 2 == 1 => {
                    let middle = (above + y) / 2.0;
                    write!(path, "C{from:.0} {middle:.0} {x:.0} {middle:.0} {x:.0} {y:.0}")
                }
                Some(_) => write!(path, "V{y:.0}"),
            };
        }
        let Some((x, y)) = points.last() else { continue };
        let _ = writeln!(text, "<path class=\"line\" d=\"{path}\"/>");
        let _ = writeln!(
            text,
            "<path class=\"tip\" d=\"M{x:.0} {y:.0}L{:.0} {:.0}L{:.0} {:.0}Z\"/>",
            x - 4.0,
            y - 7.0,
            x + 4.0,
            y - 7.0
        );
    }
}

/// The text of a box.
struct BoxText {
    class: &'static str,
    name: String,
    what: String,
    more: String,
    /// The search text that finds its tensors.
    find: Option<String>,
}

impl BoxText {
    fn of(block: &Block, graph: &Graph, tensors: &HashMap<&str, &TensorSummary>) -> Self {
        match block {
            Block::Input(index) => BoxText::end("input", &graph.inputs[*index]),
            Block::Output(index) => BoxText::end("output", &graph.outputs[*index]),
            Block::Layers(range) => match &graph.nodes[range.clone()] {
                [node] => BoxText::layer(node, tensors),
                nodes => BoxText::layers(nodes, tensors),
            },
        }
    }

    fn end(class: &'static str, value: &Value) -> Self {
        let lens = value.shape.iter().map(|len| len.map_or("?".to_owned(), |len| len.to_string()));
        let lens = lens.collect::<Vec<_>>().join(" × ");
        BoxText { class, name: value.name.clone(), what: class.to_owned(), more: lens, find: None }
    }

    fn layer(node: &Node, tensors: &HashMap<&str, &TensorSummary>) -> Self {
        let weight = node.parameters.get("weight").and_then(|name| tensors.get(name.as_str()));
        let more = match (weight, node.parameters.len()) {
            (Some(weight), _) => match &weight.axes {
                Some(axes) => {
                    let lens = axes.iter().zip(weight.shape.iter());
                    lens.map(|(axis, len)| format!("{} {len}", axis.name())).collect::<Vec<_>>().join(" × ")
                }
                None => weight.shape.to_string(),
            },
            (None, 0) => String::new(),
            (None, count) => crate::words::count(count, "tensor"),
        };
        let holds = node.parameters.values().any(|name| tensors.contains_key(name.as_str()));
        let find = holds.then(|| node.name.clone());
        BoxText { class: class(node), name: node.name.clone(), what: op(&node.op).to_owned(), more, find }
    }

    fn layers(nodes: &[Node], tensors: &HashMap<&str, &TensorSummary>) -> Self {
        let shared = shared(nodes);
        let mut names = nodes.iter().flat_map(|node| node.parameters.values());
        let holds = names.any(|name| tensors.contains_key(name.as_str()));
        let ops: Vec<String> = ops(nodes)
            .into_iter()
            .map(|(op, count)| if count == 1 { op } else { format!("{count} {op}") })
            .collect();
        let find = (holds && !shared.is_empty()).then(|| shared.clone());
        let name = match (shared.is_empty(), nodes.first(), nodes.last()) {
            (true, Some(first), Some(last)) => format!("{} … {}", first.name, last.name),
            _ => shared,
        };
        let what = crate::words::count(nodes.len(), "layer");
        BoxText { class: "fold", name, what, more: ops.join(", "), find }
    }
}

/// The name of an operator, for people.
pub(super) fn op(op: &Op) -> &str {
    if *op == Op::Unspecified { "activation unknown" } else { op.name() }
}

fn class(node: &Node) -> &'static str {
    if node.parameters.contains_key("weight") { "weighted" } else { "plain" }
}

/// Distance between lines of text, in pixels.
const STEP: f64 = 16.0;

fn draw(label: &BoxText, x: f64, y: f64, table: &str, text: &mut String) {
    let fit = |text: &str| escaped(&without_middle(text, 30));
    let title = [&label.name, &label.what, &label.more].map(|text| escaped(&shortened(text))).join("\n");
    if let Some(find) = &label.find {
        let _ = write!(text, "<a href=\"#{table}\" data-find=\"{}\">", escaped(&shortened(find)));
    }
    let round = if matches!(label.class, "input" | "output") { HEIGHT / 2.0 } else { 6.0 };
    let _ = write!(
        text,
        "<g class=\"box {}\"><title>{title}</title><rect x=\"{:.0}\" y=\"{y:.0}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" rx=\"{round}\"/>",
        label.class,
        x - WIDTH / 2.0
    );
    let written = [("name", &label.name), ("what", &label.what), ("more", &label.more)];
    let written: Vec<_> = written.into_iter().filter(|(_, line)| !line.is_empty()).collect();
    let first = y + HEIGHT / 2.0 + 4.0 - STEP * (written.len() as f64 - 1.0) / 2.0;
    for (index, (class, line)) in written.into_iter().enumerate() {
        let _ = write!(
            text,
            "<text class=\"{class}\" x=\"{x:.0}\" y=\"{:.0}\" text-anchor=\"middle\">{}</text>",
            first + STEP * index as f64,
            fit(line)
        );
    }
    let _ = writeln!(text, "</g>{}", if label.find.is_some() { "</a>" } else { "" });
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
