//! Errors as Python sees them: exceptions of `ckpt._errors`, made there of what is known.

use crate::words::Keywords;
use ckpt::Error;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::any::Any;
use std::io;

/// Why work did not succeed.
pub(crate) enum Failure {
    /// An error of the library.
    Error(Error),
    /// A panic: a defect.
    Panic(String),
    /// An exception.
    Python(PyErr),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Error(error)
    }
}

impl From<PyErr> for Failure {
    fn from(error: PyErr) -> Self {
        Failure::Python(error)
    }
}

impl Failure {
    /// What `catch_unwind` returned.
    pub(crate) fn panic(payload: &(dyn Any + Send)) -> Self {
        let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
        Failure::Panic(text.unwrap_or_else(|| "a panic".to_owned()))
    }

    /// The exception.
    pub(crate) fn into_python(self, py: Python<'_>) -> PyErr {
        let made = match self {
            Failure::Python(error) => return error,
            Failure::Error(error) => exception(py, &error.in_words(&Keywords)),
            Failure::Panic(text) => {
                exception(py, &Error::defect("ckpt panicked: this is a defect, please report it").found(text))
            }
        };
        made.unwrap_or_else(|error| error)
    }
}

fn exception(py: Python<'_>, error: &Error) -> PyResult<PyErr> {
    let context = error.context();
    let known = PyDict::new(py);
    known.set_item("kind", error.kind().to_string())?;
    known.set_item("text", error.to_string())?;
    known.set_item("message", error.message())?;
    known.set_item("file", context.file)?;
    known.set_item("offset", context.offset)?;
    known.set_item("field", context.field)?;
    known.set_item("tensor", context.tensor)?;
    known.set_item("found", context.found)?;
    known.set_item("expected", context.expected)?;
    known.set_item("help", context.help)?;
    known.set_item("errno", errno(error))?;
    let made = py.import("ckpt._errors")?.call_method("make", (), Some(&known))?;
    let made = PyErr::from_value(made);
    made.set_cause(py, raised(py, error));
    Ok(made)
}

/// The exception that caused an error: of a codec in Python.
fn raised(py: Python<'_>, error: &Error) -> Option<PyErr> {
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        if let Some(raised) = cause.downcast_ref::<PyErr>() {
            return Some(raised.clone_ref(py));
        }
        source = cause.source();
    }
    None
}

/// The system's number of an error that it caused. Stores at URLs have no numbers: a missing object has that of a missing
/// file, and a refused one that of a refused file. Both numbers are the same on all systems.
fn errno(error: &Error) -> Option<i32> {
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        if let Some(cause) = cause.downcast_ref::<io::Error>() {
            return cause.raw_os_error().or(match cause.kind() {
                io::ErrorKind::NotFound => Some(2),
                io::ErrorKind::PermissionDenied => Some(13),
                _ => None,
            });
        }
        source = cause.source();
    }
    None
}

/// The value as a JSON text.
pub(crate) fn json(value: &impl serde::Serialize) -> Result<String, Failure> {
    serde_json::to_string(value)
        .map_err(|error| Error::unsupported("the result has no JSON form").found(error.to_string()).into())
}
