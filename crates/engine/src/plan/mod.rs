//! The plan of a conversion: complete, self-contained data, made before any tensor byte is read.
//!
//! A plan holds what the executor carries out, derived from nothing else: every tensor's route and places, cut into
//! [`Item`]s that can run in any order, in any number of processes, more than once. It serializes to JSON
//! (`schemas/plan.schema.json`) and back, knows its own SHA-256, and pins the identity of its sources.

mod attach;
mod clone;
mod compile;
mod coverage;
mod document;
mod key;
mod losses;
mod memory;
mod policy;

pub use clone::Cloning;
pub(crate) use clone::{CloneSettings, CopiedRun};
pub(crate) use compile::{Parts, compile, unequal};
pub use document::blame_document;
pub(crate) use memory::{Stores, too_little_memory};
pub use policy::Policy;

pub use crate::layout::{Access, ExtentNumbers, FileRange, Part, Piece, Step};
use crate::layout::{Cut, ExtentPair, Route, Transfer};
use crate::resources::Budget;
use ckpt_api::{
    AddedAxis, ArchitectureFile, Contents, DType, Encoding, FileId, Loss, OutputFile, OutputLayout,
    Placement, Provenance, Repair, Result, Tensor,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a conversion will do. Its JSON Schema is `schemas/plan.schema.json`.
#[derive(Clone, Debug)]
pub struct Plan {
    pub(crate) source: SourceRecord,
    pub(crate) target: TargetRecord,
    pub(crate) settings: Settings,
    /// Tensors that the user excluded.
    pub excluded: Vec<String>,
    /// What the target cannot carry.
    pub losses: Vec<Loss>,
    /// Bytes of tensor data read.
    pub bytes_read: u64,
    /// Bytes of tensor data written.
    pub bytes_written: u64,
    /// Bytes of memory that the executor will hold at most, headers included.
    pub peak_memory: u64,
    /// Threads that will be used.
    pub threads: usize,
    pub(crate) budget: Budget,
    pub(crate) contents: Arc<Contents>,
    pub(crate) placed: Arc<OutputLayout>,
    /// Placements whose bytes another placement writes: [`OutputLayout::shared`].
    shared: BTreeMap<usize, usize>,
    entries: Vec<Entry>,
    items: Vec<Item>,
}

/// Where a plan reads from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SourceRecord {
    pub(crate) format: String,
    /// The format's codec, if it is not part of the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) codec: Option<Provenance>,
    /// Address of the store; `None` if no other process can open it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) location: Option<String>,
    /// What was named in it; empty for all of it.
    pub(crate) entry: String,
    /// Inputs whose files hold tensors, too: of a merge.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) others: Vec<OtherInput>,
    /// Whether quantized weights were read as the tensors that are stored for them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) parts: bool,
    /// Options for reading.
    pub(crate) options: Vec<(String, String)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) architecture: Option<ArchitectureFile>,
    /// The model that gives the source its graph.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) graph: Option<GraphRecord>,
    /// Every file that was read or will be.
    pub(crate) files: Vec<SourceFile>,
}

/// An input beside the source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OtherInput {
    /// Address of the store; `None` if no other process can open it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) location: Option<String>,
    /// What was named in it; empty for all of it.
    pub(crate) entry: String,
}

/// A model that gives another checkpoint its graph.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GraphRecord {
    /// Address of the store; `None` if no other process can open it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) location: Option<String>,
    /// The directory as the user named it.
    pub(crate) directory: String,
    /// The file's name in it.
    pub(crate) entry: String,
    pub(crate) format: String,
    /// Bytes of the file.
    pub(crate) bytes: u64,
    pub(crate) sha256: String,
    /// Whether it has the names that the mapping gives, and not the source's.
    pub(crate) is_mapped: bool,
}

/// One file of a source, pinned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct SourceFile {
    /// Relative to the source's store.
    pub name: String,
    /// Bytes; 0 for a file that is not there.
    pub size: u64,
    /// What identifies its content; `None` if it cannot be identified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<String>,
}

/// Where a plan writes to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TargetRecord {
    pub(crate) format: String,
    /// The format's codec, if it is not part of the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) codec: Option<Provenance>,
    /// Address of the store; `None` if no other process can open it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) location: Option<String>,
    /// What the user calls the output.
    pub(crate) name: String,
    /// Options for writing.
    pub(crate) options: Vec<(String, String)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) architecture: Option<ArchitectureFile>,
    /// Whether existing files are replaced.
    pub(crate) overwrite: bool,
}

