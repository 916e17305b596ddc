//! Renders a report as one page of HTML.

mod cells;
mod plot;
#[cfg(test)]
mod tests;

use super::{Argmax, Check, Comparison, Layer, Model, Report, Run, TensorPair, TensorReport, TensorSide};
use crate::diff::{Outcome, TensorDifference};
use crate::html::{code, document, escaped, number, table};
use crate::words::dtype;
use cells::{cell, count, measure, shape, sorted};
use std::fmt::Write;

/// Returns the page. Names are shown as text, whatever they contain.
pub fn page(report: &Report) -> String {
    let title = format!("{} and {}", escaped(&report.a.path), escaped(&report.b.path));
    let mut body = summary(report, &title);
    for (number, run) in report.runs.iter().enumerate() {
        body += &section(run, number, report.runs.len() > 1);
    }
    if let Some(tensors) = &report.tensors {
        body += &compared_tensors(tensors);
    }
    document(&format!("{}: {title}", report.verdict.name()), "", &body)
}

fn summary(report: &Report, title: &str) -> String {
    let mut text = format!("<h1>{title}</h1>\n<p class=\"verdict\">{}", badge(report.verdict.name()));
    let failed: usize =
        report.runs.iter().map(|run| run.layers.iter().filter(|layer| !layer.verdict.passes()).count()).sum();
    let layers: usize = report.runs.iter().map(|run| run.layers.len()).sum();
    if layers > 0 {
        let _ = write!(text, "<span>{failed} of {layers} layers fail</span>");
    }
    text += "</p>\n";
    for (number, run) in report.runs.iter().enumerate() {
        text += &divergence(run, number, report.runs.len() > 1);
    }
    let model = |side: &str, model: &Model| {
        let nodes = model.nodes.map_or_else(|| "no graph".to_owned(), |nodes| nodes.to_string());
        format!(
            "<tr><td>{side}</td><td class=\"name\">{}</td><td>{}</td><td class=\"number\">{}</td><td \
             class=\"number\">{nodes}</td></tr>\n",
            code(&model.path),
            escaped(&model.format),
            model.tensors
        )
    };
    let head = [("", false), ("checkpoint", false), ("format", false), ("tensors", true), ("layers", true)];
    text += &table("", &head, &(model("reference", &report.a) + &model("compared", &report.b)));
    if let Some(mapping) = &report.mapping {
        let _ = writeln!(text, "<p>Names mapped by {}.</p>", code(mapping));
    }
    if !report.inputs.is_empty() {
        let row = |input: &super::InputSummary| {
            format!(
                "<tr><td class=\"name\">{}</td><td>{}</td><td>{}</td></tr>\n",
                code(&input.name),
                shape(&input.shape),
                escaped(&input.origin)
            )
        };
        let rows: String = report.inputs.iter().map(row).collect();
        text += &table("", &[("input", false), ("shape", false), ("values", false)], &rows);
    }
    for note in &report.notes {
        let _ = writeln!(text, "<p>{}</p>", escaped(note));
    }
    text
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
    let reason = layer.diagnosis.as_ref().map(|diagnosis| format!(" {}", escaped(&diagnosis.reason)));
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
        "<h2>{} {}</h2>\n<dl><dt>reference</dt><dd>{}</dd><dt>rule</dt><dd><strong>{}</strong>: \
         {}</dd></dl>\n<details><summary>Formulas</summary><dl><dt>layers</dt><dd>{}</dd><dt>outputs</dt><dd>{}</dd></dl></details>\n",
        escaped(&run.device.to_string()),
        // Of a single run, the report states the verdict.
        if has_others { badge(run.verdict.name()) } else { String::new() },
        escaped(&run.reference.to_string()),
        run.rule.name.name(),
        escaped(&run.rule.reason),
        escaped(&run.rule.layers),
        escaped(&run.rule.outputs)
    );
    text += &outputs(run);
    if run.layers.is_empty() {
        return text;
    }
    text += "<h3>Layers</h3>\n";
    text += "<p class=\"muted\">Relative L2 error of each layer, computed from the reference's inputs. Diamonds mark \
             layers that fail.</p>\n";
    text += &plot::errors(&run.layers, run.first_divergence, &anchor);
    let rows: String =
        run.layers.iter().enumerate().map(|(index, layer)| row(layer, index, &anchor)).collect();
    let metrics =
        ["max abs", "max rel", "RMS", "rel L2", "cosine", "ULP", "of limit"].map(|name| (name, true));
    let head = [("#", true), ("layer", false), ("op", false), ("verdict", false)];
    text += &table("sortable", &[&head[..], &metrics].concat(), &rows);
    for (index, layer) in run.layers.iter().enumerate() {
        text += &details(layer, index, &anchor);
    }
    text
}

