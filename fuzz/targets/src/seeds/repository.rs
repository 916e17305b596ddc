//! The files of this repository, and seeds by target.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};

/// Inputs by target and name.
pub type Seeds = BTreeMap<&'static str, BTreeMap<String, Vec<u8>>>;

pub(super) type Result<T, E = Box<dyn Error>> = std::result::Result<T, E>;

/// The root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The files of a folder and of those in it, sorted by path.
///
/// # Errors
/// A folder cannot be listed.
pub fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let (mut found, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        let listed = std::fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        for entry in listed {
            let path = entry?.path();
            if path.is_dir() { folders.push(path) } else { found.push(path) }
        }
    }
    found.sort();
    Ok(found)
}

/// Reads a file; the error names it.
///
/// # Errors
/// The file cannot be read.
pub fn bytes(path: &Path) -> Result<Vec<u8>> {
    Ok(std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?)
}

/// A path below `folder` as one name.
pub(super) fn flat(path: &Path, folder: &Path) -> Result<String> {
    let parts = path.strip_prefix(folder)?.iter().map(|part| part.to_string_lossy());
    Ok(parts.collect::<Vec<_>>().join("-"))
}

/// Adds a seed to those of a target.
pub(super) fn push(seeds: &mut Seeds, target: &'static str, name: &str, seed: Vec<u8>) {
    seeds.entry(target).or_default().insert(name.to_owned(), seed);
}
