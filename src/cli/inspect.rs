//! `ckpt inspect`.

use super::common::{Looking, until_the_end, write_new};
use super::render::{self, Table};
use super::{Report, to_json};
use crate::inspect::{Inspection, Stats, html, inspect};
use crate::words::count;
use ckpt_api::{Graph, Result, Role};
use clap::Args;
use std::fmt::Write;
use std::path::PathBuf;

#[derive(Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    looking: Looking,
    /// Read all values: smallest, largest, mean, standard deviation, NaN
    #[arg(long)]
    stats: bool,
    /// Show only the layers
    #[arg(long)]
    graph: bool,
    /// Read all values, and write a page of HTML, which needs nothing else, to a file that must not exist
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

pub(super) fn run(arguments: &Arguments, json: bool) -> Result<Report> {
    let source = until_the_end(arguments.looking.open()?);
    let mut inspection = until_the_end(inspect(&source, arguments.stats || arguments.html.is_some())?);
    if let Some(path) = &arguments.html {
        write_new(path, &html::page(&inspection))?;
        if !arguments.stats {
            // What was asked for stays what it was.
            inspection.tensors.iter_mut().for_each(|tensor| tensor.stats = None);
        }
    }
    if json {
        return Ok(match (arguments.graph, &inspection.graph) {
            (true, graph) => to_json(graph)?,
            (false, _) => to_json(&*inspection)?,
        }
        .into());
    }
    if arguments.graph {
        return Ok(inspection.graph.as_ref().map_or("no graph\n".to_owned(), layers).into());
    }
    Ok(text(&inspection, arguments.stats).into())
}

fn text(inspection: &Inspection, stats: bool) -> String {
    let mut text = format!(
        "{}: {} ({})\n",
        render::plain(&inspection.path),
        inspection.title,
        render::plain(&inspection.reason)
    );
    let total = inspection.tensors.iter().fold(0u64, |sum, tensor| sum.saturating_add(tensor.bytes));
    let _ = writeln!(text, "\n{}, {}", count(inspection.tensors.len(), "tensor"), render::bytes(total));
    if !inspection.tensors.is_empty() {
        tensors(inspection, stats).append_to(&mut text);
    }
    if let Some(graph) = &inspection.graph {
        let _ = write!(text, "\nlayers\n{}", layers(graph));
    }
    if !inspection.files.is_empty() {
        text += "\nfiles\n";
        let rows: Vec<Vec<String>> = inspection
            .files
            .iter()
            .map(|file| {
                vec![
                    render::plain(&file.name),
                    file.bytes.map_or("missing".to_owned(), render::bytes),
                    file.tensors.to_string(),
                ]
            })
            .collect();
        text += &render::table(&["name", "size", "tensors"], &[1, 2], &rows);
    }
    text + &metadata(inspection)
}

fn tensors(inspection: &Inspection, stats: bool) -> Table<'static> {
    let mut head = vec!["name", "dtype", "shape", "axes", "bytes", "role"];
    if stats {
        head.extend(["min", "max", "mean", "std", "zeros", "nan", "inf"]);
    }
    let mut table = Table::new(&head, &[4, 6, 7, 8, 9, 10, 11, 12]);
    for tensor in &inspection.tensors {
        let axes = tensor.axes.iter().flatten().map(|axis| axis.name());
        table.cell(render::plain(&tensor.name));
        table.cell(tensor.dtype);
        table.cell(&tensor.shape);
        table.cell(axes.collect::<Vec<_>>().join(" "));
        table.cell(render::bytes(tensor.bytes));
        table.cell(if tensor.role == Role::Weight { "" } else { tensor.role.name() });
        if stats {
            stat_cells(tensor.stats.as_deref()).iter().for_each(|cell| table.cell(cell));
        }
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
                if node.op == ckpt_api::Op::Unspecified { "(activation not stated)" } else { node.op.name() };
            vec![render::plain(&node.name), op.to_owned(), parameters.join(" ")]
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
            for (key, value) in values {
                let value = match value.as_str() {
                    Some(text) => render::plain(text),
                    None => render::plain(&value.to_string()),
                };
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
