//! Whether the source is still what it was: of files that somebody writes meanwhile, some bytes are old and some new.

use crate::plan::SourceFile;
use crate::source::Source;
use ckpt_api::{Error, Input, Result};
use std::collections::BTreeSet;

/// The identity of a file that is not there.
const ABSENT: &str = "absent";

/// Every file that was opened to read a source, or that holds its tensors, as it is now.
pub(super) fn of_source(source: &Source) -> Vec<SourceFile> {
    let opened = source.input.opened();
    let names: BTreeSet<&String> = opened.iter().chain(&source.contents.files).collect();
    names.into_iter().map(|name| pin(&source.input, name)).collect()
}

fn pin(input: &Input, name: &str) -> SourceFile {
    match input.file(name) {
        Ok(file) => SourceFile { name: name.to_owned(), size: file.len(), identity: file.identity() },
        Err(_) => SourceFile { name: name.to_owned(), size: 0, identity: Some(ABSENT.to_owned()) },
    }
}

/// Refuses files that were written, replaced or removed since they were pinned.
///
/// # Errors
/// [`ckpt_api::Kind::Io`], naming the first; `message` states when that was.
pub(super) fn check(input: &Input, pins: &[SourceFile], message: &str) -> Result<()> {
    input.store().forget();
    input.will_open(&pins.iter().map(|pin| pin.name.as_str()).collect::<Vec<_>>());
    match pins.iter().find(|before| pin(input, &before.name) != **before) {
        None => Ok(()),
        Some(before) => Err(Error::io(
            message,
            std::io::Error::other("its size, its modification time or the file itself differs"),
        )
        .file(input.display(&before.name))
        .help("the output was not made; convert again when no other program writes to it")),
    }
}
