//! The model's file and its blob files.

use super::package::blob_file;
use crate::format::{BLOB_HEAD, BLOB_VERSION, Element, SENTINEL};
use ckpt_api::{Error, File, FileId, Input, Limit, Limits, Result};
use std::cell::Cell;
use std::collections::HashMap;

/// Files by number: the first is the model's.
pub(crate) struct Files<'a> {
    input: &'a Input,
    limits: &'a Limits,
    pub(super) names: Vec<String>,
    pub(super) files: Vec<File>,
    by_name: HashMap<String, FileId>,
    /// Bytes of numbers and names that are in memory.
    held: Cell<u64>,
}

/// Bytes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) file: FileId,
    pub(super) offset: u64,
    pub(super) len: u64,
}

impl<'a> Files<'a> {
    pub(super) fn new(input: &'a Input, limits: &'a Limits, name: String, model: File) -> Self {
        Files {
            input,
            limits,
            names: vec![name],
            files: vec![model],
            by_name: HashMap::new(),
            held: Cell::new(0),
        }
    }

    /// A file that was opened.
    pub(super) fn get(&self, id: FileId) -> Result<&File> {
        self.files.get(id.0).ok_or_else(|| Error::defect("no such file"))
    }

    /// The bytes of a run, within the limit of headers.
    pub(super) fn bytes(&self, run: Run) -> Result<Vec<u8>> {
        self.check(run.len)?;
        self.get(run.file)?.bytes(run.offset, run.len)
    }

    /// Counts so many bytes among those of numbers and names that are in memory.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Limit`] if they are more than those of a header.
    pub(super) fn check(&self, len: u64) -> Result<()> {
        self.held.set(self.held.get().saturating_add(len));
        self.limits.check(Limit::HeaderBytes, self.held.get())
    }

    /// The bytes of so many elements that a blob has.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Corrupt`] for a file that is not there, and for metadata that do not fit the elements or the file.
    pub(super) fn blob(&mut self, name: &str, offset: u64, element: Element, elements: u64) -> Result<Run> {
        let id = self.open(name)?;
        let file = self.get(id)?;
        let shown = file.name().to_owned();
        let run = blob(file, id, offset, element, elements);
        run.map_err(|error| error.file(shown))
    }

    fn open(&mut self, stated: &str) -> Result<FileId> {
        if let Some(id) = self.by_name.get(stated) {
            return Ok(*id);
        }
        let model = self.names.first().map_or("", String::as_str);
        let name = blob_file(model, stated)?;
        if !self.input.has_file(&name) {
            return Err(Error::corrupt("the package lacks a file with weights")
                .field("fileName")
                .found(format!("no file '{}'", name.escape_debug()))
                .expected("the file that the program names")
                .help("copy the whole folder of the package"));
        }
        self.limits.check(Limit::Files, self.names.len() as u64 + 1)?;
        let file = self.input.file(&name)?;
        check_head(&file).map_err(|error| error.file(file.name()))?;
        let id = FileId(self.names.len());
        self.names.push(name);
        self.files.push(file);
        self.by_name.insert(stated.to_owned(), id);
        Ok(id)
    }
}

/// Checks the header of a blob file.
fn check_head(file: &File) -> Result<()> {
    if file.len() < BLOB_HEAD {
        return Err(Error::corrupt("the file of weights is cut short")
            .offset(0)
            .found(ckpt_api::count(file.len(), "byte"))
            .expected(format!("a header of {BLOB_HEAD}")));
    }
    let head = file.bytes(0, 8)?;
    let version = number(&head, 4);
    match version == BLOB_VERSION {
        true => Ok(()),
        false => Err(Error::unsupported("the file of weights has another version")
            .offset(4)
            .field("version")
            .found(version.to_string())
            .expected(BLOB_VERSION.to_string())
            .help("save the model again with coremltools 5 or newer")),
    }
}

/// Checks the metadata of a blob, and returns where its data is.
fn blob(file: &File, id: FileId, offset: u64, element: Element, elements: u64) -> Result<Run> {
    let wrong = |what: &str, at: u64, field: &'static str| {
        Error::corrupt(what.to_owned()).offset(offset.saturating_add(at)).field(field)
    };
    if offset.checked_add(BLOB_HEAD).is_none_or(|end| end > file.len()) {
        return Err(wrong("a blob's metadata is outside the file", 0, "offset")
            .found(format!("offset {offset}"))
            .expected(format!("at most {}", file.len().saturating_sub(BLOB_HEAD))));
    }
    let head = file.bytes(offset, BLOB_HEAD)?;
    let sentinel = number(&head, 0);
    if sentinel != SENTINEL {
        return Err(wrong("a blob's metadata does not begin as such", 0, "sentinel")
            .found(format!("{sentinel:#010x}"))
            .expected(format!("{SENTINEL:#010x}")));
    }
    let Some(stated) = element.blob else {
        return Err(wrong("elements of this type cannot be in a blob", 4, "type")
            .found(element.name)
            .expected("a type of blob files"));
    };
    let found = number(&head, 4);
    if found != stated {
        return Err(wrong("a blob has another type than the program states", 4, "type")
            .found(found.to_string())
            .expected(format!("{stated}, {}", element.name)));
    }
    let (len, first, padding) = (long(&head, 8), long(&head, 16), long(&head, 24));
    let expected = element.stored_len(elements);
    if expected != Some(len) {
        let expected = expected.map_or("fewer elements".to_owned(), |len| len.to_string());
        return Err(wrong("a blob does not have the size of its shape", 8, "size")
            .found(ckpt_api::count(len, "byte"))
            .expected(format!(
                "{expected} for {} of {}",
                ckpt_api::count(elements, "element"),
                element.name
            )));
    }
    if first.checked_add(len).is_none_or(|end| end > file.len()) {
        return Err(wrong("a blob's data is outside the file", 16, "offset")
            .found(format!("{} from offset {first}", ckpt_api::count(len, "byte")))
            .expected(format!("an end of at most {}", file.len())));
    }
    let unused = len.saturating_mul(8).saturating_sub(elements.saturating_mul(element.bits.into()));
    if element.is_packed() && padding != unused {
        return Err(wrong("a blob states another padding than its elements leave", 24, "padding")
            .found(ckpt_api::count(padding, "bit"))
            .expected(ckpt_api::count(unused, "bit")));
    }
    Ok(Run { file: id, offset: first, len })
}

fn number(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

fn long(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u64::from_le_bytes(*bytes))
}
