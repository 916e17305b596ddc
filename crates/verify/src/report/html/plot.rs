//! Plots as inline SVG. The tables hold the same figures.

use super::cells::measure;
use crate::report::{Histogram, Layer};
use ckpt_html::{escaped, number, shortened, whole};
use std::collections::BTreeSet;
use std::fmt::Write;

/// Most marks of a plot.
const MARKS: usize = 600;

/// Plots the relative error of each layer, in order, on a logarithmic axis; of many layers, the largest error of
/// consecutive ones. Marks link to the sections of the layers that are `shown`, whose ids start with `anchor`. Empty if
/// no layer was compared, a sentence if none differs.
pub(super) fn errors(
    layers: &[Layer],
    first: Option<usize>,
    shown: &BTreeSet<usize>,
    anchor: &str,
) -> String {
    let errors: Vec<Option<f64>> = layers.iter().map(error).collect();
    let finite = errors.iter().flatten().copied().filter(|error| error.is_finite());
    if errors.iter().flatten().next().is_none() {
        return String::new();
    }
    let has_failing = layers.iter().any(|layer| !layer.verdict.passes());
    if !has_failing && errors.iter().flatten().all(|error| *error == 0.0) {
        return "<p>No layer that was compared differs.</p>\n".to_owned();
    }
    let axis = Axis::of(finite, errors.iter().flatten().any(|error| error.is_infinite()));
    let each = layers.len().div_ceil(MARKS).max(1);
    let count = layers.len().div_ceil(each);
    let step = (900.0 / count.max(1) as f64).clamp(4.0, 28.0);
    let width = LEFT + step * count as f64 + 12.0;
    let mut svg = caption(each, has_failing);
    let _ = writeln!(
        svg,
        "<div class=\"scroll\" tabindex=\"0\"><svg width=\"{width:.0}\" height=\"{HEIGHT}\" viewBox=\"0 0 {width:.0} {HEIGHT}\" role=\"img\" aria-label=\"Relative error of each layer\">"
    );
    axis.draw(&mut svg, width);
    for part in 0..count {
        let x = LEFT + step * (part as f64 + 0.5);
        let group = part * each..layers.len().min((part + 1) * each);
        if first.is_some_and(|first| group.contains(&first)) {
            let (label, anchor) = if x + 100.0 > width { (x - 4.0, "end") } else { (x + 4.0, "start") };
            let _ = writeln!(
                svg,
                "<line class=\"first\" x1=\"{x:.1}\" y1=\"{TOP}\" x2=\"{x:.1}\" y2=\"{BOTTOM}\"/><text x=\"{label:.1}\" y=\"{}\" text-anchor=\"{anchor}\">first divergence</text>",
                TOP - 6.0
            );
        }
        // Of those that fail, if any do, else of all.
        let fails = |index: &usize| !layers[*index].verdict.passes();
        let worst = group.filter_map(|index| Some((index, errors[index]?)));
        let worst = worst.max_by(|(a, x), (b, y)| fails(a).cmp(&fails(b)).then(x.total_cmp(y)));
        if let Some((index, error)) = worst {
            let mark = mark(&layers[index], (x, axis.y(error)), step, error);
            let _ = match shown.contains(&index) {
                true => writeln!(svg, "<a href=\"#{anchor}{index}\">{mark}</a>"),
                false => writeln!(svg, "<g>{mark}</g>"),
            };
        }
    }
    svg + "</svg></div>\n"
}

fn caption(each: usize, has_failing: bool) -> String {
    let mut text = "Relative L2 error of each layer, computed from the reference's inputs.".to_owned();
    if each > 1 {
        let _ = write!(text, " Each mark is the largest error of {each} consecutive layers.");
    }
    if has_failing {
        text += " Diamonds mark layers that fail.";
    }
    format!("<p class=\"muted\">{text}</p>\n")
}

fn mark(layer: &Layer, (x, y): (f64, f64), step: f64, error: f64) -> String {
    let name = layer.a.as_deref().or(layer.b.as_deref()).unwrap_or_default();
    let shown = if error.is_infinite() { "NaN, inf".to_owned() } else { number(error) };
    let title = format!("<title>{}: {shown} ({})</title>", escaped(&shortened(name)), layer.verdict.name());
    if layer.verdict.passes() {
        let r = (step * 0.4).clamp(2.0, 4.0);
        return format!("{title}<circle class=\"dot\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{r:.1}\"/>");
    }
    // Shape, not only color, marks a failure.
    let r = (step * 0.5).clamp(4.0, 6.0);
    let (left, right, top, bottom) = (x - r, x + r, y - r, y + r);
    format!(
        "{title}<path class=\"dot fail\" d=\"M{x:.1} {top:.1}L{right:.1} {y:.1}L{x:.1} {bottom:.1}L{left:.1} {y:.1}Z\"/>"
    )
}

/// `‖e‖₂ / ‖reference‖₂`, or the largest error where the reference is 0; infinite where elements are not finite.
fn error(layer: &Layer) -> Option<f64> {
    let metrics = &layer.comparison.as_ref()?.metrics;
    if metrics.not_finite > 0 {
        return Some(f64::INFINITY);
    }
    Some(metrics.relative_l2.unwrap_or(metrics.max_absolute)).filter(|error| error.is_finite())
}

const LEFT: f64 = 56.0;
const TOP: f64 = 20.0;
const BOTTOM: f64 = 200.0;
const HEIGHT: f64 = 216.0;
/// Height of 0, below the logarithmic axis.
const ZERO: f64 = BOTTOM - 8.0;

/// A logarithmic axis from `10^low` to `10^high`, above a line for 0.
struct Axis {
    low: i32,
    high: i32,
    /// Height of `10^high`: below a line for what is not finite, if there is any.
    top: f64,
}

impl Axis {
    /// Returns the axis for these values.
    fn of(values: impl Iterator<Item = f64>, has_infinite: bool) -> Self {
        let decades = values.filter(|value| *value > 0.0).map(decade);
        let (low, high) =
            decades.fold((0, -12), |(low, high): (i32, i32), at| (low.min(at), high.max(at + 1)));
        let low = low.max(high.saturating_sub(24)).min(high - 3);
        Axis { low, high, top: if has_infinite { TOP + 20.0 } else { TOP } }
    }

    fn y(&self, value: f64) -> f64 {
        if value <= 0.0 || value.is_infinite() {
            return if value <= 0.0 { ZERO } else { TOP };
        }
        let part = (value.log10() - f64::from(self.low)) / f64::from(self.high - self.low);
        let bottom = ZERO - 20.0;
        bottom - part.clamp(0.0, 1.0) * (bottom - self.top)
    }

    fn draw(&self, svg: &mut String, width: f64) {
        let every = usize::try_from((self.high - self.low) / 8 + 1).unwrap_or(1);
        let decades =
            (self.low..=self.high).step_by(every).map(|at| (self.y(10f64.powi(at)), format!("1e{at}")));
        let not_finite = (self.top > TOP).then(|| (TOP, "NaN, inf".to_owned()));
        for (y, label) in decades.chain([(ZERO, "0".to_owned())]).chain(not_finite) {
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
            "<rect class=\"bar{class}\" x=\"{:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{tall:.1}\"><title>{label}: {}</title></rect><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{label}</text>",
            x + 4.0,
            step - 8.0,
            whole(*count),
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
        count if count < 100_000 => whole(count),
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
