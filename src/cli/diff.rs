//! `ckpt diff`.

use super::common::{Bounds, TwoInputs, tolerated};
use super::progress::while_reading;
use super::render::number;
use super::{Report, render, to_json};
use crate::diff::{Difference, Outcome, TensorDifference, Tolerance, diff};
use crate::registry::Registry;
use crate::words::{count, dtype};
use ckpt_api::Result;
use clap::Args;
use std::fmt::Write;

#[derive(Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    two: TwoInputs,
    #[command(flatten)]
    bounds: Bounds,
    /// Absolute tolerance: |b - a| <= ATOL + RTOL * |a|
    #[arg(long, default_value_t = 0.0)]
    atol: f64,
    /// Tolerance relative to the first checkpoint's values
    #[arg(long, default_value_t = 0.0)]
    rtol: f64,
}

/// Digits of a difference and of a tolerance.
const DIGITS: usize = 5;

pub(super) fn run(registry: &Registry, arguments: &Arguments, json: bool) -> Result<Report> {
    let (a, b) = arguments.two.open(registry, &arguments.bounds.limits()?)?;
    let tolerance = Tolerance {
        absolute: tolerated("--atol", arguments.atol)?,
        relative: tolerated("--rtol", arguments.rtol)?,
    };
    let difference = while_reading(&[&a, &b], || diff(&a, &b, tolerance))?;
    let text = if json { to_json(&difference)? } else { text(&difference) };
    Ok(Report::comparing(text, !difference.agrees()))
}

fn text(difference: &Difference) -> String {
    let mut text = String::new();
    for (side, names) in [("first", &difference.only_in_a), ("second", &difference.only_in_b)] {
        for name in names {
            let _ = writeln!(text, "only in the {side}: {}", render::plain(name));
        }
    }
    if !difference.incidental.is_empty() {
        let tensors = count(difference.incidental.len(), "tensor");
        let _ = writeln!(text, "no difference: {tensors} of bookkeeping, counters or second copies");
    }
    let is_exact = difference.tolerance.is_exact();
    difference.tensors.iter().filter_map(|tensor| line(tensor, is_exact)).for_each(|line| text += &line);
    let count =
        |is: fn(&Outcome) -> bool| difference.tensors.iter().filter(|tensor| is(&tensor.outcome)).count();
    let equal = count(|outcome| matches!(outcome, Outcome::Equal));
    let close = count(|outcome| matches!(outcome, Outcome::Close(_)));
    let all = difference.tensors.len();
    let _ = match difference.tolerance {
        exact if exact.is_exact() => writeln!(text, "{equal} of {all} common tensors are equal bit for bit"),
        Tolerance { absolute, relative } => writeln!(
            text,
            "{equal} of {all} common tensors are equal, and {close} are close: |b - a| <= {} + {} * |a|",
            number(absolute, DIGITS),
            number(relative, DIGITS),
        ),
    };
    match difference.not_compared_for_their_dtypes() {
        0 => {}
        tensors => {
            let were = if tensors == 1 { "was" } else { "were" };
            let tensors = crate::words::count(tensors, "tensor");
            let _ = writeln!(
                text,
                "{tensors} {were} not compared, since the dtypes differ: to compare values, use --atol and --rtol"
            );
        }
    }
    if difference.tensors.is_empty() {
        text += "the checkpoints have no tensor names in common: convert one to the other's format, or rename its \
                 tensors with ckpt convert --map\n";
    }
    text
}

/// Describes a tensor that differs; `None` for one that is equal.
fn line(tensor: &TensorDifference, is_exact: bool) -> Option<String> {
    let name = render::plain(&tensor.name);
    match &tensor.outcome {
        Outcome::Equal => None,
        Outcome::Close(distance) => Some(format!(
            "close: {name}: {}{}, largest difference {}\n",
            dtypes(tensor),
            count(distance.differing, "element"),
            number(distance.max_absolute, DIGITS)
        )),
        Outcome::Different(distance) => Some(format!(
            "different: {name}: {}{}{}, largest difference {}, first at element {}\n",
            dtypes(tensor),
            count(distance.differing, "element"),
            if is_exact { String::new() } else { format!(" ({} outside the tolerance)", distance.outside) },
            number(distance.max_absolute, DIGITS),
            distance.first
        )),
        Outcome::Incomparable if tensor.a == tensor.b && !tensor.scales_differ() => {
            Some(format!("different: {name}: the lengths of its strings differ\n"))
        }
        Outcome::Incomparable => Some(format!(
            "different: {name}: {} {} in the first, {} {} in the second\n",
            dtype(tensor.a.0, tensor.scale_a),
            tensor.a.1,
            dtype(tensor.b.0, tensor.scale_b),
            tensor.b.1
        )),
    }
}

/// The dtypes, where they differ.
fn dtypes(tensor: &TensorDifference) -> String {
    let ((a, _), (b, _)) = (&tensor.a, &tensor.b);
    if a == b { String::new() } else { format!("{a} in the first, {b} in the second; ") }
}
