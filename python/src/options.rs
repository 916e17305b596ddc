//! How checkpoints are opened, what can be named, and what work may take.

use crate::codecs::registry;
use crate::errors::{Failure, json};
use ckpt::api::{ArchitectureFile, Error, Limits, parse_size};
use ckpt::mapping::Mapping;
use ckpt::{OpenOptions, RegisteredMapping, Registry, Resources};
use pyo3::prelude::*;
use serde_json::{Value, json as object};
use std::path::PathBuf;

/// How to open a checkpoint: what `ckpt._reading` makes of keyword arguments.
#[derive(Clone, Debug, FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Reading {
    format: Option<String>,
    options: Vec<(String, String)>,
    limits: Vec<(String, String)>,
    /// A built-in architecture's name, an architecture file as JSON, or a model that gives its graph.
    architecture_name: Option<String>,
    architecture_json: Option<String>,
    architecture_model: Option<PathBuf>,
    /// Inputs of a forward pass to come.
    inputs: Vec<String>,
    /// Whether quantized weights are read as the tensors that are stored for them.
    parts: bool,
}

impl Reading {
    pub(crate) fn limits(&self) -> Result<Limits, Failure> {
        limits(&self.limits)
    }

    pub(crate) fn options(&self, registry: &Registry) -> Result<OpenOptions, Failure> {
        let limits = self.limits()?;
        let options = OpenOptions::new().set_all(self.options.clone()).inputs(self.inputs.clone());
        let mut options = options.limits(limits.clone()).vocabulary(crate::words::Keywords).parts(self.parts);
        options.format.clone_from(&self.format);
        if let Some(name) = &self.architecture_name {
            options = options.architecture(named(name)?);
        }
        if let Some(json) = &self.architecture_json {
            options = options.architecture(ArchitectureFile::from_json_within(json, &limits)?);
        }
        if let Some(path) = &self.architecture_model {
            let model = ckpt::Source::open(registry, path, &OpenOptions::new().limits(limits))?;
            options = options.graph_of(&model);
        }
        Ok(options)
    }
}

fn named(name: &str) -> Result<ArchitectureFile, Failure> {
    let unknown = || {
        Error::usage("no file and no built-in architecture has this name")
            .found(format!("'{name}'"))
            .help(ckpt::api::nearest(name, ckpt::architectures()))
    };
    Ok(ckpt::architecture(name).ok_or_else(unknown)?)
}

/// Limits by their names.
pub(crate) fn limits(given: &[(String, String)]) -> Result<Limits, Failure> {
    let mut limits = Limits::default();
    given.iter().try_for_each(|(name, value)| limits.set_by_name(name, value))?;
    Ok(limits)
}

/// Threads, 0 for the default, and memory.
pub(crate) fn resources(threads: usize, max_memory: Option<&str>) -> Result<Resources, Failure> {
    let resources = Resources::new().threads(threads);
    Ok(match max_memory {
        None => resources,
        Some(size) => resources.max_memory(bytes(size, "max_memory")?),
    })
}

/// A size that a user writes.
pub(crate) fn bytes(size: &str, field: &str) -> Result<u64, Failure> {
    let wrong = || Error::usage("the size is not a number").field(field).found(format!("'{size}'"));
    Ok(parse_size(size).ok_or_else(wrong)?)
}

/// A mapping: what `ckpt._reading` makes of the argument `map`.
#[derive(Clone, Debug, FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Renaming {
    /// A built-in mapping, or a file; values for its parameters may follow.
    name: Option<String>,
    /// Pairs of names; other names stay.
    pairs: Vec<(String, String)>,
    inverse: bool,
}

impl Renaming {
    pub(crate) fn mapping(&self, limits: &Limits) -> Result<Mapping, Failure> {
        let mapping = match &self.name {
            None => Mapping::lookup(self.pairs.iter().cloned())?,
            Some(name) => registry().read_mapping(name, limits)?,
        };
        Ok(if self.inverse { mapping.inverse()? } else { mapping })
    }

    /// What reports call it.
    pub(crate) fn shown(&self) -> String {
        self.name.clone().unwrap_or_else(|| "a dict".to_owned())
    }
}

/// The formats, as JSON.
#[pyfunction]
pub(crate) fn formats(py: Python<'_>) -> PyResult<String> {
    let registry = registry();
    let formats: Vec<Value> = registry
        .codecs()
        .map(|codec| {
            let info = codec.info();
            object!({
                "id": info.id, "title": info.title, "extensions": info.extensions,
                "reads": !info.reads.is_empty(), "writes": !info.writes.is_empty(),
            })
        })
        .collect();
    json(&formats).map_err(|failure| failure.into_python(py))
}

/// The names of the built-in mappings.
#[pyfunction]
pub(crate) fn mappings() -> Vec<&'static str> {
    registry().mappings().map(RegisteredMapping::name).collect()
}
