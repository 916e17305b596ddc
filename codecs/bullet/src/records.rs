//! The files of optimiser_state: records to the end of the file, in either of two forms.
//!
//! Neither form says which it is. A file is one of them if it parses strictly: every id is text, every count fits, and
//! the last record ends where the file does.

use crate::architecture::Architecture;
use crate::format::{Form, Part, Section, entries};
use crate::parameter::Stored;
use ckpt_api::{Error, File, Kind, Limit, Limits, Result};
use std::collections::HashSet;

/// One tensor of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) id: String,
    /// As an old record states them.
    pub(crate) rows: Option<u64>,
    /// Numbers of 32 bits.
    pub(crate) count: u64,
    /// First byte of the numbers.
    pub(crate) offset: u64,
}

/// Bytes read at once when looking for the end of an id.
const STEP: u64 = 64;

/// Whether the file is records from its first to its last byte, of either form: how many they are.
///
/// # Errors
/// [`Kind::Io`].
pub(crate) fn count(file: &File) -> Result<Option<usize>> {
    let mut limits = Limits::default();
    limits.set(Limit::NameBytes, 256);
    let parsed = [attempt(file, Form::Current, &limits)?, attempt(file, Form::Rows, &limits)?];
    Ok(parsed.into_iter().flatten().map(|records| records.len()).find(|count| *count > 0))
}

/// Reads a file of either form; of both, if both fit, the one that fits the architecture.
pub(crate) fn read(
    file: &File,
    architecture: Option<&Architecture>,
    asked: Option<Form>,
    limits: &Limits,
) -> Result<(Form, Vec<Record>)> {
    if file.is_empty() {
        return Err(Error::corrupt("the file is empty")
            .file(file.name())
            .found("0 bytes")
            .expected("a record for every weight")
            .help("bullet itself would load it silently and keep its initial values: copy it again"));
    }
    if let Some(form) = asked {
        return parse(file, form, limits).map(|records| (form, records));
    }
    match (attempt(file, Form::Current, limits)?, attempt(file, Form::Rows, limits)?) {
        (Ok(records), Err(_)) => Ok((Form::Current, records)),
        (Err(_), Ok(records)) => Ok((Form::Rows, records)),
        (Ok(current), Ok(rows)) => {
            let fits = |records: &[Record]| {
                architecture.is_some_and(|architecture| check(records, architecture).is_ok())
            };
            match (fits(&current), fits(&rows)) {
                (true, false) => Ok((Form::Current, current)),
                (false, true) => Ok((Form::Rows, rows)),
                _ => Err(Error::usage("the records fit both forms that bullet has used")
                    .file(file.name())
                    .help("say which with the option records, or give the architecture")),
            }
        }
        // The form that gets further is the one that is meant.
        (Err(current), Err(rows)) => Err(if offset(&rows) > offset(&current) { rows } else { current }),
    }
}

fn offset(error: &Error) -> u64 {
    error.context().offset.unwrap_or(0)
}

/// Whether the file is of this form: a disk that fails does not tell.
fn attempt(file: &File, form: Form, limits: &Limits) -> Result<Result<Vec<Record>>> {
    match parse(file, form, limits) {
        Err(error) if error.kind() == Kind::Io => Err(error),
        parsed => Ok(parsed),
    }
}

/// Parses strictly, to the last byte.
fn parse(file: &File, form: Form, limits: &Limits) -> Result<Vec<Record>> {
    let mut records = Vec::new();
    let mut seen = HashSet::new();
    let mut at = 0;
    while at < file.len() {
        limits.check(Limit::Tensors, records.len() as u64 + 1).map_err(|error| error.file(file.name()))?;
        let record =
            parse_record(file, at, form, limits).map_err(|error| error.file(file.name()).offset(at))?;
        // Within the file, as was checked.
        at = record.offset + record.count * 4;
        if !seen.insert(record.id.clone()) {
            return Err(Error::corrupt("two records have the same id").file(file.name()).tensor(record.id));
        }
        records.push(record);
    }
    Ok(records)
}

fn parse_record(file: &File, start: u64, form: Form, limits: &Limits) -> Result<Record> {
    let id = parse_id(file, start, limits)?;
    let mut offset = start + id.len() as u64 + 1;
    let mut number = |field: &str| -> Result<u64> {
        let mut bytes = [0; 8];
        file.read_at(offset, &mut bytes).map_err(|error| error.field(field).tensor(&id))?;
        offset += 8;
        Ok(u64::from_le_bytes(bytes))
    };
    let (rows, count) = match form {
        Form::Rows => {
            let (rows, columns) = (number("rows")?, number("columns")?);
            (Some(rows), rows.checked_mul(columns))
        }
        _ => (None, Some(number("count")?)),
    };
    let left = file.len().saturating_sub(offset);
    let count = count.filter(|count| (1..=left / 4).contains(count)).ok_or_else(|| {
        Error::corrupt("the record is empty, or longer than the file")
            .tensor(&id)
            .found(count.map_or("too many numbers to count".into(), |count| format!("{count} numbers")))
            .expected(format!("at least 1, and at most the {} that follow", left / 4))
            .help("the file is cut short, or of another form than it seems: copy it again")
    })?;
    Ok(Record { id, rows, count, offset })
}

