//! The command `ckpt map explain`.

use super::super::common::Bounds;
use super::super::flags::Flags;
use super::super::render;
use super::super::report::{Report, to_json};
use super::arguments::{MappingArgument, sources};
use ckpt_api::Result;
use ckpt_engine::Registry;
use ckpt_engine::mapping::{Back, Decision, Explanation};
use ckpt_engine::recipe::Target;
use clap::Args;
use std::fmt::Write;

#[derive(Args)]
pub(in crate::cli) struct Arguments {
    #[command(flatten)]
    mapping: MappingArgument,
    /// Names of source tensors
    #[arg(required = true, value_name = "KEY")]
    keys: Vec<String>,
    #[command(flatten)]
    bounds: Bounds,
}

pub(super) fn run(registry: &Registry, arguments: &Arguments, json: bool) -> Result<Report> {
    let limits = arguments.bounds.limits()?;
    let mapping = arguments.mapping.read(registry, &limits)?;
    let explained = arguments.keys.iter().map(|key| mapping.explain_in(key, &limits, &Flags::One));
    let explained = explained.collect::<Result<Vec<_>>>()?;
    if json {
        return Ok(to_json(&explained)?.into());
    }
    let roles: Vec<&str> = mapping.ignored_roles().iter().map(|role| role.name()).collect();
    Ok(explained.iter().map(|explained| text(explained, &roles)).collect::<String>().into())
}

/// Writes the explanation. `roles` are the ignored roles: a name does not show its role.
fn text(explained: &Explanation, roles: &[&str]) -> String {
    let mut text = format!("{}\n", render::plain(&explained.name));
    let mut line = |label: &str, value: &str| {
        let _ = writeln!(text, "  {label:<9} {}", render::plain(value));
    };
    match &explained.decision {
        Decision::Lookup { line: at } => line("mapped by", &format!("lookup{}", place(*at))),
        Decision::Identity => line("mapped by", "identity: no entry matches, so the name is unchanged"),
        Decision::Ignored { pattern, line: at } => {
            line("dropped", &format!("ignore '{pattern}'{}", place(*at)));
        }
        Decision::Rule { rule } => line("mapped by", rule),
        Decision::Nothing { nearest } => {
            line("error", "no entry of the mapping matches, and it does not have identity = true");
            if let Some(nearest) = nearest {
                line("nearest", &nearest.rule);
                let rest = if nearest.rest.is_empty() {
                    "but the name ends there".to_owned()
                } else {
                    format!("but not '{}'", nearest.rest)
                };
                line("matches", &format!("'{}', {rest}", nearest.fits));
            }
        }
        _ => {}
    }
    if !roles.is_empty() && !matches!(explained.decision, Decision::Lookup { .. } | Decision::Ignored { .. })
    {
        line("dropped", &format!("if its role is ignored: {}", roles.join(", ")));
    }
    for (name, value) in &explained.captures {
        line("capture", &format!("{name} = {value}"));
    }
    explained.targets.iter().for_each(|target| line("becomes", &described(target)));
    match &explained.back {
        Some(Back::None(why)) => line("inverse", &format!("none: {why}")),
        Some(Back::Leads(back)) => match back.iter().find(|target| target.name == explained.name) {
            Some(target) => line("inverse", &described(target)),
            None => {
                let other: Vec<String> = back.iter().map(described).collect();
                line("inverse", &format!("{}, which differs from the original name", other.join(", ")));
            }
        },
        _ => {}
    }
    text
}

/// Returns ` at line 3`, if there is a line.
fn place(line: Option<usize>) -> String {
    line.map(|line| format!(" at line {line}")).unwrap_or_default()
}

/// Describes a target: `name = a + b: transpose`, without what is trivial.
fn described(target: &Target) -> String {
    let mut text = render::plain(&target.name).into_owned();
    if target.sources.len() > 1 {
        let _ = write!(text, " = {}", sources(target));
    }
    let steps = target.recipe.describe();
    if !steps.is_empty() {
        let _ = write!(text, ": {steps}");
    }
    text
}
