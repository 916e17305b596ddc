//! Directories whose checkpoint is one file: which file it is.

use crate::formats::{Formats, UnreadFormats};
use crate::placeholder;
use ckpt_api::{Codec, Error, Input, Kind, Match, Result, first_few};
use std::sync::Arc;

/// Files that are asked about their format.
const ASKED: usize = 64;
/// Names that a message lists.
const SHOWN: usize = 8;
/// The ending of files that name the files of a set.
const INDEX: &str = "json";

/// The file that a directory stands for: the only one in it that a codec recognizes, or else the only one with an extension
/// that a codec reads. An index comes before files of weights. `None` for a directory that codecs read as a whole, and for one
/// without such a file.
///
/// # Errors
/// [`Kind::Usage`] if several files can be meant, [`Kind::Io`] if they cannot be read.
pub(super) fn only_file(formats: &Formats, input: &Input, format: Option<&str>) -> Result<Option<Input>> {
    let codecs: Vec<&Arc<dyn Codec>> = formats
        .codecs()
        .filter(|codec| !codec.info().reads.is_empty() && format.is_none_or(|id| id == codec.info().id))
        .collect();
    for codec in &codecs {
        if codec.probe(input)? != Match::No {
            return Ok(None);
        }
    }
    let candidates = candidates(input, &codecs)?;
    let mut asked = Asked::default();
    for name in candidates.iter().take(ASKED) {
        asked.add(input, name, &codecs, formats.unread())?;
    }
    // What another format's ending promises is nothing to somebody who named one.
    if format.is_some() {
        asked.unread.clear();
    }
    let meant = match (asked.recognized.is_empty(), asked.unread.is_empty()) {
        (true, true) => candidates.iter().map(String::as_str).filter(|name| !is_index(name)).collect(),
        (true, false) => return Err(asked.unread.swap_remove(0).1),
        (false, true) => asked.models(),
        (false, false) => {
            asked.recognized.into_iter().chain(asked.unread.into_iter().map(|(name, _)| name)).collect()
        }
    };
    match &meant[..] {
        [] => Ok(None),
        [name] if candidates.len() <= ASKED => {
            input.check_links(name)?;
            Ok(Some(file(input, name)))
        }
        several => Err(Error::usage("the directory contains several files that can be the checkpoint")
            .file(input.display(""))
            .found(first_few(several, SHOWN))
            .help("name the one to read")),
    }
}

/// What the files of a directory are.
#[derive(Default)]
struct Asked<'a> {
    /// The names of those that a codec recognizes.
    recognized: Vec<&'a str>,
    /// The models of formats that no codec reads, each with its error.
    unread: Vec<(&'a str, Error)>,
}

impl<'a> Asked<'a> {
    /// Asks what a file is.
    ///
    /// # Errors
    /// [`Kind::Corrupt`] for a text in the place of a file: the model may be this one, and not another file that happens to
    /// be readable.
    fn add(
        &mut self,
        input: &Input,
        name: &'a str,
        codecs: &[&Arc<dyn Codec>],
        unread: &dyn UnreadFormats,
    ) -> Result<()> {
        // What is elsewhere is not opened to ask what it is.
        if input.check_links(name).is_err() {
            return Ok(());
        }
        let file = file(input, name);
        if is_recognized(&file, codecs)? {
            self.recognized.push(name);
            return Ok(());
        }
        placeholder::refuse(&input.file(name)?)?;
        self.unread.extend(unread.known_weights(&file)?.map(|error| (name, error)));
        Ok(())
    }

    /// The indexes among the recognized files, or else all of these.
    fn models(self) -> Vec<&'a str> {
        let (indexes, files): (Vec<&str>, Vec<&str>) =
            self.recognized.into_iter().partition(|name| is_index(name));
        if indexes.is_empty() { files } else { indexes }
    }
}

/// The names that a codec reads by their extension, and those of indexes.
fn candidates(input: &Input, codecs: &[&Arc<dyn Codec>]) -> Result<Vec<String>> {
    let is_read = |name: &str| {
        let extension = name.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase());
        let is_of = |extension: &str| codecs.iter().any(|codec| codec.info().extensions.contains(&extension));
        extension.is_some_and(|extension| extension == INDEX || is_of(&extension))
    };
    // macOS stores what it knows of a file under its name after '._'.
    let names = input.list("")?.into_iter().filter(|name| !name.starts_with('.'));
    Ok(names.filter(|name| is_read(name)).collect())
}

fn is_index(name: &str) -> bool {
    name.rsplit_once('.').is_some_and(|(_, extension)| extension.eq_ignore_ascii_case(INDEX))
}

fn is_recognized(file: &Input, codecs: &[&Arc<dyn Codec>]) -> Result<bool> {
    for codec in codecs {
        match codec.probe(file) {
            Ok(Match::Certain(_)) => return Ok(true),
            Err(error) if error.kind() == Kind::Io => return Err(error),
            _ => {}
        }
    }
    Ok(false)
}

fn file(input: &Input, name: &str) -> Input {
    Input::within_store(input.store().clone(), name).within(input.limits())
}
