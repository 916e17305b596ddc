//! The optimizer's files: records to the end of the file, or, in the oldest form, values without records.
//!
//! A file does not state its form. It has one if it parses strictly: every id is text, every count fits, and the last
//! record ends where the file does.

use super::fit::{DOES_NOT_FIT, needs_architecture, too_long, wrong_count};
use crate::format::RecordForm;
use crate::net::architecture::Architecture;
use crate::net::section::too_large;
use ckpt_api::fields::{Bytes, Parsed, field, le};
use ckpt_api::{Error, Fields, File, Kind, Limit, Limits, Result};
use nom::bytes::streaming::{tag, take_while1};
use nom::sequence::terminated;
use nom::{Err, Parser};
use std::collections::HashSet;

/// Where the values of one tensor are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) id: String,
    /// The number of rows, if the record states it.
    pub(super) rows: Option<u64>,
    /// The number of 32-bit values.
    pub(super) count: u64,
    /// The first byte of the values.
    pub(super) offset: u64,
}

/// Returns the number of records if the whole file consists of them, in either form; `None` if it does not.
///
/// # Errors
/// [`Kind::Io`].
pub(super) fn count(file: &File) -> Result<Option<usize>> {
    let limits = Limits::default().with(Limit::NameBytes, 256);
    let parsed = [attempt(file, RecordForm::Current, &limits)?, attempt(file, RecordForm::Rows, &limits)?];
    Ok(parsed.into_iter().flatten().map(|records| records.len()).find(|count| *count > 0))
}

/// Whether the file begins as a record does: with an id, and a number that can be one of values, of rows or of columns.
///
/// # Errors
/// [`Kind::Io`].
pub(super) fn begin(file: &File) -> Result<bool> {
    /// No network has as many values.
    const VALUES: u64 = 1 << 48;
    let limits = Limits::default().with(Limit::NameBytes, 256);
    let number =
        Fields::new(file).parse(|input| (id(&limits), le::<u64>).map(|(_, number)| number).parse(input));
    match number {
        Ok(number) => Ok((1..VALUES).contains(&number)),
        Err(error) if error.kind() == Kind::Io => Err(error),
        Err(_) => Ok(false),
    }
}

/// Reads a file of the given form, or else of the form that it parses in, and checks that it fits the architecture.
pub(super) fn read(
    file: &File,
    architecture: Option<&Architecture>,
    form: Option<RecordForm>,
    limits: &Limits,
) -> Result<(RecordForm, Vec<Record>)> {
    if form == Some(RecordForm::Headerless) {
        let architecture = architecture.ok_or_else(|| needs_architecture(file))?;
        return Ok((RecordForm::Headerless, headerless(file, architecture)?));
    }
    if file.is_empty() {
        return Err(Error::corrupt("the file is empty")
            .file(file.name())
            .found("0 bytes")
            .expected("a record for every weight")
            .help("copy the file again; bullet would load it silently and keep its initial values"));
    }
    let (form, records) = match form {
        Some(form) => (form, parse(file, form, limits)?),
        None => detect(file, architecture, limits)?,
    };
    if let Some(architecture) = architecture {
        check(&records, architecture).map_err(|error| error.file(file.name()))?;
    }
    Ok((form, records))
}

/// Parses a file in both forms. If both succeed, the architecture decides.
fn detect(
    file: &File,
    architecture: Option<&Architecture>,
    limits: &Limits,
) -> Result<(RecordForm, Vec<Record>)> {
    match (attempt(file, RecordForm::Current, limits)?, attempt(file, RecordForm::Rows, limits)?) {
        (Ok(records), Err(_)) => Ok((RecordForm::Current, records)),
        (Err(_), Ok(records)) => Ok((RecordForm::Rows, records)),
        (Ok(current), Ok(rows)) => {
            let fits = |records: &[Record]| {
                architecture.is_some_and(|architecture| check(records, architecture).is_ok())
            };
            match (fits(&current), fits(&rows)) {
                (true, false) => Ok((RecordForm::Current, current)),
                (false, true) => Ok((RecordForm::Rows, rows)),
                _ => Err(Error::usage("the file is valid in both record layouts")
                    .file(file.name())
                    .help("choose one with the option records, or give the architecture")),
            }
        }
        // The form that parses further is probably the right one: its error helps more.
        (Err(current), Err(rows)) => Err(if offset(&rows) > offset(&current) { rows } else { current }),
    }
}

fn offset(error: &Error) -> u64 {
    error.context().offset.unwrap_or(0)
}

/// Parses the file in one form. The outer error is one of the disk, which says nothing about the form.
fn attempt(file: &File, form: RecordForm, limits: &Limits) -> Result<Result<Vec<Record>>> {
    match parse(file, form, limits) {
        Err(error) if error.kind() == Kind::Io => Err(error),
        parsed => Ok(parsed),
    }
}

