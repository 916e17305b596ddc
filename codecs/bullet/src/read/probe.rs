//! Recognizes the format.

use super::records;
use crate::format::{PARAMS, Padding, QUANTISED, RAW, STATE, StateFile, WEIGHTS, padded};
use ckpt_api::{File, Input, Match, Result};

/// Certain if a file consists of records or is padded with bullet's name; possible if a file has one of bullet's names.
pub(crate) fn probe(input: &Input) -> Result<Match> {
    if !input.is_directory() {
        return if input.is_file() { probe_file(input, input.entry()) } else { Ok(Match::No) };
    }
    let mut verdict = Match::No;
    for name in [&format!("{STATE}{}", WEIGHTS.name), WEIGHTS.name, QUANTISED, RAW] {
        if !input.has_file(name) {
            continue;
        }
        match probe_file(input, name)? {
            certain @ Match::Certain(_) => return Ok(certain),
            Match::Possible(why) if verdict == Match::No => verdict = Match::Possible(why),
            _ => {}
        }
    }
    let params = [format!("{STATE}{}", PARAMS.name), PARAMS.name.to_owned()];
    match params.iter().find(|name| input.has_file(name)) {
        Some(name) if verdict == Match::No => Ok(Match::Possible(format!("contains a file '{name}'"))),
        _ => Ok(verdict),
    }
}

fn probe_file(input: &Input, name: &str) -> Result<Match> {
    let file = input.file(name)?;
    if let Some(records) = records::count(&file)? {
        return Ok(Match::Certain(format!("{name} consists of {}", ckpt_api::count(records, "record"))));
    }
    if ends_with_name(&file)? {
        return Ok(Match::Certain(format!("{name} is padded to a multiple of 64 bytes with 'bullet'")));
    }
    let base = base_name(name);
    let is_known = [RAW, QUANTISED].contains(&base) || StateFile::from_name(base).is_some();
    Ok(match is_known {
        true => Match::Possible(format!("'{base}' is the name of a file that bullet writes")),
        false => Match::No,
    })
}

/// Returns the last component of a path.
pub(super) fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Whether the file is padded with at least one whole `bullet`.
fn ends_with_name(file: &File) -> Result<bool> {
    let alignment = padded(1);
    if file.len() < alignment || !file.len().is_multiple_of(alignment) {
        return Ok(false);
    }
    let tail = file.bytes(file.len() - alignment, alignment)?;
    Ok((6..alignment).any(|len| {
        let filler = Padding::Name.bytes(alignment - len);
        tail.ends_with(&filler)
    }))
}
