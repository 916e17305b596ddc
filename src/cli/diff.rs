//! `ckpt diff`.

use super::common::{Bounds, Two, tolerated};
use super::{Report, render, to_json};
use crate::diff::{Difference, Outcome, Tolerance, diff};
use crate::words::count;
use ckpt_api::Result;
use clap::Args;
use std::fmt::Write;

#[derive(Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    two: Two,
    #[command(flatten)]
    bounds: Bounds,
    /// Absolute tolerance
    #[arg(long, default_value_t = 0.0)]
    atol: f64,
    /// Tolerance relative to the first checkpoint's values
    #[arg(long, default_value_t = 0.0)]
    rtol: f64,
}

pub(super) fn run(arguments: &Arguments, json: bool) -> Result<Report> {
    let (a, b) = arguments.two.open(&arguments.bounds.limits()?)?;
    let tolerance = Tolerance {
        absolute: tolerated("--atol", arguments.atol)?,
        relative: tolerated("--rtol", arguments.rtol)?,
    };
    let difference = diff(&a, &b, tolerance)?;
    let text = if json { to_json(&difference)? } else { text(&difference) };
    Ok(Report { text, differs: !difference.agrees() })
}

fn text(difference: &Difference) -> String {
    let mut text = String::new();
    for (side, names) in [("first", &difference.only_in_a), ("second", &difference.only_in_b)] {
        for name in names {
            let _ = writeln!(text, "only in the {side}: {}", render::plain(name));
        }
    }
    let (mut equal, mut close) = (0, 0);
    for tensor in &difference.tensors {
        let name = render::plain(&tensor.name);
        let _ = match &tensor.outcome {
            Outcome::Equal => {
                equal += 1;
                Ok(())
            }
            Outcome::Close(distance) => {
                close += 1;
                writeln!(
                    text,
                    "close: {name}: {}, largest difference {:e}",
                    count(distance.differing, "element"),
                    distance.max_absolute
                )
            }
            Outcome::Different(distance) => writeln!(
                text,
                "different: {name}: {} ({} outside the tolerance), largest difference {:e}, first at element {}",
                count(distance.differing, "element"),
                distance.outside,
                distance.max_absolute,
                distance.first
            ),
            Outcome::Incomparable if tensor.a == tensor.b => {
                writeln!(text, "different: {name}: the elements have other lengths")
            }
            Outcome::Incomparable => {
                writeln!(
                    text,
                    "different: {name}: {} {} and {} {}",
                    tensor.a.0, tensor.a.1, tensor.b.0, tensor.b.1
                )
            }
        };
    }
    let rule = match difference.tolerance {
        exact if exact.is_exact() => "equal bits".to_owned(),
        Tolerance { absolute, relative } => format!("|b - a| <= {absolute:e} + {relative:e} * |a|"),
    };
    let _ = writeln!(
        text,
        "{} of {} common tensors equal, {close} close; rule: {rule}",
        equal,
        difference.tensors.len()
    );
    if difference.tensors.is_empty() {
        text += "no name is in both: convert one to the other's format, or rename with ckpt convert --map\n";
    }
    text
}
