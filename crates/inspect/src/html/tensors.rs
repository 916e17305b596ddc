//! The table of tensors. A script opens a tensor: its histogram, a map of its values, and the first of them.

use super::parts::{MAX_ROWS, left_out, name};
use crate::{Histogram, Preview, TensorSummary};
use ckpt_api::{DType, Graph, Role, first_few};
use ckpt_engine::words::bytes;
use ckpt_html::{counted, escaped, long_table, number, shortened, whole};
use std::collections::HashMap;
use std::fmt::Write;

/// The id of the table of tensors.
pub(super) const TABLE: &str = "tensors";
/// Layers listed for one tensor.
const MAX_USERS: usize = 8;

/// A column: its heading, its class, and the cell of a tensor, which is empty if there is nothing to show.
type Column<'a> = (&'static str, &'static str, Box<dyn Fn(&TensorSummary) -> String + 'a>);

/// Returns the section, and rules of style for its columns.
pub(super) fn section(all: &[&TensorSummary], graph: Option<&Graph>) -> (String, String) {
    let mut text = "<h2>Tensors</h2>\n".to_owned();
    if all.is_empty() {
        return (text + "<p>There are no tensors.</p>\n", String::new());
    }
    text += &note(all);
    let shown = &all[..all.len().min(MAX_ROWS)];
    let users = graph.map(users).unwrap_or_default();
    let mut columns = columns(&users);
    // Columns that are empty go; names stay.
    columns.retain(|(_, _, cell)| shown.iter().any(|tensor| !cell(tensor).is_empty()));
    let row = |tensor: &TensorSummary| {
        let mut text = format!("<tr{}>", details(tensor));
        for (_, class, cell) in &columns {
            let value = if *class == "number" && cell(tensor).ends_with('B') {
                format!(" data-value=\"{}\"", tensor.bytes)
            } else {
                String::new()
            };
            let _ = write!(text, "<td{value}>{}</td>", cell(tensor));
        }
        text + "</tr>\n"
    };
    let rows: Vec<String> = shown.iter().copied().map(row).collect();
    let head: Vec<(&str, &str)> = columns.iter().map(|(name, class, _)| (*name, *class)).collect();
    text += &long_table(TABLE, &head, &rows);
    (text + &left_out(all.len(), MAX_ROWS, "tensor"), style(&head))
}

/// Cells have no classes: there can be many.
fn style(head: &[(&str, &str)]) -> String {
    let cells = |class: &str| {
        let columns =
            head.iter().zip(1..).filter(|((_, classes), _)| classes.split(' ').any(|one| one == class));
        let cells = columns.map(|(_, column)| format!("#{TABLE} td:nth-child({column})"));
        cells.collect::<Vec<_>>().join(",\n")
    };
    let mut text = String::new();
    for (class, rules) in [
        ("number", "text-align: right; white-space: nowrap;"),
        ("shape", "white-space: nowrap;"),
        ("values", "white-space: nowrap;"),
    ] {
        if !cells(class).is_empty() {
            let _ = writeln!(text, "{} {{ {rules} }}", cells(class));
        }
    }
    for (width, class) in [(64, "wide"), (40, "aside")] {
        if cells(class).is_empty() {
            continue;
        }
        let _ =
            writeln!(text, "@media (max-width: {width}rem) {{\n{} {{ display: none; }}\n}}", cells(class));
    }
    let _ = writeln!(text, "@media (max-width: 40rem) {{\n{} {{ white-space: normal; }}\n}}", cells("shape"));
    text
}

fn note(all: &[&TensorSummary]) -> String {
    let mut text = String::new();
    let wrong =
        |tensor: &&&TensorSummary| tensor.stats.as_ref().is_some_and(|stats| stats.nan + stats.infinite > 0);
    if all.iter().any(|tensor| tensor.stats.is_some()) {
        let wrong = all.iter().filter(wrong).count();
        text += &match wrong {
            0 => "<p class=\"muted\">All values are finite.".to_owned(),
            _ => format!(
                "<p>{} not finite.",
                match wrong {
                    1 => "1 tensor has values that are".to_owned(),
                    more => format!("{} tensors have values that are", whole(more as u64)),
                }
            ),
        };
        text += " Each histogram shows the finite values from the smallest to the largest";
    }
    let sampled = all.iter().filter(|tensor| is_sampled(tensor)).count();
    if sampled > 0 {
        let _ = write!(
            text,
            "; for {} (marked ≈), an even sample of at most {}. All other figures are of all values",
            counted(sampled, "tensor"),
            whole(Histogram::MAX_SAMPLE)
        );
    }
    if !text.is_empty() {
        text += ".</p>\n";
    }
    text
}

