//! `ckpt diff`.

use super::common::{Bounds, TwoInputs, tolerance};
use super::flags::Flags;
use super::progress::while_reading;
use super::render;
use super::render::number;
use super::report::{Report, to_json};
use ckpt_api::Result;
use ckpt_engine::Registry;
use ckpt_engine::diff::{Difference, Distance, Outcome, TensorDifference, Tolerance, diff};
use ckpt_engine::words::{self, count, quantized, verb};
use clap::Args;
use std::fmt::Write;

#[derive(Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    two: TwoInputs,
    #[command(flatten)]
    bounds: Bounds,
    /// Absolute tolerance: |b - a| <= ATOL + RTOL * |a|; 0 compares the values of different dtypes
    #[arg(long)]
    atol: Option<f64>,
    /// Tolerance relative to the first checkpoint's values
    #[arg(long)]
    rtol: Option<f64>,
}

/// Digits of a difference and of a tolerance.
const DIGITS: usize = 5;

pub(super) fn run(registry: &Registry, arguments: &Arguments, json: bool) -> Result<Report> {
    let (a, b) = arguments.two.open(registry, &arguments.bounds.limits()?)?;
    let tolerance = tolerance(arguments.atol, arguments.rtol)?;
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
    for names in difference.tensors.iter().filter_map(other_name) {
        let _ = writeln!(text, "{names}");
    }
    let is_exact = difference.tolerance.is_exact();
    for line in difference.tensors.iter().filter_map(|tensor| line(tensor, is_exact)) {
        let _ = writeln!(text, "{line}");
    }
    let count =
        |is: fn(&Outcome) -> bool| difference.tensors.iter().filter(|tensor| is(&tensor.outcome)).count();
    let equal = count(|outcome| matches!(outcome, Outcome::Equal));
    let close = count(|outcome| matches!(outcome, Outcome::Close(_)));
    let tensors = words::count(difference.tensors.len(), "common tensor");
    let _ = match difference.tolerance {
        exact if exact.is_exact() => {
            let values = match close {
                0 => String::new(),
                close => format!(", and {close} have equal values in different dtypes"),
            };
            writeln!(text, "{equal} of {tensors} {} equal bit for bit{values}", verb(equal, "is", "are"))
        }
        Tolerance { absolute, relative } => writeln!(
            text,
            "{equal} of {tensors} {} equal, and {close} {} close: |b - a| <= {} + {} * |a|",
            verb(equal, "is", "are"),
            verb(close, "is", "are"),
            number(absolute, DIGITS),
            number(relative, DIGITS),
        ),
    };
    text + &advice(difference)
}

/// How what was not compared can be.
fn advice(difference: &Difference) -> String {
    let mut text = String::new();
    if let Some(advice) = difference.advice_on_dtypes() {
        let _ = writeln!(text, "{}", advice.in_words(&Flags::One));
    }
    if !difference.only_in_a.is_empty() && !difference.only_in_b.is_empty() {
        text += match difference.tensors.is_empty() {
            true => "the checkpoints have no tensor names in common",
            false => "each checkpoint has names that the other lacks",
        };
        text += ": ";
        text += UNDER_A_MAPPING;
    }
    text
}

/// How tensors of different names are compared.
#[cfg(feature = "forward")]
const UNDER_A_MAPPING: &str =
    "ckpt verify A B --map FILE compares under a mapping, which ckpt map suggest A B proposes\n";
#[cfg(not(feature = "forward"))]
const UNDER_A_MAPPING: &str =
    "convert one to the other's format, or rename its tensors with ckpt convert --map FILE\n";

/// Describes a tensor that differs on one line; `None` for one that is equal.
pub(super) fn line(tensor: &TensorDifference, is_exact: bool) -> Option<String> {
    let name = render::plain(&tensor.name);
    match &tensor.outcome {
        Outcome::Equal => None,
        Outcome::Close(distance) if distance.differing == 0 => {
            Some(format!("close: {name}: {}the values are equal", dtypes(tensor)))
        }
        Outcome::Close(distance) => Some(format!(
            "close: {name}: {}{}, largest difference {}",
            dtypes(tensor),
            count(distance.differing, "element"),
            number(distance.max_absolute, DIGITS)
        )),
        Outcome::Different(distance) => Some(format!(
            "different: {name}: {}{}{}, largest difference {}{}",
            dtypes(tensor),
            count(distance.differing, "element"),
            outside(distance, is_exact),
            number(distance.max_absolute, DIGITS),
            first_at(tensor)
        )),
        Outcome::Incomparable if tensor.a == tensor.b && !tensor.scales_differ() => {
            Some(format!("different: {name}: the lengths of its strings differ"))
        }
        _ => Some(format!(
            "different: {name}: {} {} in the first, {} {} in the second",
            quantized(tensor.a.0, tensor.scale_a, tensor.quantization_a.as_ref()),
            tensor.a.1,
            quantized(tensor.b.0, tensor.scale_b, tensor.quantization_b.as_ref()),
            tensor.b.1
        )),
    }
}

/// The names of two tensors that are compared although they have different ones.
pub(super) fn other_name(tensor: &TensorDifference) -> Option<String> {
    let (a, b) = (render::plain(&tensor.name), render::plain(tensor.name_b.as_ref()?));
    Some(format!("'{a}' is compared with '{b}': each file holds exactly one array"))
}

/// How many elements are outside the tolerance, if there is one.
fn outside(distance: &Distance, is_exact: bool) -> String {
    if is_exact { String::new() } else { format!(" ({} outside the tolerance)", distance.outside) }
}

/// Where the first difference is; empty for a scalar.
fn first_at(tensor: &TensorDifference) -> String {
    let index = tensor.first_index.as_ref().filter(|index| !index.is_empty());
    index.map_or(String::new(), |index| format!(", first at {index:?}"))
}

/// The dtypes, if they differ.
fn dtypes(tensor: &TensorDifference) -> String {
    let ((a, _), (b, _)) = (&tensor.a, &tensor.b);
    if a == b { String::new() } else { format!("{a} in the first, {b} in the second; ") }
}
