//! Formats that no codec reads: an error says what such a file is, and what to do.

use ckpt_api::{Error, Input, Result};
use std::fmt::Debug;

/// Formats that no codec of the program reads, recognized by their first bytes or their names.
///
/// Each error is of the kind [`ckpt_api::Kind::Unsupported`]. The methods fail with [`ckpt_api::Kind::Io`] if the input cannot
/// be read.
pub trait UnreadFormats: Debug + Send + Sync {
    /// Returns the error for an input that shows its format.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Io`].
    fn known(&self, input: &Input) -> Result<Option<Error>>;

    /// As [`UnreadFormats::known`], of a file that has weights.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Io`].
    fn known_weights(&self, input: &Input) -> Result<Option<Error>>;

    /// Returns the error for an input that no codec recognizes: what it may be, and what to do. `endings` are those of files
    /// that codecs read, `formats` lists the codecs.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Io`].
    fn unrecognized(&self, input: &Input, endings: &[&str], formats: &str) -> Result<Error>;

    /// Returns what serves in place of a format that is not written, by its name or the ending of its files.
    fn instead(&self, name: &str) -> Option<&'static str>;
}

/// Knows no format.
#[derive(Debug)]
pub(super) struct NoFormats;

impl UnreadFormats for NoFormats {
    fn known(&self, _: &Input) -> Result<Option<Error>> {
        Ok(None)
    }

    fn known_weights(&self, _: &Input) -> Result<Option<Error>> {
        Ok(None)
    }

    fn unrecognized(&self, input: &Input, _: &[&str], formats: &str) -> Result<Error> {
        Ok(Error::unsupported("the input's format is not recognized")
            .file(input.display(input.entry()))
            .expected(format!("one of: {formats}")))
    }

    fn instead(&self, _: &str) -> Option<&'static str> {
        None
    }
}
