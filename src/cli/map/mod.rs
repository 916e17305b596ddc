//! The command `ckpt map`.

mod arguments;
mod check;
mod explain;
mod invert;
mod list;
mod suggest;

pub(super) use arguments::read_mapping;

use super::report::Report;
use ckpt_api::Result;
use ckpt_engine::Registry;
use clap::Subcommand;

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
