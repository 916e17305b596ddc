//! The command `ckpt map check`.

use super::super::common::OneInput;
use super::super::flags::Flags;
use super::super::render;
use super::super::report::{Report, to_json};
use super::super::table::{Column, table};
use super::super::width::{Layout, Width};
use super::arguments::{MappingArgument, sources};
use ckpt_api::{Checkpoint, Result};
use ckpt_engine::Registry;
use ckpt_engine::map::renamed;
use ckpt_engine::mapping::{Applied, RuleReport};
use ckpt_engine::natural::make_readable;
use ckpt_engine::recipe::Target;
use ckpt_engine::words::count;
use clap::Args;
use std::fmt::Write;

#[derive(Args)]
pub(in crate::cli) struct Arguments {
    #[command(flatten)]
    mapping: MappingArgument,
    #[command(flatten)]
    looking: OneInput,
    #[command(flatten)]
    layout: Layout,
}

pub(super) fn run(registry: &Registry, arguments: &Arguments, json: bool) -> Result<Report> {
    let limits = arguments.looking.reading.limits()?;
    let mapping = arguments.mapping.read(registry, &limits)?;
    let source = arguments.looking.open(registry)?;
    // A conversion does the same: this checks that the steps fit the shapes.
    let mapping = source.with_parameters(&mapping)?;
    let (contents, applied) = renamed(source.contents(), &mapping, &limits)?;
    let rules = mapping.rules();
    if !json {
        let text = text(&applied, &contents.checkpoint, &rules, arguments.layout.width());
        return Ok(arguments.layout.folded(text).into());
    }
    let why = applied.inverse.as_ref().err().map(|why| why.text_in(&Flags::One));
    Ok(to_json(&serde_json::json!({
        "targets": applied.targets, "dropped": applied.dropped, "unused": applied.unused, "rules": rules,
        "invertible": why.is_none(), "why_not": why,
    }))?
    .into())
}

/// Writes the report; `made` has the target tensors.
fn text(applied: &Applied, made: &Checkpoint, rules: &[RuleReport], width: Width) -> String {
    const COLUMNS: [Column; 4] =
        [Column::text("from"), Column::text("to"), Column::text("shape").optional(1), Column::text("steps")];
    let ids = made.by_name();
    let mut targets: Vec<&Target> = applied.targets.iter().collect();
    make_readable(&mut targets, |target| target.sources.first().map_or("", String::as_str));
    let rows = targets.into_iter().map(|target| {
        let tensor = ids.get(target.name.as_str()).and_then(|id| made.tensors.get(id.0));
        let shape = tensor.map(|tensor| tensor.shape.to_string()).unwrap_or_default();
        vec![sources(target), render::plain(&target.name).into_owned(), shape, target.recipe.describe()]
    });
    let mut text = table(&COLUMNS, width, rows);
    for rule in rules {
        let _ = writeln!(text, "{}", render::plain(&rule.rule));
        let _ = match (&rule.inverse, &rule.why_not) {
            (Some(inverse), _) => writeln!(text, "    inverse: {}", render::plain(inverse)),
            (None, why) => {
                let why = why.as_deref().unwrap_or_default();
                writeln!(text, "    no inverse: {}", render::plain(why))
            }
        };
    }
    for name in &applied.dropped {
        let _ = writeln!(text, "dropped: {}", render::plain(name));
    }
    for rule in &applied.unused {
        let _ = writeln!(text, "unused: {}", render::plain(rule));
    }
    let all = count(applied.targets.len(), "target name");
    let _ = writeln!(text, "{all}, one to one; {} dropped", count(applied.dropped.len(), "source name"));
    let _ = match &applied.inverse {
        Ok(_) => writeln!(text, "the mapping works in both directions (--inverse)"),
        Err(why) => writeln!(
            text,
            "the mapping works in one direction only: {}",
            render::plain(&why.text_in(&Flags::One))
        ),
    };
    text
}
