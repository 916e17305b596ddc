//! Reads a model, and locates its tensors.

mod compressed;
mod files;
mod kept;
mod model;
mod network;
mod package;
mod parsed;
mod parser;
mod program;
mod values;

use crate::format::{ITEMS, MANIFEST};
use ckpt_api::{Contents, File, Input, Limits, Match, Result};
pub(crate) use files::Files;
pub(crate) use kept::{Package, SMALL, is_plain, kept_keys};

pub(crate) use program::{Argument, Data, Function, Named, Operation, Program, Value};
pub(crate) use values::stored as stored_value;

/// Bytes of a manifest that are looked at.
const LOOKED_AT: u64 = 1 << 16;

/// Recognizes a package by its manifest, and a model by its first fields.
pub(crate) fn probe(input: &Input) -> Result<Match> {
    if input.is_directory() {
        return match input.has_file(MANIFEST) {
            true => Ok(of_manifest(&input.file(MANIFEST)?)?),
            false => Ok(Match::No),
        };
    }
    if !input.is_file() {
        return Ok(Match::No);
    }
    if input.entry() == MANIFEST {
        return of_manifest(&input.main()?);
    }
    let file = input.main()?;
    let start = file.bytes(0, file.len().min(LOOKED_AT))?;
    Ok(match begins_as_model(&start) {
        true => Match::Certain("begins with the version and the description of a Core ML model".to_owned()),
        false if input.entry().ends_with(".mlmodel") => {
            Match::Possible("has the extension of a Core ML model".to_owned())
        }
        false => Match::No,
    })
}

fn of_manifest(file: &File) -> Result<Match> {
    let start = file.bytes(0, file.len().min(LOOKED_AT))?;
    let key = format!("\"{ITEMS}\"").into_bytes();
    Ok(match start.windows(key.len()).any(|part| part == key) {
        true => Match::Certain(format!("{MANIFEST} has {ITEMS}")),
        false => Match::No,
    })
}

/// Whether bytes begin with a version, and a description that begins with an input.
fn begins_as_model(start: &[u8]) -> bool {
    let [8, 1..=32, rest @ ..] = start else { return false };
    let input = message(rest, 2).and_then(|description| message(description, 1));
    let name = input.and_then(|input| message(input, 1));
    name.is_some_and(|name| !name.is_empty() && name.iter().all(|byte| (0x20..0x7f).contains(byte)))
}

/// The bytes of a field with a length, of which only the first may be there, if a message begins with it.
fn message(bytes: &[u8], field: u8) -> Option<&[u8]> {
    let mut rest = bytes.strip_prefix(&[field << 3 | 2])?;
    let (mut len, mut shift) = (0usize, 0);
    loop {
        let (byte, after) = rest.split_first()?;
        rest = after;
        len |= usize::from(byte & 0x7f).checked_shl(shift)?;
        shift += 7;
        if byte & 0x80 == 0 {
            break;
        }
        (shift < 35).then_some(())?;
    }
    Some(rest.get(..len.min(rest.len())).unwrap_or_default())
}

/// Reads everything but the tensors' data.
pub(crate) fn read(input: &Input, limits: &Limits) -> Result<Contents> {
    Ok(Package::read(input, limits)?.keep())
}
