//! Renders a report as one page of HTML.

mod cells;
mod figures;
mod layers;
mod plot;
mod tensors;
#[cfg(test)]
mod tests;

use super::{Argmax, Model, Report, Run};
use cells::{badge, name, shape};
use ckpt_engine::words::verb;
use ckpt_html::{counted, document, escaped, shortened, whole};
use figures::comparison;
use layers::title;
use std::fmt::Write;

/// Most outputs of a run on a page.
const OUTPUTS: usize = 200;
/// Most outputs that are open at first, unless they fail.
const OPEN: usize = 8;

/// Returns the page. Names are shown as text, whatever they contain.
pub fn page(report: &Report) -> String {
    let title =
        format!("{} and {}", escaped(&shortened(&report.a.path)), escaped(&shortened(&report.b.path)));
    let mut body = summary(report, &title);
    for (number, run) in report.runs.iter().enumerate() {
        body += &section(run, number, report.runs.len() > 1);
    }
    if let Some(tensors) = &report.tensors {
        body += &tensors::section(tensors);
    }
    document(&format!("{}: {title}", report.verdict.name()), "", &body)
}

fn summary(report: &Report, title: &str) -> String {
    let mut text = format!("<h1>{title}</h1>\n<p class=\"verdict\">{}", badge(report.verdict.name()));
    let failed: usize =
        report.runs.iter().map(|run| run.layers.iter().filter(|layer| !layer.verdict.passes()).count()).sum();
    let layers: usize = report.runs.iter().map(|run| run.layers.len()).sum();
    if layers > 0 {
        let fail = verb(failed, "fails", "fail");
        let _ = write!(text, "<span>{} of {} {fail}</span>", whole(failed as u64), counted(layers, "layer"));
    }
    if let Some(tensors) = &report.tensors {
        let _ = write!(text, "<span>{}</span>", tensors::verdict(&tensors.difference));
    }
    text += "</p>\n";
    for (number, run) in report.runs.iter().enumerate() {
        text += &divergence(run, number, report.runs.len() > 1);
    }
    text += "<dl>";
    for (side, model) in [("reference", &report.a), ("compared", &report.b)] {
        let _ = write!(text, "<dt>{side}</dt><dd>{}</dd>", described(model));
    }
    if let Some(mapping) = &report.mapping {
        let _ = write!(text, "<dt>names mapped by</dt><dd>{}</dd>", name(mapping));
    }
    for input in &report.inputs {
        let (own, origin) = (name(&input.name), escaped(&shortened(&input.origin)));
        let _ = write!(text, "<dt>input</dt><dd>{own} {}: {origin}</dd>", shape(&input.shape));
    }
    text += "</dl>\n";
    for note in &report.notes {
        let _ = writeln!(text, "<p>{}</p>", escaped(&shortened(note.as_str())));
    }
    text
}

fn described(model: &Model) -> String {
    let layers = model.nodes.map_or_else(|| "no graph".to_owned(), |nodes| counted(nodes, "layer"));
    let tensors = counted(model.tensors, "tensor");
    format!("{} ({}, {tensors}, {layers})", name(&model.path), escaped(&model.format))
}

/// The start of the ids of a run's layers.
fn anchor(number: usize) -> String {
    format!("run{number}-layer")
}

/// Names the first layer that diverges, and the reason; nothing if all pass.
fn divergence(run: &Run, number: usize, has_others: bool) -> String {
    let Some((index, layer)) = run.first_divergence.and_then(|index| Some((index, run.layers.get(index)?)))
    else {
        return String::new();
    };
    let device = if has_others { format!(" on {}", escaped(&run.device.to_string())) } else { String::new() };
    let reason =
        layer.diagnosis.as_ref().map(|diagnosis| format!(" {}", escaped(&shortened(&diagnosis.reason))));
    format!(
        "<p class=\"diagnosis\">The first layer that diverges{device} is <a href=\"#{}{index}\">{}</a>:{}</p>\n",
        anchor(number),
        title(layer),
        reason.unwrap_or_else(|| " its outputs differ by more than the rule allows".to_owned())
    )
}

fn section(run: &Run, number: usize, has_others: bool) -> String {
    let anchor = anchor(number);
    let mut text = format!(
        "<h2>Run on {} {}</h2>\n<dl><dt>reference</dt><dd>{}</dd><dt>rule</dt><dd><strong>{}</strong>: \
         {}</dd></dl>\n<details><summary>Formulas</summary><dl><dt>layers</dt><dd>{}</dd><dt>outputs</dt><dd>{}</dd></dl></details>\n",
        escaped(&run.device.to_string()),
        // Of a single run, the report states the verdict.
        if has_others { badge(run.verdict.name()) } else { String::new() },
        escaped(&run.reference.to_string()),
        run.rule.name.name(),
        escaped(&shortened(run.rule.reason.as_str())),
        escaped(&run.rule.layers),
        escaped(&run.rule.outputs)
    );
    text += &outputs(run);
    if run.layers.is_empty() {
        return text;
    }
    text + &layers::section(&run.layers, run.first_divergence, &anchor)
}

fn outputs(run: &Run) -> String {
    let mut text = "<h3>Outputs, end to end</h3>\n".to_owned();
    for output in run.outputs.iter().take(OUTPUTS) {
        let names = if output.a == output.b {
            name(&output.a)
        } else {
            format!("{} and {}", name(&output.a), name(&output.b))
        };
        let verdict = badge(output.comparison.verdict.name());
        let open = if run.outputs.len() > OPEN && output.comparison.verdict.passes() { "" } else { " open" };
        let _ = writeln!(text, "<details{open}><summary>{names} {verdict}</summary>");
        if let Some(argmax) = &output.argmax {
            let _ = writeln!(text, "<p>{}</p>", agreement(argmax));
        }
        text += &comparison(&output.comparison);
        text += "</details>\n";
    }
    if run.outputs.len() > OUTPUTS {
        let (shown, all) = (whole(OUTPUTS as u64), whole(run.outputs.len() as u64));
        let _ = writeln!(text, "<p>This page shows the first {shown} of {all} outputs.</p>");
    }
    text
}

fn agreement(argmax: &Argmax) -> String {
    format!(
        "The largest element is at the same place in {} of {} rows, and in {} of the {} rows whose margin exceeds the \
         allowed error.",
        whole(argmax.agreeing as u64),
        whole(argmax.rows as u64),
        whole(argmax.decided_agreeing as u64),
        whole(argmax.decided as u64)
    )
}
