//! Whether the source is still what it was: of files that somebody writes meanwhile, some bytes are old and some new.

use crate::plan::SourceFile;
use crate::source::Source;
use ckpt_api::{Error, Input, Kind, Result};
use std::collections::BTreeSet;

/// The identity of a file that is not there.
const ABSENT: &str = "absent";

/// Every file that was opened to read a source, or that holds its tensors, as it is now.
///
/// # Errors
/// [`ckpt_api::Kind::Io`] if a file is there and cannot be opened.
pub(super) fn of_source(source: &Source) -> Result<Vec<SourceFile>> {
    let mut opened = source.input.opened();
    for (number, other) in source.input.others().iter().enumerate() {
        opened.extend(other.opened().iter().map(|name| Input::name_in_other(number, name)));
    }
    let names: BTreeSet<&String> = opened.iter().chain(&source.contents.files).collect();
    names.into_iter().map(|name| pin(&source.input, name)).collect()
}

fn pin(input: &Input, name: &str) -> Result<SourceFile> {
    match input.file(name) {
        Ok(file) => Ok(SourceFile { name: name.to_owned(), size: file.len(), identity: file.identity() }),
        // What keeps the process from opening it says nothing about the file.
        Err(error) if error.kind() == Kind::Io && !error.is_missing() => Err(error),
        Err(_) => Ok(SourceFile { name: name.to_owned(), size: 0, identity: Some(ABSENT.to_owned()) }),
    }
}

/// Refuses files that were written, replaced or removed since they were pinned.
///
/// # Errors
/// [`ckpt_api::Kind::Io`], naming the first; `message` states when that was.
pub(super) fn check(input: &Input, pins: &[SourceFile], message: &str) -> Result<()> {
    input.store().forget();
    input.will_open(&pins.iter().map(|pin| pin.name.as_str()).collect::<Vec<_>>());
    for before in pins {
        if pin(input, &before.name)? != *before {
            let differs = "its size, its modification time or the file itself differs";
            return Err(Error::io(message, std::io::Error::other(differs))
                .file(input.display(&before.name))
                .help("the output was not made; convert again when no other program writes to it"));
        }
    }
    Ok(())
}
