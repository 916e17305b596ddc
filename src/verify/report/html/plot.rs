//! Plots as inline SVG. The tables hold the same figures.

use super::cells::measure;
use crate::html::{escaped, number};
use crate::verify::report::{Histogram, Layer};
use std::fmt::Write;

/// Plots the relative error of each layer, in order, on a logarithmic axis. Dots link to the layers' sections, whose
/// ids start with `anchor`. Empty if no layer was compared.
pub(super) fn errors(layers: &[Layer], first: Option<usize>, anchor: &str) -> String {
    let errors: Vec<Option<f64>> = layers.iter().map(error).collect();
    let Some(axis) = Axis::of(errors.iter().flatten().copied()) else { return String::new() };
    let step = (900.0 / layers.len().max(1) as f64).clamp(4.0, 48.0);
    let width = LEFT + step * layers.len() as f64 + 12.0;
    let mut svg = format!(
        "<div class=\"scroll\" tabindex=\"0\"><svg width=\"{width:.0}\" viewBox=\"0 0 {width:.0} {HEIGHT}\" role=\"img\" aria-label=\"Relative error of each layer\">\n"
    );
    axis.draw(&mut svg, width);
    for (index, (layer, error)) in layers.iter().zip(&errors).enumerate() {
        let x = LEFT + step * (index as f64 + 0.5);
        if first == Some(index) {
            let _ = writeln!(
                svg,
                "<line class=\"first\" x1=\"{x:.1}\" y1=\"{TOP}\" x2=\"{x:.1}\" y2=\"{BOTTOM}\"/><text x=\"{:.1}\" y=\"{}\">first divergence</text>",
                x + 4.0,
                TOP - 4.0
            );
        }
        let Some(error) = *error else { continue };
        let y = axis.y(error);
        let name = escaped(layer.a.as_deref().or(layer.b.as_deref()).unwrap_or_default());
        let verdict = layer.verdict.name();
        let mark = if layer.verdict.passes() {
            format!(
                "<circle class=\"dot\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{:.1}\"/>",
                (step * 0.4).clamp(2.0, 4.0)
            )
        } else {
            // Shape, not only color, marks a failure.
            let r = (step * 0.5).clamp(3.0, 6.0);
            let (left, right, top, bottom) = (x - r, x + r, y - r, y + r);
            format!(
                "<path class=\"dot fail\" d=\"M{x:.1} {top:.1}L{right:.1} {y:.1}L{x:.1} {bottom:.1}L{left:.1} {y:.1}Z\"/>"
            )
        };
        let _ = writeln!(
            svg,
            "<a href=\"#{anchor}{index}\"><title>{name}: {} ({verdict})</title>{mark}</a>",
            number(error)
        );
    }
    svg + "</svg></div>\n"
}

/// `‖e‖₂ / ‖reference‖₂`, or the largest error where the reference is 0.
fn error(layer: &Layer) -> Option<f64> {
    let metrics = &layer.comparison.as_ref()?.metrics;
    Some(metrics.relative_l2.unwrap_or(metrics.max_absolute)).filter(|error| error.is_finite())
}

const LEFT: f64 = 48.0;
const TOP: f64 = 20.0;
const BOTTOM: f64 = 200.0;
const HEIGHT: f64 = 216.0;
/// Height of 0, below the logarithmic axis.
const ZERO: f64 = BOTTOM - 8.0;

/// A logarithmic axis from `10^low` to `10^high`.
struct Axis {
    low: i32,
    high: i32,
}

impl Axis {
    /// Returns the axis for these values; `None` if there are none.
    fn of(values: impl Iterator<Item = f64> + Clone) -> Option<Self> {
        values.clone().next()?;
        let decades = values.filter(|value| *value > 0.0).map(decade);
        let (low, high) =
            decades.fold((0, -12), |(low, high): (i32, i32), at| (low.min(at), high.max(at + 1)));
        let low = low.max(high.saturating_sub(24)).min(high - 3);
        Some(Axis { low, high })
    }

    fn y(&self, value: f64) -> f64 {
        if value <= 0.0 {
            return ZERO;
        }
        let part = (value.log10() - f64::from(self.low)) / f64::from(self.high - self.low);
        let bottom = ZERO - 20.0;
        bottom - part.clamp(0.0, 1.0) * (bottom - TOP)
    }

