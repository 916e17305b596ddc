//! What the files of a checkpoint are called, and what they may contain.

pub(crate) mod dtype;
pub(crate) mod json;

use ckpt_api::{Error, Result};

/// The namespace of the metadata of Orbax checkpoints.
pub(crate) const NAMESPACE: &str = "orbax";

/// The namespace of the metadata of Flax files and of pickles.
pub(crate) const FLAX_NAMESPACE: &str = "flax";

/// The tree of an item: JSON.
pub(crate) const TREE: &str = "_METADATA";

/// Texts of a tree, by name: JSON.
pub(crate) const STRINGS: &str = "_strings.json";

/// What one process notes of its arrays: JSON.
pub(crate) const ARRAY_METADATA: &str = "array_metadatas/process_0";

/// Handlers and times of a step or of an item: JSON.
pub(crate) const STEP: &str = "_CHECKPOINT_METADATA";

/// The tree of an item in msgpack, up to version 0.4.4.
pub(crate) const OLD_TREE: &str = "checkpoint";

/// The manifest of a database of arrays.
pub(crate) const MANIFEST: &str = "manifest.ocdbt";

/// How folders with the database of one process begin.
pub(crate) const PROCESS: &str = "ocdbt.process_";

/// What the folders of saves that did not finish have in their names.
const UNFINISHED: [&str; 2] = [".orbax-checkpoint-tmp", ".partial_save"];

/// Whether a folder of this name is a save that did not finish.
pub(crate) fn is_unfinished(folder: &str) -> bool {
    UNFINISHED.iter().any(|part| folder.contains(part))
}

/// A name below a folder; the folder itself is empty for the input's own.
pub(crate) fn join(folder: &str, name: &str) -> String {
    match (folder, name) {
        ("", name) => name.to_owned(),
        (folder, "") => folder.to_owned(),
        (folder, name) => format!("{folder}/{name}"),
    }
}

/// Checks that a name from a file, relative to its folder, is one of a file below it.
///
/// # Errors
/// [`ckpt_api::Kind::Corrupt`].
pub(crate) fn check_path(name: &str) -> Result<()> {
    let is_inside =
        !name.contains(['\0', '\\']) && !name.split('/').any(|part| matches!(part, "" | "." | ".."));
    if is_inside {
        return Ok(());
    }
    Err(Error::corrupt("a path leads outside of the checkpoint, or names no file")
        .found(format!("'{}'", name.escape_debug()))
        .expected("a relative path without empty parts, '.' and '..'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_leave_the_folder_or_name_nothing_are_refused() {
        for path in ["", "/etc/passwd", "../x", "a/../../x", "a//b", "a/", "./a", "a\0", "a\\b"] {
            assert!(check_path(path).is_err(), "{path:?}");
        }
        for path in ["a", "d/7f", "ocdbt.process_0/d/7f", "...", "a b/ü"] {
            check_path(path).unwrap();
        }
    }

    #[test]
    fn a_save_that_did_not_finish_is_known_by_its_name() {
        for name in ["ckpt.orbax-checkpoint-tmp", "10.orbax-checkpoint-tmp-17", "ckpt.partial_save"] {
            assert!(is_unfinished(name), "{name}");
        }
        assert!(!is_unfinished("10"));
    }
}