fn outputs(run: &Run) -> String {
    let mut text = "<h3>Outputs, end to end</h3>\n".to_owned();
    for output in &run.outputs {
        let name = if output.a == output.b {
            code(&output.a)
        } else {
            format!("{} and {}", code(&output.a), code(&output.b))
        };
        let verdict = badge(output.comparison.verdict.name());
        let _ = writeln!(text, "<details open><summary>{name} {verdict}</summary>");
        if let Some(argmax) = &output.argmax {
            let _ = writeln!(text, "<p>{}</p>", agreement(argmax));
        }
        text += &comparison(&output.comparison);
        text += "</details>\n";
    }
    text
}

fn agreement(argmax: &Argmax) -> String {
    format!(
        "The largest element is at the same place in {} of {} rows, and in {} of the {} rows whose margin exceeds the \
         allowed error.",
        argmax.agreeing, argmax.rows, argmax.decided_agreeing, argmax.decided
    )
}

/// The names of a layer on both sides, once if they are the same.
fn title(layer: &Layer) -> String {
    match (&layer.a, &layer.b) {
        (Some(a), Some(b)) if a != b => format!("{} and {}", code(a), code(b)),
        (Some(name), Some(_)) => code(name),
        (Some(name), None) => format!("{} (only in the reference)", code(name)),
        (None, Some(name)) => format!("{} (not in the reference)", code(name)),
        (None, None) => code(&layer.value),
    }
}

fn row(layer: &Layer, index: usize, anchor: &str) -> String {
    let verdict = layer.verdict.name();
    let mut text = format!(
        "<tr class=\"{verdict}\"><td class=\"number\">{}</td><td class=\"name\"><a \
         href=\"#{anchor}{index}\">{}</a></td><td>{}</td><td>{}</td>",
        index + 1,
        title(layer),
        escaped(&layer.op),
        badge(verdict)
    );
    let metrics = layer.comparison.as_ref().map(|comparison| &comparison.metrics);
    text += &cell(metrics.map(|metrics| metrics.max_absolute));
    text += &cell(metrics.map(|metrics| metrics.max_relative));
    text += &cell(metrics.map(|metrics| metrics.rms));
    text += &cell(metrics.and_then(|metrics| metrics.relative_l2));
    text += &cosine(metrics.and_then(|metrics| metrics.cosine));
    text += &count(metrics.and_then(|metrics| metrics.max_ulp));
    text += &cell(layer.comparison.as_ref().and_then(used));
    text + "</tr>\n"
}

/// The largest share of its limit that a check uses; `None` if there is none, or for NaN.
fn used(comparison: &Comparison) -> Option<f64> {
    let share = |check: &Check| match check.found? {
        0.0 => Some(0.0),
        found => Some(found / check.limit),
    };
    let shares = comparison.checks.iter().map(share).collect::<Option<Vec<f64>>>()?;
    shares.into_iter().reduce(f64::max)
}

fn details(layer: &Layer, index: usize, anchor: &str) -> String {
    let open = if layer.verdict.passes() { "" } else { " open" };
    let mut text = format!(
        "<details id=\"{anchor}{index}\"{open}><summary>{}. {} <span class=\"muted\">{}</span> {}</summary>\n",
        index + 1,
        title(layer),
        escaped(&layer.op),
        badge(layer.verdict.name())
    );
    if let Some(diagnosis) = &layer.diagnosis {
        let _ = writeln!(text, "<div class=\"diagnosis\"><p>{}</p>", escaped(&diagnosis.reason));
        for tensor in &diagnosis.tensors {
            let largest = tensor.max_absolute.map_or_else(|| "NaN".to_owned(), number);
            let _ = write!(
                text,
                "<p>{} {} and {}: {} of {} elements differ, by at most {largest}, first at {}",
                escaped(&tensor.role),
                code(&tensor.a),
                code(&tensor.b),
                tensor.differing,
                tensor.elements,
                shape(&tensor.first)
            );
            for more in [&tensor.cause, &tensor.mapped_by].into_iter().flatten() {
                let _ = write!(text, "; {}", escaped(more));
            }
            text += "</p>\n";
        }
        text += "</div>\n";
    }
    if !layer.tensors.is_empty() {
        let rows: String = layer.tensors.iter().map(pair).collect();
        let head = [("role", false), ("reference", false), ("compared", false), ("mapped by", false)];
        text += &table("", &head, &rows);
    }
    if let Some(found) = &layer.comparison {
        text += &comparison(found);
    }
    text + "</details>\n"
}

fn pair(pair: &TensorPair) -> String {
    let side = |side: &Option<TensorSide>| {
        side.as_ref().map_or_else(String::new, |side| {
            let scale = side.scale.map_or_else(String::new, |scale| format!(" at {}", number(scale)));
            format!("{} {}{scale} {}", code(&side.name), side.dtype, shape(&side.shape))
        })
    };
    format!(
        "<tr><td>{}</td><td class=\"name\">{}</td><td class=\"name\">{}</td><td class=\"name\">{}</td></tr>\n",
        escaped(&pair.role),
        side(&pair.a),
        side(&pair.b),
        escaped(pair.mapped_by.as_deref().unwrap_or_default())
    )
}

