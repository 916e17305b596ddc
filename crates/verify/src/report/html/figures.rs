//! The figures of a comparison.

use super::cells::{badge, measure, nines, shape};
use super::plot;
use crate::report::{Check, Comparison, Metrics};
use ckpt_html::{escaped, number, table, whole};
use std::fmt::Write;

/// Describes how far the elements are from the reference, with the checks and a histogram.
pub(super) fn comparison(found: &Comparison) -> String {
    let metrics = &found.metrics;
    let mut text = "<dl class=\"figure\">".to_owned();
    let mut line = |name: &str, value: String| {
        let _ = write!(text, "<dt>{name}</dt><dd>{value}</dd>");
    };
    line("shape", shape(&found.shape));
    let elements = whole(metrics.elements);
    match metrics.differing {
        0 => line("elements", format!("{elements}, all equal bit for bit")),
        differing => {
            line("elements", format!("{elements}, of which {} differ", whole(differing)));
            errors(metrics, &mut line);
        }
    }
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

/// Adds a line for each measure of the errors.
fn errors(metrics: &Metrics, line: &mut impl FnMut(&str, String)) {
    if metrics.not_finite > 0 {
        let only = if metrics.not_finite < metrics.elements { "; the figures are of the others" } else { "" };
        line("not finite", format!("{} on one side only{only}", whole(metrics.not_finite)));
    }
    if metrics.not_finite < metrics.elements.max(1) {
        line(
            "largest error",
            format!("{} absolute, {} relative", number(metrics.max_absolute), number(metrics.max_relative)),
        );
        line("RMS", number(metrics.rms));
        line("relative L2", measure(metrics.relative_l2));
        line("max|e| / max|y|", measure(metrics.relative_max));
        line("cosine", nines(metrics.cosine));
    }
    if let Some(ulp) = metrics.max_ulp {
        line("ULP", whole(ulp));
    }
}
