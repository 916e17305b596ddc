//! `ckpt clean`.

use super::{Report, render, to_json};
use crate::store::{Leftover, leftovers};
use ckpt_api::{Error, Result};
use clap::Args;
use std::fmt::Write;
use std::time::Duration;

#[derive(Args)]
pub(super) struct Arguments {
    /// What the addresses of the outputs begin with, such as s3://bucket/run7/
    address: String,
    /// Leave what was begun less than so long ago, such as 30m, 12h or 7d
    #[arg(long, value_name = "TIME", default_value = "1d")]
    older_than: String,
    /// Only say what would be removed
    #[arg(long)]
    dry_run: bool,
}

pub(super) fn run(arguments: &Arguments, json: bool) -> Result<Report> {
    let least = time(&arguments.older_than)?;
    let found = leftovers(&arguments.address)?;
    let is_old = |leftover: &Leftover| leftover.age().is_some_and(|age| age >= least);
    let (old, young): (Vec<_>, Vec<_>) = found.into_iter().partition(is_old);
    if !arguments.dry_run {
        old.iter().try_for_each(Leftover::remove)?;
    }
    if json { as_json(arguments, &old, &young) } else { Ok(text(arguments, &old, &young).into()) }
}

fn text(arguments: &Arguments, old: &[Leftover], young: &[Leftover]) -> String {
    let mut text = String::new();
    let done = if arguments.dry_run { "would remove" } else { "removed" };
    let why = format!(", less than {} ago", arguments.older_than);
    let lines = old.iter().map(|old| (done, old, "")).chain(young.iter().map(|young| ("left", young, &*why)));
    for (done, leftover, why) in lines {
        let (address, begun) = (leftover.address(), leftover.begun());
        let _ = writeln!(
            text,
            "{done} the unfinished upload of {}, begun {}{why}",
            render::plain(&address),
            render::plain(begun)
        );
    }
    if text.is_empty() {
        let _ = writeln!(text, "no unfinished uploads below {}", render::plain(&arguments.address));
    }
    text
}

fn as_json(arguments: &Arguments, old: &[Leftover], young: &[Leftover]) -> Result<Report> {
    let entry = |leftover: &Leftover, removed: bool| serde_json::json!({ "file": leftover.address(), "begun": leftover.begun(), "removed": removed });
    let old = old.iter().map(|leftover| entry(leftover, !arguments.dry_run));
    let entries: Vec<_> = old.chain(young.iter().map(|leftover| entry(leftover, false))).collect();
    Ok(to_json(&serde_json::json!({ "leftovers": entries }))?.into())
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