    fn draw(&self, svg: &mut String, width: f64) {
        let every = usize::try_from((self.high - self.low) / 8 + 1).unwrap_or(1);
        let decades =
            (self.low..=self.high).step_by(every).map(|at| (self.y(10f64.powi(at)), format!("1e{at}")));
        for (y, label) in decades.chain([(ZERO, "0".to_owned())]) {
            let _ = writeln!(
                svg,
                "<line class=\"grid\" x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{width:.0}\" y2=\"{y:.1}\"/><text x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
                LEFT - 6.0,
                y + 4.0
            );
        }
    }
}

fn decade(value: f64) -> i32 {
    // Exponents of doubles fit.
    value.log10().floor() as i32
}

/// Plots the number of elements for each magnitude of error.
pub(super) fn histogram(histogram: &Histogram) -> String {
    let bars = bars(histogram);
    let most = bars.iter().map(|(_, count, _)| *count).max().unwrap_or(0).max(1);
    let (step, height) = (44.0, 110.0);
    let width = step * bars.len() as f64;
    let mut svg = format!(
        "<div class=\"scroll\" tabindex=\"0\"><svg width=\"{width:.0}\" viewBox=\"0 0 {width:.0} {:.0}\" role=\"img\" aria-label=\"Elements by magnitude of error\">\n",
        height + 36.0
    );
    for (index, (label, count, wrong)) in bars.iter().enumerate() {
        let x = step * index as f64;
        // The square root keeps small counts visible.
        let tall = if *count == 0 { 0.0 } else { (*count as f64 / most as f64).sqrt() * height };
        let (y, class) = (
            18.0 + height - tall.max(if *count == 0 { 0.0 } else { 1.0 }),
            if *wrong { " wrong" } else { "" },
        );
        let _ = writeln!(
            svg,
            "<rect class=\"bar{class}\" x=\"{:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{tall:.1}\"><title>{label}: {count}</title></rect><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{label}</text>",
            x + 4.0,
            step - 8.0,
            x + step / 2.0,
            y - 4.0,
            short(*count),
            x + step / 2.0,
            height + 32.0,
        );
    }
    svg + "</svg></div>\n"
}

/// The label and the count of each bar, and whether it counts NaN and infinities.
fn bars(histogram: &Histogram) -> Vec<(String, u64, bool)> {
    const MOST: i64 = 40;
    let decades = &histogram.decades;
    let ends = decades.first().zip(decades.last()).map(|(first, last)| (first.exponent, last.exponent));
    let mut bars = vec![("0".to_owned(), histogram.exact, false)];
    let label = |exponent: i32| format!("1e{exponent}");
    match ends {
        Some((first, last)) if i64::from(last) - i64::from(first) < MOST => {
            bars.extend((first..=last).map(|at| {
                let count =
                    decades.iter().find(|decade| decade.exponent == at).map_or(0, |decade| decade.count);
                (label(at), count, false)
            }))
        }
        _ => bars.extend(decades.iter().map(|decade| (label(decade.exponent), decade.count, false))),
    }
    if histogram.not_finite > 0 {
        bars.push(("NaN, inf".to_owned(), histogram.not_finite, true));
    }
    bars
}

/// A count, short enough for a bar.
fn short(count: u64) -> String {
    match count {
        0 => String::new(),
        count if count < 10_000 => count.to_string(),
        count => number(count as f64),
    }
}

/// Plots a check as a bar with a mark at its limit; nothing if the limit is 0, which has no scale.
pub(super) fn check(found: Option<f64>, limit: f64) -> String {
    if limit <= 0.0 {
        return String::new();
    }
    let part = match found {
        Some(found) => found / limit,
        None => f64::INFINITY,
    };
    let (width, at) = (160.0, 120.0);
    let long = (part * at).clamp(0.0, width);
    let class = if part <= 1.0 { "" } else { " wrong" };
    format!(
        "<svg width=\"{width}\" height=\"12\" viewBox=\"0 0 {width} 12\" role=\"img\" aria-label=\"{} of {}\"><rect class=\"bar{class}\" x=\"0\" y=\"3\" width=\"{long:.1}\" height=\"6\"/><line class=\"limit\" x1=\"{at}\" y1=\"0\" x2=\"{at}\" y2=\"12\"/></svg>",
        measure(found),
        number(limit)
    )
}
