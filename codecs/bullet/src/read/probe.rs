//! Recognizes the format.

use super::records;
use crate::format::{PARAMS, Padding, QUANTISED, RAW, SLOTS, STATE, StateFile, WEIGHTS, padded};
use ckpt_api::{File, Input, Match, Result};

/// Certain if a file consists of records or is padded with bullet's name; possible if a file has one of bullet's names, and
/// nothing in it says that another program wrote it.
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
    let is_possible = match base {
        QUANTISED => !begins_otherwise(&file)?,
        RAW => begins_with_weights(&file)?,
        name if name == PARAMS.name => begins_with_weights(&file)?,
        // Other programs use these names, too.
        name if StateFile::from_name(name).is_some() => {
            records::begin(&file)? || (begins_with_weights(&file)? && has_companion(input, base))
        }
        _ => false,
    };
    Ok(match is_possible {
        true => Match::Possible(format!("'{base}' is the name of a file that bullet writes")),
        false => Match::No,
    })
}

/// Whether the file begins as an archive, a pickle or a text does.
fn begins_otherwise(file: &File) -> Result<bool> {
    let start = file.bytes(0, file.len().min(16))?;
    let is_text = |byte: &u8| byte.is_ascii_graphic() || byte.is_ascii_whitespace();
    Ok(match &start[..] {
        [b'P', b'K', 3, 4, ..] | [0x80, 2..=5, ..] => true,
        start => !start.is_empty() && start.iter().all(is_text),
    })
}

/// Whether the file may consist of 32-bit floats as networks have them.
fn begins_with_weights(file: &File) -> Result<bool> {
    /// Values that are looked at.
    const FIRST: u64 = 64;
    let is_weight = |value: f32| value == 0.0 || (1e-30..1e12).contains(&value.abs());
    let start = file.bytes(0, file.len().min(FIRST * 4) / 4 * 4)?;
    let values = start.as_chunks::<4>().0;
    let is_size = !file.is_empty() && file.len().is_multiple_of(4);
    Ok(is_size && values.iter().all(|bytes| is_weight(f32::from_le_bytes(*bytes))))
}

/// Whether another file of the optimizer is beside one of this name.
fn has_companion(input: &Input, name: &str) -> bool {
    let others = [WEIGHTS, PARAMS].into_iter().chain(SLOTS).filter(|file| file.name != name);
    let mut others = others.map(|file| file.name);
    others.any(|other| input.has_file(other) || input.has_file(&format!("{STATE}{other}")))
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
