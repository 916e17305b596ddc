//! The record of a conversion: what [`crate::receipt::check`] looks at later.

use super::examine::Examined;
use super::location::directory;
use super::reread::Reread;
use super::{Computed, Planned, Verification};
use crate::plan::{GraphRecord, MappingRecord, Step, TensorEntry};
use crate::receipt::{FileRecord, records};
use crate::words::hex;
use ckpt_api::{ArchitectureFile, DType, Error, Input, Loss, ReadStore, Repair, Result, Shape};
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Serialize)]
struct Receipt<'a> {
    ckpt: &'static str,
    source: SideRecord<'a>,
    target: SideRecord<'a>,
    /// The checkpoints whose tensors were merged into the source's.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    others: Vec<OtherSide>,
    /// The model that gave the source its graph.
    #[serde(skip_serializing_if = "Option::is_none")]
    graph: Option<GraphSide<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mapping: Option<TextRecord>,
    transforms: &'a [String],
    include: &'a [String],
    exclude: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    dtype: Option<DType>,
    tensors: Vec<TensorRecord<'a>>,
    excluded: &'a [String],
    losses: &'a [Loss],
    repairs: &'a [Repair],
    /// Bytes that share blocks with the source.
    #[serde(skip_serializing_if = "Option::is_none")]
    cloned: Option<u64>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    unchecked: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    verification: Option<VerificationRecord<'a>>,
}

#[derive(Serialize)]
struct SideRecord<'a> {
    format: &'a str,
    directory: String,
    entry: &'a str,
    options: BTreeMap<&'a str, &'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    architecture: Option<TextRecord>,
    files: Vec<FileRecord>,
}

#[derive(Serialize)]
struct OtherSide {
    directory: String,
    files: Vec<FileRecord>,
}

#[derive(Serialize)]
struct GraphSide<'a> {
    directory: &'a str,
    files: [FileRecord; 1],
}

/// A text that was an input, by its hash.
#[derive(Serialize)]
struct TextRecord {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    sha256: String,
}

#[derive(Serialize)]
struct TensorRecord<'a> {
    sources: Vec<&'a str>,
    tensor: &'a str,
    name: &'a str,
    files: Vec<&'a str>,
    dtype: DType,
    shape: &'a Shape,
    steps: &'a [Step],
    #[serde(skip_serializing_if = "Option::is_none")]
    sha256: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    largest_error: Option<f64>,
}

#[derive(Serialize)]
struct VerificationRecord<'a> {
    tensors: usize,
    equal: usize,
    computed: &'a Computed,
}

/// The receipt of a conversion whose output is complete: `files` are its files.
///
/// # Errors
/// [`ckpt_api::Kind::Io`].
pub(super) fn text(
    planned: &Planned,
    files: &Arc<dyn ReadStore>,
    reread: &Reread,
    examined: &[Examined],
    verification: Option<&Verification>,
    cloned: u64,
) -> Result<String> {
    let Planned { input, plan, output, .. } = planned;
    let (source, target, settings) = (&plan.source, &plan.target, &plan.settings);
    let (threads, chunk) = (plan.threads, plan.budget.chunk);
    let written: Vec<String> = plan.files().iter().map(|file| file.name.clone()).collect();
    let staged = Input::within_store(files.clone(), "");
    let receipt = Receipt {
        ckpt: env!("CARGO_PKG_VERSION"),
        source: SideRecord {
            format: plan.from(),
            directory: directory(&**input.store()),
            entry: input.entry(),
            options: pairs(&source.options),
            architecture: source.architecture.as_ref().map(of_architecture),
            files: records(input, &opened(planned, None), threads, chunk)?,
        },
        target: SideRecord {
            format: plan.to(),
            directory: directory(&*output.store),
            entry: &output.name,
            options: pairs(&target.options),
            architecture: target.architecture.as_ref().map(of_architecture),
            files: records(&staged, &written, threads, chunk)?,
        },
        others: others(planned)?,
        graph: source.graph.as_ref().map(of_graph),
        mapping: settings.mapping.as_ref().map(of_mapping),
        transforms: &settings.transforms,
        include: &settings.include,
        exclude: &settings.exclude,
        dtype: settings.dtype,
        tensors: tensors(planned, reread, examined),
        excluded: &plan.excluded,
        losses: &plan.losses,
        repairs: plan.repairs(),
        cloned: Some(cloned).filter(|bytes| *bytes > 0),
        unchecked: settings.unchecked,
        verification: verification.map(|found| VerificationRecord {
            tensors: found.tensors,
            equal: found.equal,
            computed: &found.computed,
        }),
    };
    let mut text = serde_json::to_string_pretty(&receipt).map_err(|error| {
        Error::unsupported("the receipt cannot be written as JSON").found(error.to_string())
    })?;
    text.push('\n');
    Ok(text)
}

