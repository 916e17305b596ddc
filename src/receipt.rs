//! What a conversion did, and to which bytes: a file that says it the same way every time, to be checked later.
//!
//! A receipt is JSON (`schemas/receipt.schema.json`): the version of this program, format, options and files of either
//! side with their SHA-256, how tensors were chosen and named, and of every tensor that was written its sources, its steps,
//! the SHA-256 of its value and the error of what was rounded. It has no time stamps, and paths as they were given.
//!
//! Files are read by position and written by several threads at once, so that their hashes are taken afterwards, from the
//! start to the end, when the system still holds them in memory.

use crate::convert::{Computed, Examined, Planned, Reread, Verification};
use crate::digest::hex;
use crate::execute::{Output, default_threads, in_parallel};
use crate::mapping::Mapping;
use crate::plan::Job;
use crate::transform::Step;
use ckpt_api::{ArchitectureFile, DType, Error, File, Input, Kind, Loss, Repair, Result, Shape};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::path::Path;

/// What [`check`] looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Checked {
    /// How many files.
    pub files: usize,
    /// Bytes in all of them.
    pub bytes: u64,
}

/// Whether the files that a receipt names are still what it says. Paths in it are relative to `root`.
///
/// # Errors
/// [`ckpt_api::Kind::Mismatch`] for the first file that is missing or other, sources before targets;
/// [`ckpt_api::Kind::Usage`] for a text that is no receipt.
///
/// ```
/// # fn main() -> Result<(), ckpt::Error> {
/// # let directory = tempfile::tempdir().unwrap();
/// # let (out, receipt) = (directory.path().join("digits.safetensors"), directory.path().join("receipt.json"));
/// let registry = ckpt::Registry::builtin();
/// let source = ckpt::Source::open(&registry, "examples/data/digits", &Default::default())?;
/// let conversion = ckpt::Conversion { receipt: Some(receipt.clone()), ..Default::default() };
/// conversion.plan(&registry, source, &out)?.execute(&Default::default(), &|_bytes| ())?;
/// let text = std::fs::read_to_string(receipt).unwrap();
/// assert_eq!(ckpt::receipt::check(&text, std::path::Path::new("."))?.files, 4);
/// # Ok(())
/// # }
/// ```
pub fn check(receipt: &str, root: &Path) -> Result<Checked> {
    let recorded: Recorded = serde_json::from_str(receipt)
        .map_err(|error| Error::usage("this is no receipt of a conversion").found(error.to_string()))?;
    let sides = [&recorded.source, &recorded.target];
    let files: Vec<(&str, &FileRecord)> = sides
        .into_iter()
        .flat_map(|side| side.files.iter().map(|file| (side.directory.as_str(), file)))
        .collect();
    in_parallel(&files, default_threads(), |(directory, file)| check_file(&root.join(directory), file))?;
    let bytes = files.iter().fold(0u64, |sum, (_, file)| sum.saturating_add(file.bytes));
    Ok(Checked { files: files.len(), bytes })
}

fn check_file(directory: &Path, recorded: &FileRecord) -> Result<()> {
    let here = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
    let shown = here.join(&recorded.name).display().to_string();
    let differs = |found: String, expected: String| {
        Error::mismatch("a file is not the one that the receipt names")
            .file(shown.as_str())
            .found(found)
            .expected(expected)
            .help("it was changed since, or is another's; relative paths are looked up below --root")
    };
    let opened = Input::open(here).and_then(|input| input.file(&recorded.name));
    let file = match opened {
        Err(error) if is_missing(&error) => {
            return Err(differs("no file".into(), format!("{} bytes", recorded.bytes)));
        }
        opened => opened?,
    };
    if file.len() != recorded.bytes {
        return Err(differs(format!("{} bytes", file.len()), format!("{} bytes", recorded.bytes)));
    }
    let found = hash(&file, READ)?;
    if found != recorded.sha256 {
        return Err(differs(format!("SHA-256 {found}"), recorded.sha256.clone()));
    }
    Ok(())
}

fn is_missing(error: &Error) -> bool {
    let source = std::error::Error::source(error).and_then(|source| source.downcast_ref::<std::io::Error>());
    error.kind() == Kind::Io && source.is_some_and(|source| source.kind() == std::io::ErrorKind::NotFound)
}

/// What [`check`] reads of a receipt.
#[derive(Deserialize)]
struct Recorded {
    source: RecordedSide,
    target: RecordedSide,
}

#[derive(Deserialize)]
struct RecordedSide {
    directory: String,
    files: Vec<FileRecord>,
}

#[derive(Serialize, Deserialize)]
struct FileRecord {
    name: String,
    bytes: u64,
    sha256: String,
}

#[derive(Serialize)]
struct Receipt<'a> {
    ckpt: &'static str,
    source: SideRecord<'a>,
    target: SideRecord<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mapping: Option<Named>,
    transforms: Vec<String>,
    include: &'a [String],
    exclude: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    dtype: Option<DType>,
    tensors: Vec<TensorRecord<'a>>,
    excluded: &'a [String],
    losses: &'a [Loss],
    repairs: &'a [Repair],
    #[serde(skip_serializing_if = "Option::is_none")]
    verification: Option<VerificationRecord<'a>>,
}

#[derive(Serialize)]
struct SideRecord<'a> {
    format: &'static str,
    directory: String,
    entry: &'a str,
    options: BTreeMap<&'a str, &'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    architecture: Option<Named>,
    files: Vec<FileRecord>,
}

