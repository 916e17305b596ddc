//! A plan as JSON, and back.

use super::compile::{comparison as compiled, entries};
use super::{Comparison, Entry, Item, Plan, Settings, SourceRecord, Stored, TargetRecord};
use crate::layout::Route;
use crate::map::Twins;
use crate::resources::{Budget, Resources};
use ckpt_api::{
    Checkpoint, Contents, Error, FinishState, Kind, Limit, Limits, Literal, Loss, Metadata, OutputFile,
    OutputLayout, Placement, Reading, Repair, Result, Tensor, TensorId, Text, Ties,
};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize, Serializer};
use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::collections::HashSet;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

/// The version of the document. Plans of other versions are refused.
const VERSION: u32 = 1;
/// What a plan that is compressed begins with.
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// The program that may run a plan: another one could place the same tensors elsewhere when it finishes.
const PROGRAM: &str = concat!("ckpt ", env!("CARGO_PKG_VERSION"));

/// A plan as it is written down.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document<'a> {
    version: u32,
    program: Cow<'a, str>,
    /// SHA-256 of all the rest but `estimate`, in hex.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    sha256: String,
    source: Cow<'a, SourceRecord>,
    target: Cow<'a, TargetRecord>,
    settings: Cow<'a, Settings>,
    /// Files of the source that placements refer to.
    source_files: Cow<'a, [String]>,
    /// Files that will exist.
    files: Cow<'a, [OutputFile]>,
    tensors: Vec<TensorDocument<'a>>,
    transfers: Vec<TransferDocument<'a>>,
    items: Cow<'a, [Item]>,
    literals: Cow<'a, [Literal]>,
    /// State of the target's codec for finishing.
    #[serde(default, skip_serializing_if = "FinishState::is_empty")]
    finish: FinishState,
    readings: Cow<'a, [Reading]>,
    excluded: Cow<'a, [String]>,
    losses: Cow<'a, [Loss]>,
    repairs: Cow<'a, [Repair]>,
    notes: Cow<'a, [String]>,
    bytes_read: u64,
    bytes_written: u64,
    /// What running it takes on this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    estimate: Option<Estimate>,
}

/// A tensor, and where the source stores it.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TensorDocument<'a> {
    tensor: Cow<'a, Tensor>,
    from: Cow<'a, Placement>,
}

/// The compiled transfer of a tensor to one place of the target.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TransferDocument<'a> {
    /// Position among the codec's placements.
    number: usize,
    to: Cow<'a, Placement>,
    route: Cow<'a, Route>,
}

