//! `ckpt inspect`.

use super::common::{OneInput, until_the_end, write_new};
use super::render::{self, Table};
use super::{Report, to_json};
use crate::inspect::{FileSummary, Inspection, Stats, TensorSummary, html, inspect, overview, summaries};
use crate::registry::Registry;
use crate::words;
use ckpt_api::{Graph, Result};
use clap::Args;
use std::borrow::Borrow;
use std::fmt::Write;
use std::path::PathBuf;

#[derive(Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    looking: OneInput,
    /// Read all values: minimum, maximum, mean, standard deviation, zeros, NaN, infinities
    #[arg(long)]
    stats: bool,
    /// Show the layers only
    #[arg(long)]
    graph: bool,
    /// Read all values, and write a self-contained HTML page to a new file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

pub(super) fn run(registry: &Registry, arguments: &Arguments, json: bool) -> Result<Report> {
    let source = until_the_end(arguments.looking.open(registry)?);
    let stats = arguments.stats;
    if arguments.html.is_none() && !stats && !json {
        let overview = overview(&source);
        return Ok(match arguments.graph {
            true => layers_of(&overview).into(),
            // One by one: there can be many thousands.
            false => text(&overview, summaries(&source), stats).into(),
        });
    }
    let mut inspection = until_the_end(inspect(&source, stats || arguments.html.is_some())?);
    if let Some(path) = &arguments.html {
        write_new(path, html::page(&inspection))?;
        if !stats {
            // The page alone needs statistics.
            inspection.tensors.iter_mut().for_each(|tensor| tensor.stats = None);
        }
    }
    Ok(match (json, arguments.graph) {
        (true, true) => to_json(&inspection.graph)?.into(),
        (true, false) => to_json(&*inspection)?.into(),
        (false, true) => layers_of(&inspection).into(),
        (false, false) => text(&inspection, &inspection.tensors, stats).into(),
    })
}

fn layers_of(inspection: &Inspection) -> String {
    inspection.graph.as_ref().map_or("no graph\n".to_owned(), layers)
}

/// Describes `inspection` and its `tensors`.
fn text(
    inspection: &Inspection,
    tensors: impl IntoIterator<Item: Borrow<TensorSummary>>,
    stats: bool,
) -> String {
    let mut text = format!(
        "{}: {} ({})\n",
        render::plain(&inspection.path),
        inspection.title,
        render::plain(&inspection.reason)
    );
    let (table, count, bytes) = table(tensors, stats);
    let _ = writeln!(text, "\n{}, {}", words::count(count, "tensor"), render::bytes(bytes));
    if count > 0 {
        table.append_to(&mut text);
    }
    if let Some(graph) = &inspection.graph {
        let _ = write!(text, "\nlayers\n{}", layers(graph));
    }
    if !inspection.files.is_empty() {
        text += "\nfiles\n";
        files(&inspection.files).append_to(&mut text);
    }
    text + &metadata(inspection)
}

/// Returns the table of tensors, their number, and the sum of their bytes.
fn table(
    tensors: impl IntoIterator<Item: Borrow<TensorSummary>>,
    stats: bool,
) -> (Table<'static>, usize, u64) {
    let mut head = vec!["name", "dtype", "shape", "axes", "bytes", "role"];
    if stats {
        head.extend(["min", "max", "mean", "std", "zeros", "nan", "inf"]);
    }
    let mut table = Table::new(&head, &[4, 6, 7, 8, 9, 10, 11, 12]);
    let (mut count, mut bytes) = (0, 0u64);
    for tensor in tensors {
        let tensor = tensor.borrow();
        let axes = tensor.axes.iter().flatten().map(|axis| axis.name());
        table.text(&render::plain(&tensor.name));
        match tensor.scale {
            Some(_) => table.cell(words::dtype(tensor.dtype, tensor.scale)),
            None => table.text(tensor.dtype.name()),
        }
        table.cell(&tensor.shape);
        table.text(&axes.collect::<Vec<_>>().join(" "));
        table.cell(render::bytes(tensor.bytes));
        table.text(tensor.role.name());
        if stats {
            stat_cells(tensor.stats.as_deref()).iter().for_each(|cell| table.text(cell));
        }
        table.end_row();
        count += 1;
        bytes = bytes.saturating_add(tensor.bytes);
    }
    (table, count, bytes)
}

fn files(files: &[FileSummary]) -> Table<'static> {
    let mut table = Table::new(&["name", "size", "tensors"], &[1, 2]);
    for file in files {
        table.text(&render::plain(&file.name));
        match file.bytes {
            Some(bytes) => table.cell(render::bytes(bytes)),
            None => table.text("missing"),
        }
        table.cell(file.tensors);
        table.end_row();
    }
    table
}

fn stat_cells(stats: Option<&Stats>) -> [String; 7] {
    let Some(stats) = stats else { return Default::default() };
    let number = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.4e}"));
    [
        number(stats.min),
        number(stats.max),
        number(stats.mean),
        number(stats.std),
        stats.zeros.to_string(),
        stats.nan.to_string(),
        stats.infinite.to_string(),
    ]
}

fn layers(graph: &Graph) -> String {
    let rows: Vec<Vec<String>> = graph
        .nodes
        .iter()
        .map(|node| {
            let parameters: Vec<String> = node
                .parameters
                .iter()
                .map(|(role, name)| format!("{role}={}", render::plain(name)))
                .collect();
            let op =
                if node.op == ckpt_api::Op::Unspecified { "(activation unknown)" } else { node.op.name() };
            vec![render::plain(&node.name).into_owned(), op.to_owned(), parameters.join(" ")]
        })
        .collect();
    render::table(&["layer", "op", "tensors"], &[], &rows)
}

fn metadata(inspection: &Inspection) -> String {
    const SHOWN: usize = 100;
    let mut text = String::new();
    if !inspection.metadata.is_empty() {
        text += "\nmetadata (shortened; --format json shows all)\n";
        for (namespace, values) in inspection.metadata.iter() {
            for (key, value) in values.iter() {
                let value = value.as_text().map_or_else(|| value.to_string(), str::to_owned);
                let value = render::plain(&value);
                let mut shown: String = value.chars().take(SHOWN).collect();
                if shown.len() < value.len() {
                    let _ = write!(shown, "… ({} characters)", value.chars().count());
                }
                let _ = writeln!(text, "  {namespace}.{}: {shown}", render::plain(key));
            }
        }
    }
    for repair in &inspection.repairs {
        let _ = writeln!(
            text,
            "\nrepaired {}: {}",
            render::plain(&repair.subject),
            render::plain(&repair.detail)
        );
    }
    for note in &inspection.notes {
        let _ = writeln!(text, "\nnote: {}", render::plain(note));
    }
    text
}
