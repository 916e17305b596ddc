//! Renders a checkpoint as one page of HTML: a drawing of its layers, its tensors with their distributions.

mod draw;
mod fold;
mod layout;
#[cfg(test)]
mod tests;

use super::{FileSummary, Histogram, Inspection, Stats, TensorSummary};
use crate::html::{code, document, escaped, long_table, number, shortened, table};
use crate::words::{bytes, count as counted, dtype};
use ckpt_api::first_few;
use ckpt_api::{DType, Graph, MetadataValue, Role};
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;

const STYLE: &str = include_str!("style.css");
/// Rows of one table on a page.
const MAX_ROWS: usize = 50_000;
/// Layers listed for one tensor.
const MAX_USERS: usize = 8;
/// Files, and entries of the metadata, on a page.
const MAX_ENTRIES: usize = 1000;

/// Returns the page. Names are shown as text, whatever they contain; the page states what it leaves out.
///
/// ```
/// # fn main() -> Result<(), ckpt::Error> {
/// let source = ckpt::Source::open(&ckpt::Registry::builtin(), "examples/data/digits", &Default::default())?;
/// let page = ckpt::inspect::html::page(&ckpt::inspect::inspect(&source, true)?);
/// assert!(page.starts_with("<!doctype html>") && page.contains("digits/hidden/kernel"));
/// # Ok(())
/// # }
/// ```
pub fn page(inspection: &Inspection) -> String {
    let title = escaped(&shortened(&inspection.path));
    let mut body = summary(inspection, &title);
    if let Some(graph) = &inspection.graph {
        body += &layers(graph, &inspection.tensors);
    }
    body += &tensors(inspection);
    body += &metadata(inspection);
    document(&title, STYLE, &body)
}

/// A name that may be cut, in the typeface of names.
fn name(text: &str) -> String {
    code(&shortened(text))
}

fn summary(inspection: &Inspection, title: &str) -> String {
    let tensors = &inspection.tensors;
    let total = tensors.iter().fold(0u64, |sum, tensor| sum.saturating_add(tensor.bytes));
    let weights = tensors.iter().filter(|tensor| tensor.role == Role::Weight);
    let values = weights.fold(0u64, |sum, tensor| sum.saturating_add(tensor.shape.elements()));
    let mut text = format!("<h1>{title}</h1>\n<dl>");
    let mut line = |name: &str, value: &str| {
        let _ = write!(text, "<dt>{name}</dt><dd>{value}</dd>");
    };
    let reason = escaped(&shortened(&inspection.reason));
    line("format", &format!("{} ({reason})", escaped(inspection.title)));
    line("tensors", &format!("{}, {}", tensors.len(), bytes(total)));
    line("weights", &format!("{values} numbers"));
    line("dtypes", &dtypes(tensors));
    let graph = inspection.graph.as_ref();
    line("layers", &graph.map_or_else(|| "no graph".to_owned(), |graph| graph.nodes.len().to_string()));
    for repair in &inspection.repairs {
        let (subject, detail) = (shortened(&repair.subject), shortened(&repair.detail));
        line("repaired", &format!("{}: {}", escaped(&subject), escaped(&detail)));
    }
    for note in &inspection.notes {
        line("note", &escaped(&shortened(note)));
    }
    text += "</dl>\n";
    if !inspection.files.is_empty() {
        let rows: String = inspection.files.iter().take(MAX_ENTRIES).map(file).collect();
        text += &table("", &[("file", false), ("size", true), ("tensors", true)], &rows);
        text += &left_out(inspection.files.len(), MAX_ENTRIES, "file");
    }
    text
}

/// The number of tensors of each dtype.
fn dtypes(tensors: &[TensorSummary]) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    tensors.iter().for_each(|tensor| *counts.entry(tensor.dtype.name()).or_default() += 1);
    let each: Vec<String> = counts.iter().map(|(dtype, count)| format!("{count} {dtype}")).collect();
    if each.is_empty() { "none".to_owned() } else { each.join(", ") }
}

