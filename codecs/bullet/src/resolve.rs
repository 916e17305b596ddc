//! Finds the architecture to use: a file, a preset, or the one that a checkpoint's metadata keeps.

use crate::format::{ID, KEY_ARCHITECTURE};
use crate::net::architecture::Architecture;
use crate::net::description::Net;
use crate::net::entry::Item;
use crate::{preset, profile};
use ckpt_api::{ArchitectureFile, Checkpoint, Error, Options, Result, Setting, text};

/// Returns the architecture to read with: the one that the options give.
pub(crate) fn for_reading(options: &Options) -> Result<Option<Architecture>> {
    with_profile(from_options(options)?, options)
}

/// Returns the architecture to write with: the one that the options give, or the one that the checkpoint was read with.
pub(crate) fn for_writing(checkpoint: &Checkpoint, options: &Options) -> Result<Option<Architecture>> {
    let architecture = match from_options(options)? {
        Some(architecture) => Some(with_header(architecture, checkpoint)),
        None => from_metadata(checkpoint),
    };
    with_profile(architecture, options)
}

/// Returns the architecture that the checkpoint was read with.
pub(crate) fn from_metadata(checkpoint: &Checkpoint) -> Option<Architecture> {
    let document = checkpoint.metadata.value(ID, KEY_ARCHITECTURE)?;
    Architecture::new(ArchitectureFile::new(document).ok()?.parse().ok()?).ok()
}

/// The architecture that the checkpoint was read with, if that is the given one behind a header whose length an option stated.
fn with_header(given: Architecture, checkpoint: &Checkpoint) -> Architecture {
    match from_metadata(checkpoint) {
        Some(kept) if matches!(&kept.net.saved[..], [Item::Bytes(_), rest @ ..] if *rest == given.net.saved[..]) => {
            kept
        }
        _ => given,
    }
}

fn from_options(options: &Options) -> Result<Option<Architecture>> {
    match (options.architecture(), options.text("arch")) {
        (None, None) => Ok(None),
        (Some(_), Some(_)) => {
            Err(Error::usage("an architecture file and a preset are given").field("arch").help(text![
                "give ",
                Setting::ARCHITECTURE,
                " or ",
                Setting::READ_OPTION.of("arch=PRESET"),
                ", not both"
            ]))
        }
        (None, Some(text)) => preset::parse(text).and_then(Architecture::new).map(Some),
        (Some(file), None) => Architecture::from_file(file).map(Some),
    }
}

/// Replaces the architecture's engine file by the profile that the options name.
fn with_profile(architecture: Option<Architecture>, options: &Options) -> Result<Option<Architecture>> {
    let Some(name) = options.text("profile") else { return Ok(architecture) };
    let engine = profile::profile(name)?;
    let Some(Architecture { net, .. }) = architecture else {
        return Err(Error::usage("a profile describes an engine file, but not the net in it")
            .field("profile")
            .found(format!("'{name}'"))
            .help("give the net's architecture as well"));
    };
    Architecture::new(Net { engine: Some(engine), ..net }).map(Some)
}
