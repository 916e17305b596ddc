//! The layers of a run: a table, and a section for each. Of many layers, the page shows those that fail and a sample.

use super::cells::{Measured, badge, cell, name, nines, shape};
use super::figures::comparison;
use super::plot;
use crate::report::{Check, Comparison, Layer, TensorDiagnosis, TensorPair, TensorSide};
use ckpt_engine::words::quote;
use ckpt_html::{counted, escaped, long_table, number, shortened, table, whole};
use std::collections::BTreeSet;
use std::fmt::Write;

/// Most layers on a page.
pub(super) const SHOWN: usize = 500;
/// Most layers that fail whose sections are open, before the table.
const FIRST: usize = 10;
/// Most tensors that a layer's diagnosis lists.
const TENSORS: usize = 20;

/// Returns the section; the ids of layers start with `anchor`.
pub(super) fn section(layers: &[Layer], first: Option<usize>, anchor: &str) -> String {
    let mut text = "<h3>Layers</h3>\n".to_owned();
    let shown = shown(layers);
    text += &plot::errors(layers, first, &shown, anchor);
    text += &note(layers, &shown);
    let chosen: Vec<(usize, &Layer)> =
        shown.iter().filter_map(|index| Some((*index, layers.get(*index)?))).collect();
    let list = listed(&chosen, anchor);
    let (failing, others): (Vec<_>, Vec<_>) =
        chosen.into_iter().partition(|(_, layer)| !layer.verdict.passes());
    let (first, more) = failing.split_at(failing.len().min(FIRST));
    text.extend(first.iter().map(|(index, layer)| details(layer, *index, anchor, true)));
    text += &list;
    text.extend(more.iter().map(|(index, layer)| details(layer, *index, anchor, false)));
    if !others.is_empty() {
        let what = if failing.is_empty() { "Each layer" } else { "Each layer that does not fail" };
        let _ = writeln!(text, "<details class=\"others\"><summary>{what}</summary>");
        text.extend(others.iter().map(|(index, layer)| details(layer, *index, anchor, false)));
        text += "</details>\n";
    }
    text
}

/// The layers that a page shows: all of few; of many, those that fail first, then others at equal distances.
fn shown(layers: &[Layer]) -> BTreeSet<usize> {
    if layers.len() <= SHOWN {
        return (0..layers.len()).collect();
    }
    let (others, failing): (Vec<usize>, Vec<usize>) =
        (0..layers.len()).partition(|index| layers.get(*index).is_some_and(|layer| layer.verdict.passes()));
    let mut shown: BTreeSet<usize> = failing.into_iter().take(SHOWN).collect();
    let room = SHOWN - shown.len();
    shown.extend((0..room).filter_map(|part| others.get(part * others.len() / room)));
    shown
}

/// States what the page leaves out; nothing if it shows all layers.
fn note(layers: &[Layer], shown: &BTreeSet<usize>) -> String {
    if shown.len() == layers.len() {
        return String::new();
    }
    let fails = |layer: &&Layer| !layer.verdict.passes();
    let failing = layers.iter().filter(fails).count();
    let listed = shown.iter().filter_map(|index| layers.get(*index)).filter(fails).count();
    let failing = match (failing, listed) {
        (0, _) => "none fails, and these are a sample at equal distances".to_owned(),
        (all, listed) if all == listed => {
            format!("the {} that fail, and a sample of the others at equal distances", whole(all as u64))
        }
        (all, listed) => format!("the first {} of {} that fail", whole(listed as u64), whole(all as u64)),
    };
    format!(
        "<p>This page shows {} of {} layers: {failing}. The report in JSON has all.</p>\n",
        whole(shown.len() as u64),
        whole(layers.len() as u64)
    )
}

/// The names of a layer on both sides, once if they are the same.
pub(super) fn title(layer: &Layer) -> String {
    match (&layer.a, &layer.b) {
        (Some(a), Some(b)) if a != b => format!("{} and {}", name(a), name(b)),
        (Some(both), Some(_)) => name(both),
        (Some(own), None) => format!("{} (only in the reference)", name(own)),
        (None, Some(own)) => format!("{} (not in the reference)", name(own)),
        (None, None) => name(&layer.value),
    }
}

/// A column of figures: its heading, its class, and its value.
type Column = (&'static str, &'static str, fn(&Comparison) -> Measured);

const COLUMNS: [Column; 7] = [
    ("max abs", "number", |found| match found.metrics.not_finite {
        0 => Measured::number(Some(found.metrics.max_absolute)),
        _ => Measured::text("NaN, inf"),
    }),
    ("max rel", "aside number", |found| finite(found, Some(found.metrics.max_relative))),
    ("RMS", "wide number", |found| finite(found, Some(found.metrics.rms))),
    ("rel L2", "aside number", |found| finite(found, found.metrics.relative_l2)),
    ("cosine", "wide number", |found| {
        let cosine = finite(found, found.metrics.cosine);
        Measured { shown: nines(cosine.value), ..cosine }
    }),
    ("ULP", "wide number", |found| Measured::count(found.metrics.max_ulp)),
    ("of limit", "aside number", |found| Measured::number(used(found))),
];