fn file(file: &FileSummary) -> String {
    let size = file.bytes.map_or_else(|| "missing".to_owned(), |len| bytes(len).to_string());
    format!(
        "<tr><td class=\"name\">{}</td><td class=\"number\">{size}</td><td class=\"number\">{}</td></tr>\n",
        name(&file.name),
        file.tensors
    )
}

/// Counts what a page leaves out.
fn left_out(all: usize, shown: usize, what: &str) -> String {
    match all.saturating_sub(shown) {
        0 => String::new(),
        more => format!("<p>This page leaves out {}.</p>\n", counted(more, what)),
    }
}

fn layers(graph: &Graph, tensors: &[TensorSummary]) -> String {
    let by_name: HashMap<&str, &TensorSummary> =
        tensors.iter().map(|tensor| (tensor.name.as_str(), tensor)).collect();
    let mut text = "<h2>Layers</h2>\n".to_owned();
    text += &draw::drawing(graph, &by_name, TENSORS);
    let row = |(index, node): (usize, &ckpt_api::Node)| {
        let tensors =
            node.parameters.iter().map(|(role, tensor)| format!("{} {}", escaped(role), name(tensor)));
        let attributes = node.attributes.iter().map(|(key, value)| {
            let value = serde_json::to_string(value).unwrap_or_default();
            format!("{} {}", escaped(&shortened(key)), escaped(&shortened(&value)))
        });
        format!(
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
            index + 1,
            name(&node.name),
            escaped(&shortened(draw::op(&node.op))),
            tensors.collect::<Vec<_>>().join("; "),
            attributes.collect::<Vec<_>>().join("; ")
        )
    };
    let rows: Vec<String> = graph.nodes.iter().enumerate().take(MAX_ROWS).map(row).collect();
    let head = [("#", true), ("layer", false), ("op", false), ("tensors", false), ("attributes", false)];
    text += "<details><summary>All layers</summary>\n";
    text += &long_table("layers", &head, &rows);
    text += &left_out(graph.nodes.len(), MAX_ROWS, "layer");
    text + "</details>\n"
}

/// The id of the table of tensors.
const TENSORS: &str = "tensors";

fn tensors(inspection: &Inspection) -> String {
    let all = &inspection.tensors;
    let mut text = "<h2>Tensors</h2>\n".to_owned();
    if all.is_empty() {
        return text + "<p>There are no tensors.</p>\n";
    }
    let sampled = all.iter().filter(|tensor| is_sampled(tensor)).count();
    text += "<p class=\"muted\">Each histogram shows the finite values from the smallest to the largest";
    if sampled > 0 {
        let _ = write!(
            text,
            "; for {} (marked ≈), an even sample of at most {}. All other figures are of all values",
            counted(sampled, "tensor"),
            Histogram::MAX_SAMPLE
        );
    }
    text += ".</p>\n";
    let users = inspection.graph.as_ref().map(users).unwrap_or_default();
    let user =
        |tensor: &TensorSummary| users.get(tensor.name.as_str()).map(Vec::as_slice).unwrap_or_default();
    let rows: Vec<String> = all.iter().take(MAX_ROWS).map(|tensor| row(tensor, user(tensor))).collect();
    let words = [
        ("name", false),
        ("layer or role", false),
        ("dtype", false),
        ("shape", false),
        ("size", true),
        ("values", false),
    ];
    let numbers = ["min", "max", "mean", "std", "zero", "NaN", "inf"].map(|name| (name, true));
    text += &long_table(TENSORS, &[&words[..], &numbers].concat(), &rows);
    text + &left_out(all.len(), MAX_ROWS, "tensor")
}

/// Whether the histogram of a tensor shows only a sample.
fn is_sampled(tensor: &TensorSummary) -> bool {
    tensor.histogram.is_some() && tensor.shape.elements() > Histogram::MAX_SAMPLE
}

