//! `ckpt map`.

mod check;
mod explain;
mod invert;
mod list;
mod suggest;

use super::common::{read_text, write_new};
use super::{Report, render};
use crate::mapping::Mapping;
use crate::recipe::Target;
use crate::registry::Registry;
use ckpt_api::{Error, Limits, Result};
use clap::{Args, Subcommand};
use std::path::{Path, PathBuf};

#[derive(Subcommand)]
pub(super) enum Command {
    /// List the built-in mappings
    List,
    /// Print a built-in mapping
    Show(list::ShowArguments),
    /// Prove a mapping one to one on the names of a checkpoint, and show what it does
    Check(check::Arguments),
    /// Write the mapping that leads back
    Invert(invert::Arguments),
    /// Say what becomes of a name, and why
    Explain(explain::Arguments),
    /// Propose a mapping from two checkpoints: by shapes, values and names
    Suggest(suggest::Arguments),
}

/// Which mapping.
#[derive(Args)]
struct Chosen {
    /// Mapping: a file, or the name of a built-in one
    map: String,
    /// Read the mapping backwards
    #[arg(long)]
    inverse: bool,
}

impl Chosen {
    fn read(&self, limits: &Limits) -> Result<Mapping> {
        let mapping = read_mapping(&self.map, limits)?;
        if self.inverse { mapping.inverse() } else { Ok(mapping) }
    }
}

pub(super) fn run(registry: &Registry, command: &Command, json: bool) -> Result<Report> {
    match command {
        Command::List => list::run(json),
        Command::Show(arguments) => list::show(arguments, json),
        Command::Check(arguments) => check::run(registry, arguments, json),
        Command::Invert(arguments) => invert::run(registry, arguments, json),
        Command::Explain(arguments) => explain::run(arguments, json),
        Command::Suggest(arguments) => suggest::run(registry, arguments, json),
    }
}

/// A mapping file, or a built-in mapping where no such file exists.
pub(super) fn read_mapping(name: &str, limits: &Limits) -> Result<Mapping> {
    let path = Path::new(name);
    let looks_like_a_file = path.extension().is_some() || path.components().count() > 1;
    match Mapping::builtin(name) {
        Some(mapping) if !path.exists() => Ok(mapping),
        None if !path.exists() && !looks_like_a_file => Err(unknown(name)),
        _ => Mapping::from_toml_within(&read_text(path, limits, ckpt_api::Limit::TextBytes)?, name, limits),
    }
}

fn unknown(name: &str) -> Error {
    Error::usage("no such mapping file, and no built-in mapping of this name")
        .found(format!("'{name}'"))
        .help(ckpt_api::nearest(name, Mapping::builtin_names()))
}

/// Where a mapping that was made is written.
#[derive(Args)]
struct Output {
    /// File to write, which must not exist; stdout if left out
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl Output {
    /// Writes `text` to the file, or hands it back for stdout.
    fn write(&self, text: String) -> Result<String> {
        let Some(path) = &self.output else { return Ok(text) };
        write_new(path, &text)?;
        Ok(String::new())
    }
}

/// `a + b`, for people.
fn sources(target: &Target) -> String {
    target.sources.iter().map(|name| render::plain(name)).collect::<Vec<_>>().join(" + ")
}