impl<'a> TransferDocument<'a> {
    fn of(entry: &'a Entry, placed: &'a OutputLayout) -> Self {
        TransferDocument {
            number: entry.number,
            to: Cow::Borrowed(&placed.placements[entry.number]),
            route: Cow::Borrowed(&entry.route),
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Estimate {
    peak_memory: u64,
    threads: usize,
    /// Bytes that share blocks with the source.
    #[serde(default)]
    cloned: u64,
}

impl Plan {
    /// SHA-256 of everything that determines what the plan does.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Unsupported`] if the plan has no JSON text.
    pub fn sha256(&self) -> Result<[u8; 32]> {
        let mut hasher = Hasher(Sha256::new());
        serde_json::to_writer(&mut hasher, &self.document()).map_err(|error| unwritable(&error))?;
        Ok(hasher.0.finalize().into())
    }

    /// The plan as JSON, with its SHA-256. Its schema is `schemas/plan.schema.json`.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Unsupported`] if the plan has no JSON text.
    pub fn to_json(&self) -> Result<String> {
        let mut text = serde_json::to_string_pretty(&self.signed()?).map_err(|error| unwritable(&error))?;
        text.push('\n');
        Ok(text)
    }

    /// The same document without spaces, compressed with gzip: a small part of the bytes, for plans of many tensors.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Unsupported`] if the plan has no JSON text.
    pub fn to_gzip(&self) -> Result<Vec<u8>> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        serde_json::to_writer(&mut encoder, &self.signed()?).map_err(|error| unwritable(&error))?;
        encoder.finish().map_err(|error| unwritable(&error))
    }

    /// Reads a plan from the bytes of a file: a JSON text, or one that is compressed with gzip.
    ///
    /// ```
    /// # fn main() -> Result<(), ckpt::Error> {
    /// let source = ckpt::open("examples/data/digits")?;
    /// let output = ckpt::store::MemoryStore::new().at("out.safetensors");
    /// let planned = ckpt::Conversion::new().plan(&ckpt::Registry::builtin(), &source, output)?;
    /// let plan = planned.plan();
    /// let read = ckpt::Plan::from_bytes(&plan.to_gzip()?, &ckpt_api::Limits::default())?;
    /// assert_eq!(read.sha256()?, plan.sha256()?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Plan::from_json`]; [`ckpt_api::Kind::Limit`] for a text of more bytes than [`Limit::HeaderBytes`].
    pub fn from_bytes(bytes: &[u8], limits: &Limits) -> Result<Plan> {
        if !bytes.starts_with(&GZIP) {
            limits.check(Limit::HeaderBytes, bytes.len() as u64)?;
            let text = str::from_utf8(bytes)
                .map_err(|_| unreadable("this is not a plan").found("not UTF-8 text"))?;
            return Self::from_json(text, limits);
        }
        let most = limits.get(Limit::HeaderBytes);
        let mut text = String::new();
        let read = GzDecoder::new(bytes).take(most.saturating_add(1)).read_to_string(&mut text);
        read.map_err(|error| unreadable("the plan is damaged").found(error.to_string()))?;
        limits.check(Limit::HeaderBytes, text.len() as u64)?;
        Self::from_json(&text, limits)
    }

    /// The contents of a plan's file: JSON if its name ends in `.json`, else compressed. [`Plan::from_bytes`] reads both.
    ///
    /// # Errors
    /// Those of [`Plan::to_json`].
    pub fn to_file(&self, path: &Path) -> Result<Vec<u8>> {
        match path.extension().is_some_and(|extension| extension == "json") {
            true => Ok(self.to_json()?.into_bytes()),
            false => self.to_gzip(),
        }
    }

    /// Reads a plan, and checks that nobody changed it. `limits` are at least those that it was made with.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`] for a text that is no plan, a plan of another version, or one that was altered;
    /// [`ckpt_api::Kind::Limit`] for a checkpoint that exceeds a limit.
    pub fn from_json(text: &str, limits: &Limits) -> Result<Plan> {
        let document: Document = serde_json::from_str(text).map_err(|error| {
            version_of(text).unwrap_or_else(|| unreadable("this is not a plan").found(error.to_string()))
        })?;
        if (document.version, &*document.program) != (VERSION, PROGRAM) {
            return Err(of_another(document.version, &document.program));
        }
        let sha256 = document.sha256.clone();
        let plan = document.into_plan()?;
        plan.check(limits)?;
        let found = crate::words::hex(&plan.sha256()?);
        if found != sha256 {
            return Err(unreadable("the plan was modified")
                .found(format!("SHA-256 {found}"))
                .expected(sha256)
                .help("plan again; a plan cannot be edited by hand"));
        }
        plan.with_resources(Resources::default(), false)
    }

    fn signed(&self) -> Result<Document<'_>> {
        let (peak_memory, threads, cloned) = (self.peak_memory, self.threads, self.cloned_bytes());
        Ok(Document {
            sha256: crate::words::hex(&self.sha256()?),
            estimate: Some(Estimate { peak_memory, threads, cloned }),
            ..self.document()
        })
    }

    fn document(&self) -> Document<'_> {
        let Contents { checkpoint, files, placements, repairs, .. } = &*self.contents;
        let tensors = checkpoint.tensors.iter().zip(placements);
        let placed = &*self.placed;
        Document {
            version: VERSION,
            program: PROGRAM.into(),
            sha256: String::new(),
            source: Cow::Borrowed(&self.source),
            target: Cow::Borrowed(&self.target),
            settings: Cow::Borrowed(&self.settings),
            source_files: files.into(),
            files: (&placed.files).into(),
            tensors: tensors
                .map(|(tensor, from)| TensorDocument { tensor: bare(tensor), from: Cow::Borrowed(from) })
                .collect(),
            transfers: self.entries.iter().map(|entry| TransferDocument::of(entry, placed)).collect(),
            items: (&self.items).into(),
            literals: (&placed.literals).into(),
            finish: placed.finish.clone(),
            readings: (&placed.readings).into(),
            excluded: (&self.excluded).into(),
            losses: (&self.losses).into(),
            repairs: repairs.into(),
            notes: self.notes().map(str::to_owned).collect(),
            bytes_read: self.bytes_read,
            bytes_written: self.bytes_written,
            estimate: None,
        }
    }

    /// Checks what the executor relies on, for a plan may come from anybody: placements fit their tensors, routes are
    /// what they are compiled to, items write every byte of every extent once.
    fn check(&self, limits: &Limits) -> Result<()> {
        let wrong = |error: Error| match error.kind() {
            Kind::Limit => error,
            _ => contradiction(error.quoted()),
        };
        self.contents.check(limits).map_err(wrong)?;
        self.placed.check(&self.contents.checkpoint).map_err(wrong)?;
        self.placed.check_cover().map_err(|error| contradiction(error.quoted()))?;
        let lost: HashSet<&str> = self.losses.iter().map(|loss| loss.subject.as_str()).collect();
        let mut unplaced = self.placed.unplaced(&self.contents.checkpoint);
        if let Some((_, tensor)) = unplaced.find(|(_, tensor)| !lost.contains(tensor.name.as_str())) {
            return Err(contradiction("a tensor without a placement").tensor(&tensor.name));
        }
        if entries(&self.contents, &self.placed).map_err(wrong)? != self.entries {
            return Err(contradiction("a route to a different placement"));
        }
        for item in &self.items {
            if let Item::Compare(comparison) = item {
                self.check_comparison(comparison, limits).map_err(wrong)?;
            }
        }
        self.check_pieces()
    }

