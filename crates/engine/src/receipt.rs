//! Receipts: deterministic records of what a conversion read and wrote, to be checked later.
//!
//! A receipt is JSON (`schemas/receipt.schema.json`): the version of this program, format, options and files of either
//! side with their SHA-256, how tensors were chosen and named, and of every tensor that was written its sources, its
//! steps, the SHA-256 of its value and the error of what was rounded. It has no time stamps, and paths as they were
//! given.
//!
//! Files are read by position and written by several threads at once, so that their hashes are taken afterwards, from
//! the start to the end, when the system still holds them in memory.

mod places;

use crate::formats::Formats;
use crate::resources::{default_threads, in_parallel};
use crate::settings;
use crate::store::Addresses;
use crate::words::{hex, parse_sha256, quote};
use ckpt_api::{Address, Error, File, Input, Limit, Limits, Result, open_regular, text};
use places::Places;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// What [`check`] looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Checked {
    /// How many files; one that the receipt names twice counts once.
    pub files: usize,
    /// Bytes in all of them.
    pub bytes: u64,
    /// Directories that the receipt names and that are outside the working directory. Empty if a root was given: then
    /// all files are below it.
    pub outside: Vec<String>,
}

/// Checks that the files that a receipt names still match it.
///
/// With a `root`, the receipt's directories are relative to it, and no file outside it is read, also through no
/// symbolic link. Without one, they are relative to the working directory, and the receipt chooses what is read: its
/// directories may be absolute. [`Checked::outside`] lists those.
///
/// # Errors
/// [`ckpt_api::Kind::Mismatch`] for the first file that is missing or other, sources before targets;
/// [`ckpt_api::Kind::Usage`] for a text that is no receipt, and for a directory outside the root;
/// [`ckpt_api::Kind::Corrupt`] for a SHA-256 that is malformed, and for a file name that leaves its directory;
/// [`ckpt_api::Kind::Limit`] for more files on a side than [`Limit::Files`].
///
/// ```
/// # fn main() -> Result<(), ckpt::Error> {
/// # let directory = tempfile::tempdir().unwrap();
/// # let (out, receipt) = (directory.path().join("digits.safetensors"), directory.path().join("receipt.json"));
/// let registry = ckpt::Registry::builtin();
/// let source = ckpt::Source::open(&registry, "examples/data/digits", &Default::default())?;
/// let conversion = ckpt::Conversion::new().receipt(&receipt);
/// conversion.plan(&registry, &source, &out)?.execute(&Default::default(), &|_bytes| ())?;
/// let text = std::fs::read_to_string(receipt).unwrap();
/// assert_eq!(ckpt::receipt::check(&registry, &text, None, &Default::default())?.files, 4);
/// # Ok(())
/// # }
/// ```
pub fn check(formats: &Formats, receipt: &str, root: Option<&Path>, limits: &Limits) -> Result<Checked> {
    let recorded: Recorded =
        serde_json::from_str(receipt).map_err(|error| other_document(receipt, &error))?;
    let both = [("source", &recorded.source), ("target", &recorded.target)];
    let others = recorded.others.iter().map(|side| ("others", side));
    let graph = recorded.graph.as_ref().map(|side| ("graph", side));
    let sides: Vec<_> = both.into_iter().chain(others).chain(graph).collect();
    for &(name, side) in &sides {
        limits.check(Limit::Files, side.files.len() as u64).map_err(|error| error.field(name))?;
        if side.files.is_empty() {
            return Err(no_receipt("it lists no files".to_owned()).field(name));
        }
    }
    let places = Places::new(root)?;
    let files = files(&places, &sides)?;
    let listed: Vec<&Listed> = files.iter().collect();
    in_parallel(&listed, default_threads(), |listed| listed.check(formats.addresses()))?;
    let bytes = files.iter().filter_map(|file| file.records.first());
    Ok(Checked {
        files: files.len(),
        bytes: bytes.fold(0u64, |sum, record| sum.saturating_add(record.bytes)),
        outside: places.outside(sides.iter().map(|(_, side)| side.directory.as_str())),
    })
}

/// The error for a text that is no receipt, which names what it is instead.
fn other_document(text: &str, error: &serde_json::Error) -> Error {
    /// What tells the documents apart.
    #[derive(Deserialize)]
    struct Keys {
        plan: Option<IgnoredAny>,
        item: Option<IgnoredAny>,
        settings: Option<IgnoredAny>,
        target: Option<IgnoredAny>,
    }
    let keys: Option<Keys> = serde_json::from_str(text).ok();
    match keys {
        Some(Keys { settings: Some(_), target: Some(_), .. }) => {
            no_receipt("a plan, which states what a conversion will do, not what it did".to_owned())
                .help("run the plan, commit it with a receipt, and check that receipt")
        }
        Some(Keys { plan: Some(_), item: Some(_), .. }) => no_receipt(
            "the receipt of one item of a plan".to_owned(),
        )
        .help("commit the plan with the receipts of all items, and check the receipt of the conversion"),
        _ => no_receipt(error.to_string()),
    }
}

fn no_receipt(found: String) -> Error {
    Error::usage("this is not the receipt of a conversion").found(found)
}

/// The record of a file in a receipt.
#[derive(Clone, Copy)]
struct Expected {
    bytes: u64,
    sha256: [u8; 32],
}