/// How tensors were chosen and changed: on record, and an input to verification.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settings {
    /// The mapping: where it came from, and its text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) mapping: Option<MappingRecord>,
    pub(crate) transforms: Vec<String>,
    pub(crate) include: Vec<String>,
    pub(crate) exclude: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) dtype: Option<DType>,
    /// Of tensors that a mapping made, the source's names.
    pub(crate) made_of: BTreeMap<String, Vec<String>>,
    /// How the output shares blocks with the source; `None` if it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) clone: Option<CloneSettings>,
    /// Whether checksums of the source are not compared.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) unchecked: bool,
}

/// A mapping in a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MappingRecord {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    pub(crate) toml: String,
}

/// One unit of work. Items are independent of each other and can be repeated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Item {
    /// Compares two tensors of the source, which must be equal.
    Compare(Box<Comparison>),
    /// Writes a range of a target file.
    Write(FileRange),
}

/// Two tensors that must be equal, because one name stands for both in the target.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Comparison {
    /// The name.
    pub name: String,
    /// The tensor that is written.
    pub first: Stored,
    /// The one that must be equal.
    pub other: Stored,
}

/// A tensor of the source, where its bytes are, and how they are read to be compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stored {
    /// What it is.
    pub tensor: Tensor,
    /// Where it is.
    pub placement: Placement,
    /// The encoding in which it is compared.
    pub encoding: Encoding,
    /// The way from the one to the other.
    pub(crate) route: Route,
}

impl Stored {
    /// Its transfer to whoever compares it.
    pub(crate) fn transfer(&self) -> Transfer<'_> {
        self.route.transfer(&self.tensor, &self.placement, &self.encoding, &[])
    }
}

/// What a plan holds of one tensor that is written: there can be many, and the rest is in the placements.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    /// Position among the codec's placements.
    pub(crate) number: usize,
    pub(crate) route: Route,
}

/// One tensor that is written: where it comes from, what happens to it, where it goes.
#[derive(Clone, Debug, Serialize)]
pub struct TensorEntry<'a> {
    /// The tensor's name in the checkpoint, after mapping.
    pub tensor: &'a str,
    /// Where its bytes are.
    pub from: &'a Placement,
    /// Where the bytes are of what is added, parallel to `to.added`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub added: Vec<&'a Placement>,
    /// What happens to them.
    pub steps: &'a [Step],
    /// How the steps touch memory.
    pub access: Access,
    /// Where they go.
    pub to: &'a Placement,
    /// Position of `to` among the codec's placements.
    #[serde(skip)]
    pub(crate) number: usize,
}

impl Plan {
    /// Both formats, and their codecs if these are not part of the program.
    pub(crate) fn codecs(&self) -> [(&str, Option<&Provenance>); 2] {
        let Plan { source, target, .. } = self;
        [(&*source.format, source.codec.as_ref()), (&*target.format, target.codec.as_ref())]
    }

    /// Format of the source.
    pub fn from(&self) -> &str {
        &self.source.format
    }

    /// Format of the target.
    pub fn to(&self) -> &str {
        &self.target.format
    }

    /// The absolute path or URL of the output; `None` if no other process can open it.
    pub fn output(&self) -> Option<String> {
        let location = self.target.location.as_deref()?;
        Some(format!("{}/{}", location.trim_end_matches('/'), self.target.name))
    }

    /// Files of the source that hold tensors.
    pub fn sources(&self) -> &[String] {
        &self.contents.files
    }

    /// Files that will exist.
    pub fn files(&self) -> &[OutputFile] {
        &self.placed.files
    }

    /// Every file of the source that was read or will be, pinned.
    pub fn source_files(&self) -> &[SourceFile] {
        &self.source.files
    }

    /// What a lenient reading mended.
    pub fn repairs(&self) -> &[Repair] {
        &self.contents.repairs
    }

    /// What the user should know.
    pub fn notes(&self) -> impl Iterator<Item = &str> {
        self.contents.all_notes()
    }

    /// The units of work, in the order in which the source stores what they read.
    pub fn items(&self) -> &[Item] {
        &self.items
    }

