//! The command `ckpt map`.

mod check;
mod explain;
mod invert;
mod list;
mod suggest;

use super::common::write_new;
use super::paths::{check_input, check_new};
use super::{Report, render, verbose};
use crate::mapping::Mapping;
use crate::recipe::Target;
use crate::registry::Registry;
use crate::words::count;
use ckpt_api::{Limits, Result};
use clap::{Args, Subcommand};
use std::path::{Path, PathBuf};

#[derive(Subcommand)]
pub(super) enum Command {
    /// List the built-in mappings
    List(list::ListArguments),
    /// Print a built-in mapping
    Show(list::ShowArguments),
    /// Check a mapping on the names of a checkpoint, and show its result
    Check(check::Arguments),
    /// Write the inverse mapping
    Invert(invert::Arguments),
    /// Explain the target of a name
    Explain(explain::Arguments),
    /// Propose a mapping from two checkpoints: by values, shapes and names
    Suggest(suggest::Arguments),
}

/// The argument that names a mapping.
#[derive(Args)]
struct MappingArgument {
    /// Mapping: a file, or the name of a built-in mapping
    map: String,
    /// Use the inverse of the mapping
    #[arg(long)]
    inverse: bool,
}

impl MappingArgument {
    fn read(&self, registry: &Registry, limits: &Limits) -> Result<Mapping> {
        let mapping = read_mapping(registry, &self.map, limits)?;
        if self.inverse { mapping.inverse() } else { Ok(mapping) }
    }
}

pub(super) fn run(registry: &Registry, command: &Command, json: bool) -> Result<Report> {
    match command {
        Command::List(arguments) => list::run(registry, arguments, json),
        Command::Show(arguments) => list::show(registry, arguments, json),
        Command::Check(arguments) => check::run(registry, arguments, json),
        Command::Invert(arguments) => invert::run(registry, arguments, json),
        Command::Explain(arguments) => explain::run(registry, arguments, json),
        Command::Suggest(arguments) => suggest::run(registry, arguments, json),
    }
}

/// Reads the mapping that an argument names.
pub(super) fn read_mapping(registry: &Registry, given: &str, limits: &Limits) -> Result<Mapping> {
    check_input(Path::new(given))
        .map_err(|error| error.expected("a mapping: a file, or the name of a built-in mapping"))?;
    let mapping = registry.read_mapping(given, limits)?;
    verbose::say(|| {
        format!("read mapping {}: {}", render::plain(given), count(mapping.rules().len(), "rule"))
    });
    Ok(mapping)
}

/// The argument that names the file to write.
#[derive(Args)]
struct Output {
    /// File to write; must not exist. Default: stdout
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl Output {
    /// Refuses a file that is there already, before anything is computed for it.
    fn check(&self) -> Result<()> {
        self.output.iter().try_for_each(|path| check_new(path, false))
    }

    /// Writes `text` to the file, or returns it for stdout.
    fn write(&self, text: String) -> Result<String> {
        let Some(path) = &self.output else { return Ok(text) };
        write_new(path, text)?;
        Ok(String::new())
    }

    /// The file that is written, if one is.
    fn written(&self) -> Vec<String> {
        self.output.iter().map(|path| path.display().to_string()).collect()
    }
}

/// Lists the sources of a target: `a + b`.
fn sources(target: &Target) -> String {
    target.sources.iter().map(|name| render::plain(name)).collect::<Vec<_>>().join(" + ")
}
