//! `ckpt map`.

use super::common::Looking;
use super::convert::read_mapping;
use super::{Report, render, to_json};
use crate::recipe::Target;

use ckpt_api::Result;
use clap::{Args, Subcommand};
use std::fmt::Write;

#[derive(Subcommand)]
pub(super) enum Command {
    /// Check a mapping against the names of a checkpoint, and show what it does
    Check(Arguments),
}

#[derive(Args)]
pub(super) struct Arguments {
    /// Mapping: a file, or the name of a built-in one
    map: String,
    #[command(flatten)]
    looking: Looking,
}

pub(super) fn run(command: &Command, json: bool) -> Result<Report> {
    let Command::Check(arguments) = command;
    let mapping = read_mapping(&arguments.map)?;
    let source = arguments.looking.open()?;
    let names: Vec<&str> = source.checkpoint().tensors.iter().map(|tensor| tensor.name.as_str()).collect();
    let applied = mapping.apply(&names, &arguments.looking.reading.limits()?)?;
    let inverse = applied.inverse.as_ref().map(|_| ()).map_err(ToString::to_string);
    if json {
        return Ok(to_json(&serde_json::json!({
            "targets": applied.targets, "dropped": applied.dropped, "unused": applied.unused,
            "invertible": inverse.is_ok(), "why_not": inverse.err(),
        }))?
        .into());
    }
    let row = |target: &Target| {
        let from = target.sources.iter().map(|name| render::plain(name)).collect::<Vec<_>>().join(" + ");
        vec![from, render::plain(&target.name), target.recipe.describe()]
    };
    let rows: Vec<Vec<String>> = applied.targets.iter().map(row).collect();
    let mut text = render::table(&["from", "to", "steps"], &[], &rows);
    for name in &applied.dropped {
        let _ = writeln!(text, "dropped: {}", render::plain(name));
    }
    for rule in &applied.unused {
        let _ = writeln!(text, "unused: {}", render::plain(rule));
    }
    let _ = writeln!(text, "{} names, one to one; {} dropped", applied.targets.len(), applied.dropped.len());
    let _ = match inverse {
        Ok(()) => writeln!(text, "the rules have an inverse"),
        Err(why) => writeln!(text, "the rules have no inverse: {}", render::plain(&why)),
    };
    Ok(text.into())
}
