//! Where a receipt's files are. A receipt is input like any other: with a root, it reads nothing outside of it.

use crate::settings;
use ckpt_api::{Address, Error, Result, text};
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

/// The directory that a receipt's paths start from.
pub(super) struct Places {
    /// As the user named it.
    base: PathBuf,
    /// Its path without links, which no file may leave. `None` if the receipt is trusted to name any directory.
    root: Option<PathBuf>,
}

impl Places {
    /// Below `root`, or anywhere, from the working directory.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Io`] if there is no such directory.
    pub(super) fn new(root: Option<&Path>) -> Result<Self> {
        let Some(base) = root else { return Ok(Places { base: PathBuf::from("."), root: None }) };
        let cannot =
            |error| Error::io("cannot open the receipt's root", error).file(base.display().to_string());
        Ok(Places { base: base.to_owned(), root: Some(fs::canonicalize(base).map_err(cannot)?) })
    }

    /// A directory that a receipt names; empty for the one that its paths start from.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`] if it is not below the root.
    pub(super) fn directory(&self, recorded: &str) -> Result<PathBuf> {
        if self.root.is_none() && Address::of(recorded.as_ref()).is_some() {
            return Ok(PathBuf::from(recorded));
        }
        if self.root.is_some() && leaves(Path::new(recorded)) {
            return Err(self.leads_outside().found(format!("'{}'", recorded.escape_debug())));
        }
        Ok(if recorded.is_empty() { self.base.clone() } else { self.base.join(recorded) })
    }

    /// The real path of a file; `None` if there is none.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Corrupt`] for a name that leaves the directory; [`ckpt_api::Kind::Usage`] for a link that
    /// leaves the root; [`ckpt_api::Kind::Io`].
    pub(super) fn file(&self, directory: &Path, name: &str) -> Result<Option<PathBuf>> {
        let mut parts = Path::new(name).components();
        let inside = !name.is_empty() && !name.contains(['\0', '\\']);
        if !inside || !parts.all(|part| matches!(part, Component::Normal(_))) {
            return Err(Error::corrupt("the receipt has a file name that leads outside its directory")
                .found(format!("'{}'", name.escape_debug())));
        }
        let path = directory.join(name);
        if Address::of(&path).is_some() {
            return Ok(Some(path));
        }
        let shown = || path.display().to_string();
        let real = match fs::canonicalize(&path) {
            Ok(real) => real,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::io("cannot open the file", error).file(shown())),
        };
        match &self.root {
            Some(root) if !real.starts_with(root) => Err(self
                .leads_outside()
                .file(shown())
                .found(format!("a symbolic link to '{}'", real.display().to_string().escape_debug()))),
            _ => Ok(Some(real)),
        }
    }

    fn leads_outside(&self) -> Error {
        Error::usage("the receipt names files outside the root")
            .expected(format!("files below {}", self.base.display()))
            .help(text![
                "if you trust the receipt, check it without ",
                settings::RECEIPT_ROOT,
                ", in the directory where the conversion ran"
            ])
    }

    /// Those of a receipt's directories that are outside the one that its paths start from.
    pub(super) fn outside<'a>(&self, recorded: impl IntoIterator<Item = &'a str>) -> Vec<String> {
        let mut outside: Vec<String> =
            recorded.into_iter().filter(|path| leaves(Path::new(path))).map(str::to_owned).collect();
        outside.dedup();
        outside
    }
}

/// Whether a path leads out of where it starts, links aside.
fn leaves(path: &Path) -> bool {
    if Address::of(path).is_some() {
        return true;
    }
    let mut depth = 0usize;
    for part in path.components() {
        match part {
            Component::Normal(_) => depth = depth.saturating_add(1),
            Component::CurDir => {}
            Component::ParentDir if depth > 0 => depth -= 1,
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return true,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_leaves_where_it_starts_if_it_is_absolute_or_goes_up_too_far() {
        for path in ["/etc", "..", "../a", "a/../..", "a/../../a", "/", "s3://bucket/a"] {
            assert!(leaves(Path::new(path)), "{path}");
        }
        for path in ["", ".", "a", "a/b", "./a", "a/../b", "a/b/../.."] {
            assert!(!leaves(Path::new(path)), "{path}");
        }
    }
}
