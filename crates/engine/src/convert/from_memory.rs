//! Tensors in memory, written as a checkpoint.

use super::directory::check_empty;
use super::run::finish_files;
use super::{Conversion, Execution, Origin, Summary};
use crate::execute::{Files, Run, interrupted, run};
use crate::formats::{CompanionFile, ModelTranslation};
use crate::map::map;
use crate::plan::SourceRecord;
use crate::registry::Registry;
use crate::store::{Destination, StageRequest};
use ckpt_api::{Contents, LibraryWords, ReadAt, Result};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Plans, judges and executes the conversion of `contents`, whose files are `data`, one for each tensor. `companions` are written beside
/// the output: all files appear, or none.
///
/// # Errors
/// Those of [`Conversion::plan`] and [`super::Planned::execute`].
pub fn write_from_memory(
    registry: &Registry,
    conversion: &Conversion,
    execution: &Execution,
    (contents, companions): (Contents, Vec<CompanionFile>),
    data: Vec<Box<dyn ReadAt + '_>>,
    output: &Destination,
) -> Result<Summary> {
    contents.check(&conversion.limits)?;
    let files = Files::memory(contents.files.iter().cloned().zip(data).collect());
    let codec = conversion.writer(registry, output)?;
    if conversion.directory {
        check_empty(output, conversion.overwrite)?;
    }
    let mapped = map(&Arc::new(contents), &conversion.map_options(true))?;
    let origin = Origin { record: in_memory(), store: None, framework: None, clone: None };
    let mut beside = ModelTranslation::new(None);
    beside.files = companions;
    let plan = conversion.compile(&*codec, origin, mapped, (output, None, Some(beside)), &LibraryWords)?;
    conversion.judge(&plan)?;
    let request = StageRequest {
        overwrite: conversion.overwrite,
        reread: false,
        ..StageRequest::new(&output.name, plan.files())
    };
    let stage = output.store.stage(&request)?;
    let running =
        Run { plan: &plan, files: &files, stage: &*stage, progress: &|_| (), canceled: &execution.canceled };
    let items: Vec<usize> = (0..plan.items().len()).collect();
    let results = run(&running, &items, &|_| Ok(()))?;
    let finished = finish_files(&plan, &files, &*codec, &*stage, &results)?;
    let bytes = stage.bytes()?;
    if execution.sync {
        stage.sync()?;
    }
    if execution.canceled.load(Ordering::Relaxed) {
        return Err(interrupted());
    }
    Ok(Summary::new(&plan, &finished, stage.commit(execution.sync)?, bytes))
}

/// A source that no other process can open.
fn in_memory() -> SourceRecord {
    SourceRecord {
        others: Vec::new(),
        parts: false,
        format: "memory".to_owned(),
        codec: None,
        location: None,
        entry: String::new(),
        options: Vec::new(),
        architecture: None,
        graph: None,
        files: Vec::new(),
    }
}