fn columns<'a>(users: &'a HashMap<&str, Vec<&str>>) -> Vec<Column<'a>> {
    let user = |tensor: &TensorSummary| match users.get(tensor.name.as_str()).map(Vec::as_slice) {
        None | Some([]) if tensor.role == Role::Weight => String::new(),
        None | Some([]) => tensor.role.name().to_owned(),
        Some(users) => first_few(users.iter().map(|user| escaped(&shortened(user))), MAX_USERS),
    };
    vec![
        ("name", "", Box::new(|tensor| name(&tensor.name))),
        ("layer or role", "wide", Box::new(user)),
        ("dtype", "aside", Box::new(TensorSummary::shown_dtype)),
        ("shape", "shape", Box::new(shape)),
        ("size", "number", Box::new(|tensor| bytes(tensor.bytes).to_string())),
        ("values", "aside values", Box::new(values)),
        (
            "min",
            "aside number",
            Box::new(|tensor| element(tensor, tensor.stats.as_ref().and_then(|stats| stats.min))),
        ),
        (
            "max",
            "aside number",
            Box::new(|tensor| element(tensor, tensor.stats.as_ref().and_then(|stats| stats.max))),
        ),
        ("mean", "wide number", Box::new(|tensor| mean(tensor.stats.as_ref().and_then(|stats| stats.mean)))),
        ("std", "wide number", Box::new(|tensor| mean(tensor.stats.as_ref().and_then(|stats| stats.std)))),
        ("zero", "wide number", Box::new(|tensor| some(tensor.stats.as_ref().map(|stats| stats.zeros)))),
        ("NaN", "aside number", Box::new(|tensor| some(tensor.stats.as_ref().map(|stats| stats.nan)))),
        ("inf", "aside number", Box::new(|tensor| some(tensor.stats.as_ref().map(|stats| stats.infinite)))),
    ]
}

/// A count, unless it is 0.
fn some(count: Option<u64>) -> String {
    count.filter(|count| *count > 0).map(whole).unwrap_or_default()
}

fn mean(value: Option<f64>) -> String {
    value.map(number).unwrap_or_default()
}

/// A value of a tensor: a whole number for integers.
fn element(tensor: &TensorSummary, value: Option<f64>) -> String {
    let is_whole = |value: f64| value.fract() == 0.0 && value.abs() < 1e9 && !tensor.dtype.is_float();
    value.map(|value| if is_whole(value) { value.to_string() } else { number(value) }).unwrap_or_default()
}

fn shape(tensor: &TensorSummary) -> String {
    let lens: Vec<String> = tensor.shape.iter().copied().map(whole).collect();
    let lens = if lens.is_empty() { "scalar".to_owned() } else { lens.join(" × ") };
    let axes: Vec<&str> = tensor.axes.iter().flatten().map(|axis| axis.name()).collect();
    if axes.is_empty() { lens } else { format!("{lens} <span class=\"muted\">{}</span>", axes.join(" ")) }
}

/// Whether the histogram of a tensor shows only a sample.
fn is_sampled(tensor: &TensorSummary) -> bool {
    tensor.histogram.is_some() && tensor.shape.elements() > Histogram::MAX_SAMPLE
}

/// The layers that use each tensor.
fn users(graph: &Graph) -> HashMap<&str, Vec<&str>> {
    let mut users: HashMap<&str, Vec<&str>> = HashMap::new();
    for node in &graph.nodes {
        for (_, tensor) in node.tensors() {
            users.entry(tensor).or_default().push(&node.name);
        }
    }
    users
}

/// A histogram as high as one line of text.
fn values(tensor: &TensorSummary) -> String {
    const HEIGHT: u64 = 16;
    let Some(histogram) = tensor.histogram.as_deref() else { return String::new() };
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
    let mark = if is_sampled(tensor) { "<span title=\"of a sample\">≈</span>" } else { "" };
    format!(
        "<svg class=\"spark\" viewBox=\"0 0 {} {HEIGHT}\" preserveAspectRatio=\"none\"><path d=\"{path}V{HEIGHT}Z\"/></svg>{mark}",
        Histogram::BINS
    )
}

/// What the script shows of a tensor when it is opened, as attributes of its row.
fn details(tensor: &TensorSummary) -> String {
    let mut text = String::new();
    let (Some(stats), Some(histogram)) = (&tensor.stats, &tensor.histogram) else { return text };
    if let (Some(low), Some(high)) = (stats.min, stats.max) {
        let counts: Vec<String> = histogram.counts.iter().map(ToString::to_string).collect();
        let (low, high) = (element(tensor, Some(low)), element(tensor, Some(high)));
        let _ = write!(text, " data-counts=\"{}\" data-low=\"{low}\" data-high=\"{high}\"", counts.join(" "));
    }
    let Some(preview) = &tensor.preview else { return text };
    let first: Vec<String> = preview.first.iter().map(|value| element(tensor, Some(*value))).collect();
    let more = if tensor.shape.elements() > Preview::FIRST { " …" } else { "" };
    let _ = write!(text, " data-first=\"{}{more}\"", first.join("  "));
    if !preview.levels.is_empty() {
        let levels: String = preview.levels.iter().map(|level| char::from(b'0' + level.min(&63))).collect();
        let [rows, columns] = preview.sampled;
        let all = tensor.shape.first().copied().unwrap_or(1).max(1);
        let _ = write!(
            text,
            " data-map=\"{}\" data-rows=\"{rows}\" data-of=\"{rows} of {} rows, {columns} of {} columns\" data-largest=\"{}\"",
            escaped(&levels),
            whole(all),
            whole(tensor.shape.elements() / all),
            number_of(tensor.dtype, preview.largest)
        );
    }
    text
}

fn number_of(dtype: DType, value: f64) -> String {
    if dtype.is_float() || value.fract() != 0.0 { number(value) } else { value.to_string() }
}
