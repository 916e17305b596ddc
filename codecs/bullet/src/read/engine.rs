//! Checks that a file is the engine file that the architecture describes.

use super::fit;
use crate::format::Content;
use crate::net::architecture::Architecture;
use crate::net::engine::Header;
use crate::net::section::{Section, sections};
use ckpt_api::{Error, File, Result, Setting};

/// Checks the header, the size and the gaps between members, and returns the members' sections.
pub(super) fn check<'a>(architecture: &'a Architecture, file: &File) -> Result<Vec<Section<'a>>> {
    let engine = architecture.net.engine.as_ref().ok_or_else(|| {
        Error::usage("the architecture does not describe an engine file").file(file.name()).help(format!(
            "describe it under 'engine' in the architecture file, or name a profile: {}",
            Setting::ReadOption("profile=plain")
        ))
    })?;
    let (sections, end) = sections(architecture, Content::Engine)?;
    let header = engine.header.0.len() as u64;
    check_header(file.name(), &engine.header, &file.bytes(0, header.min(file.len()))?)?;
    fit::check_lengths(file, &sections)?;
    if file.len() != end {
        return Err(fit::does_not_fit(file)
            .found(format!("{} bytes", file.len()))
            .expected(format!("{end} bytes, with members aligned to {}", u64::from(engine.align)))
            .help("correct the members, or 'align', in the architecture file"));
    }
    let mut before = header;
    let ranges = sections.iter().map(|section| (section.offset, section.offset + section.len));
    for (start, after) in ranges.chain([(end, end)]) {
        check_gap(file.name(), before, &file.bytes(before, start - before)?)?;
        before = after;
    }
    Ok(sections)
}

fn check_header(name: &str, header: &Header, found: &[u8]) -> Result<()> {
    let differs = |(own, other): (&u8, &u8)| own != other;
    match header.0.iter().zip(found).position(differs) {
        None if found.len() >= header.0.len() => Ok(()),
        position => Err(Error::corrupt("the file does not begin with the engine's header")
            .file(name)
            .offset(position.unwrap_or(found.len()) as u64)
            .found(String::from(Header(found.to_vec())))
            .expected(String::from(header.clone()))
            .help("correct 'header' in the architecture file, or choose another file")),
    }
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