/// A text that had a say, by its hash.
#[derive(Serialize)]
struct Named {
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

/// The receipt of a conversion whose output is complete but for its names.
///
/// # Errors
/// [`ckpt_api::Kind::Io`].
pub(crate) fn text(
    planned: &Planned,
    output: &Output,
    reread: &Reread,
    examined: &[Examined],
    verification: Option<&Verification>,
) -> Result<String> {
    let Planned { source, plan, conversion, .. } = planned;
    let (threads, chunk) = (plan.threads, plan.budget.chunk);
    let staged = Input::staged(&planned.directory, "", output.staged(&planned.plan.placed.files));
    let opened = source.input.opened();
    let written: Vec<String> = plan.files().iter().map(|file| file.name.clone()).collect();
    let receipt = Receipt {
        ckpt: env!("CARGO_PKG_VERSION"),
        source: SideRecord {
            format: plan.from,
            directory: source.input.directory().map(shown).unwrap_or_default(),
            entry: source.input.entry(),
            options: pairs(&source.options.options),
            architecture: source.options.architecture.as_ref().map(of_architecture),
            files: records(&source.input, &opened, threads, chunk)?,
        },
        target: SideRecord {
            format: plan.to,
            directory: shown(&planned.directory),
            entry: &planned.name,
            options: pairs(&conversion.options),
            architecture: conversion.architecture.as_ref().map(of_architecture),
            files: records(&staged, &written, threads, chunk)?,
        },
        mapping: conversion.mapping.as_ref().map(of_mapping),
        transforms: conversion.transforms.iter().map(ToString::to_string).collect(),
        include: &conversion.include,
        exclude: &conversion.exclude,
        dtype: conversion.dtype,
        tensors: tensors(planned, reread, examined),
        excluded: &plan.excluded,
        losses: &plan.losses,
        repairs: plan.repairs(),
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

fn shown(directory: &Path) -> String {
    directory.display().to_string()
}

fn pairs(options: &[(String, String)]) -> BTreeMap<&str, &str> {
    options.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect()
}

fn of_architecture(file: &ArchitectureFile) -> Named {
    Named { name: file.name.clone(), sha256: of_text(&file.document.to_string()) }
}

fn of_mapping(mapping: &Mapping) -> Named {
    Named { name: mapping.origin().map(str::to_owned), sha256: of_text(&mapping.to_toml()) }
}

fn of_text(text: &str) -> String {
    hex(&Sha256::digest(text))
}

fn tensors<'a>(planned: &'a Planned, reread: &'a Reread, examined: &'a [Examined]) -> Vec<TensorRecord<'a>> {
    let jobs = planned.plan.jobs().zip(examined).enumerate();
    let record = |(number, (job, examined)): (usize, (Job<'a>, &'a Examined))| {
        let (part, id) = reread.tensor(number)?;
        let (tensor, _) = part.contents.tensor_at(id).ok()?;
        Some(TensorRecord {
            sources: sources(planned, &job),
            tensor: job.tensor,
            name: &tensor.name,
            files: files(planned, &job),
            dtype: part.canonical(id).dtype,
            shape: &tensor.shape,
            steps: job.steps,
            sha256: examined.sha256.as_deref(),
            largest_error: examined.error,
        })
    };
    jobs.filter_map(record).collect()
}

/// The names that the source has for what a tensor was made of.
fn sources<'a>(planned: &'a Planned, job: &Job<'a>) -> Vec<&'a str> {
    let added = job.to.added.iter().filter_map(|added| planned.source.contents.tensor_at(added.tensor).ok());
    let names = [job.tensor].into_iter().chain(added.map(|(tensor, _)| tensor.name.as_str()));
    names
        .flat_map(|name| match planned.made_of.get(name) {
            Some(sources) => sources.iter().map(String::as_str).collect(),
            None => vec![name],
        })
        .collect()
}

fn files<'a>(planned: &'a Planned, job: &Job) -> Vec<&'a str> {
    let mut ids: Vec<usize> = job.to.extents.iter().map(|extent| extent.file.0).collect();
    ids.sort_unstable();
    ids.dedup();
    ids.into_iter().filter_map(|id| planned.plan.files().get(id)).map(|file| file.name.as_str()).collect()
}

fn records(input: &Input, names: &[String], threads: usize, chunk: usize) -> Result<Vec<FileRecord>> {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    in_parallel(&names, threads, |name| {
        let file = input.file(name)?;
        Ok(FileRecord { name: name.to_owned(), bytes: file.len(), sha256: hash(&file, chunk)? })
    })
}

/// Bytes hashed at once.
const READ: usize = 1 << 20;

/// The SHA-256 of a file, in hex.
fn hash(file: &File, chunk: usize) -> Result<String> {
    let (mut hasher, mut offset) = (Sha256::new(), 0);
    let mut buffer = vec![0; chunk.clamp(1, READ)];
    while offset < file.len() {
        let left = usize::try_from(file.len() - offset).unwrap_or(usize::MAX);
        let len = buffer.len().min(left);
        let piece = buffer.get_mut(..len).unwrap_or_default();
        file.read_at(offset, piece)?;
        hasher.update(&piece);
        offset += len as u64;
    }
    Ok(hex(&hasher.finalize()))
}
