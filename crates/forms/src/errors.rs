//! Errors.

use super::document::Document;
use super::texts::TextForm;
use ckpt_api::{Error, Kind, Text};
use serde::{Deserialize, Serialize};
use std::io;

/// The form of an [`Error`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ErrorForm {
    /// What sort of problem it is.
    pub kind: Document<Kind>,
    /// What went wrong.
    pub message: TextForm,
    /// The file, as people should see it.
    #[serde(default)]
    pub file: Option<String>,
    /// The byte in the file.
    #[serde(default)]
    pub offset: Option<u64>,
    /// The field, key or option.
    #[serde(default)]
    pub field: Option<TextForm>,
    /// The tensor's name.
    #[serde(default)]
    pub tensor: Option<String>,
    /// What was found.
    #[serde(default)]
    pub found: Option<TextForm>,
    /// What was expected.
    #[serde(default)]
    pub expected: Option<TextForm>,
    /// What to do next.
    #[serde(default)]
    pub help: Option<TextForm>,
    /// Whether the system found nothing of the name that it was asked for.
    #[serde(default)]
    pub is_missing: bool,
}

impl From<&Error> for ErrorForm {
    fn from(error: &Error) -> Self {
        let (texts, context) = (error.texts(), error.context());
        let text = |text: Option<&Text>| text.map(TextForm::from);
        ErrorForm {
            kind: Document(error.kind()),
            message: texts.message.into(),
            file: context.file.map(str::to_owned),
            offset: context.offset,
            field: text(texts.field),
            tensor: context.tensor.map(str::to_owned),
            found: text(texts.found),
            expected: text(texts.expected),
            help: text(texts.help),
            is_missing: error.is_missing(),
        }
    }
}

impl From<ErrorForm> for Error {
    fn from(form: ErrorForm) -> Self {
        let mut error = Error::new(form.kind.0, form.message);
        if let Some(file) = form.file {
            error = error.file(file);
        }
        if let Some(offset) = form.offset {
            error = error.offset(offset);
        }
        if let Some(tensor) = form.tensor {
            error = error.tensor(tensor);
        }
        if let Some(text) = form.field {
            error = error.field(text);
        }
        if let Some(text) = form.found {
            error = error.found(text);
        }
        if let Some(text) = form.expected {
            error = error.expected(text);
        }
        if let Some(text) = form.help {
            error = error.help(text);
        }
        match form.is_missing {
            true => error.caused_by(io::Error::from(io::ErrorKind::NotFound)),
            false => error,
        }
    }
}