/// Printable ASCII to the end of the line.
fn parse_id(file: &File, start: u64, limits: &Limits) -> Result<String> {
    let mut id = Vec::new();
    loop {
        let at = start + id.len() as u64;
        let bytes = file.bytes(at, STEP.min(file.len().saturating_sub(at)))?;
        let part = bytes.iter().position(|byte| *byte == b'\n');
        let text = bytes.get(..part.unwrap_or(bytes.len())).unwrap_or_default();
        let wrong = bytes.is_empty() || !text.iter().all(|byte| matches!(byte, b' '..=b'~'));
        id.extend_from_slice(text);
        if wrong || (part.is_some() && id.is_empty()) {
            return Err(Error::corrupt("a record does not begin with an id")
                .expected("a line of printable ASCII")
                .help("it is damaged, or no file of bullet's optimizer, or one of before 2024-10, which records=headerless reads"));
        }
        limits.check(Limit::NameBytes, id.len() as u64)?;
        if part.is_some() {
            return String::from_utf8(id).map_err(|_| Error::corrupt("the id is not text"));
        }
    }
}

/// Where the values of a file without records lie.
pub(crate) fn headerless(file: &File, architecture: &Architecture) -> Result<Vec<Record>> {
    let mut records = Vec::new();
    let mut offset = 0u64;
    for stored in architecture.all_stored() {
        let count = stored.elements();
        let end = count.and_then(|count| count.checked_mul(4)).and_then(|len| offset.checked_add(len));
        let (count, end) = count.zip(end).ok_or_else(|| crate::format::too_large(stored.id))?;
        if end > file.len() {
            let found = file.len().saturating_sub(offset) / 4;
            return Err(disagrees(&stored, found).file(file.name()).offset(offset));
        }
        records.push(Record { id: stored.id.to_owned(), rows: None, count, offset });
        offset = end;
    }
    if offset < file.len() {
        return Err(too_long(file, offset));
    }
    Ok(records)
}

/// Whether the file is long enough for every entry; an error names the first for which it is not.
pub(crate) fn check_lengths(
    architecture: &Architecture,
    part: Part,
    file: &File,
    sections: &[Section],
) -> Result<()> {
    let Some(section) = sections.iter().find(|section| section.offset + section.len > file.len()) else {
        return Ok(());
    };
    let Some(entry) = entries(architecture, part).get(section.entry) else { return Ok(()) };
    let stored = architecture.stored_as(entry, part)?;
    let size = section.len.checked_div(stored.elements().unwrap_or(0)).unwrap_or(1).max(1);
    let found = file.len().saturating_sub(section.offset) / size;
    Err(disagrees(&stored, found)
        .file(file.name())
        .offset(section.offset)
        .help("the file is cut short, or the architecture is that of another net"))
}

/// A file that goes on after the last tensor of the architecture.
pub(crate) fn too_long(file: &File, end: u64) -> Error {
    let more = file.len().saturating_sub(end);
    Error::usage("the architecture does not fit the file")
        .file(file.name())
        .offset(end)
        .found(format!("{more} bytes after the last tensor, as many as {} numbers of 32 bits", more / 4))
        .expected("the end of the file")
        .help("correct the architecture: it lacks a tensor, or a size is too small")
}

/// Whether these are all weights of the architecture, with as many numbers as it says.
pub(crate) fn check(records: &[Record], architecture: &Architecture) -> Result<()> {
    for record in records {
        let stored = architecture.stored(&record.id).map_err(|error| {
            Error::usage("the file has a record that the architecture does not know")
                .tensor(&record.id)
                .found(format!("{} numbers", record.count))
                .help(error.context().help.unwrap_or("describe it in the architecture file, under tensors"))
        })?;
        if stored.elements() != Some(record.count) {
            return Err(disagrees(&stored, record.count));
        }
        let (rows, columns) = stored.rows_and_columns();
        if record.rows.is_some_and(|stated| stated != rows && stated != record.count) {
            return Err(Error::usage("the architecture does not fit the file")
                .tensor(&record.id)
                .found(format!("{} rows", record.rows.unwrap_or_default()))
                .expected(format!("{rows} rows and {columns} columns")));
        }
    }
    let missing =
        architecture.all_stored().find(|stored| records.iter().all(|record| record.id != stored.id));
    match missing {
        Some(stored) => Err(Error::corrupt("a weight has no record")
            .tensor(stored.id)
            .help("bullet itself would load the file silently and keep its initial values; if the net has no such weight, correct the architecture")),
        None => Ok(()),
    }
}

/// Which entry disagrees, and by how many elements.
pub(crate) fn disagrees(stored: &Stored<'_>, found: u64) -> Error {
    let expected = stored.elements().unwrap_or(u64::MAX);
    let difference = match found.checked_sub(expected) {
        Some(more) => format!("{more} too many"),
        None => format!("{} too few", expected.saturating_sub(found)),
    };
    Error::usage("the architecture does not fit the file")
        .tensor(stored.id)
        .found(format!("{found} numbers, {difference}"))
        .expected(format!("{expected}: {}", stored.describe()))
}
