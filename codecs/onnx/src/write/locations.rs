//! Names of files of external data: they follow from the output's name, whatever the model that was read calls them.

use crate::format::WIRE;
use crate::read::Parsed;
use crate::read::model::LOCATION;
use ckpt_api::{Error, File, Limit, Limits, Result};
use ckpt_containers::protobuf::{Value, Wire, put_bytes, put_len};
use ckpt_containers::structure::Structure;
use std::ops::Range;
use std::sync::Arc;

/// The field of a pair that says where external data is.
const EXTERNAL: u64 = 13;

/// The name of a file of external data: `model.onnx.data`, then `model.onnx.2.data`.
pub(super) fn external_name(name: &str, number: usize) -> String {
    match number {
        0 | 1 => format!("{name}.data"),
        number => format!("{name}.{number}.data"),
    }
}

/// A pair of a key and its value.
pub(super) fn pair(key: &str, value: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_bytes(&mut bytes, 1, key.as_bytes());
    put_bytes(&mut bytes, 2, value.as_bytes());
    bytes
}

/// The structure of a model with the names that its files of external data have beside an output of this name; `None` if
/// it has them already.
///
/// # Errors
/// [`ckpt_api::Kind::Unsupported`] for external data of what is no tensor of the checkpoint.
pub(super) fn renamed(structure: &Structure, read: &Parsed, name: &str) -> Result<Option<Structure>> {
    let mut pairs = Vec::new();
    for (span, location) in &read.model.locations {
        let Some(id) = read.locations.get(location) else {
            return Err(Error::unsupported("the model stores numbers beside it that are no initializer")
                .field(LOCATION)
                .found(format!("'{}'", location.escape_debug())));
        };
        let new = external_name(name, id.0);
        if *location != new {
            let mut bytes = Vec::new();
            put_bytes(&mut bytes, EXTERNAL, &pair(LOCATION, &new));
            pairs.push((span.clone(), bytes));
        }
    }
    if pairs.is_empty() {
        return Ok(None);
    }
    pairs.sort_by_key(|(span, _)| span.start);
    let edits = with_lengths(structure, pairs)?;
    structure.edited(&edits).map(Some).ok_or_else(misplaced)
}

/// A message that has a field to be replaced in it.
#[derive(Default)]
struct Message {
    number: u64,
    /// The whole field, with its tag.
    start: u64,
    body: Range<u64>,
    /// Bytes that the fields in it gain and lose.
    gained: u64,
    lost: u64,
}

/// Adds the lengths of all messages around fields that are replaced, which are sorted.
fn with_lengths(
    structure: &Structure,
    fields: Vec<(Range<u64>, Vec<u8>)>,
) -> Result<Vec<(Range<u64>, Vec<u8>)>> {
    let limits = Limits::default().with(Limit::HeaderBytes, u64::MAX);
    let file = File::new(Arc::new(structure.clone()), "model")?;
    let mut wire = Wire::new(&file, &limits, &WIRE);
    let mut edits = Vec::with_capacity(fields.len().saturating_mul(2));
    let mut fields = fields.into_iter().peekable();
    let mut open = vec![Message { body: 0..file.len(), ..Message::default() }];
    while let Some(message) = open.last_mut() {
        let Some(field) = wire.field(message.body.end)? else {
            let done = open.pop().unwrap_or_default();
            if let Some(parent) = open.last_mut() {
                let len = done.body.end.saturating_sub(done.body.start);
                let len = len.saturating_add(done.gained).checked_sub(done.lost).ok_or_else(misplaced)?;
                let mut head = Vec::new();
                put_len(&mut head, done.number, len);
                parent.gained = parent.gained.saturating_add(done.gained).saturating_add(head.len() as u64);
                let before = done.body.start.saturating_sub(done.start);
                parent.lost = parent.lost.saturating_add(done.lost).saturating_add(before);
                edits.push((done.start..done.body.start, head));
            }
            continue;
        };
        let Some((span, new)) = fields.next_if(|(span, _)| *span == field.span) else {
            let has_some = fields.peek().is_some_and(|(span, _)| span.end <= field.span.end);
            match field.value {
                Value::Bytes(body) if has_some => {
                    open.push(Message {
                        number: field.number,
                        start: field.span.start,
                        body,
                        ..Message::default()
                    });
                }
                _ => wire.skip(&field)?,
            }
            continue;
        };
        message.gained = message.gained.saturating_add(new.len() as u64);
        message.lost = message.lost.saturating_add(span.end.saturating_sub(span.start));
        edits.push((span, new));
        wire.skip(&field)?;
    }
    edits.sort_by_key(|(span, _)| span.start);
    if fields.next().is_none() { Ok(edits) } else { Err(misplaced()) }
}

fn misplaced() -> Error {
    Error::defect("the names of external data are not where the model was read to have them")
}
