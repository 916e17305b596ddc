//! Symbolic links: which of them a checkpoint's files may go through.

use crate::{Error, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// Refuses a file that a symbolic link leads out of the input's directory, `root`. Links of a hub's cache stay in it: they
/// lead from `snapshots/REVISION/NAME` to `blobs/HASH` beside `snapshots`. `shown` is the file's name in the error. A file
/// that is missing is none that a link leads out.
///
/// # Errors
/// [`crate::Kind::Usage`], saying where the link leads.
pub(crate) fn check(root: &Path, name: &str, shown: &str) -> Result<()> {
    if !has_link(root, name) {
        return Ok(());
    }
    let (Ok(inside), Ok(real)) = (fs::canonicalize(root), fs::canonicalize(root.join(name))) else {
        return Ok(());
    };
    let is_blob = || blobs(&inside).is_some_and(|blobs| real.starts_with(blobs));
    if real.starts_with(&inside) || is_blob() {
        return Ok(());
    }
    Err(Error::usage("a symbolic link leads out of the checkpoint's directory")
        .file(shown)
        .found(format!("a symbolic link to '{}'", real.display().to_string().escape_debug()))
        .expected(format!("a file in '{}'", inside.display().to_string().escape_debug()))
        .help("name the file itself if it is the checkpoint; else copy it into the directory: only what the command names may lie elsewhere"))
}

/// Whether one of the components of a name below `root` is a link.
fn has_link(root: &Path, name: &str) -> bool {
    let mut path = root.to_owned();
    name.split('/').any(|component| {
        path.push(component);
        fs::symlink_metadata(&path).is_ok_and(|meta| meta.is_symlink())
    })
}

/// The folder of a hub's cache that has the contents of all files, if `inside` is one of its snapshots or below one.
fn blobs(inside: &Path) -> Option<PathBuf> {
    let snapshots =
        inside.ancestors().skip(1).find(|path| path.file_name().is_some_and(|name| name == "snapshots"))?;
    Some(snapshots.parent()?.join("blobs"))
}

/// Where a link leads whose target does not exist; `None` for what is no such link.
pub(crate) fn dangling(path: &Path) -> Option<PathBuf> {
    fs::read_link(path).ok().filter(|_| fs::metadata(path).is_err())
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use crate::{Input, Kind};
    use std::os::unix::fs::symlink;

    /// A cache with a snapshot of three files, and a file outside.
    fn cache() -> (tempfile::TempDir, PathBuf) {
        let place = tempfile::tempdir().unwrap();
        let snapshot = place.path().join("models--a--b/snapshots/0f");
        fs::create_dir_all(snapshot.join("onnx")).unwrap();
        fs::create_dir(place.path().join("models--a--b/blobs")).unwrap();
        fs::write(place.path().join("models--a--b/blobs/1c"), "blob").unwrap();
        fs::write(place.path().join("secret"), "secret").unwrap();
        symlink("../../blobs/1c", snapshot.join("index.json")).unwrap();
        symlink("../../../blobs/1c", snapshot.join("onnx/part")).unwrap();
        symlink("../../../secret", snapshot.join("out")).unwrap();
        symlink("index.json", snapshot.join("again")).unwrap();
        symlink("gone", snapshot.join("missing")).unwrap();
        (place, snapshot)
    }

    #[test]
    fn links_of_a_hubs_cache_are_followed_and_links_out_of_it_are_refused() {
        let (place, snapshot) = cache();
        symlink(&snapshot, place.path().join("link")).unwrap();
        for directory in [snapshot.clone(), place.path().join("link")] {
            let input = Input::open(directory).unwrap();
            for name in ["index.json", "onnx/part", "again"] {
                assert_eq!(input.file(name).unwrap().bytes(0, 4).unwrap(), b"blob", "{name}");
            }
            let error = input.file("out").unwrap_err();
            assert_eq!(error.kind(), Kind::Usage);
            assert!(
                error.to_string().contains("a symbolic link to '/") && error.to_string().contains("secret"),
                "{error}"
            );
            assert_eq!(input.file("missing").unwrap_err().kind(), Kind::Io);
        }
        let onnx = Input::open(snapshot.join("onnx")).unwrap();
        assert!(onnx.file("part").is_ok());
    }

    #[test]
    fn what_the_user_names_may_lie_elsewhere_and_what_it_names_may_not() {
        let (_place, snapshot) = cache();
        let input = Input::open(snapshot.join("out")).unwrap();
        assert_eq!(input.main().unwrap().bytes(0, 6).unwrap(), b"secret");
        assert!(input.file("index.json").is_ok());
        let input = Input::open(snapshot.join("index.json")).unwrap();
        assert_eq!(input.file("out").unwrap_err().kind(), Kind::Usage);
        // Names that the user's begins are the user's.
        symlink("../../../secret", snapshot.join("model.index")).unwrap();
        assert!(Input::open(snapshot.join("model")).unwrap().file("model.index").is_ok());
    }

    #[test]
    fn a_folder_that_is_a_link_is_one_like_a_file() {
        let (place, snapshot) = cache();
        fs::create_dir(place.path().join("folder")).unwrap();
        fs::write(place.path().join("folder/part"), "part").unwrap();
        symlink("../../../folder", snapshot.join("folder")).unwrap();
        symlink("onnx", snapshot.join("inside")).unwrap();
        let input = Input::open(&snapshot).unwrap();
        assert_eq!(input.file("folder/part").unwrap_err().kind(), Kind::Usage);
        assert!(input.file("inside/part").is_ok());
    }
}
