//! Errors and checks for files that do not fit the architecture.

use crate::net::bytes::HexBytes;
use crate::net::parameter::StoredWeight;
use crate::net::section::Constant;
use crate::net::sections::Sections;
use crate::preset;
use ckpt_api::{Error, File, Result, Setting, text};

/// The error for a file that cannot be read without an architecture.
pub(super) fn needs_architecture(file: &File) -> Error {
    Error::usage("the file has neither names nor shapes: it needs an architecture")
        .file(file.name())
        .found(ckpt_api::count(file.len(), "byte"))
        .help(text![
            "describe the net in an architecture file, given with ",
            Setting::ARCHITECTURE,
            ", or name a preset, such as ",
            Setting::READ_OPTION.of(&format!("arch={}", preset::SYNTAX))
        ])
}

/// The most bytes that an error shows.
const SHOWN: usize = 16;

/// Checks that the file has the bytes that the architecture states, as far as it is long enough.
pub(super) fn check_constants(file: &File, sections: &Sections<'_>) -> Result<()> {
    for Constant { field, bytes, offset } in &sections.constants {
        let rest = file.len().saturating_sub(*offset);
        let found = file.bytes((*offset).min(file.len()), rest.min(bytes.len() as u64))?;
        let Some(position) = bytes.iter().zip(&found).position(|(own, other)| own != other) else { continue };
        // Of many bytes, those around the first that differs.
        let start = position.saturating_sub(SHOWN / 4).min(bytes.len().saturating_sub(SHOWN));
        return Err(Error::corrupt("the file does not have the bytes that the architecture states")
            .file(file.name())
            .offset(offset.saturating_add(position as u64))
            .field(field)
            .found(digits(&found, start))
            .expected(digits(bytes, start))
            .help("correct these bytes in the architecture file, or choose another file"));
    }
    Ok(())
}

/// The hexadecimal digits of some bytes from `start` on; dots stand for the others.
fn digits(bytes: &[u8], start: usize) -> String {
    let (before, rest) = bytes.split_at(start.min(bytes.len()));
    let (shown, after) = rest.split_at(SHOWN.min(rest.len()));
    let dots = |others: &[u8]| if others.is_empty() { "" } else { "…" };
    format!("{}{}{}", dots(before), String::from(HexBytes(shown.to_vec())), dots(after))
}

/// Checks that the file has every weight and all bytes that the architecture states; the error names the first that it
/// lacks.
pub(super) fn check_lengths(file: &File, sections: &Sections<'_>) -> Result<()> {
    let weight = sections.weights.iter().find(|section| section.offset + section.len > file.len());
    let constant = sections.constants.iter().find(|constant| constant.end() > file.len());
    let error = match (weight, constant) {
        (Some(section), constant) if constant.is_none_or(|constant| section.offset <= constant.offset) => {
            let found = file.len().saturating_sub(section.offset) / section.dtype.bytes().unwrap_or(1);
            wrong_count(&section.stored, found).file(file.name()).offset(section.offset)
        }
        (_, Some(constant)) => lacks_constant(file, constant),
        _ => return Ok(()),
    };
    Err(error.help("the file is cut short, or the architecture describes a different net"))
}

/// The error for a file that ends before or within bytes that the architecture states.
fn lacks_constant(file: &File, constant: &Constant<'_>) -> Error {
    let all = constant.bytes.len() as u64;
    let missing = constant.end().saturating_sub(file.len()).min(all);
    does_not_fit(file)
        .offset(constant.offset)
        .field(&constant.field)
        .found(format!("{}, {missing} missing", ckpt_api::count(all.saturating_sub(missing), "byte")))
        .expected(ckpt_api::count(all, "byte"))
}

/// Checks that every weight of the file becomes a tensor, or is in one.
pub(super) fn check_weights(file: &File, sections: &Sections<'_>) -> Result<()> {
    let Some((id, copy)) = sections.lost() else { return Ok(()) };
    Err(Error::unsupported("the file stores a weight only within an entry that repeats another")
        .file(file.name())
        .offset(copy.offset)
        .tensor(id)
        .found(format!("entry {} of '{}', which includes it", copy.number, copy.entry.id))
        .expected("an entry of its own")
        .help("read optimiser_state of the same checkpoint, which stores each weight by itself"))
}

/// The error for a file that continues after the last tensor of the architecture.
pub(super) fn too_long(file: &File, end: u64) -> Error {
    let more = file.len().saturating_sub(end);
    does_not_fit(file)
        .offset(end)
        .found(format!(
            "{} after the last tensor ({} of 32 bits)",
            ckpt_api::count(more, "byte"),
            ckpt_api::count(more / 4, "number")
        ))
        .expected("the end of the file")
        .help("correct the architecture: it lacks a tensor, or a size is too small")
}

/// The error for a tensor that has another number of elements than the architecture says.
pub(super) fn wrong_count(stored: &StoredWeight<'_>, found: u64) -> Error {
    let expected = stored.elements().unwrap_or(u64::MAX);
    let difference = match found.checked_sub(expected) {
        Some(more) => format!("{more} too many"),
        None => format!("{} too few", expected.saturating_sub(found)),
    };
    Error::usage(DOES_NOT_FIT)
        .tensor(stored.id)
        .found(format!("{found} numbers, {difference}"))
        .expected(format!("{expected}: {}", stored.describe()))
}

/// The message of all these errors.
pub(super) const DOES_NOT_FIT: &str = "the architecture does not fit the file";

/// The error for a file of another size than the architecture says.
pub(super) fn does_not_fit(file: &File) -> Error {
    Error::usage(DOES_NOT_FIT).file(file.name())
}
