//! The model that gives a source its graph, as a plan records it.

use super::location::directory;
use crate::plan::GraphRecord;
use crate::receipt::record_of;
use crate::registry::Registry;
use crate::source::{ModelGraph, OpenOptions, Source};
use crate::store::Addresses;
use ckpt_api::{Error, Input, Result};
use std::sync::Arc;

/// The record of a model.
///
/// # Errors
/// [`ckpt_api::Kind::Io`].
pub(super) fn record(model: &ModelGraph, is_mapped: bool) -> Result<GraphRecord> {
    let input = &model.input;
    let file = record_of(input, input.entry())?;
    Ok(GraphRecord {
        location: input.store().location(),
        directory: directory(&**input.store()),
        entry: input.entry().to_owned(),
        format: model.format.to_owned(),
        bytes: file.bytes,
        sha256: file.sha256,
        is_mapped,
    })
}

/// The file of a recorded model, which must be what it was; `None` if no other process can open it.
///
/// # Errors
/// [`ckpt_api::Kind::Usage`] if it has changed, [`ckpt_api::Kind::Io`] if it cannot be read.
pub(super) fn find(addresses: &Addresses, record: &GraphRecord) -> Result<Option<Input>> {
    let Some(location) = record.location.as_deref() else { return Ok(None) };
    let input = Input::within_store(addresses.open(location)?, &record.entry);
    let found = record_of(&input, &record.entry)?;
    if (found.bytes, &found.sha256) != (record.bytes, &record.sha256) {
        return Err(Error::usage("the model that gives the graph has changed since the plan was made")
            .file(input.display(&record.entry))
            .found(format!("SHA-256 {}", found.sha256))
            .expected(record.sha256.as_str())
            .help("plan again with the model as it is now"));
    }
    Ok(Some(input))
}

/// The graph of a recorded model that has the source's own names.
///
/// # Errors
/// Those of [`find`], and of reading it.
pub(super) fn read(
    registry: &Registry,
    record: Option<&GraphRecord>,
    options: &OpenOptions,
) -> Result<Option<Arc<ModelGraph>>> {
    let Some(record) = record.filter(|record| !record.is_mapped) else { return Ok(None) };
    let Some(input) = find(registry.addresses(), record)? else { return Ok(None) };
    let options = OpenOptions::new().format(record.format.as_str()).limits(options.limits.clone());
    let model = Source::open(registry, input, &options)?;
    Ok(Some(Arc::new(ModelGraph::of(&model))))
}
