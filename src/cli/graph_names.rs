//! Arguments that lead from the names of a checkpoint to those of the model that gives it its graph.

use super::map::read_mapping;
use ckpt_api::{Limits, Result};
use ckpt_engine::Registry;
use ckpt_engine::mapping::Mapping;
use clap::Args;
use std::sync::Arc;

/// A mapping to the names of the model that gives the graph.
#[derive(Args)]
pub(super) struct GraphNames {
    /// Mapping from the checkpoint's names to those of the ONNX model of --arch: a file, or the name of a built-in mapping
    #[arg(long, value_name = "FILE|NAME", requires = "arch")]
    map: Option<String>,
    /// Apply the inverse of the mapping
    #[arg(long, requires = "map")]
    inverse: bool,
}

impl GraphNames {
    pub(super) fn mapping(&self, registry: &Registry, limits: &Limits) -> Result<Option<Arc<Mapping>>> {
        let Some(name) = &self.map else { return Ok(None) };
        let mapping = read_mapping(registry, name, limits)?;
        Ok(Some(Arc::new(if self.inverse { mapping.inverse()? } else { mapping })))
    }
}
