//! The templates that come with the program: `schemas/architectures/*.toml`.

use super::Template;
use super::document::Statement;
use ckpt_api::{ArchitectureFile, Error, Result};
use serde::Deserialize;
use std::collections::BTreeMap;

/// Includes files by name.
macro_rules! files {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../schemas/architectures/", $name, ".toml")))),*]
    };
}

const FILES: &[(&str, &str)] = files!["albert", "bert", "gpt2", "llama", "mlp", "resnet", "t5", "vit"];

/// The blocks that every template may use.
const BLOCKS: &str = include_str!("../../schemas/architectures/blocks.toml");

/// Returns the names of the built-in templates.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    FILES.iter().map(|(name, _)| *name)
}

/// Returns a built-in template by its name, as an architecture file.
pub(crate) fn file(name: &str) -> Option<ArchitectureFile> {
    let (_, text) = FILES.iter().find(|(known, _)| *known == name)?;
    // A test reads every file, so `ok` hides no error.
    parse(text).ok().map(|file| file.named(name))
}

/// Returns a built-in template by its name.
pub(super) fn template(name: &str) -> Result<Option<Template>> {
    file(name).map(|file| Template::parse(&file)).transpose()
}

/// Returns the blocks that every template may use, by name.
pub(super) fn blocks() -> Result<BTreeMap<String, Vec<Statement>>> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Blocks {
        blocks: BTreeMap<String, Vec<Statement>>,
    }
    let blocks: Blocks = parse(BLOCKS)?.named("blocks.toml").parse()?;
    Ok(blocks.blocks)
}

fn parse(text: &str) -> Result<ArchitectureFile> {
    let table: toml::Table = toml::from_str(text)
        .map_err(|error| Error::defect("a built-in architecture is not TOML").found(error.to_string()))?;
    ArchitectureFile::new(&table)
}