    /// One for every tensor that is written, in the order in which the source stores them.
    pub fn tensors(&self) -> impl ExactSizeIterator<Item = TensorEntry<'_>> + Clone {
        self.entries.iter().map(|entry| self.entry(entry))
    }

    /// The names, in the source, of the tensors that a mapping makes `tensor` of; without a mapping, its own.
    pub fn sources_of<'a>(&'a self, tensor: &'a str) -> impl Iterator<Item = &'a str> {
        let made_of = self.settings.made_of.get(tensor).map(Vec::as_slice);
        let own = made_of.is_none().then_some(tensor);
        made_of.unwrap_or_default().iter().map(String::as_str).chain(own)
    }

    /// The tensor that pieces call by this number.
    pub(crate) fn tensor(&self, number: u32) -> Option<TensorEntry<'_>> {
        self.entries.get(number as usize).map(|entry| self.entry(entry))
    }

    /// The number of the tensor that pieces call by this number, among the codec's placements.
    pub(crate) fn number_of(&self, number: u32) -> Option<usize> {
        self.entries.get(number as usize).map(|entry| entry.number)
    }

    fn entry<'a>(&'a self, entry: &'a Entry) -> TensorEntry<'a> {
        let Entry { number, route } = entry;
        let to = &self.placed.placements[*number];
        let Contents { checkpoint, placements, .. } = &*self.contents;
        TensorEntry {
            tensor: &checkpoint.tensors[to.tensor.0].name,
            from: &placements[to.tensor.0],
            added: to.added().iter().map(|added| &placements[added.tensor.0]).collect(),
            steps: route.steps(),
            access: route.access(),
            to,
            number: *number,
        }
    }

    /// A tensor's transfer, as it was compiled.
    pub(crate) fn transfer(&self, number: u32) -> Option<Transfer<'_>> {
        let entry = self.entries.get(number as usize)?;
        let to = self.placed.placements.get(entry.number)?;
        let (tensor, source) = self.contents.tensor_at(to.tensor).ok()?;
        Some(entry.route.transfer(tensor, source, &to.encoding, &added(&self.contents, to).ok()?))
    }

    /// The place of a tensor that pieces call by this number.
    pub(crate) fn target_of(&self, number: u32) -> Option<&Placement> {
        self.placed.placements.get(self.entries.get(number as usize)?.number)
    }

    /// Bytes that an item writes: 0 for one that compares tensors, and for a number that no item has.
    pub fn bytes_of(&self, item: usize) -> u64 {
        match self.items.get(item) {
            Some(Item::Write(range)) => range.pieces.iter().map(|piece| piece.len).sum(),
            _ => 0,
        }
    }

    /// The target file that an item writes to.
    pub(crate) fn file_of(&self, item: usize) -> Option<FileId> {
        match self.items.get(item)? {
            Item::Write(range) => Some(range.file),
            Item::Compare(_) => None,
        }
    }

    /// Every tensor whose bytes are written, by its number, to be cut into ranges.
    fn cuts(&self) -> impl Iterator<Item = (u32, Cut<'_>)> {
        let written = self.entries.iter().zip(0..).filter(|(entry, _)| !self.is_shared(entry.number));
        written.filter_map(|(entry, number)| {
            let target = self.target_of(number)?;
            let regions = entry.route.regions(&target.extents);
            Some((number, Cut { transfer: self.transfer(number)?, target, regions }))
        })
    }

    /// Placements whose bytes another placement writes, and that one.
    pub(crate) fn shared(&self) -> &BTreeMap<usize, usize> {
        &self.shared
    }

    fn is_shared(&self, placement: usize) -> bool {
        self.shared.contains_key(&placement)
    }

    /// Every tensor whose bytes are written.
    fn written(&self) -> impl Iterator<Item = TensorEntry<'_>> {
        self.tensors().filter(|entry| !self.is_shared(entry.number))
    }

    /// Where a tensor is on both sides.
    fn extents(&self, number: u32) -> ExtentPair<'_> {
        let both =
            self.target_of(number).and_then(|to| Some((self.contents.placements.get(to.tensor.0)?, to)));
        both.map_or(ExtentPair::default(), |(from, to)| ExtentPair {
            source: &from.extents,
            target: &to.extents,
        })
    }
}

/// What is added to a placement's tensor.
pub(crate) fn added<'a>(
    contents: &'a Contents,
    to: &'a Placement,
) -> Result<Vec<(&'a Tensor, &'a Placement, &'a [AddedAxis])>> {
    let each = to.added().iter().map(|added| {
        let (tensor, source) = contents.tensor_at(added.tensor)?;
        Ok((tensor, source, &added.axes[..]))
    });
    each.collect()
}
