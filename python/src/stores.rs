//! Checkpoints at URLs: the options of their stores, and small files that the Python half reads there.

use crate::errors::Failure;
use crate::work::{Interrupted, long, short};
use ckpt::api::{Error, Limit, Limits};
use ckpt::store::IntoInput;
use pyo3::prelude::*;
use std::path::PathBuf;

/// Makes these the options of all stores that the process opens from now on, in the place of earlier ones.
#[pyfunction]
pub(crate) fn set_store_options(py: Python<'_>, options: Vec<(String, String)>) -> PyResult<()> {
    short(py, move || set(&options))
}

#[cfg(feature = "remote")]
fn set(options: &[(String, String)]) -> Result<(), Failure> {
    let none = ckpt::store::RemoteOptions::new();
    options.iter().try_fold(none, |options, (key, value)| options.set(key, value))?.use_everywhere();
    Ok(())
}

#[cfg(not(feature = "remote"))]
fn set(_options: &[(String, String)]) -> Result<(), Failure> {
    let error = Error::unsupported("this build of ckpt opens no stores by URL");
    Err(error.help("build the package with the Cargo feature `remote`").into())
}

/// The text of a small file, by its path or URL.
#[pyfunction]
pub(crate) fn read_text(py: Python<'_>, path: PathBuf) -> PyResult<String> {
    long(py, Interrupted::Abandoned, move |_| {
        let limits = Limits::default();
        let file = path.into_input(&limits)?.main()?;
        limits.check(Limit::TextBytes, file.len()).map_err(|error| error.file(file.name()))?;
        let text = String::from_utf8(file.bytes(0, file.len())?);
        Ok(text.map_err(|_| Error::corrupt("the file is not UTF-8").file(file.name()))?)
    })
}
