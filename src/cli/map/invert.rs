//! The command `ckpt map invert`.

use super::super::common::{Reading, pairs};
use super::super::flags::Flags;
use super::super::report::{Report, print_after, to_json};
use super::super::stderr::tell;
use super::arguments::{Output, read_mapping};
use ckpt_api::Result;
use ckpt_engine::Registry;
use ckpt_engine::mapping::Mapping;
use clap::Args;
use std::path::{Path, PathBuf};

#[derive(Args)]
pub(in crate::cli) struct Arguments {
    /// Mapping: a file, or the name of a built-in mapping
    map: String,
    #[command(flatten)]
    output: Output,
    /// Checkpoint with the source names. If the rules have no inverse on them, write a table of these names
    #[arg(long, value_name = "PATH")]
    of: Option<PathBuf>,
    #[command(flatten)]
    reading: Reading,
    /// Option for reading the checkpoint; `ckpt formats` lists them
    #[arg(long, value_name = "KEY=VALUE", requires = "of")]
    set: Vec<String>,
}

pub(super) fn run(registry: &Registry, arguments: &Arguments, json: bool) -> Result<Report> {
    let mapping = read_mapping(registry, &arguments.map, &arguments.reading.limits()?)?;
    let (inverse, why_table) = match &arguments.of {
        None => (mapping.inverse()?, None),
        Some(path) => inverse_of(registry, &mapping, path, arguments)?,
    };
    let text = inverse.to_toml();
    if json {
        let value = serde_json::json!({ "toml": text, "table": why_table.is_some(), "why_table": why_table });
        arguments.output.write(text)?;
        return print_after(&arguments.output.written(), &to_json(&value)?, json);
    }
    if let Some(why) = why_table {
        tell(&format!(
            "note: this table covers only these names, because {}\n",
            super::super::render::plain(&why)
        ));
    }
    Ok(arguments.output.write(text)?.into())
}

/// Returns the inverse on the names of a checkpoint; with a reason, if it is a table.
fn inverse_of(
    registry: &Registry,
    mapping: &Mapping,
    path: &Path,
    arguments: &Arguments,
) -> Result<(Mapping, Option<String>)> {
    let source = arguments.reading.open(registry, path, pairs(&arguments.set)?, false)?;
    let mapping = source.with_parameters(mapping)?;
    let applied = mapping.apply_to(&source.checkpoint().tensors, &arguments.reading.limits()?)?;
    match applied.inverse {
        Ok(inverse) => Ok((inverse, None)),
        Err(ref why) => Ok((applied.inverse_table()?, Some(why.text_in(&Flags::One)))),
    }
}
