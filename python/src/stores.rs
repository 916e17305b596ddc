//! Checkpoints at URLs: the options of their stores, and small files that the Python half reads and removes there.

use crate::errors::Failure;
use crate::work::{Interrupted, long, short};
use ckpt::api::{Error, Limit, Limits};
use ckpt::store::{IntoInput, directory, remove_files as remove};
use pyo3::prelude::*;
use std::path::{Path, PathBuf};

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
        let (name, bytes) = read(&path, &Limits::default(), Limit::TextBytes)?;
        Ok(String::from_utf8(bytes).map_err(|_| Error::corrupt("the file is not UTF-8").file(name))?)
    })
}

/// Makes a directory at a path; one at a URL needs no making.
#[pyfunction]
pub(crate) fn make_directory(py: Python<'_>, path: PathBuf) -> PyResult<()> {
    long(py, Interrupted::Joined, move |_| Ok(directory(&path, true).map(drop)?))
}

/// The names of the files in the directory `name` of the one at a path or URL; none where it is not there.
#[pyfunction]
pub(crate) fn list_files(py: Python<'_>, above: PathBuf, name: String) -> PyResult<Vec<String>> {
    long(py, Interrupted::Abandoned, move |_| {
        let store = directory(&above, false)?;
        Ok(if store.has_directory(&name) { store.list(&name, u64::MAX)? } else { Vec::new() })
    })
}

/// Removes the files in the directory `name` of the one at a path or URL, and the directory once it is empty.
#[pyfunction]
pub(crate) fn remove_files(py: Python<'_>, above: PathBuf, name: String) -> PyResult<()> {
    long(py, Interrupted::Joined, move |_| Ok(remove(&*directory(&above, false)?, &name)?))
}

/// The name and the bytes of a small file, by its path or URL.
pub(crate) fn read(path: &Path, limits: &Limits, most: Limit) -> Result<(String, Vec<u8>), Failure> {
    let file = path.into_input(crate::codecs::registry().addresses(), limits)?.main()?;
    limits.check(most, file.len()).map_err(|error| error.file(file.name()))?;
    Ok((file.name().to_owned(), file.bytes(0, file.len())?))
}