/// A measure of the elements that are finite on both sides, if there are any.
fn finite(found: &Comparison, value: Option<f64>) -> Measured {
    Measured::number(value.filter(|_| found.metrics.not_finite < found.metrics.elements.max(1)))
}

fn listed(layers: &[(usize, &Layer)], anchor: &str) -> String {
    let compared = || layers.iter().filter_map(|(_, layer)| layer.comparison.as_ref());
    // Columns without values go.
    let columns: Vec<&Column> =
        COLUMNS.iter().filter(|(_, _, value)| compared().any(|found| value(found).value.is_some())).collect();
    let mut head = vec![("#", "number"), ("layer", ""), ("op", "aside"), ("verdict", "")];
    head.extend(columns.iter().map(|(heading, class, _)| (*heading, *class)));
    let row = |(index, layer): &(usize, &Layer)| {
        let verdict = layer.verdict.name();
        let mut text = format!(
            "<tr class=\"{verdict}\"><td class=\"number\">{}</td><td class=\"name\"><a \
             href=\"#{anchor}{index}\">{}</a></td><td class=\"aside\">{}</td><td>{}</td>",
            whole(*index as u64 + 1),
            title(layer),
            escaped(&shortened(&layer.op)),
            badge(verdict)
        );
        for (_, class, value) in &columns {
            text += &match &layer.comparison {
                Some(found) => cell(class, &value(found)),
                None => cell(class, &Measured::number(None)),
            };
        }
        text + "</tr>\n"
    };
    let rows: Vec<String> = layers.iter().map(row).collect();
    long_table(&format!("{anchor}s"), &head, &rows)
}

/// The largest share of its limit that a check uses; `None` if there is none, or for NaN. A limit of 0 has no share.
fn used(comparison: &Comparison) -> Option<f64> {
    let limited = comparison.checks.iter().filter(|check| check.limit > 0.0);
    let share = |check: &Check| Some(check.found? / check.limit);
    limited.map(share).collect::<Option<Vec<f64>>>()?.into_iter().reduce(f64::max)
}

fn details(layer: &Layer, index: usize, anchor: &str, open: bool) -> String {
    let open = if open { " open" } else { "" };
    let mut text = format!(
        "<details id=\"{anchor}{index}\"{open}><summary>{}. {} <span class=\"muted\">{}</span> {}</summary>\n",
        index + 1,
        title(layer),
        escaped(&shortened(&layer.op)),
        badge(layer.verdict.name())
    );
    if let Some(diagnosis) = &layer.diagnosis {
        let _ = writeln!(text, "<div class=\"diagnosis\"><p>{}</p>", escaped(&shortened(&diagnosis.reason)));
        // The reason describes most of them.
        let is_new = |tensor: &&TensorDiagnosis| !diagnosis.reason.contains(&quote(&tensor.b));
        for tensor in diagnosis.tensors.iter().take(TENSORS).filter(is_new) {
            let largest = tensor.max_absolute.map_or_else(|| "NaN".to_owned(), number);
            let _ = write!(
                text,
                "<p>{} {} and {}: {} of {} elements differ, by at most {largest}, first at {}",
                escaped(&shortened(&tensor.role)),
                name(&tensor.a),
                name(&tensor.b),
                whole(tensor.differing),
                whole(tensor.elements),
                shape(&tensor.first)
            );
            for more in [&tensor.cause, &tensor.mapped_by].into_iter().flatten() {
                let _ = write!(text, "; {}", escaped(&shortened(more)));
            }
            text += "</p>\n";
        }
        if let Some(more) = diagnosis.tensors.len().checked_sub(TENSORS).filter(|more| *more > 0) {
            let _ = writeln!(text, "<p>{} differ, too.</p>", counted(more, "more tensor"));
        }
        text += "</div>\n";
    }
    if !layer.tensors.is_empty() {
        let rows: String = layer.tensors.iter().take(TENSORS).map(pair).collect();
        let mut head = vec![("role", false), ("reference", false), ("compared", false)];
        head.extend(
            layer.tensors.iter().any(|pair| pair.mapped_by.is_some()).then_some(("mapped by", false)),
        );
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
            let stored =
                side.stored_as.as_ref().map(|stored| format!("<br>from {}", escaped(&shortened(stored))));
            let stored = stored.unwrap_or_default();
            format!("{} {}{scale} {}{stored}", name(&side.name), side.dtype, shape(&side.shape))
        })
    };
    let mapped_by = pair.mapped_by.as_ref();
    let mapped_by = mapped_by.map(|rule| format!("<td class=\"name\">{}</td>", escaped(&shortened(rule))));
    format!(
        "<tr><td>{}</td><td class=\"name\">{}</td><td class=\"name\">{}</td>{}</tr>\n",
        escaped(&shortened(&pair.role)),
        side(&pair.a),
        side(&pair.b),
        mapped_by.unwrap_or_default()
    )
}