/// The layers that use each tensor.
fn users(graph: &Graph) -> HashMap<&str, Vec<&str>> {
    let mut users: HashMap<&str, Vec<&str>> = HashMap::new();
    for node in &graph.nodes {
        for tensor in node.parameters.values() {
            users.entry(tensor).or_default().push(&node.name);
        }
    }
    users
}

fn row(tensor: &TensorSummary, users: &[&str]) -> String {
    let role = if tensor.role == Role::Weight { "" } else { tensor.role.name() };
    let user = match users {
        [] => role.to_owned(),
        users => first_few(users.iter().map(|user| escaped(&shortened(user))), MAX_USERS),
    };
    let axes =
        tensor.axes.as_ref().map(|axes| axes.iter().map(|axis| axis.name()).collect::<Vec<_>>().join(" "));
    let axes = axes.map(|axes| format!(" <span class=\"muted\">{axes}</span>")).unwrap_or_default();
    let mut text = format!(
        "<tr><td>{}</td><td>{user}</td><td>{}</td><td>{}{axes}</td><td data-value=\"{}\">{}</td>",
        name(&tensor.name),
        dtype(tensor.dtype, tensor.scale),
        tensor.shape,
        tensor.bytes,
        bytes(tensor.bytes)
    );
    let picture = tensor.histogram.as_deref().map(spark).unwrap_or_default();
    let mark = if is_sampled(tensor) { "<span title=\"of a sample\">≈</span>" } else { "" };
    let _ = write!(text, "<td class=\"values\">{picture}{mark}</td>");
    text += &stats(tensor.stats.as_deref(), tensor.dtype);
    text + "</tr>\n"
}

fn stats(stats: Option<&Stats>, dtype: DType) -> String {
    let Some(stats) = stats else { return "<td></td>".repeat(7) };
    let whole = |value: f64| value.fract() == 0.0 && value.abs() < 1e9 && !dtype.is_float();
    let element = |value| if whole(value) { value.to_string() } else { number(value) };
    let (min, max) = (stats.min.map(element), stats.max.map(element));
    let mut text = String::new();
    for value in [min, max, stats.mean.map(number), stats.std.map(number)] {
        let _ = write!(text, "<td>{}</td>", value.unwrap_or_default());
    }
    for count in [stats.zeros, stats.nan, stats.infinite] {
        let _ = write!(text, "<td>{count}</td>");
    }
    text
}

/// A histogram as high as one line of text.
fn spark(histogram: &Histogram) -> String {
    const HEIGHT: u64 = 16;
    let most = u64::from(histogram.counts.iter().copied().max().unwrap_or(0)).max(1);
    let (mut path, mut last) = (format!("M0 {HEIGHT}"), 0);
    for count in histogram.counts {
        // Small counts stay visible.
        let tall = (u64::from(count) * HEIGHT).div_ceil(most);
        if tall != last {
            let _ = write!(path, "V{}", HEIGHT - tall);
        }
        path += "h1";
        last = tall;
    }
    format!(
        "<svg class=\"spark\" viewBox=\"0 0 {} {HEIGHT}\" preserveAspectRatio=\"none\"><path d=\"{path}V{HEIGHT}Z\"/></svg>",
        Histogram::BINS
    )
}

fn metadata(inspection: &Inspection) -> String {
    let entries = inspection.metadata.iter().flat_map(|(namespace, values)| {
        values.iter().map(move |(key, value)| (format!("{namespace}.{key}"), value))
    });
    let entries: Vec<_> = entries.collect();
    if entries.is_empty() {
        return String::new();
    }
    let row = |(key, value): &(String, &MetadataValue)| {
        let value = value.as_text().map_or_else(|| value.to_string(), str::to_owned);
        format!("<tr><td class=\"name\">{}</td><td>{}</td></tr>\n", name(key), name(&value))
    };
    let rows: String = entries.iter().take(MAX_ENTRIES).map(row).collect();
    format!(
        "<h2>Metadata</h2>\n{}{}",
        table("", &[("key", false), ("value", false)], &rows),
        left_out(entries.len(), MAX_ENTRIES, "key")
    )
}
