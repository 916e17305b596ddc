//! `ckpt clean`.

use super::render;
use super::report::{Report, to_json};
use ckpt_api::{Error, Result};
use ckpt_remote::{Leftover, LeftoverKind, leftovers};
use clap::Args;
use std::fmt::Write;
use std::time::Duration;

#[derive(Args)]
pub(super) struct Arguments {
    /// What the addresses of the outputs begin with, such as s3://bucket/run7/
    address: String,
    /// Leave what was begun or written less than so long ago, such as 30m, 12h or 7d
    #[arg(long, value_name = "TIME", default_value = "1d")]
    older_than: String,
    /// Only say what would be removed
    #[arg(long)]
    dry_run: bool,
}

pub(super) fn run(arguments: &Arguments, json: bool) -> Result<Report> {
    let least = time(&arguments.older_than)?;
    let all = leftovers(&arguments.address)?;
    let is_old = |leftover: &Leftover| leftover.age().is_some_and(|age| age >= least);
    let (old, young): (Vec<_>, Vec<_>) = all.found.into_iter().partition(is_old);
    if !arguments.dry_run {
        old.iter().try_for_each(Leftover::remove)?;
    }
    if json {
        return as_json(arguments, &old, &young, all.unlisted);
    }
    let note = all.unlisted.map(|unlisted| format!("note: {unlisted}\n"));
    Ok((text(arguments, &old, &young) + &note.unwrap_or_default()).into())
}

fn text(arguments: &Arguments, old: &[Leftover], young: &[Leftover]) -> String {
    let mut text = String::new();
    let done = if arguments.dry_run { "would remove" } else { "removed" };
    let why = format!(", less than {} ago", arguments.older_than);
    let lines = old.iter().map(|old| (done, old, "")).chain(young.iter().map(|young| ("left", young, &*why)));
    for (done, leftover, why) in lines {
        let (address, changed) = (leftover.address(), leftover.changed());
        let (what, verb) = match leftover.kind() {
            LeftoverKind::Upload => ("unfinished upload of", "begun"),
            _ => ("staging directory", "last written"),
        };
        let (address, changed) = (render::plain(&address), render::plain(&changed));
        let _ = writeln!(text, "{done} the {what} {address}, {verb} {changed}{why}");
    }
    if text.is_empty() {
        let _ = writeln!(text, "nothing was left below {}", render::plain(&arguments.address));
    }
    text
}

fn as_json(
    arguments: &Arguments,
    old: &[Leftover],
    young: &[Leftover],
    unlisted: Option<&str>,
) -> Result<Report> {
    let entry = |leftover: &Leftover, removed: bool| {
        let (kind, time) = match leftover.kind() {
            LeftoverKind::Upload => ("upload", "begun"),
            _ => ("staging", "written"),
        };
        serde_json::json!({ "kind": kind, "file": leftover.address(), time: leftover.changed(), "removed": removed })
    };
    let old = old.iter().map(|leftover| entry(leftover, !arguments.dry_run));
    let entries: Vec<_> = old.chain(young.iter().map(|leftover| entry(leftover, false))).collect();
    Ok(to_json(&serde_json::json!({ "leftovers": entries, "unlisted": unlisted }))?.into())
}

/// A time such as `90s`, `30m`, `12h` or `7d`.
fn time(text: &str) -> Result<Duration> {
    let seconds = text.split_at_checked(text.len().saturating_sub(1)).and_then(|(number, unit)| {
        let unit: u64 = match unit {
            "s" => 1,
            "m" => 60,
            "h" => 3600,
            "d" => 86400,
            _ => return None,
        };
        number
            .bytes()
            .all(|byte| byte.is_ascii_digit())
            .then(|| number.parse::<u64>().ok())??
            .checked_mul(unit)
    });
    seconds.map(Duration::from_secs).ok_or_else(|| {
        Error::usage("a time is not understood")
            .field("--older-than")
            .found(format!("'{text}'"))
            .expected("a whole number and s, m, h or d, such as 12h")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_number_and_a_unit() {
        for (text, seconds) in [("0s", 0), ("90s", 90), ("30m", 1800), ("12h", 43200), ("7d", 604_800)] {
            assert_eq!(time(text).unwrap().as_secs(), seconds, "{text}");
        }
        for text in ["", "s", "7", "-1d", "+1d", "1.5h", "1w", "999999999999999999d", "7\u{e9}"] {
            assert!(time(text).is_err(), "{text}");
        }
    }
}
