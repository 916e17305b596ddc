//! What a path that leads nowhere may have meant.

use crate::text::all_alike;
use std::fs;
use std::path::{Path, PathBuf};

/// Names of a directory that are looked at.
const LOOKED_AT: usize = 10_000;

/// Advice on a path that does not exist: the name that is most like it, where it stops to exist.
pub(crate) fn help(path: &Path) -> Option<String> {
    if let Some(meant) = nearby(path).first() {
        return Some(format!("did you mean '{}'?", meant.display()));
    }
    let (_, wrong) = stops(path)?;
    (wrong != path).then(|| format!("the directory '{}' does not exist", wrong.display()))
}

/// The paths that may be meant by one that does not exist, the most alike first: files and directories with a name like the
/// one that is missing.
pub fn nearby(path: &Path) -> Vec<PathBuf> {
    let alike = || {
        let (directory, wrong) = stops(path)?;
        let name = wrong.file_name()?.to_str()?;
        let entries = fs::read_dir(&directory).ok()?.take(LOOKED_AT);
        let names: Vec<String> =
            entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
        let alike = all_alike(name, names.iter().map(String::as_str));
        Some(alike.into_iter().map(|name| wrong.with_file_name(name)).collect())
    };
    alike().unwrap_or_default()
}

/// The last directory of a path that exists, and the path up to the first name that is not in it.
fn stops(path: &Path) -> Option<(PathBuf, &Path)> {
    let mut wrong = path;
    loop {
        let parent = wrong.parent()?;
        let directory = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        if directory.is_dir() {
            return Some((directory.to_owned(), wrong));
        }
        wrong = parent;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_leads_nowhere_is_told_the_name_most_like_it_where_it_stops_to_exist() {
        let place = tempfile::tempdir().unwrap();
        fs::create_dir(place.path().join("checkpoints")).unwrap();
        for name in ["model.index", "model.data-00000-of-00001", "other.nn"] {
            fs::write(place.path().join("checkpoints").join(name), b"").unwrap();
        }
        let told = |path: &str| {
            let help = help(&place.path().join(path));
            help.map(|help| help.replace(&format!("{}/", place.path().display()), ""))
        };
        assert_eq!(
            told("checkpoints/modle.index").as_deref(),
            Some("did you mean 'checkpoints/model.index'?")
        );
        assert_eq!(told("checkpoints/other").as_deref(), Some("did you mean 'checkpoints/other.nn'?"));
        assert_eq!(told("checkpiont/model.index").as_deref(), Some("did you mean 'checkpoints'?"));
        assert_eq!(told("xyz/model.index").as_deref(), Some("the directory 'xyz' does not exist"));
        assert_eq!(told("checkpoints/xyz"), None);
    }
}