fn comparison(found: &Comparison) -> String {
    let metrics = &found.metrics;
    let mut text = "<dl class=\"figure\">".to_owned();
    let mut line = |name: &str, value: String| {
        let _ = write!(text, "<dt>{name}</dt><dd>{value}</dd>");
    };
    line("shape", shape(&found.shape));
    line("elements", format!("{}, of which {} differ", metrics.elements, metrics.differing));
    line(
        "largest error",
        format!("{} absolute, {} relative", number(metrics.max_absolute), number(metrics.max_relative)),
    );
    line("RMS", number(metrics.rms));
    line("relative L2", measure(metrics.relative_l2));
    line("max|e| / max|y|", measure(metrics.relative_max));
    line("cosine", nines(metrics.cosine));
    line("ULP", metrics.max_ulp.map_or_else(|| "n/a".to_owned(), |ulp| ulp.to_string()));
    if let Some(place) = &metrics.worst {
        let (reference, value) = (escaped(&place.reference), escaped(&place.found));
        line("where", format!("{}: {value} instead of {reference}", shape(&place.index)));
    }
    text += "</dl>\n";
    if !found.checks.is_empty() {
        let row = |check: &Check| {
            format!(
                "<tr><td>{}</td><td class=\"number\">{}</td><td class=\"number\">{}</td><td>{}</td><td>{}</td></tr>\n",
                escaped(&check.name),
                measure(check.found),
                number(check.limit),
                plot::check(check.found, check.limit),
                badge(if check.holds() { "pass" } else { "fail" })
            )
        };
        let rows: String = found.checks.iter().map(row).collect();
        let head = [("check", false), ("found", true), ("limit", true), ("", false), ("", false)];
        text += &table("", &head, &rows);
    }
    if metrics.differing == 0 {
        return text;
    }
    text + "<p class=\"muted\">Elements by magnitude of error</p>\n" + &plot::histogram(&found.histogram)
}

fn compared_tensors(report: &TensorReport) -> String {
    let difference = &report.difference;
    let equal = difference.tensors.iter().filter(|tensor| tensor.outcome == Outcome::Equal).count();
    let mut text = format!(
        "<h2>Tensors</h2>\n<p>{}</p>\n<p>{equal} of {} common tensors are equal.</p>\n",
        escaped(&report.reason),
        difference.tensors.len()
    );
    for (side, names) in
        [("the reference", &difference.only_in_a), ("the compared checkpoint", &difference.only_in_b)]
    {
        if !names.is_empty() {
            let names: Vec<String> = names.iter().map(|name| code(name)).collect();
            let _ = writeln!(text, "<p>Only in {side}: {}</p>", names.join(", "));
        }
    }
    if !difference.incidental.is_empty() {
        let names: Vec<String> = difference.incidental.iter().map(|name| code(name)).collect();
        let _ = writeln!(
            text,
            "<p>No difference, as they are of bookkeeping or training: {}</p>",
            names.join(", ")
        );
    }
    let other = difference.tensors.iter().filter(|tensor| tensor.outcome != Outcome::Equal);
    let rows: String = other.map(tensor).collect();
    if !rows.is_empty() {
        let numbers = ["differing", "outside", "max abs", "first"].map(|name| (name, true));
        let head = [("tensor", false), ("reference", false), ("compared", false), ("", false)];
        text += &table("sortable", &[&head[..], &numbers].concat(), &rows);
    }
    text
}

fn tensor(tensor: &TensorDifference) -> String {
    let (verdict, word, distance) = match &tensor.outcome {
        Outcome::Equal => ("pass", "equal", None),
        Outcome::Close(distance) => ("pass", "close", Some(distance)),
        Outcome::Different(distance) => ("fail", "different", Some(distance)),
        Outcome::Incomparable => ("fail", "other dtype, scale or shape", None),
    };
    let side = |(own, lens): &(ckpt_api::DType, ckpt_api::Shape), scale| {
        format!("{} {}", dtype(*own, scale), shape(lens))
    };
    let mut text = format!(
        "<tr class=\"{verdict}\"><td class=\"name\">{}</td><td>{}</td><td>{}</td><td><span class=\"badge \
         {verdict}\">{word}</span></td>",
        code(&tensor.name),
        side(&tensor.a, tensor.scale_a),
        side(&tensor.b, tensor.scale_b)
    );
    text += &count(distance.map(|distance| distance.differing));
    text += &count(distance.map(|distance| distance.outside));
    text += &cell(distance.map(|distance| distance.max_absolute));
    text += &count(distance.map(|distance| distance.first));
    text + "</tr>\n"
}

fn badge(verdict: &str) -> String {
    format!("<span class=\"badge {verdict}\">{}</span>", escaped(&verdict.replace('-', " ")))
}

/// The cell of a cosine, whose digits after many nines matter.
fn cosine(value: Option<f64>) -> String {
    sorted(value, &nines(value))
}

fn nines(value: Option<f64>) -> String {
    value.map_or_else(|| "n/a".to_owned(), |value| format!("{value:.9}"))
}