/// Parses strictly, to the last byte.
fn parse(file: &File, form: RecordForm, limits: &Limits) -> Result<Vec<Record>> {
    let mut records = Vec::new();
    let mut seen = HashSet::new();
    let mut fields = Fields::new(file);
    while fields.remaining() > 0 {
        limits.check(Limit::Tensors, records.len() as u64 + 1).map_err(|error| error.file(file.name()))?;
        let at = fields.position();
        let record =
            parse_record(&mut fields, form, limits).map_err(|error| error.file(file.name()).offset(at))?;
        if !seen.insert(record.id.clone()) {
            return Err(Error::corrupt("two records have the same id").file(file.name()).tensor(record.id));
        }
        records.push(record);
    }
    Ok(records)
}

/// Parses a record, and skips its values.
fn parse_record(fields: &mut Fields, form: RecordForm, limits: &Limits) -> Result<Record> {
    let id = fields.parse(|input| id(limits).map(str::to_owned).parse(input))?;
    let mut number = |name| {
        let number = fields.parse(|input| field(name, le::<u64>).parse(input));
        number.map_err(|error| error.tensor(&id))
    };
    let (rows, count) = match form {
        RecordForm::Rows => {
            let (rows, columns) = (number("rows")?, number("columns")?);
            (Some(rows), rows.checked_mul(columns))
        }
        RecordForm::Current | RecordForm::Headerless => (None, Some(number("count")?)),
    };
    let (offset, most) = (fields.position(), fields.remaining() / 4);
    let count = count.filter(|count| (1..=most).contains(count)).ok_or_else(|| {
        Error::corrupt("a record is empty or longer than the file")
            .tensor(&id)
            .found(count.map_or("more than 2^64 numbers".into(), |count| format!("{count} numbers")))
            .expected(format!("1 to {most}, the numbers that fit into the rest of the file"))
            .help("copy the file again; it is cut short, or its records have another form")
    })?;
    fields.skip(count * 4)?;
    Ok(Record { id, rows, count, offset })
}

/// Parses a line of printable ASCII.
fn id<'a>(limits: &Limits) -> impl FnMut(Bytes<'a>) -> Parsed<'a, &'a str> {
    move |input| {
        let line = take_while1(|byte| matches!(byte, b' '..=b'~'));
        let seen = input.as_slice().len() as u64;
        let parsed: Parsed<'_, Bytes<'_>> = terminated(line, tag(&b"\n"[..])).parse(input);
        let (rest, line) = match parsed {
            Err(Err::Incomplete(needed)) if seen < input.remaining() => {
                limits.check(Limit::NameBytes, seen).map_err(Err::Error)?;
                return Err(Err::Incomplete(needed));
            }
            parsed => parsed.map_err(|_| Err::Error(no_id()))?,
        };
        let id = str::from_utf8(line.as_slice()).map_err(|_| Err::Error(no_id()))?;
        limits.check(Limit::NameBytes, id.len() as u64).map_err(Err::Error)?;
        Ok((rest, id))
    }
}

fn no_id() -> Error {
    Error::corrupt("a record does not begin with an id").expected("a line of printable ASCII").help(
        "the file is damaged, was not written by bullet's optimizer, or dates from before 2024-10 (read \
               it with records=headerless)",
    )
}

/// Locates the values of a file without records, which are in the order of the layers.
fn headerless(file: &File, architecture: &Architecture) -> Result<Vec<Record>> {
    let mut records = Vec::new();
    let mut offset = 0u64;
    for stored in architecture.all_stored() {
        let count = stored.elements();
        let end = count.and_then(|count| count.checked_mul(4)).and_then(|len| offset.checked_add(len));
        let (count, end) = count.zip(end).ok_or_else(|| too_large(stored.id))?;
        if end > file.len() {
            let found = file.len().saturating_sub(offset) / 4;
            return Err(wrong_count(&stored, found).file(file.name()).offset(offset));
        }
        records.push(Record { id: stored.id.to_owned(), rows: None, count, offset });
        offset = end;
    }
    if offset < file.len() {
        return Err(too_long(file, offset));
    }
    Ok(records)
}

/// Checks that the records are those of all weights of the architecture, with as many values as it says.
fn check(records: &[Record], architecture: &Architecture) -> Result<()> {
    for record in records {
        let stored = architecture.stored(&record.id).map_err(|error| {
            Error::usage("the architecture has no weight for a record")
                .tensor(&record.id)
                .found(format!("{} numbers", record.count))
                .help(error.context().help.unwrap_or("add it to the architecture file, under 'tensors'"))
        })?;
        if stored.elements() != Some(record.count) {
            return Err(wrong_count(&stored, record.count));
        }
        let (rows, columns) = stored.rows_and_columns();
        // A vector may be a single column.
        if let Some(stated) = record.rows.filter(|stated| ![rows, record.count].contains(stated)) {
            return Err(Error::usage(DOES_NOT_FIT)
                .tensor(&record.id)
                .found(ckpt_api::count(stated, "row"))
                .expected(format!("{rows} rows and {columns} columns")));
        }
    }
    let ids: HashSet<&str> = records.iter().map(|record| record.id.as_str()).collect();
    match architecture.all_stored().find(|stored| !ids.contains(stored.id)) {
        Some(stored) => Err(Error::corrupt("a weight has no record").tensor(stored.id).help(
            "bullet would load the file silently and keep its initial values; if the net has no such weight, correct \
             the architecture",
        )),
        None => Ok(()),
    }
}
