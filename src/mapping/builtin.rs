//! The tables that come with the program: `schemas/mappings/*.toml`.

use super::Mapping;

/// The files by name.
macro_rules! tables {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../schemas/mappings/", $name, ".toml")))),*]
    };
}

const TABLES: &[(&str, &str)] = tables![
    "albert-tf-to-hf",
    "bert-tf-to-hf",
    "bullet-to-tf-adam",
    "electra-generator-tf-to-hf",
    "electra-tf-to-hf",
    "gpt2-swift-paths-to-hf",
    "gpt2-swift-to-hf",
    "gpt2-tf-to-hf",
    "mt5-mesh-to-hf",
    "resnet-keras-to-torchvision",
    "t5-mesh-to-hf",
];

/// The table called `name`. A test loads every table, so none is hidden by its own error.
pub(super) fn load(name: &str) -> Option<Mapping> {
    let mapping = Mapping::from_toml(text(name)?, &format!("built-in mapping {name}")).ok()?;
    Some(Mapping { builtin: true, ..mapping })
}

/// The file of the table called `name`.
pub(super) fn text(name: &str) -> Option<&'static str> {
    TABLES.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

/// The names of all tables.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    TABLES.iter().map(|(name, _)| *name)
}