impl Expected {
    fn parse(record: &FileRecord) -> Result<Self> {
        let sha256 = parse_sha256(&record.sha256).ok_or_else(|| {
            Error::corrupt("the receipt is malformed: a SHA-256 is invalid")
                .found(quote(&record.sha256))
                .expected("64 hexadecimal digits in lower case")
                .help("use the receipt as the conversion wrote it; nothing was compared")
        })?;
        Ok(Expected { bytes: record.bytes, sha256 })
    }
}

/// A file on disk, with every record of it: it is read once, however often a receipt names it.
struct Listed {
    /// `None` if there is no such file.
    path: Option<PathBuf>,
    /// The path for messages.
    shown: String,
    records: Vec<Expected>,
}

/// The files of both sides, in the order of the receipt.
fn files(places: &Places, sides: &[(&str, &RecordedSide)]) -> Result<Vec<Listed>> {
    let (mut files, mut known) = (Vec::new(), HashMap::new());
    for &(name, side) in sides {
        let directory = places.directory(&side.directory)?;
        for (index, record) in side.files.iter().enumerate() {
            let expected = Expected::parse(record)
                .map_err(|error| error.field(format!("{name}.files[{index}].sha256")))?;
            let shown = directory.join(&record.name).display().to_string();
            let path = places.file(&directory, &record.name)?;
            let number =
                *known.entry(path.clone().unwrap_or_else(|| shown.clone().into())).or_insert(files.len());
            if number == files.len() {
                files.push(Listed { path, shown, records: Vec::new() });
            }
            if let Some(file) = files.get_mut(number) {
                file.records.push(expected);
            }
        }
    }
    Ok(files)
}

impl Listed {
    /// Compares the file with its records: the lengths first, then the hashes.
    fn check(&self, addresses: &Addresses) -> Result<()> {
        let Some(path) = &self.path else {
            let expected = self.records.first().map_or(0, |record| record.bytes);
            return Err(self.differs("no file".into(), crate::words::count(expected, "byte")));
        };
        let file = match Address::of(path) {
            Some(_) => addresses.input(path, &Limits::default())?.main()?,
            None => File::new(open_regular(path, &self.shown)?, &self.shown)?,
        };
        if let Some(other) = self.records.iter().find(|record| record.bytes != file.len()) {
            return Err(self
                .differs(crate::words::count(file.len(), "byte"), crate::words::count(other.bytes, "byte")));
        }
        let found = hash(&file, READ)?;
        match self.records.iter().find(|record| record.sha256 != found) {
            Some(other) => {
                let [found, expected] =
                    [found, other.sha256].map(|sha256| format!("SHA-256 {}", hex(&sha256)));
                Err(self.differs(found, expected))
            }
            None => Ok(()),
        }
    }

    fn differs(&self, found: String, expected: String) -> Error {
        Error::mismatch("a file does not match the receipt")
            .file(self.shown.as_str())
            .found(found)
            .expected(expected)
            .help(text![
                "the file has changed since the conversion, or it is a different file; if the receipt's \
                 paths are relative, name their directory with ",
                settings::RECEIPT_ROOT,
            ])
    }
}

/// What [`check`] reads of a receipt.
#[derive(Deserialize)]
struct Recorded {
    source: RecordedSide,
    target: RecordedSide,
    /// Checkpoints that were merged into the source.
    #[serde(default)]
    others: Vec<RecordedSide>,
    #[serde(default)]
    graph: Option<RecordedSide>,
}

#[derive(Deserialize)]
struct RecordedSide {
    directory: String,
    files: Vec<FileRecord>,
}

/// A file and the hash of its content.
#[derive(Serialize, Deserialize)]
pub(crate) struct FileRecord {
    pub(crate) name: String,
    pub(crate) bytes: u64,
    pub(crate) sha256: String,
}

/// Hashes files of an input, several at a time.
///
/// # Errors
/// [`ckpt_api::Kind::Io`].
pub(crate) fn records(
    input: &Input,
    names: &[String],
    threads: usize,
    chunk: usize,
) -> Result<Vec<FileRecord>> {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    in_parallel(&names, threads, |name| file_record(input, name, chunk))
}

/// Hashes one file of an input.
///
/// # Errors
/// [`ckpt_api::Kind::Io`].
pub(crate) fn record_of(input: &Input, name: &str) -> Result<FileRecord> {
    file_record(input, name, READ)
}

fn file_record(input: &Input, name: &str, chunk: usize) -> Result<FileRecord> {
    let file = input.file(name)?;
    Ok(FileRecord { name: name.to_owned(), bytes: file.len(), sha256: hex(&hash(&file, chunk)?) })
}

/// Bytes hashed at once.
const READ: usize = 1 << 20;

/// The SHA-256 of a file.
fn hash(file: &File, chunk: usize) -> Result<[u8; 32]> {
    let (mut hasher, mut offset) = (Sha256::new(), 0);
    file.will_read(std::slice::from_ref(&(0..file.len())));
    let mut buffer = vec![0; chunk.clamp(1, READ)];
    while offset < file.len() {
        let left = usize::try_from(file.len() - offset).unwrap_or(usize::MAX);
        let len = buffer.len().min(left);
        let piece = buffer.get_mut(..len).unwrap_or_default();
        file.read_at(offset, piece)?;
        hasher.update(&piece);
        offset += len as u64;
    }
    Ok(hasher.finalize().into())
}
