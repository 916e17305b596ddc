//! Mappings that are chosen by name.

use crate::mapping::{Mapping, MappingGenerator};
use ckpt_api::Result;
use std::sync::Arc;

/// A mapping that is chosen by its name.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum RegisteredMapping {
    /// The text of a mapping file.
    File {
        /// The name by which it is chosen.
        name: &'static str,
        /// The file's text.
        toml: &'static str,
    },
    /// A mapping that is made for the graph of each checkpoint.
    Generated(Arc<dyn MappingGenerator>),
}

impl RegisteredMapping {
    /// The name by which it is chosen.
    pub fn name(&self) -> &'static str {
        match self {
            RegisteredMapping::File { name, .. } => name,
            RegisteredMapping::Generated(generator) => generator.name(),
        }
    }

    /// Reads the mapping.
    ///
    /// # Errors
    /// Those of [`Mapping::from_toml`].
    pub(super) fn read(&self) -> Result<Mapping> {
        match self {
            RegisteredMapping::File { name, toml } => {
                let mapping = Mapping::from_toml(toml, &format!("built-in mapping {name}"))?;
                Ok(Mapping { is_builtin: true, ..mapping })
            }
            RegisteredMapping::Generated(generator) => Ok(Mapping::generated_by(Arc::clone(generator))),
        }
    }
}
