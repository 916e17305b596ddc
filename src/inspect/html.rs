//! A checkpoint as one page of HTML: its layers drawn, its tensors with the distribution of their values.

mod draw;
mod fold;
mod layout;
#[cfg(test)]
mod tests;

use super::{FileSummary, Histogram, Inspection, Stats, TensorSummary};
use crate::html::{code, document, escaped, long_table, number, table};
use crate::words::{bytes, count as things};
use ckpt_api::{DType, Graph, Role};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;

const STYLE: &str = include_str!("html/style.css");
/// Rows of one table that a page holds.
const ROWS: usize = 50_000;
/// Characters of one text that a page holds.
const TEXT: usize = 400;
/// Layers that are named of one tensor.
const USERS: usize = 8;
/// Entries of the metadata that a page holds.
const ENTRIES: usize = 1000;

/// The page. Every name in it is text, whatever it says; where it leaves something out, it says so.
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

/// As much of a text as a page holds.
fn shortened(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(TEXT) {
        Some((end, _)) => format!("{}… ({} characters)", &text[..end], text.chars().count()).into(),
        None => text.into(),
    }
}

/// A name, in the typeface of names.
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
        let rows: String = inspection.files.iter().take(ENTRIES).map(file).collect();
        text += &table("", &[("file", false), ("size", true), ("tensors", true)], &rows);
        text += &more(inspection.files.len(), ENTRIES, "file");
    }
    text
}

/// Each dtype with how many tensors have it.
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

/// What is not on the page because there is too much of it.
fn more(all: usize, shown: usize, what: &str) -> String {
    match all.checked_sub(shown) {
        None | Some(0) => String::new(),
        Some(more) => format!("<p>{} more are not on this page.</p>\n", things(more, what)),
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
    let rows: Vec<String> = graph.nodes.iter().enumerate().take(ROWS).map(row).collect();
    let head = [("#", true), ("layer", false), ("op", false), ("tensors", false), ("attributes", false)];
    text += "<details><summary>All layers</summary>\n";
    text += &long_table("layers", &head, &rows);
    text += &more(graph.nodes.len(), ROWS, "layer");
    text + "</details>\n"
}

/// The id of the table of tensors.
const TENSORS: &str = "tensors";

fn tensors(inspection: &Inspection) -> String {
    let all = &inspection.tensors;
    let mut text = "<h2>Tensors</h2>\n".to_owned();
    if all.is_empty() {
        return text + "<p>There are none.</p>\n";
    }
    let sampled = all.iter().filter(|tensor| is_sampled(tensor)).count();
    text += "<p class=\"muted\">Each picture shows how the finite values lie between the smallest and the largest";
    if sampled > 0 {
        let _ = write!(
            text,
            "; for {}, how at most {} of them do, taken evenly (marked ≈). All other figures are of all values",
            things(sampled, "tensor"),
            Histogram::LARGEST_SAMPLE
        );
    }
    text += ".</p>\n";
    let users = inspection.graph.as_ref().map(users).unwrap_or_default();
    let user =
        |tensor: &TensorSummary| users.get(tensor.name.as_str()).map(Vec::as_slice).unwrap_or_default();
    let rows: Vec<String> = all.iter().take(ROWS).map(|tensor| row(tensor, user(tensor))).collect();
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
    text + &more(all.len(), ROWS, "tensor")
}

/// Whether the picture of a tensor is one of a part of its values.
fn is_sampled(tensor: &TensorSummary) -> bool {
    tensor.histogram.is_some() && tensor.shape.elements() > Histogram::LARGEST_SAMPLE
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
    let shown: Vec<String> = users.iter().take(USERS).map(|user| escaped(&shortened(user))).collect();
    let user = match users.len().checked_sub(USERS) {
        _ if users.is_empty() => role.to_owned(),
        None | Some(0) => shown.join(", "),
        Some(more) => format!("{} and {more} more", shown.join(", ")),
    };
    let axes =
        tensor.axes.as_ref().map(|axes| axes.iter().map(|axis| axis.name()).collect::<Vec<_>>().join(" "));
    let axes = axes.map(|axes| format!(" <span class=\"muted\">{axes}</span>")).unwrap_or_default();
    let mut text = format!(
        "<tr><td>{}</td><td>{user}</td><td>{}</td><td>{}{axes}</td><td data-value=\"{}\">{}</td>",
        name(&tensor.name),
        tensor.dtype,
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

/// A distribution as a picture of one line's height.
fn spark(histogram: &Histogram) -> String {
    const HEIGHT: u64 = 16;
    let most = u64::from(histogram.counts.iter().copied().max().unwrap_or(0)).max(1);
    let (mut path, mut last) = (format!("M0 {HEIGHT}"), 0);
    for count in histogram.counts {
        // What is there at all is seen.
        let tall = (u64::from(count) * HEIGHT).div_ceil(most);
        if tall != last {
            let _ = write!(path, "V{}", HEIGHT - tall);
        }
        path += "h1";
        last = tall;
    }
    format!(
        "<svg class=\"spark\" viewBox=\"0 0 {} {HEIGHT}\" preserveAspectRatio=\"none\"><path d=\"{path}V{HEIGHT}Z\"/></svg>",
        Histogram::PARTS
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
    let row = |(key, value): &(String, &serde_json::Value)| {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        format!("<tr><td class=\"name\">{}</td><td>{}</td></tr>\n", name(key), name(&value))
    };
    let rows: String = entries.iter().take(ENTRIES).map(row).collect();
    format!(
        "<h2>Metadata</h2>\n{}{}",
        table("", &[("key", false), ("value", false)], &rows),
        more(entries.len(), ENTRIES, "key")
    )
}
