//! The tables that come with the program: `schemas/mappings/*.toml`.

use super::Mapping;

const TABLES: [(&str, &str); 1] =
    [("gpt2-tf-to-hf", include_str!("../../schemas/mappings/gpt2-tf-to-hf.toml"))];

/// The table called `name`. A test loads every table, so none is hidden by its own error.
pub(super) fn load(name: &str) -> Option<Mapping> {
    let (name, text) = TABLES.iter().find(|(known, _)| *known == name)?;
    Mapping::from_toml(text, &format!("built-in mapping {name}")).ok()
}

/// The names of all tables.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    TABLES.iter().map(|(name, _)| *name)
}