/// The files of the source that were read: its own, or those of another input with this number, as they are called there.
fn opened(planned: &Planned, other: Option<usize>) -> Vec<String> {
    let names = planned.plan.source_files().iter().map(|file| match Input::in_other(&file.name) {
        Some((number, name)) => (Some(number), name),
        None => (None, file.name.as_str()),
    });
    names.filter(|(of, _)| *of == other).map(|(_, name)| name.to_owned()).collect()
}

/// The checkpoints beside the source.
fn others(planned: &Planned) -> Result<Vec<OtherSide>> {
    let (threads, chunk) = (planned.plan.threads, planned.plan.budget.chunk);
    let record = |(number, other): (usize, &Input)| {
        let files = records(other, &opened(planned, Some(number)), threads, chunk)?;
        Ok(OtherSide { directory: directory(&**other.store()), files })
    };
    planned.input.others().iter().enumerate().map(record).collect()
}

fn pairs(options: &[(String, String)]) -> BTreeMap<&str, &str> {
    options.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect()
}

fn of_graph(graph: &GraphRecord) -> GraphSide<'_> {
    let file = FileRecord { name: graph.entry.clone(), bytes: graph.bytes, sha256: graph.sha256.clone() };
    GraphSide { directory: &graph.directory, files: [file] }
}

fn of_architecture(file: &ArchitectureFile) -> TextRecord {
    TextRecord { name: file.name().map(str::to_owned), sha256: of_text(&file.to_json()) }
}

fn of_mapping(mapping: &MappingRecord) -> TextRecord {
    TextRecord { name: mapping.name.clone(), sha256: of_text(&mapping.toml) }
}

fn of_text(text: &str) -> String {
    hex(&Sha256::digest(text))
}

fn tensors<'a>(planned: &'a Planned, reread: &'a Reread, examined: &'a [Examined]) -> Vec<TensorRecord<'a>> {
    let entries = planned.plan.tensors().zip(examined).enumerate();
    let record = |(number, (entry, examined)): (usize, (TensorEntry<'a>, &'a Examined))| {
        let (part, id) = reread.tensor(number)?;
        let (tensor, _) = part.contents.tensor_at(id).ok()?;
        Some(TensorRecord {
            sources: sources(planned, &entry),
            tensor: entry.tensor,
            name: &tensor.name,
            files: files(planned, &entry),
            dtype: part.canonical(id).dtype,
            shape: &tensor.shape,
            steps: entry.steps,
            sha256: examined.sha256.as_deref(),
            largest_error: examined.error,
        })
    };
    entries.filter_map(record).collect()
}

/// The names that the source has for what a tensor was made of.
fn sources<'a>(planned: &'a Planned, entry: &TensorEntry<'a>) -> Vec<&'a str> {
    let added =
        entry.to.added().iter().filter_map(|added| planned.plan.contents.tensor_at(added.tensor).ok());
    let names = [entry.tensor].into_iter().chain(added.map(|(tensor, _)| tensor.name.as_str()));
    names
        .flat_map(|name| match planned.plan.settings.made_of.get(name) {
            Some(sources) => sources.iter().map(String::as_str).collect(),
            None => vec![name],
        })
        .collect()
}

fn files<'a>(planned: &'a Planned, entry: &TensorEntry<'_>) -> Vec<&'a str> {
    let mut ids: Vec<usize> = entry.to.extents.iter().map(|extent| extent.file.0).collect();
    ids.sort_unstable();
    ids.dedup();
    ids.into_iter().filter_map(|id| planned.plan.files().get(id)).map(|file| file.name.as_str()).collect()
}
