//! What the commands `ckpt map …` have in common.

use super::super::common::write_new;
use super::super::paths::{check_input, check_new};
use super::super::{render, verbose};
use ckpt_api::{Limits, Result};
use ckpt_engine::Registry;
use ckpt_engine::mapping::Mapping;
use ckpt_engine::recipe::Target;
use ckpt_engine::words::count;
use clap::Args;
use std::path::{Path, PathBuf};

/// The argument that names a mapping.
#[derive(Args)]
pub(super) struct MappingArgument {
    /// Mapping: a file, or the name of a built-in mapping
    map: String,
    /// Use the inverse of the mapping
    #[arg(long)]
    inverse: bool,
}

impl MappingArgument {
    pub(super) fn read(&self, registry: &Registry, limits: &Limits) -> Result<Mapping> {
        let mapping = read_mapping(registry, &self.map, limits)?;
        if self.inverse { mapping.inverse() } else { Ok(mapping) }
    }
}

/// Reads the mapping that an argument names.
pub(in crate::cli) fn read_mapping(registry: &Registry, given: &str, limits: &Limits) -> Result<Mapping> {
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
pub(super) struct Output {
    /// File to write; must not exist. Default: stdout
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl Output {
    /// Refuses a file that is there already, before anything is computed for it.
    pub(super) fn check(&self) -> Result<()> {
        self.output.iter().try_for_each(|path| check_new(path, false))
    }

    /// Writes `text` to the file, or returns it for stdout.
    pub(super) fn write(&self, text: String) -> Result<String> {
        let Some(path) = &self.output else { return Ok(text) };
        write_new(path, text)?;
        Ok(String::new())
    }

    /// The file that is written, if one is.
    pub(super) fn written(&self) -> Vec<String> {
        self.output.iter().map(|path| path.display().to_string()).collect()
    }
}

/// Lists the sources of a target: `a + b`.
pub(super) fn sources(target: &Target) -> String {
    target.sources.iter().map(|name| render::plain(name)).collect::<Vec<_>>().join(" + ")
}