    fn check_comparison(&self, comparison: &Comparison, limits: &Limits) -> Result<()> {
        for Stored { tensor, placement, .. } in [&comparison.first, &comparison.other] {
            let placement = placement.clone().with_tensor(TensorId(0));
            let contents = Contents::default()
                .with_checkpoint(Checkpoint { tensors: vec![tensor.clone()], ..Checkpoint::default() })
                .with_files(self.contents.files.clone())
                .with_placements(vec![placement]);
            contents.check(limits)?;
        }
        let Comparison { name, first, other } = comparison.clone();
        let twins =
            Twins { name, first: (first.tensor, first.placement), other: (other.tensor, other.placement) };
        match compiled(twins)? == *comparison {
            true => Ok(()),
            false => Err(contradiction("a route to a different placement")),
        }
    }
}

/// As `ckpt plan --format json` prints it.
impl Serialize for Plan {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        self.signed().map_err(serde::ser::Error::custom)?.serialize(serializer)
    }
}

impl Document<'_> {
    fn into_plan(self) -> Result<Plan> {
        let (tensors, placements): (Vec<Tensor>, Vec<Placement>) =
            self.tensors.into_iter().map(|one| (one.tensor.into_owned(), one.from.into_owned())).unzip();
        let count = self.transfers.len();
        let mut places: Vec<Option<Placement>> = vec![None; count];
        let mut entries = Vec::with_capacity(count);
        for transfer in self.transfers {
            let to = transfer.to.into_owned();
            let known =
                to.added().iter().map(|added| added.tensor).chain([to.tensor]).all(|id| id.0 < tensors.len());
            let slot = places.get_mut(transfer.number).filter(|slot| slot.is_none() && known);
            *slot.ok_or_else(|| unreadable("two transfers of the plan have the same number"))? = Some(to);
            entries.push(Entry { number: transfer.number, route: transfer.route.into_owned() });
        }
        let mut contents = Contents::default()
            .with_checkpoint(Checkpoint { tensors, ..Checkpoint::default() })
            .with_files(self.source_files.into_owned())
            .with_placements(placements)
            .with_repairs(self.repairs.into_owned())
            .with_notes(self.notes.into_owned());
        let placed = OutputLayout::default()
            .with_files(self.files.into_owned())
            .with_literals(self.literals.into_owned())
            .with_placements(places.into_iter().flatten().collect())
            .with_finish(self.finish)
            .with_readings(self.readings.into_owned());
        contents.checkpoint.ties = Ties::of(&contents);
        Ok(Plan {
            shared: placed.shared(&contents.checkpoint.ties),
            source: self.source.into_owned(),
            target: self.target.into_owned(),
            settings: self.settings.into_owned(),
            excluded: self.excluded.into_owned(),
            losses: self.losses.into_owned(),
            bytes_read: self.bytes_read,
            bytes_written: self.bytes_written,
            peak_memory: 0,
            threads: 1,
            budget: Budget::default(),
            contents: Arc::new(contents),
            placed: Arc::new(placed),
            entries,
            items: self.items.into_owned(),
        })
    }
}

/// A tensor without what formats noted about it, which no item needs.
fn bare(tensor: &Tensor) -> Cow<'_, Tensor> {
    match tensor.metadata.is_empty() {
        true => Cow::Borrowed(tensor),
        false => Cow::Owned(tensor.clone().with_metadata(Metadata::default())),
    }
}

/// The error for a document of another version, where that much of it can be read.
fn version_of(text: &str) -> Option<Error> {
    #[derive(Deserialize)]
    struct Versions {
        version: u32,
        program: String,
    }
    let Versions { version, program } = serde_json::from_str(text).ok()?;
    ((version, program.as_str()) != (VERSION, PROGRAM)).then(|| of_another(version, &program))
}

fn of_another(version: u32, program: &str) -> Error {
    unreadable("another version wrote the plan")
        .found(format!("version {version}, {program}"))
        .expected(format!("version {VERSION}, {PROGRAM}"))
        .help("plan again with this version")
}

/// The error for a plan whose parts do not fit each other.
pub(super) fn contradiction(found: impl Into<Text>) -> Error {
    Error::unsupported("the plan contradicts itself").found(found).help(
        "plan again, and run the new plan; if that fails, too, the program has a defect: please report it",
    )
}

/// Blames the plan for what would be a defect in a plan of this process: a document can state what no codec lays out.
pub fn blame_document(error: Error) -> Error {
    if error.kind() == Kind::Defect { contradiction(error.quoted()) } else { error }
}

fn unreadable(message: &str) -> Error {
    Error::usage(message)
}

fn unwritable(error: &dyn std::fmt::Display) -> Error {
    Error::unsupported("the plan cannot be written as JSON").found(error.to_string())
}

/// Hashes what is written to it.
struct Hasher(Sha256);

impl std::io::Write for Hasher {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
