//! The templates that come with the program: `data/architectures/*.toml`. What their [`Signature`](super::Signature) needs
//! stands before their parameters.

use super::document::Statement;
use ckpt_api::{ArchitectureFile, Error, Result};
use serde::Deserialize;
use std::collections::BTreeMap;

/// Includes files by name.
macro_rules! files {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../data/architectures/", $name, ".toml")))),*]
    };
}

const FILES: &[(&str, &str)] = files![
    "albert",
    "bert",
    "gemma",
    "glm4",
    "glm4moe",
    "gpt-oss",
    "gpt2",
    "gptneox",
    "llama",
    "mlp",
    "modernbert",
    "moe",
    "olmo2",
    "phi",
    "phi3",
    "resnet",
    "stablelm",
    "starcoder2",
    "t5",
    "vit",
];

/// The blocks that every template may use.
const BLOCKS: &str = include_str!("../data/architectures/blocks.toml");

/// Returns the names of the built-in templates.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    FILES.iter().map(|(name, _)| *name)
}

/// Returns a built-in template by its name, as an architecture file.
pub(crate) fn file(name: &str) -> Option<ArchitectureFile> {
    // A test reads every file, so `ok` hides no error.
    parse(text(name)?).ok().map(|file| file.named(name))
}

/// Returns the head of a built-in template: what its file states before the parameters.
pub(super) fn head(name: &str) -> Option<ArchitectureFile> {
    let text = text(name)?;
    let head = text.split_once("\nparameters = [").map_or(text, |(head, _)| head);
    // A test reads every head, so `ok` hides no error.
    parse(head).ok().map(|file| file.named(name))
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

fn text(name: &str) -> Option<&'static str> {
    FILES.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

fn parse(text: &str) -> Result<ArchitectureFile> {
    let table: toml::Table = toml::from_str(text)
        .map_err(|error| Error::defect("a built-in architecture is not TOML").found(error.to_string()))?;
    ArchitectureFile::new(&table)
}
