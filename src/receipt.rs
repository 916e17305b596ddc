//! What a conversion did, and to which bytes: a file that says it the same way every time, to be checked later.
//!
//! A receipt is JSON (`schemas/receipt.schema.json`): the version of this program, format, options and files of either
//! side with their SHA-256, how tensors were chosen and named, and of every tensor that was written its sources, its steps,
//! the SHA-256 of its value and the error of what was rounded. It has no time stamps, and paths as they were given.
//!
//! Files are read by position and written by several threads at once, so that their hashes are taken afterwards, from the
//! start to the end, when the system still holds them in memory.

use crate::resources::{default_threads, in_parallel};
use crate::words::hex;
use ckpt_api::{Error, File, Input, Kind, Result, Setting};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::path::Path;

/// What [`check`] looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
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
/// let conversion = ckpt::Conversion::new().receipt(&receipt);
/// conversion.plan(&registry, &source, &out)?.execute(&Default::default(), &|_bytes| ())?;
/// let text = std::fs::read_to_string(receipt).unwrap();
/// assert_eq!(ckpt::receipt::check(&text, std::path::Path::new("."))?.files, 4);
/// # Ok(())
/// # }
/// ```
pub fn check(receipt: &str, root: &Path) -> Result<Checked> {
    let recorded: Recorded = serde_json::from_str(receipt)
        .map_err(|error| Error::usage("this is not the receipt of a conversion").found(error.to_string()))?;
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
        Error::mismatch("a file does not match the receipt")
            .file(shown.as_str())
            .found(found)
            .expected(expected)
            .help(format!(
                "the file has changed since the conversion, or it is a different file; if the receipt's paths are \
                 relative, name their directory with {}",
                Setting::ReceiptRoot
            ))
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

/// A file and the hash of its content.
#[derive(Serialize, Deserialize)]
pub(crate) struct FileRecord {
    name: String,
    bytes: u64,
    sha256: String,
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
