//! The command line.

use crate::work::caught;
use pyo3::prelude::*;
use std::ffi::OsString;

/// Runs a command line, of which the first word is the program's name; returns the exit code.
#[pyfunction]
pub(crate) fn main(py: Python<'_>, arguments: Vec<OsString>) -> PyResult<u8> {
    let run = || Ok(ckpt::cli::status(&crate::codecs::registry(), arguments));
    py.detach(|| caught(run)).map_err(|failure| failure.into_python(py))
}
