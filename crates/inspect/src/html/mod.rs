//! Renders a checkpoint as one page of HTML: a drawing of its layers, its tensors with their distributions.

mod blocks;
mod constants;
mod draw;
mod fold;
mod layout;
mod parts;
mod repeats;
mod runs;
mod scopes;
mod tensors;
#[cfg(test)]
mod tests;
mod tree;

use super::{FileSummary, Inspection, TensorSummary};
use ckpt_api::{Graph, MetadataValue, Role};
use ckpt_engine::natural::make_readable;
use ckpt_engine::words::bytes;
use ckpt_html::{document, escaped, long_table, shortened, table, whole};
use parts::{MAX_ROWS, left_out, name};
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;

const STYLE: &str = include_str!("style.css");
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
    let mut tensors: Vec<&TensorSummary> = inspection.tensors.iter().collect();
    make_readable(&mut tensors, |tensor| &tensor.name);
    let mut body = summary(inspection, &title);
    if let Some(graph) = &inspection.graph {
        body += &layers(graph, &tensors);
    } else {
        body += &tree::section(&tensors);
    }
    let (section, style) = tensors::section(&tensors, inspection.graph.as_ref());
    body += &section;
    body += &metadata(inspection);
    document(&title, &format!("{STYLE}{style}"), &body)
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
    line("tensors", &format!("{}, {}", whole(tensors.len() as u64), bytes(total)));
    line("weights", &format!("{} numbers", whole(values)));
    line("dtypes", &dtypes(tensors));
    let graph = inspection.graph.as_ref();
    line("layers", &graph.map_or_else(|| "no graph".to_owned(), |graph| whole(graph.nodes.len() as u64)));
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
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    tensors.iter().for_each(|tensor| *counts.entry(tensor.dtype.name()).or_default() += 1);
    let each: Vec<String> =
        counts.iter().map(|(dtype, count)| format!("{} {dtype}", whole(*count))).collect();
    if each.is_empty() { "none".to_owned() } else { each.join(", ") }
}

fn file(file: &FileSummary) -> String {
    let size = file.bytes.map_or_else(|| "missing".to_owned(), |len| bytes(len).to_string());
    format!(
        "<tr><td class=\"name\">{}</td><td class=\"number\">{size}</td><td class=\"number\">{}</td></tr>\n",
        name(&file.name),
        whole(file.tensors as u64)
    )
}

fn layers(graph: &Graph, tensors: &[&TensorSummary]) -> String {
    let by_name: HashMap<&str, &TensorSummary> =
        tensors.iter().map(|tensor| (tensor.name.as_str(), *tensor)).collect();
    let mut text = "<h2>Layers</h2>\n".to_owned();
    text += &draw::drawings(graph, &by_name, tensors::TABLE);
    let row = |(index, node): (usize, &ckpt_api::Node)| {
        let tensors =
            node.parameters.iter().map(|(role, tensor)| format!("{} {}", escaped(role), name(tensor)));
        let attributes = node.attributes.iter().map(|(key, value)| {
            let value = serde_json::to_string(value).unwrap_or_default();
            format!("{} {}", escaped(&shortened(key)), escaped(&shortened(&value)))
        });
        format!(
            "<tr><td class=\"number\">{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
            index + 1,
            name(&node.name),
            escaped(&shortened(draw::op(&node.op))),
            tensors.collect::<Vec<_>>().join("; "),
            attributes.collect::<Vec<_>>().join("; ")
        )
    };
    let rows: Vec<String> = graph.nodes.iter().enumerate().take(MAX_ROWS).map(row).collect();
    let head = [("#", "number"), ("layer", ""), ("op", ""), ("tensors", "aside"), ("attributes", "aside")];
    text += "<details><summary>Table of layers</summary>\n";
    text += &long_table(draw::LAYERS, &head, &rows);
    text += &left_out(graph.nodes.len(), MAX_ROWS, "layer");
    text + "</details>\n"
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
