//! Whether the source is still what it was: of files that somebody writes meanwhile, some bytes are old and some new.

use crate::execute::Stamp;
use crate::source::Source;
use ckpt_api::{Error, Result};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The files that hold a source's tensors, as they were at one time.
pub(super) struct Unchanged(Vec<(PathBuf, Option<Stamp>)>);

impl Unchanged {
    /// As they are now; none of a source that is not on disk.
    pub(super) fn now(source: &Source) -> Self {
        let names =
            source.input.directory().map(|root| source.contents.files.iter().map(|name| root.join(name)));
        let stamped = |path: PathBuf| {
            let stamp = stamp(&path);
            (path, stamp)
        };
        Unchanged(names.into_iter().flatten().map(stamped).collect())
    }

    /// Refuses files that were written, replaced or removed since.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Io`], naming the first.
    pub(super) fn check(&self) -> Result<()> {
        match self.0.iter().find(|(path, before)| stamp(path) != *before) {
            None => Ok(()),
            Some((path, _)) => Err(Error::io(
                "the source was changed while it was read",
                io::Error::other("its size, its time of last change, or the file itself is another"),
            )
            .file(path.display().to_string())
            .help("nothing was left behind; convert it again when nobody writes to it")),
        }
    }
}

fn stamp(path: &Path) -> Option<Stamp> {
    fs::metadata(path).ok().map(|meta| Stamp::of_metadata(&meta))
}
