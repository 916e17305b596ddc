//! Checks that a file is the engine file that the architecture describes.

use super::fit;
use crate::format::Content;
use crate::net::architecture::Architecture;
use crate::net::sections::{Sections, sections};
use ckpt_api::{Error, File, Result, Setting, text};

/// Checks the header, the size and the gaps between members, and returns what is where.
pub(super) fn check<'a>(architecture: &'a Architecture, file: &File) -> Result<Sections<'a>> {
    let engine = architecture.net.engine.as_ref().ok_or_else(|| {
        Error::usage("the architecture does not describe an engine file").file(file.name()).help(text![
            "describe it under 'engine' in the architecture file, or name a profile: ",
            Setting::READ_OPTION.of("profile=plain")
        ])
    })?;
    let sections = sections(architecture, Content::Engine)?;
    fit::check_constants(file, &sections)?;
    fit::check_lengths(file, &sections)?;
    if file.len() != sections.end {
        return Err(fit::does_not_fit(file)
            .found(ckpt_api::count(file.len(), "byte"))
            .expected(format!("{} bytes, with members aligned to {}", sections.end, u64::from(engine.align)))
            .help("correct the members, or 'align', in the architecture file"));
    }
    let mut before = 0;
    for (start, after) in sections.ranges().into_iter().chain([(sections.end, sections.end)]) {
        check_gap(file.name(), before, &file.bytes(before, start - before)?)?;
        before = after;
    }
    Ok(sections)
}

/// Checks that the bytes between two members, which begin at `offset`, are zeros.
fn check_gap(name: &str, offset: u64, bytes: &[u8]) -> Result<()> {
    match bytes.iter().position(|byte| *byte != 0) {
        None => Ok(()),
        Some(position) => Err(Error::corrupt("the bytes between two members are not zeros")
            .file(name)
            .offset(offset.saturating_add(position as u64))
            .expected("zeros up to the next multiple of 'align'")
            .help("the architecture may describe a different net")),
    }
}
